//go:build services

package age

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

var bg = context.Background()

func TestMain(m *testing.M) {
	if arg := os.Getenv(graphChildVariable); arg != "" {
		fmt.Fprintln(os.Stderr, writeGraphs(arg))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// freshConfig returns a configuration with a new schema, which Open creates.
func freshConfig(t storetest.T, makesCopies bool) Config {
	t.Helper()
	url := pgtest.URL(t)
	cfg := postgres.Config{URL: url, Schema: pgtest.Schema(t, url), Migrate: true, RetryDelay: 20 * time.Millisecond, PoolMin: -1, PoolMax: 5}
	return Config{Postgres: cfg, Copy: makesCopies}
}

// configs has the configurations of stores, to open them again.
var configs sync.Map

// open opens a store and closes it at the end of the test.
func open(t storetest.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(bg, cfg)
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	configs.Store(s, cfg)
	return s
}

// reopen closes a store and opens its data again.
func reopen(t storetest.T, s store.Store) store.Store {
	if err := s.Close(); err != nil {
		t.Fatalf("Close() = %v", err)
	}
	cfg, _ := configs.Load(s)
	return open(t, cfg.(Config))
}

// connect returns a connection that is closed at the end of the test.
func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(bg, url)
	must(t, err)
	t.Cleanup(func() { _ = c.Close(bg) })
	return c
}
