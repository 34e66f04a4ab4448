package sqlite

// timeBounds bounds the deadlines of all leases, or the due times of all waiting
// tasks: none is before min or after max.
type timeBounds struct{ min, max int64 }

// emptyBounds are the bounds if there are no times, unknownBounds those if the times are
// not known.
var (
	emptyBounds   = timeBounds{latest, 0}
	unknownBounds = timeBounds{0, latest}
)

func (b *timeBounds) widen(until int64) { b.min, b.max = min(b.min, until), max(b.max, until) }

// mayBeDue reports whether one of the times may have passed, or may be after horizon: such times
// count as due, see [store.ClaimParams].
func (b *timeBounds) mayBeDue(now, horizon int64) bool { return b.min <= now || b.max > horizon }

// load sets the bounds to the result of a statement.
func (b *timeBounds) load(c *conn, text string) error {
	return c.query(text, func(r record) error {
		b.scan(r)
		return nil
	})
}

// scan sets the bounds from a row of min and max, both null if there are none.
func (b *timeBounds) scan(r record) {
	if *b = emptyBounds; !r.null(0) {
		b.min, b.max = r.int(0), r.int(1)
	}
}
