package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"unsafe"

	"modernc.org/sqlite"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
)

// conn is one connection with its prepared statements, by their text. It uses the driver
// directly, because the pool, locks and conversions of database/sql cost as much as a
// point read. It is not safe for concurrent use.
type conn struct {
	raw   driver.Conn
	stmts map[string]*stmt
}

// access is the mode in which SQLite opens the file.
type access int

const (
	readWrite access = iota
	// readOnly connections write nothing. They do not checkpoint the write-ahead log
	// and leave no new files.
	readOnly
)

// query returns the URI parameter that sets the mode.
func (a access) query() string {
	if a == readOnly {
		return "&mode=ro"
	}
	return ""
}

// openConn opens path with pragmas, each "name(value)". The driver applies busy_timeout
// first and the others sorted by name.
func openConn(path string, mode access, pragmas ...string) (*conn, error) {
	raw, err := new(sqlite.Driver).Open(dataSource(path, pragmas...) + mode.query())
	if err != nil {
		return nil, err
	}
	return newConn(raw), nil
}

func newConn(raw driver.Conn) *conn { return &conn{raw: raw, stmts: make(map[string]*stmt)} }

func dataSource(path string, pragmas ...string) string {
	// In a URI, a relative path would be parsed as the authority.
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_pragma": pragmas}.Encode()}
	return u.String()
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.raw.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

// phaseNames replaces the names of phases in statements.
var phaseNames = strings.NewReplacer(sqlrow.PhaseNames...)

// exec runs a statement and returns the number of rows changed.
func (c *conn) exec(text string, args ...any) (int64, error) {
	s, err := c.prepare(text)
	if err != nil {
		return 0, err
	}
	return s.exec(args...)
}

// query runs a statement and calls each for every row of its result. The record is valid
// only during the call.
func (c *conn) query(text string, each func(r record) error, args ...any) error {
	return c.queryContext(context.Background(), text, each, args...)
}

// queryContext is query for statements that may take long. A context that can be canceled
// costs a goroutine.
func (c *conn) queryContext(ctx context.Context, text string, each func(r record) error, args ...any) error {
	s, err := c.prepare(text)
	if err != nil {
		return err
	}
	return s.query(ctx, each, args...)
}

// exists reports whether the result of a query has a row.
func (c *conn) exists(text string, args ...any) (found bool, err error) {
	err = c.query(text, func(record) error {
		found = true
		return nil
	}, args...)
	return found, err
}

// prepare returns a prepared statement. It prepares each text once, on first use.
func (c *conn) prepare(text string) (*stmt, error) {
	if s := c.stmts[text]; s != nil {
		return s, nil
	}
	raw, err := c.raw.(driver.ConnPrepareContext).PrepareContext(context.Background(), phaseNames.Replace(text))
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", text, err)
	}
	s := &stmt{raw: raw, queryer: raw.(driver.StmtQueryContext), execer: raw.(driver.StmtExecContext)}
	c.stmts[text] = s
	return s, nil
}

// script runs one or more statements, separated by semicolons, without preparing them.
func (c *conn) script(text string) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(context.Background(), phaseNames.Replace(text), nil)
	return err
}

// ints runs a query once and returns the integers of its first row.
func (c *conn) ints(text string) (row []int64, err error) {
	rows, err := c.raw.(driver.QueryerContext).QueryContext(context.Background(), phaseNames.Replace(text), nil)
	if err != nil {
		return nil, err
	}
	err = eachRow(rows, make([]driver.Value, len(rows.Columns())), func(r record) error {
		for i := range r {
			row = append(row, r.int(i))
		}
		return nil
	})
	return row, err
}

// stmt is a prepared statement. Arguments are int64, string, []byte or nil.
type stmt struct {
	raw     driver.Stmt
	queryer driver.StmtQueryContext
	execer  driver.StmtExecContext
	args    []driver.NamedValue
	row     []driver.Value
}

func (s *stmt) bind(args []any) []driver.NamedValue {
	if s.args == nil {
		s.args = make([]driver.NamedValue, len(args))
		for i := range args {
			s.args[i].Ordinal = i + 1
		}
	}
	for i, a := range args {
		s.args[i].Value = a
	}
	return s.args
}

// exec runs s and returns the number of rows changed.
func (s *stmt) exec(args ...any) (int64, error) {
	result, err := s.execer.ExecContext(context.Background(), s.bind(args))
	for i := range s.args {
		s.args[i].Value = nil // release large values
	}
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (s *stmt) query(ctx context.Context, each func(r record) error, args ...any) error {
	rows, err := s.queryer.QueryContext(ctx, s.bind(args))
	if err != nil {
		return err
	}
	if s.row == nil {
		s.row = make([]driver.Value, len(rows.Columns()))
	}
	defer clear(s.row) // release large values
	return eachRow(rows, s.row, each)
}

func eachRow(rows driver.Rows, row []driver.Value, each func(r record) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := each(row); err != nil {
			return err
		}
	}
}

// record is a row of a result.
type record []driver.Value

func (r record) int(i int) int64 {
	n, _ := r[i].(int64)
	return n
}

func (r record) text(i int) string {
	switch v := r[i].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

func (r record) null(i int) bool { return r[i] == nil }

// json returns a text as bytes without copying it. The bytes must not be changed.
func (r record) json(i int) []byte {
	text := r.text(i)
	return unsafe.Slice(unsafe.StringData(text), len(text))
}
