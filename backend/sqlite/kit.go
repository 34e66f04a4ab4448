package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
)

// kit is the sqlkit.DB of a store. Its transactions are parts of the groups of the committer.
type kit struct {
	*changeWriter
	blobs *blobFiles
	inner bool // for short reads of the server itself, which do not wait for lists
}

const (
	sqlKitSavepoint = `SAVEPOINT kit`
	sqlKitRollback  = `ROLLBACK TO kit`
	sqlKitRelease   = `RELEASE kit`
)

// Dialect implements sqlkit.DB.
func (k *kit) Dialect() sqlkit.Dialect { return sqlkit.SQLite }

// Now implements sqlkit.DB.
func (k *kit) Now() time.Time { return time.Now() }

// Caches implements sqlkit.DB.
func (k *kit) Caches() *sqlkit.Caches { return &k.caches }

// Write implements sqlkit.DB. The transactions of other callers in the group are not affected
// if f fails.
func (k *kit) Write(ctx context.Context, f func(tx sqlkit.Tx) error) error {
	var result error
	err := k.write(ctx, &request{weight: 1, apply: func(w *writer) error {
		tx := k.tx(context.Background(), w.conn)
		tx.writer = w
		if w.alone { // the transaction can be rolled back as a whole
			if result = f(tx); result != nil {
				return errKitRejected
			}
			return nil
		}
		return w.inSavepoint(func() (keep bool, err error) {
			result = f(tx)
			return result == nil, nil
		})
	}})
	if err != nil && !errors.Is(err, errKitRejected) {
		return err
	}
	return result
}

// errKitRejected rolls a transaction back after its function has returned an error.
var errKitRejected = errors.New("rejected")

// inSavepoint calls f, and undoes its statements unless f returns keep. If f fails, the caller rolls
// the transaction back.
func (c *conn) inSavepoint(f func() (keep bool, err error)) error {
	if _, err := c.exec(sqlKitSavepoint); err != nil {
		return err
	}
	keep, err := f()
	if err == nil && !keep {
		_, err = c.exec(sqlKitRollback)
	}
	if err == nil {
		_, err = c.exec(sqlKitRelease)
	}
	return err
}

// applyWithEffects applies a change that has effects. The statements of a rejected change are undone.
func (k *kit) applyWithEffects(w *writer, c *change) error {
	return w.inSavepoint(func() (keep bool, err error) {
		c.tx = k.tx(context.Background(), w.conn)
		err = w.apply(c)
		return c.result.Err == nil, err
	})
}

// applyEffects applies the effects of a change. It returns the failure of a statement as err, and
// another error of an effect as refusal.
func (c *change) applyEffects() (refusal, err error) {
	if len(c.Effects) == 0 {
		return nil, nil
	}
	if refusal = c.ApplyEffects(c.tx); c.tx.failure != nil {
		return nil, c.tx.failure
	}
	return refusal, nil
}

// Read implements sqlkit.DB.
func (k *kit) Read(ctx context.Context, f func(q sqlkit.Querier) error) error {
	var result error
	read := k.readList
	if k.inner {
		read = k.read
	}
	err := read(ctx, func(r *reader) error {
		result = f(k.tx(ctx, r.conn))
		return nil
	})
	if err != nil {
		return err
	}
	return result
}

// ReadSnapshot implements sqlkit.SnapshotReader.
func (k *kit) ReadSnapshot(ctx context.Context, f func(q sqlkit.Querier) error) error {
	var result error
	err := k.readList(ctx, func(r *reader) error {
		if _, err := r.exec("BEGIN"); err != nil {
			return err
		}
		result = f(k.tx(ctx, r.conn))
		_, err := r.exec("COMMIT")
		return err
	})
	if err != nil {
		return err
	}
	return result
}

// kitTx runs statements on a connection, and keeps the first failure. It maps the errors of
// statements to codes, so that f can return them.
type kitTx struct {
	ctx     context.Context // the context of the call that runs f
	conn    *conn
	in      func(db sqlkit.DB) bool
	failure error
	writer  *writer // nil if Write does not run the transaction
}

// tx returns a transaction on a connection.
func (k *kit) tx(ctx context.Context, c *conn) *kitTx { return &kitTx{ctx: ctx, conn: c, in: k.is} }

// is reports whether a database is this one.
func (k *kit) is(db sqlkit.DB) bool {
	other, ok := db.(*kit)
	return ok && other.changeWriter == k.changeWriter
}

// In implements sqlkit.EffectTx.
func (t *kitTx) In(db sqlkit.DB) bool { return t.in(db) }

// translated has the statements of kits for SQLite, by their text. It is bounded, because statements are constants.
var translated sync.Map

func translate(text string) string {
	if done, ok := translated.Load(text); ok {
		return done.(string)
	}
	done := sqlkit.ForSQLite(text)
	translated.Store(text, done)
	return done
}

// fail returns an error of a statement with its code.
func (t *kitTx) fail(err error, op string) error {
	err = wrapError(err, op)
	if t.failure == nil {
		t.failure = err
	}
	return err
}

// Query implements sqlkit.Querier.
func (t *kitTx) Query(text string, each func(r sqlkit.Row) error, args ...any) error {
	var result error
	row := new(kitRow) // once, since an interface holds a pointer
	err := t.conn.queryContext(t.ctx, translate(text), func(r record) error {
		*row = kitRow(r)
		result = each(row)
		return result
	}, kitArgs(args)...)
	if result != nil {
		return result
	}
	return t.fail(err, "query")
}

// Exec implements sqlkit.Tx.
func (t *kitTx) Exec(text string, args ...any) (int64, error) {
	n, err := t.conn.exec(translate(text), kitArgs(args)...)
	return n, t.fail(err, "change")
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
		case []string, []int64:
			list, _ := json.Marshal(a) // texts are UTF-8
			converted[i] = string(list)
		}
	}
	return converted
}

// kitRow is a row of SQLite.
type kitRow record

func (r kitRow) Text(i int) string { return record(r).text(i) }
func (r kitRow) View(i int) []byte { return record(r).json(i) }
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
