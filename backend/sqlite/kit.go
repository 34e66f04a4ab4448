package sqlite

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlkit"
)

// kit is the sqlkit.DB of a store. Its transactions are parts of the groups of the committer.
type kit struct {
	*changeWriter
	texts sync.Map // translated statements, by their text
}

const (
	sqlKitSavepoint = `SAVEPOINT kit`
	sqlKitRollback  = `ROLLBACK TO kit`
	sqlKitRelease   = `RELEASE kit`
)

// Dialect implements sqlkit.DB.
func (k *kit) Dialect() sqlkit.Dialect { return sqlkit.SQLite }

// Write implements sqlkit.DB. The transactions of other callers in the group are not affected
// if f fails.
func (k *kit) Write(ctx context.Context, f func(tx sqlkit.Tx) error) error {
	var result error
	err := k.write(ctx, &request{weight: 1, apply: func(w *writer) error {
		if _, err := w.exec(sqlKitSavepoint); err != nil {
			return err
		}
		tx := &kitTx{ctx: context.Background(), conn: w.conn, kit: k}
		if result = f(tx); result != nil {
			if _, err := w.exec(sqlKitRollback); err != nil {
				return err
			}
		}
		_, err := w.exec(sqlKitRelease)
		return err
	}})
	if err != nil {
		return err
	}
	return result
}

// Read implements sqlkit.DB.
func (k *kit) Read(ctx context.Context, f func(q sqlkit.Querier) error) error {
	var result error
	err := k.readList(ctx, func(r *reader) error {
		result = f(&kitTx{ctx: ctx, conn: r.conn, kit: k})
		return nil
	})
	if err != nil {
		return err
	}
	return result
}

// kitTx runs statements on a connection. It maps the errors of statements to codes, so that f
// can return them.
type kitTx struct {
	ctx  context.Context //nolint:containedctx // that of the call which runs f
	conn *conn
	kit  *kit
}

func (t *kitTx) translate(text string) string {
	if done, ok := t.kit.texts.Load(text); ok {
		return done.(string)
	}
	done := sqlkit.ForSQLite(text)
	t.kit.texts.Store(text, done)
	return done
}

// Query implements sqlkit.Querier.
func (t *kitTx) Query(text string, each func(r sqlkit.Row) error, args ...any) error {
	var result error
	err := t.conn.queryContext(t.ctx, t.translate(text), func(r record) error {
		result = each(kitRow(r))
		return result
	}, kitArgs(args)...)
	if result != nil {
		return result
	}
	return wrapError(err, "query")
}

// Exec implements sqlkit.Tx.
func (t *kitTx) Exec(text string, args ...any) (int64, error) {
	n, err := t.conn.exec(t.translate(text), kitArgs(args)...)
	return n, wrapError(err, "change")
}

// kitArgs converts arguments to the types of the driver.
func kitArgs(args []any) []any {
	converted := slices.Clone(args)
	for i, a := range converted {
		switch a := a.(type) {
		case int:
			converted[i] = int64(a)
		case bool:
			converted[i] = int64(0)
			if a {
				converted[i] = int64(1)
			}
		}
	}
	return converted
}

// kitRow is a row of SQLite.
type kitRow record

func (r kitRow) Text(i int) string { return record(r).text(i) }
func (r kitRow) Int(i int) int64   { return record(r).int(i) }
func (r kitRow) Null(i int) bool   { return record(r).null(i) }

func (r kitRow) Bytes(i int) []byte {
	if b, ok := r[i].([]byte); ok {
		return b // the driver has copied it
	}
	return []byte(record(r).text(i))
}

func (r kitRow) Float(i int) float64 {
	switch v := r[i].(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	case nil:
		return 0
	}
	return math.NaN()
}
