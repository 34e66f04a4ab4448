package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// privateSettings are the settings of a PostgreSQL server that this program starts. Autovacuum runs
// more often than once a minute, so that short runs include it.
var privateSettings = map[string]string{
	"shared_buffers": "256MB", "max_wal_size": "4GB", "autovacuum_naptime": "10s",
	"track_io_timing": "off", "log_checkpoints": "off",
}

// database is a PostgreSQL server with the stores of servers, each in its own schema. Its methods
// are not safe for concurrent use.
type database struct {
	url      string
	about    string // version, and the settings that determine the speed of commits
	conn     *pgx.Conn
	own      *pgtest.Server // nil for a server of somebody else
	pid      int            // of own
	schemas  []string
	sequence int
}

// openDatabase connects to the server that url selects, or starts one. The started server writes to
// disk before it acknowledges.
func openDatabase(ctx context.Context, url string) (*database, error) {
	d := &database{url: url}
	if url == "" {
		own, err := pgtest.Start(pgtest.Config{Fsync: true, Settings: privateSettings})
		if err != nil {
			return nil, err
		}
		d.own, d.url = own, own.URL()
	}
	if err := d.connect(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to PostgreSQL: %w", err), d.close(ctx))
	}
	return d, nil
}

func (d *database) connect(ctx context.Context) (err error) {
	if d.conn, err = pgx.Connect(ctx, d.url); err != nil {
		return err
	}
	var version, fsync, synchronous string
	err = d.conn.QueryRow(ctx, `SELECT split_part(current_setting('server_version'), ' ', 1), current_setting('fsync'), current_setting('synchronous_commit')`).
		Scan(&version, &fsync, &synchronous)
	if err != nil {
		return err
	}
	d.about = fmt.Sprintf("PostgreSQL %s, fsync %s, synchronous_commit %s", version, fsync, synchronous)
	if d.own != nil {
		return d.conn.QueryRow(ctx, `SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)::int`).Scan(&d.pid)
	}
	return nil
}

// close ends the server that openDatabase started, or removes the schemas from another server.
func (d *database) close(ctx context.Context) error {
	var errs []error
	if d.conn != nil {
		for _, schema := range d.schemas {
			if d.own != nil {
				break
			}
			_, err := d.conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
			errs = append(errs, err)
		}
		errs = append(errs, d.conn.Close(ctx))
	}
	if d.own != nil {
		errs = append(errs, d.own.Close())
	}
	return errors.Join(errs...)
}

// schema returns the name of a new schema.
func (d *database) schema() string {
	d.sequence++
	name := fmt.Sprintf("bench_%x_%d", time.Now().Unix(), d.sequence)
	d.schemas = append(d.schemas, name)
	return name
}

// flags returns the flags that select a new store.
func (d *database) flags() (flags []string, schema string) {
	schema = d.schema()
	return []string{"--storage", storagePostgres, "--database-url", d.url, "--schema", schema}, schema
}

// migrate creates an empty Holdfast store, which flags select.
func (d *database) migrate(ctx context.Context, binary string, flags []string) error {
	cmd := exec.CommandContext(ctx, binary, append([]string{"migrate", "up"}, flags[2:]...)...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("holdfast migrate up: %w: %s", err, firstLine(text))
	}
	return nil
}

// vacuum vacuums and analyzes now, as autovacuum would do soon after many writes.
func (d *database) vacuum(ctx context.Context) error {
	_, err := d.conn.Exec(ctx, "VACUUM (ANALYZE)")
	if err == nil {
		_, err = d.conn.Exec(ctx, "CHECKPOINT")
	}
	return err
}

// usage has the resources that the database has used since its start.
type usage struct {
	cpu     time.Duration // of all its processes, 0 if unknown
	commits int64         // of all transactions, including read-only ones
	wal     int64         // bytes
}

func (d *database) usage(ctx context.Context) (u usage, err error) {
	err = d.conn.QueryRow(ctx, `SELECT xact_commit, (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint
		FROM pg_stat_database WHERE datname = current_database()`).Scan(&u.commits, &u.wal)
	if d.pid != 0 {
		u.cpu = familyCPU(d.pid)
	}
	return u, err
}

func (u usage) since(before usage) usage {
	return usage{cpu: u.cpu - before.cpu, commits: u.commits - before.commits, wal: u.wal - before.wal}
}

// holdSnapshot starts a transaction that keeps its snapshot until it is released. Vacuum cannot
// remove rows that are deleted in the meantime.
func (d *database) holdSnapshot(ctx context.Context) (release func() error, err error) {
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return nil, err
	}
	if _, err = conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ"); err == nil {
		_, err = conn.Exec(ctx, "SELECT count(*) FROM pg_class")
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return func() error { return conn.Close(context.WithoutCancel(ctx)) }, nil
}
