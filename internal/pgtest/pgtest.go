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

// shared is the server of this process.
var shared = sync.OnceValues(func() (string, error) {
	if url := os.Getenv(URLVariable); url != "" {
		return url, nil
	}
	s, err := Start(Config{})
	if err != nil {
		return "", err
	}
	return s.URL(), nil
})

// URL returns a server's URL. All tests of a process share it; each takes a
// schema of its own.
func URL(t T) string {
	t.Helper()
	url, err := shared()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return url
}

// Schema returns the name of a schema that does not exist yet. It is dropped at
// the end of the test.
func Schema(t T, url string) string {
	t.Helper()
	random := make([]byte, 8)
	_, _ = rand.Read(random)
	name := "t_" + hex.EncodeToString(random)
	t.Cleanup(func() {
		if err := execute(url, "DROP SCHEMA IF EXISTS "+name+" CASCADE"); err != nil {
			t.Errorf("drop schema: %v", err)
		}
	})
	return name
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
