package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlkit"
)

// kit is the sqlkit.DB of a store.
type kit struct{ *database }

// errKitRejected ends a transaction whose function returned an error of its own.
var errKitRejected = errors.New("rejected")

// Dialect implements sqlkit.DB.
func (k *kit) Dialect() sqlkit.Dialect { return sqlkit.PostgreSQL }

// Write implements sqlkit.DB. It retries transient failures.
func (k *kit) Write(ctx context.Context, f func(tx sqlkit.Tx) error) error {
	var result error
	err := k.transact(ctx, "write", func(ctx context.Context, tx pgx.Tx) error {
		return k.call(ctx, tx, &result, func(t *kitTx) error { return f(t) })
	})
	if errors.Is(err, errKitRejected) {
		return result
	}
	return err
}

// Read implements sqlkit.DB. It retries transient failures.
func (k *kit) Read(ctx context.Context, f func(q sqlkit.Querier) error) error {
	var result error
	err := k.readList(ctx, "read", func(ctx context.Context, c *pgx.Conn) error {
		return k.call(ctx, c, &result, func(t *kitTx) error { return f(t) })
	})
	if errors.Is(err, errKitRejected) {
		return result
	}
	return err
}

// call runs f. It returns the error of a failed statement, or errKitRejected if f returned
// another one, which is stored in result.
func (k *kit) call(ctx context.Context, on querier, result *error, f func(t *kitTx) error) error {
	t := &kitTx{ctx: ctx, on: on, kit: k}
	*result = f(t)
	switch {
	case t.failure != nil:
		return t.failure
	case *result != nil:
		return errKitRejected
	}
	return nil
}

// kitTx runs statements on a connection or in a transaction, and keeps the first failure.
type kitTx struct {
	ctx     context.Context //nolint:containedctx // that of the call which runs f
	on      querier
	kit     *kit
	failure error
}

// In implements sqlkit.EffectTx.
func (t *kitTx) In(db sqlkit.DB) bool {
	k, ok := db.(*kit)
	return ok && k.database == t.kit.database
}

// Query implements sqlkit.Querier.
func (t *kitTx) Query(text string, each func(r sqlkit.Row) error, args ...any) error {
	var result error
	err := t.kit.eachRow(t.ctx, t.on, text, func(r record) error {
		result = each(kitRow(r))
		return result
	}, args...)
	if result != nil {
		return result
	}
	t.fail(err)
	return err
}

// Exec implements sqlkit.Tx.
func (t *kitTx) Exec(text string, args ...any) (int64, error) {
	n, err := t.kit.exec(t.ctx, t.on, text, args...)
	t.fail(err)
	return int64(n), err
}

func (t *kitTx) fail(err error) {
	if t.failure == nil {
		t.failure = err
	}
}

// kitRow is a row of PostgreSQL in binary format.
type kitRow record

func (r kitRow) Text(i int) string  { return record(r).text(i) }
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
