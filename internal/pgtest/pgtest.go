package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"

	"github.com/jackc/pgx/v5"
)

// Environment variables that scripts/services sets.
const (
	URLVariable       = "HOLDFAST_TEST_POSTGRES_URL"
	PoolerURLVariable = "HOLDFAST_TEST_PGBOUNCER_URL"
	versionsVariable  = "HOLDFAST_TEST_VERSIONS"
)

// T is the part of a test that this package uses.
type T interface {
	Helper()
	Cleanup(f func())
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// URL returns a server's URL. All tests share the server; each test uses its own schema.
func URL(t T) string {
	t.Helper()
	return variable(t, URLVariable)
}

// PoolerURL returns the URL of a PgBouncer in transaction mode in front of the server of [URL].
func PoolerURL(t T) string {
	t.Helper()
	return variable(t, PoolerURLVariable)
}

// variable returns the value of an environment variable, from scripts/services if the environment has no server.
func variable(t T, name string) string {
	t.Helper()
	if url := os.Getenv(name); url != "" {
		os.Getenv(versionsVariable) // with other servers, go test runs the test again instead of showing its earlier result
		return url
	}
	if os.Getenv(URLVariable) != "" {
		t.Fatalf("%s is set, but %s is not", URLVariable, name)
	}
	urls, err := services()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return urls[name]
}

// Schema returns the name of a schema that does not exist yet. It is dropped at
// the end of the test.
func Schema(t T, url string) string {
	t.Helper()
	name := NewSchema()
	t.Cleanup(func() {
		if err := execute(url, "DROP SCHEMA IF EXISTS "+name+" CASCADE"); err != nil {
			t.Errorf("drop schema: %v", err)
		}
	})
	return name
}

// NewSchema returns the name of a schema that does not exist yet.
func NewSchema() string {
	random := make([]byte, 8)
	_, _ = rand.Read(random)
	return "t_" + hex.EncodeToString(random)
}

func execute(url, text string) error {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	_, err = c.Exec(ctx, text)
	return err
}
