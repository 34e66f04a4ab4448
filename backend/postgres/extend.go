package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
)

// This file is for packages of this module that extend a store, such as package age.

// ReadOn runs f, which must not change data, on a connection for lists. f runs again after transient failures. op names
// the call for logs.
func (s *Store) ReadOn(ctx context.Context, op string, f func(ctx context.Context, c *pgx.Conn) error) error {
	return s.readList(ctx, op, f)
}

// Schema returns the name of the store's schema.
func (s *Store) Schema() string { return s.cfg.Schema }

// RawTx is a transaction that also runs statements with names of tables that other programs have made.
type RawTx interface {
	sqlkit.Tx
	// Raw runs a statement that is not prepared, with texts as arguments and results. It calls each, unless nil, for
	// every row. An earlier call must have started the transaction.
	Raw(each func(row []string), text string, args ...string) error
}

// Raw implements RawTx.
func (t *kitWrite) Raw(each func(row []string), text string, args ...string) error {
	params := make([][]byte, len(args))
	for i, a := range args {
		params[i] = []byte(a)
	}
	reader := t.conn.ExecParams(t.ctx, text, params, nil, nil, nil)
	for reader.NextRow() {
		row := make([]string, len(reader.Values()))
		for i, v := range reader.Values() {
			row[i] = string(v)
		}
		if each != nil {
			each(row)
		}
	}
	_, err := reader.Close()
	if t.failure == nil {
		t.failure = err
	}
	return err
}

// GraphPrefix returns the prefix of the names of the schemas in which package age keeps copies of a store's graphs:
// "holdfast_", 8 digits for the schema of the store and "_".
func GraphPrefix(schema string) string {
	sum := sha256.Sum256([]byte(schema))
	return "holdfast_" + hex.EncodeToString(sum[:])[:8] + "_"
}

const sqlCopies = `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE pg_catalog.starts_with(nspname::text, $1::text))`

// checkGraphs calls Config.CheckGraphs. Without it, graphs must have no copies: changes would leave deleted data there.
func (c *Config) checkGraphs(ctx context.Context, conn *pgx.Conn) error {
	if c.CheckGraphs != nil {
		return c.CheckGraphs(ctx, conn, GraphPrefix(c.Schema))
	}
	copies := false
	err := conn.QueryRow(ctx, sqlCopies, pgx.QueryExecModeExec, GraphPrefix(c.Schema)).Scan(&copies)
	if err == nil && copies {
		err = a2a.Errorf(a2a.CodeInternal, "graphs have copies in Apache AGE, which changes would leave as they are: open the store with package age, or drop the copies")
	}
	return err
}
