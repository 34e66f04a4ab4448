package sqlite

import "context"

// rounds visits owners in turn, from the first behind one, and takes one of what is
// due of each, round and round, until the limit is reached or nothing is left.
type rounds[D any] struct {
	after string
	limit int
	// next returns the first owner after another that may have something due; "" when
	// there is none.
	next func(after string) (string, error)
	// due returns the first n of an owner that are due.
	due func(owner string, n int) ([]D, error)
	// take takes what is due, and reports whether it could.
	take func(owner string, d D) (bool, error)
}

// visit is an owner with something due. all says that found holds everything that
// could be taken.
type visit[D any] struct {
	owner string
	found []D
	all   bool
}

// run reports whether anything was due.
func (r *rounds[D]) run() (any bool, err error) {
	visits, err := r.first()
	if err != nil || len(visits) == 0 {
		return false, err
	}
	for taken := 0; len(visits) > 0 && taken < r.limit; {
		left := visits[:0]
		for _, v := range visits {
			if taken == r.limit {
				break
			}
			ok, err := r.take(v.owner, v.found[0])
			if err != nil {
				return true, err
			}
			if ok {
				taken++
			}
			v.found = v.found[1:]
			if len(v.found) == 0 && !v.all {
				if v.found, err = r.due(v.owner, r.limit-taken); err != nil {
					return true, err
				}
				v.all = true
			}
			if len(v.found) > 0 {
				left = append(left, v)
			}
		}
		visits = left
	}
	return true, nil
}

// first finds up to limit owners with something due, and the first of it, in the
// order in which they are visited.
func (r *rounds[D]) first() ([]visit[D], error) {
	var visits []visit[D]
	owner, wrapped := r.after, false
	for len(visits) < r.limit {
		next, err := r.next(owner)
		if err != nil {
			return nil, err
		}
		if next == "" && !wrapped && r.after != "" {
			owner, wrapped = "", true
			continue
		}
		if next == "" || wrapped && next > r.after {
			break
		}
		owner = next
		found, err := r.due(owner, 1)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			visits = append(visits, visit[D]{owner: owner, found: found})
		}
	}
	return visits, nil
}

// leaseBounds bounds the deadlines of all leases, or the due times of what waits: none
// ends before min or after max.
type leaseBounds struct{ min, max int64 }

// noLease are the bounds of no leases, allLeases are those of unknown ones.
var (
	noLeases  = leaseBounds{noLease, 0}
	allLeases = leaseBounds{0, noLease}
)

const noLease = int64(1) << 62

func (b *leaseBounds) widen(until int64) { b.min, b.max = min(b.min, until), max(b.max, until) }

// over reports whether a lease may have ended by now, or go beyond far.
func (b *leaseBounds) over(now, far int64) bool { return b.min <= now || b.max > far }

// load reads the bounds with a statement.
func (b *leaseBounds) load(s *stmt) error {
	return s.query(context.Background(), func(r record) error {
		b.scan(r)
		return nil
	})
}

// scan reads the bounds of the leases that there are, two nulls when there are none.
func (b *leaseBounds) scan(r record) {
	if *b = noLeases; !r.null(0) {
		b.min, b.max = r.int(0), r.int(1)
	}
}
