// Package kittest tests implementations of [sqlkit.DB].
package kittest

import (
	"errors"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
)

const (
	insert = `INSERT INTO {s}.records (owner, namespace, key, version, value) VALUES ($1::text, $2::text, $3::text, $4::bigint, $5::bytea)`
	read   = `SELECT key, version, value, NULL, $2::float8 / 4, $3::boolean FROM {s}.records WHERE owner = $1::text ORDER BY key`
)

// Run tests that a transaction is applied as a whole, and that values are read as written. It
// uses the table of records.
func Run(t *testing.T, db sqlkit.DB) {
	rejected := errors.New("rejected")
	err := db.Write(t.Context(), func(tx sqlkit.Tx) error {
		if _, err := tx.Exec(insert, "kit", "n", "lost", 1, []byte("x")); err != nil {
			return err
		}
		return rejected
	})
	if !errors.Is(err, rejected) {
		t.Fatalf("Write() of a function that rejects = %v, want its error", err)
	}
	value := []byte{0, 255, '%', '\''}
	err = db.Write(t.Context(), func(tx sqlkit.Tx) error {
		n, err := tx.Exec(insert, "kit", "n", "kept", int64(7), value)
		if err == nil && n != 1 {
			t.Errorf("Exec() changed %d rows, want 1", n)
		}
		return err
	})
	if err != nil {
		t.Fatalf("Write() = %v", err)
	}
	rows := 0
	err = db.Read(t.Context(), func(q sqlkit.Querier) error {
		rows = 0
		return q.Query(read, func(r sqlkit.Row) error {
			rows++
			if r.Text(0) != "kept" || r.Int(1) != 7 || !slices.Equal(r.Bytes(2), value) || !r.Null(3) || r.Null(0) || r.Float(4) != 1.5 || r.Int(5) != 1 {
				t.Errorf("row = %q %d %v %t %g %d", r.Text(0), r.Int(1), r.Bytes(2), r.Null(3), r.Float(4), r.Int(5))
			}
			return nil
		}, "kit", 6.0, true)
	})
	if err != nil || rows != 1 {
		t.Errorf("Read() found %d rows and returned %v, want 1 row", rows, err)
	}
	err = db.Write(t.Context(), func(tx sqlkit.Tx) error {
		if err := tx.Query(read, func(sqlkit.Row) error { return nil }, "kit", 1.0, false); err != nil {
			return err
		}
		_, err := tx.Exec(insert, "kit", "n", "kept", 8, nil)
		return err
	})
	if err == nil {
		t.Error("Write() with a duplicate key succeeded")
	}
}
