package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

var (
	_ store.Store   = (*Store)(nil)
	_ store.Clock   = (*Store)(nil)
	_ store.Watcher = (*Store)(nil)
)

// Store is a store.Store in a schema of a PostgreSQL database.
type Store struct {
	cfg      Config
	location string
	log      *slog.Logger
	pool     *pgxpool.Pool
	calls    slots // connections for calls of clients, lists among them
	lists    slots // connections for lists
	reads    taskReads
	checks   taskReads // of versions
	pages    listReads
	reset    atomic.Int64 // when the pool was emptied last because a session was ended
	texts    sync.Map     // statements with the schema's name, by those without
	clock    clock
	pks      *pkSource
	tallies  tallyNotes[string] // by owner
	labels   tallyNotes[labelKey]
	queue    chan *request
	stuck    stuck
	news     *news
	watchers watchers
	// unconfirmed is set while a commit may lack an answer or a standby, see confirm.
	unconfirmed atomic.Bool
	// laneDepth is how many lanes of one owner the last claim came to.
	laneDepth atomic.Int64
	doubts    doubts

	// gate lets calls in until the store is closed, and Close wait for them.
	gate    sync.RWMutex
	closed  bool
	workers sync.WaitGroup
	stop    context.CancelFunc // of the upkeep
}

// pingTimeout bounds a Ping whose context has no deadline.
const pingTimeout = 5 * time.Second

const (
	sqlBeat    = `UPDATE {s}.heartbeat SET beats = beats + 1 WHERE pk = 1`
	sqlBacklog = `SELECT (SELECT count(*) FROM {s}.task_rows WHERE phase = 1) + (SELECT count(*) FROM {s}.task_rows WHERE phase = 3),
		(SELECT count(*) FROM {s}.task_rows WHERE phase = 2)`
	// sqlQueued finds the tasks of an owner that wait among all that wait.
	sqlQueued = `SELECT (SELECT count(*) FROM (SELECT 1 FROM {s}.task_rows WHERE phase = 1 AND owner = $1::text COLLATE "ucs_basic" ORDER BY due_at, id LIMIT $2::bigint) x) +
		(SELECT count(*) FROM (SELECT 1 FROM {s}.task_rows WHERE phase = 3 AND due_at > -4611686018427387904 AND owner || '' = $1::text COLLATE "C" LIMIT $2::bigint) x)`
)

// Backlog implements store.Store: it counts the entries of indexes that hold only
// tasks with work to do.
func (s *Store) Backlog(ctx context.Context) (b store.Backlog, err error) {
	err = s.read(ctx, "count the backlog", func(ctx context.Context, c *pgx.Conn) error {
		return s.each(ctx, c, sqlBacklog, func(r record) error {
			b = store.Backlog{Queued: int(r.int(0)), Leased: int(r.int(1))}
			return nil
		})
	})
	return b, err
}

// Queued implements store.Store.
func (s *Store) Queued(ctx context.Context, owner string, most int) (n int, err error) {
	err = s.read(ctx, "count queued tasks", func(ctx context.Context, c *pgx.Conn) error {
		n = 0
		if !storable(owner, owner) {
			return nil
		}
		return s.each(ctx, c, sqlQueued, func(r record) error {
			n = min(int(r.int(0)), most)
			return nil
		}, owner, most)
	})
	return n, err
}

// Ping implements store.Store: it commits a small change, within five seconds and
// without trying again.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	limited, cancel := context.WithTimeoutCause(ctx, pingTimeout, errors.New("postgres: ping takes too long"))
	defer cancel()
	err := s.once(limited, func(ctx context.Context, c *pgx.Conn) error {
		n, err := s.exec(ctx, c, sqlBeat)
		if err == nil && n != 1 {
			err = a2a.Errorf(a2a.CodeInternal, "the schema of the database is not as it should be: table heartbeat is empty")
		}
		return err
	})
	return failed(ctx, err, "ping")
}

// Info implements store.Store.
func (s *Store) Info() store.Info {
	return store.Info{Name: "postgres", Location: s.location, Durable: true}
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.queue)
	s.stop()
	s.workers.Wait()
	s.pool.Close()
	return nil
}
