package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"sync"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver of openSQLite
)

// floorWrite is one change: a new task with its message, or the response that completes it.
type floorWrite struct {
	id, text string
	ends     bool
	done     chan error
}

// committer stores one change durably.
type committer func(ctx context.Context, w *floorWrite) error

// groupSize is the maximum number of changes in a transaction, as in Holdfast's stores.
const groupSize = 256

// grouper commits changes that wait at the same time in one transaction, until ctx is done.
type grouper struct {
	ctx     context.Context
	queue   chan *floorWrite
	workers sync.WaitGroup
}

// newGrouper starts a worker for each apply, which is called with up to groupSize changes.
func newGrouper(ctx context.Context, apply ...func(group []*floorWrite) error) *grouper {
	g := &grouper{ctx: ctx, queue: make(chan *floorWrite, 4*groupSize)}
	for _, f := range apply {
		g.workers.Go(func() { g.work(f) })
	}
	return g
}

func (g *grouper) commit(ctx context.Context, w *floorWrite) error {
	w.done = make(chan error, 1)
	select {
	case g.queue <- w:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *grouper) work(apply func([]*floorWrite) error) {
	for {
		var group []*floorWrite
		select {
		case w := <-g.queue:
			group = append(group, w)
		case <-g.ctx.Done():
			return
		}
		for more := true; more && len(group) < groupSize; {
			select {
			case w := <-g.queue:
				group = append(group, w)
			default:
				more = false
			}
		}
		err := apply(group)
		for _, w := range group {
			w.done <- err
		}
	}
}

const floorTable = ` (id TEXT PRIMARY KEY, state TEXT NOT NULL, message TEXT NOT NULL, answer TEXT)`

// openSQLite opens a store in dir with the driver and settings of Holdfast's writer.
func openSQLite(ctx context.Context, dir string) (commit committer, closeStore func() error, err error) {
	source := url.URL{Scheme: "file", Path: filepath.Join(dir, "floor.db"), RawQuery: url.Values{"_pragma": {
		"busy_timeout(5000)", "journal_mode(wal)", "synchronous(FULL)", "cache_size(-16384)", "temp_store(memory)",
		"wal_autocheckpoint(1000)", "journal_size_limit(16777216)",
	}}.Encode()}
	db, err := sql.Open("sqlite", source.String())
	if err != nil {
		return nil, nil, err
	}
	s := &sqliteFloor{ctx: ctx}
	if s.conn, err = db.Conn(ctx); err == nil {
		err = s.prepare()
	}
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	g := newGrouper(ctx, s.apply)
	return g.commit, func() error {
		g.workers.Wait()
		return errors.Join(s.conn.Close(), db.Close())
	}, nil
}

type sqliteFloor struct {
	ctx                           context.Context
	conn                          *sql.Conn
	begin, insert, update, commit *sql.Stmt
}

func (s *sqliteFloor) prepare() error {
	if _, err := s.conn.ExecContext(s.ctx, "CREATE TABLE tasks"+floorTable+" WITHOUT ROWID"); err != nil {
		return err
	}
	for into, text := range map[**sql.Stmt]string{
		&s.begin: "BEGIN IMMEDIATE", &s.commit: "COMMIT",
		&s.insert: "INSERT INTO tasks (id, state, message) VALUES (?, 'working', ?)",
		&s.update: "UPDATE tasks SET state = 'completed', answer = ? WHERE id = ?",
	} {
		var err error
		if *into, err = s.conn.PrepareContext(s.ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqliteFloor) apply(group []*floorWrite) error {
	ctx := context.WithoutCancel(s.ctx)
	if _, err := s.begin.ExecContext(ctx); err != nil {
		return err
	}
	for _, w := range group {
		var err error
		if w.ends {
			_, err = s.update.ExecContext(ctx, w.text, w.id)
		} else {
			_, err = s.insert.ExecContext(ctx, w.id, w.text)
		}
		if err != nil {
			_, rollbackErr := s.conn.ExecContext(ctx, "ROLLBACK")
			return errors.Join(err, rollbackErr)
		}
	}
	_, err := s.commit.ExecContext(ctx)
	return err
}

// openPostgres opens a store in a new schema. It commits over two connections: one sends while the
// other waits for the disk.
func openPostgres(ctx context.Context, databaseURL, schema string) (commit committer, closeStore func() error, err error) {
	var conns [2]*pgx.Conn
	var apply []func([]*floorWrite) error
	closeAll := func() (err error) {
		for _, c := range conns {
			if c != nil {
				err = errors.Join(err, c.Close(context.WithoutCancel(ctx)))
			}
		}
		return err
	}
	for i := range conns {
		if conns[i], err = pgx.Connect(ctx, databaseURL); err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		f := &postgresFloor{ctx: ctx, conn: conns[i], table: pgx.Identifier{schema, "tasks"}.Sanitize()}
		apply = append(apply, f.apply)
	}
	name := pgx.Identifier{schema}.Sanitize()
	if _, err := conns[0].Exec(ctx, "CREATE SCHEMA "+name+"; CREATE TABLE "+name+".tasks"+floorTable, pgx.QueryExecModeSimpleProtocol); err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	g := newGrouper(ctx, apply...)
	return g.commit, func() error {
		g.workers.Wait()
		return closeAll()
	}, nil
}

type postgresFloor struct {
	ctx   context.Context
	conn  *pgx.Conn
	table string
}

// apply writes a group with one statement, which is its own transaction and takes one round trip.
func (f *postgresFloor) apply(group []*floorWrite) error {
	var ids, messages, ended, answers []string
	for _, w := range group {
		if w.ends {
			ended, answers = append(ended, w.id), append(answers, w.text)
		} else {
			ids, messages = append(ids, w.id), append(messages, w.text)
		}
	}
	_, err := f.conn.Exec(context.WithoutCancel(f.ctx), `WITH made AS (INSERT INTO `+f.table+` (id, state, message)
			SELECT id, 'working', message FROM unnest($1::text[], $2::text[]) AS new (id, message))
		UPDATE `+f.table+` t SET state = 'completed', answer = e.answer
		  FROM unnest($3::text[], $4::text[]) AS e (id, answer) WHERE t.id = e.id`, ids, messages, ended, answers)
	return err
}
