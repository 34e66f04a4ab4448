package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"sync"

	"github.com/jackc/pgx/v5"
)

// URLVariable is the environment variable that names a server for tests.
const URLVariable = "HOLDFAST_TEST_POSTGRES_URL"

// T is what is needed of a test.
type T interface {
	Helper()
	Cleanup(f func())
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// shared is the server of this process; nil when the environment names another.
// It is held on to: a server ends when nothing refers to its leash any more.
var shared = sync.OnceValues(func() (*Server, error) {
	if os.Getenv(URLVariable) != "" {
		return nil, nil
	}
	return Start(Config{})
})

// URL returns a server's URL. All tests of a process share it; each takes a
// schema of its own.
func URL(t T) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatalf("%v", err)
	}
	if s == nil {
		return os.Getenv(URLVariable)
	}
	return s.URL()
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
