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
	cfg            Config
	location       string
	log            *slog.Logger
	pool           *pgxpool.Pool
	callSlots      slots // connections for client calls, lists included
	listSlots      slots // connections for lists
	taskBatches    readBatcher
	versionBatches readBatcher // reads of versions
	pageReads      listReads
	lastReset      atomic.Int64 // Unix nanoseconds; when the pool was last reset after a terminated session
	sqlCache       sync.Map     // statements by their text without the schema name
	clock          clock
	pks            *pkSource
	counterRows    addedRows[string] // rows added to counters since their last merge, by owner
	labelRows      addedRows[labelKey]
	queue          chan *request
	blocked        blockedRequests
	outbox         *outbox
	laneWatchers   store.LaneWatchers
	// unconfirmed is set after a commit whose answer or replication is missing, see confirm.
	unconfirmed atomic.Bool
	// laneDepth is the largest number of lanes of one owner in the last claim.
	laneDepth     atomic.Int64
	indeterminate indeterminateCommits

	// gate is read-locked by each call, so that Close waits for them.
	gate    sync.RWMutex
	closed  bool
	workers sync.WaitGroup
	stop    context.CancelFunc // stops maintenance and notifications
}

// pingTimeout bounds a Ping whose context has no deadline.
const pingTimeout = 5 * time.Second

const (
	sqlHeartbeat = `UPDATE {s}.heartbeat SET beats = beats + 1 WHERE pk = 1`
	sqlBacklog   = `SELECT (SELECT count(*) FROM {s}.task_rows WHERE phase = 1) + (SELECT count(*) FROM {s}.task_rows WHERE phase = 3),
		(SELECT count(*) FROM {s}.task_rows WHERE phase = 2)`
	// sqlQueued counts queued tasks of an owner: ready ones, and among all waiting ones.
	sqlQueued = `SELECT (SELECT count(*) FROM (SELECT 1 FROM {s}.task_rows WHERE phase = 1 AND owner = $1::text COLLATE "ucs_basic" ORDER BY due_at, id LIMIT $2::bigint) x) +
		(SELECT count(*) FROM (SELECT 1 FROM {s}.task_rows WHERE phase = 3 AND due_at > -4611686018427387904 AND owner || '' = $1::text COLLATE "C" LIMIT $2::bigint) x)`
)

// Backlog implements [store.Maintenance]. It counts entries of partial indexes that contain only
// queued and leased tasks.
func (s *Store) Backlog(ctx context.Context) (b store.Backlog, err error) {
	err = s.read(ctx, "count the backlog", func(ctx context.Context, c *pgx.Conn) error {
		return s.eachRow(ctx, c, sqlBacklog, func(r record) error {
			b = store.Backlog{Queued: int(r.int(0)), Leased: int(r.int(1))}
			return nil
		})
	})
	return b, err
}

// Queued implements [store.Tasks].
func (s *Store) Queued(ctx context.Context, owner string, most int) (n int, err error) {
	err = s.read(ctx, "count queued tasks", func(ctx context.Context, c *pgx.Conn) error {
		n = 0
		if !storable(owner, owner) {
			return nil
		}
		return s.eachRow(ctx, c, sqlQueued, func(r record) error {
			n = min(int(r.int(0)), most)
			return nil
		}, owner, most)
	})
	return n, err
}

// Ping implements [store.Maintenance]. It commits a small change within five seconds, without
// retries.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	limited, cancel := context.WithTimeoutCause(ctx, pingTimeout, errors.New("postgres: ping timed out"))
	defer cancel()
	err := s.runOnce(limited, func(ctx context.Context, c *pgx.Conn) error {
		n, err := s.exec(ctx, c, sqlHeartbeat)
		if err == nil && n != 1 {
			err = a2a.Errorf(a2a.CodeInternal, "the database schema is damaged: table heartbeat is empty")
		}
		return err
	})
	return wrapError(ctx, err, "ping")
}

// Info implements [store.Maintenance].
func (s *Store) Info() store.Info {
	return store.Info{Name: "postgres", Location: s.location, Durable: true}
}

// Close implements [store.Store].
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
