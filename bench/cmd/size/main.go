// Command size prints the storage cost of a short task: bytes on disk, bytes of write-ahead log,
// the share of row updates that changed no index (HOT), and the rate at which finished tasks are
// deleted.
//
// It runs an agent in this process on a new SQLite file and on a private PostgreSQL server. It
// sends tasks with a message of 300 bytes and a response of the same size, each in its own context,
// and measures both databases. It marks figures that exceed their budget. Then it removes the tasks
// by their age, on both databases and in memory, and compares the rate with the rate of their creation.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		stop()
		os.Exit(1)
	}
}

// budget is the maximum number of bytes of a short task.
type budget struct{ disk, wal float64 }

var (
	sqliteBudget   = budget{disk: 1600}
	postgresBudget = budget{disk: 2500, wal: 3000}
)

// withBudget returns a figure with its budget as text.
func withBudget(figure, budget float64) string {
	over := ""
	if figure > budget {
		over = ", exceeded"
	}
	return fmt.Sprintf("%.0f B per task (budget %.0f%s)", figure, budget, over)
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("size", flag.ContinueOnError)
	n := flags.Int("tasks", 20_000, "number of tasks")
	url := flags.String("database-url", "", "URL of a PostgreSQL database to use instead of a private server; figures include its other load")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *n < 1 {
		return fmt.Errorf("-tasks: %d is less than 1", *n)
	}
	return errors.Join(measureMemory(ctx, *n, out), measureSQLite(ctx, *n, out), measurePostgres(ctx, *n, *url, out))
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// work sends n tasks, waits until they are complete, and returns the duration.
func work(ctx context.Context, s store.Store, n int) (took time.Duration, err error) {
	const callers, size = 64, 300
	text := strings.Repeat("lorem ipsum ", size/12)
	e, err := engine.New(engine.Config{Store: s, NewID: newID, Handler: func(_ context.Context, t *engine.Turn) error {
		_, err := t.Artifact("answer").WriteString(t.Messages()[0].Text())
		return err
	}})
	if err != nil {
		return 0, err
	}
	if err := e.Start(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.Stop(context.WithoutCancel(ctx))) }()
	started := time.Now()
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n) && failed.Load() == nil; i = next.Add(1) {
				_, err := e.Send(ctx, a2a.Principal{ID: "anonymous"}, a2a.MessageSendParams{
					Message: a2a.Message{ID: newID(), Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: text}}},
				}, engine.SendOptions{Wait: true})
				if err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return time.Since(started), nil
}

func measureMemory(ctx context.Context, n int, out io.Writer) (err error) {
	s := inmem.New()
	defer func() { err = errors.Join(err, s.Close()) }()
	creation, err := work(ctx, s, n)
	if err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	return measureExpiry(ctx, "memory", s, n, creation, out)
}

func measureSQLite(ctx context.Context, n int, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "holdfast-size-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	creation, err := work(ctx, s, n)
	if err := errors.Join(err, s.Close()); err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	info, err := os.Stat(filepath.Join(dir, sqlite.FileName))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "sqlite    disk %s\n", withBudget(float64(info.Size())/float64(n), sqliteBudget.disk))
	if s, err = sqlite.Open(ctx, sqlite.Config{Dir: dir}); err != nil {
		return err
	}
	return errors.Join(measureExpiry(ctx, "sqlite", s, n, creation, out), s.Close())
}

func measurePostgres(ctx context.Context, n int, url string, out io.Writer) (err error) {
	if url == "" {
		server, err := pgtest.Start(pgtest.Config{Settings: map[string]string{
			"shared_buffers": "256MB", "max_wal_size": "8GB", "checkpoint_timeout": "1h", "autovacuum_naptime": "5s",
		}})
		if err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		url = server.URL()
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	schema := fmt.Sprintf("holdfast_size_%d", os.Getpid())
	s, err := postgres.Open(ctx, postgres.Config{URL: url, Schema: schema, Migrate: true})
	if err != nil {
		return err
	}
	defer func() {
		_, e := conn.Exec(context.WithoutCancel(ctx), "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		err = errors.Join(err, e)
	}()
	var from string
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&from); err != nil {
		return errors.Join(err, s.Close())
	}
	creation, err := work(ctx, s, n)
	if err != nil {
		return errors.Join(fmt.Errorf("postgres: %w", err), s.Close())
	}
	var wal float64
	if err := conn.QueryRow(ctx, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::pg_lsn)::float8", from).Scan(&wal); err != nil {
		return errors.Join(err, s.Close())
	}
	if err := reportPostgres(ctx, conn, schema, wal/float64(n), float64(n), out); err != nil {
		return errors.Join(err, s.Close())
	}
	return errors.Join(measureExpiry(ctx, "postgres", s, n, creation, out), s.Close())
}

// reportPostgres prints the figures of all tables together, and of each table with a significant
// share.
func reportPostgres(ctx context.Context, conn *pgx.Conn, schema string, wal, n float64, out io.Writer) error {
	if _, err := conn.Exec(ctx, "DELETE FROM "+schema+".commit_marks"); err != nil { // marks are kept for some minutes
		return err
	}
	rows, err := conn.Query(ctx, `SELECT relname, pg_table_size(relid)::float8, pg_indexes_size(relid)::float8, n_tup_upd::float8, n_tup_hot_upd::float8
		FROM pg_stat_user_tables WHERE schemaname = $1 AND relname <> 'commit_marks' ORDER BY pg_total_relation_size(relid) DESC`, schema)
	if err != nil {
		return err
	}
	var disk, updates, hot float64
	var lines strings.Builder
	for rows.Next() {
		var name string
		var table, indexes, changed, inPlace float64
		if err := rows.Scan(&name, &table, &indexes, &changed, &inPlace); err != nil {
			return err
		}
		disk, updates, hot = disk+table+indexes, updates+changed, hot+inPlace
		if (table+indexes)/n >= 10 {
			fmt.Fprintf(&lines, "  %-18s %5.0f B: rows %.0f, indexes %.0f; %.0f of %.0f updates HOT\n", name, (table+indexes)/n, table/n, indexes/n, inPlace, changed)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	fmt.Fprintf(out, "postgres  disk %s, WAL %s, HOT %.0f %% of %.1f updates per task\n%s",
		withBudget(disk/n, postgresBudget.disk), withBudget(wal, postgresBudget.wal), 100*hot/max(updates, 1), updates/n, lines.String())
	return nil
}
