package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
)

// kit is the sqlkit.DB of a store.
type kit struct {
	*database
	inner bool // for short reads of the server itself, which do not wait for calls of clients
}

// errKitRejected ends a transaction after its function has returned an error of its own.
var errKitRejected = errors.New("rejected")

// Dialect implements sqlkit.DB.
func (k *kit) Dialect() sqlkit.Dialect { return sqlkit.PostgreSQL }

// Caches implements sqlkit.DB.
func (k *kit) Caches() *sqlkit.Caches { return &k.caches }

// in reports whether a database is this one.
func (k *kit) in(db sqlkit.DB) bool {
	other, ok := db.(*kit)
	return ok && other.database == k.database
}

// calls returns the calls of a pipeline.
func (k *kit) calls(of []sqlkit.Call) []*call {
	calls := make([]*call, len(of))
	for i, c := range of {
		calls[i] = k.statements.call(c.Text, c.Args...)
		if c.Row != nil {
			calls[i].row = func(r record) { c.Row(kitRow(r)) }
		}
	}
	return calls
}

// Read implements sqlkit.DB. It retries transient failures.
func (k *kit) Read(ctx context.Context, f func(q sqlkit.Querier) error) error {
	var result error
	read := k.readList
	if k.inner {
		read = k.read
	}
	err := read(ctx, "read", func(ctx context.Context, c *pgx.Conn) error {
		t := &kitTx{ctx: ctx, on: c, kit: k}
		result = f(t)
		return kitOutcome(t.failure, result)
	})
	if errors.Is(err, errKitRejected) {
		return result
	}
	return err
}

// kitOutcome returns the failure of a statement, or errKitRejected if the function that ran it
// returned another error.
func kitOutcome(failure, result error) error {
	if failure == nil && result != nil {
		return errKitRejected
	}
	return failure
}

// kitTx runs statements on a connection, and keeps the first failure.
type kitTx struct {
	ctx     context.Context // the context of the call that runs f
	on      querier
	kit     *kit
	failure error
}

// Query implements sqlkit.Querier.
func (t *kitTx) Query(text string, each func(r sqlkit.Row) error, args ...any) error {
	var result error
	row := new(kitRow) // once, since an interface holds a pointer
	err := t.kit.eachRow(t.ctx, t.on, text, func(r record) error {
		*row = kitRow(r)
		result = each(row)
		return result
	}, args...)
	if result != nil {
		return result
	}
	if t.failure == nil {
		t.failure = err
	}
	return err
}

// kitRow is a row of PostgreSQL in binary format.
type kitRow record

func (r kitRow) Text(i int) string  { return record(r).text(i) }
func (r kitRow) View(i int) []byte  { return r[i] }
func (r kitRow) Int(i int) int64    { return record(r).int(i) }
func (r kitRow) Bytes(i int) []byte { return slices.Clone(r[i]) }
func (r kitRow) Null(i int) bool    { return r[i] == nil }

func (r kitRow) Float(i int) float64 {
	switch b := r[i]; len(b) {
	case 8:
		return math.Float64frombits(binary.BigEndian.Uint64(b))
	case 4:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(b)))
	}
	return 0
}
