// Package sqlkit runs statements that are written once for SQLite and PostgreSQL.
//
// Statements are written in the syntax of PostgreSQL that both databases share: a table is
// {s}.name, and parameters are numbered and have a type, as in $1::text. A backend passes a
// DB, which translates them with its Dialect. Statements are constants: backends prepare each
// text once and keep it.
package sqlkit

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// DB runs statements of one database. It is safe for concurrent use.
type DB interface {
	// Write runs f in one transaction and commits it. If f returns an error, none of its
	// statements has an effect, and Write returns the error. f may run more than once, so it
	// sets its results anew each time. Two transactions may run at the same time with the
	// isolation level read committed: a statement that depends on an earlier read repeats
	// its condition or locks the row.
	Write(ctx context.Context, f func(tx Tx) error) error
	// Read runs f on a connection for reads. Each statement sees its own snapshot. f may run
	// more than once.
	Read(ctx context.Context, f func(q Querier) error) error
	// Dialect returns the dialect of the database.
	Dialect() Dialect
	// Now returns the time of the database's clock.
	Now() time.Time
	// Caches returns the caches of the database.
	Caches() *Caches
}

// Source is a store of tasks with a database in which contracts keep their data.
type Source interface {
	SQL() DB
}

// Of returns the database of a store of tasks, nil if the store has none.
func Of(tasks any) DB {
	if s, ok := tasks.(Source); ok {
		return s.SQL()
	}
	return nil
}

// Caches are the caches that contracts keep of the data of one database. It is safe for concurrent use.
type Caches struct {
	Bytes int64 // the memory for all of them
	byKey sync.Map
}

// Get returns the cache with a key. The first call for the key makes the cache.
func (c *Caches) Get(key any, make func(bytes int64) any) any {
	if cache, ok := c.byKey.Load(key); ok {
		return cache
	}
	cache, _ := c.byKey.LoadOrStore(key, make(c.Bytes))
	return cache
}

// SnapshotReader is a DB that can run all statements of a read on one snapshot.
type SnapshotReader interface {
	// ReadSnapshot is Read with one snapshot.
	ReadSnapshot(ctx context.Context, f func(q Querier) error) error
}

// Pipeliner is a DB that is faster if it gets all statements of a transaction at once. The caller
// uses it first, and Write if a guard fails.
type Pipeliner interface {
	// Pipeline runs statements in one transaction and commits it. It returns ErrGuard if a statement
	// divides by zero or violates a unique key; none has an effect then. It returns ErrAnswerLost if
	// it has committed the transaction but not received all rows. If order is not empty, the
	// transaction may include statements of other callers. The first statement locks the row that
	// order names.
	Pipeline(ctx context.Context, order string, calls ...Call) error
	// LockPlan waits until no other caller of this process plans statements that read rows of this name.
	LockPlan(ctx context.Context, rows string) (unlock func(), err error)
}

// ErrGuard is the error of Pipeline if a condition of its statements is not met.
var ErrGuard = errors.New("a guard failed")

// ErrAnswerLost is the error of Pipeline if the transaction was committed but its rows are incomplete.
var ErrAnswerLost = errors.New("the statements were committed, but their results were lost")

// Run runs statements in one transaction, at once if the database is a Pipeliner. They have no guards and return no rows.
func Run(ctx context.Context, db DB, calls ...Call) error {
	if len(calls) == 0 {
		return nil
	}
	if p, ok := db.(Pipeliner); ok {
		err := p.Pipeline(ctx, "", calls...)
		if errors.Is(err, ErrAnswerLost) {
			return nil
		}
		return err
	}
	return db.Write(ctx, func(tx Tx) error {
		for _, c := range calls {
			if _, err := tx.Exec(c.Text, c.Args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// Call is a statement of a pipeline with its arguments.
type Call struct {
	Text string
	Args []any       // also []string and []int64
	Row  func(r Row) // receives the rows of the result; may be nil
}

// Querier runs statements that read. Arguments are string, []byte, int, int64, float64, bool, nil, and
// []string for = ANY($n::text[]). SQLite also has []int64, as a JSON array.
type Querier interface {
	// Query runs a statement and calls each for every row. The row is valid during the call.
	// each must not run statements.
	Query(text string, each func(r Row) error, args ...any) error
}

// Tx runs the statements of one transaction.
type Tx interface {
	Querier
	// Exec runs a statement and returns the number of rows that it changed.
	Exec(text string, args ...any) (changed int64, err error)
}

// Row is a row of a result. Columns are numbered from 0. A null column is a zero value.
type Row interface {
	Text(i int) string
	View(i int) []byte // a text, valid as long as the row
	Int(i int) int64   // also of a boolean: 0 or 1
	Float(i int) float64
	Bytes(i int) []byte // a copy
	Null(i int) bool
}

// Dialect is the SQL of a database.
type Dialect int

// The dialects.
const (
	SQLite Dialect = iota
	PostgreSQL
)

// Storable reports whether the database can store all of these texts. PostgreSQL stores only UTF-8 without NUL.
func (d Dialect) Storable(texts ...string) bool {
	return d != PostgreSQL || !slices.ContainsFunc(texts, func(t string) bool { return strings.ContainsRune(t, 0) || !utf8.ValidString(t) })
}

var (
	castParameter = regexp.MustCompile(`\$(\d+)(::[a-z0-9]+(\[\])?)?`)
	schemaName    = regexp.MustCompile(`\{s\}\.`)
	collation     = regexp.MustCompile(` COLLATE "\w+"`)
	rowLock       = regexp.MustCompile(` FOR (UPDATE|SHARE)`)
	lateral       = regexp.MustCompile(`FROM unnest\((\$\d+)::text\[\]\) AS s\(value\) CROSS JOIN LATERAL \(SELECT \* FROM (.*?) WHERE (.*) OFFSET 0\) r`)
	anyOf         = regexp.MustCompile(`= ANY\(\$(\d+)::text\[\]\)`)
	jsonElements  = regexp.MustCompile(`json_array_elements\((\$\d+)::json\) AS (\w+)\(value\)`)
)

// ForSQLite translates a statement to SQLite: without the schema and without collations, and with
// parameters such as ?1. On PostgreSQL, a statement selects the index that it uses by its collation, as
// docs/backends.md explains; on SQLite all texts are compared as bytes. Locks of rows are omitted, because
// a transaction that writes is alone. Lists of texts are JSON. A subquery for each text is a join, and
// CROSS fixes its order.
func ForSQLite(text string) string {
	text = anyOf.ReplaceAllString(rowLock.ReplaceAllString(text, ""), "IN (SELECT value FROM json_each($$$1))")
	text = lateral.ReplaceAllString(text, "FROM json_each($1) AS s CROSS JOIN $2 ON $3")
	text = jsonElements.ReplaceAllString(text, "json_each($1) AS $2")
	text = castParameter.ReplaceAllString(text, "?$1")
	return schemaName.ReplaceAllString(collation.ReplaceAllString(text, ""), "")
}
