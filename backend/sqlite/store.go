package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/internal/sqltask"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
)

// The statements of Ping.
const (
	sqlHeartbeat     = `UPDATE heartbeat SET beats = beats + 1 WHERE pk = 2`
	sqlReadHeartbeat = `SELECT beats FROM heartbeat WHERE pk = 2`
)

var _ store.Store = (*Store)(nil)

// These parts are written once for SQLite and PostgreSQL.
type (
	endpointStore = sqltask.EndpointStore
	feedbackStore = sqltask.FeedbackStore
	removalStore  = sqltask.RemovalStore
)

// Store is a store.Store that keeps its data in one SQLite file. Its parts implement the
// contract by concern. Each has its own state, and a field for each part that it uses.
type Store struct {
	*database
	*changeWriter
	*taskStore
	*contextStore
	*webhookStore

	endpointStore
	feedbackStore
	removalStore

	kit     *kit
	vectors *vectorIndexes

	lock    *flock.Flock
	stopped chan struct{} // closed when the committer has ended

	// damage is the result of the background check, nil if none was found.
	damage    atomic.Pointer[a2a.Error]
	stopCheck context.CancelFunc
	checked   chan struct{}
}

// newStore returns a store without connections.
func newStore(cfg Config) *Store {
	db := &database{cfg: cfg, path: filepath.Join(cfg.Dir, FileName), log: cfg.Logger, caches: sqlkit.Caches{Bytes: cfg.IndexMemory / 4}}
	changes := &changeWriter{database: db}
	k, inner := &kit{changeWriter: changes, blobs: newBlobFiles(db)}, &kit{changeWriter: changes, inner: true}
	return &Store{
		database: db, changeWriter: changes, contextStore: &contextStore{changes},
		taskStore: &taskStore{changeWriter: changes}, webhookStore: &webhookStore{changeWriter: changes},
		endpointStore: sqltask.NewEndpointStore(inner), removalStore: sqltask.NewRemovalStore(inner), feedbackStore: sqltask.NewFeedbackStore(k, ratings),
		kit: k, vectors: newVectorIndexes(k, cfg.IndexMemory-cfg.IndexMemory/4, cfg.ReadOnly, cfg.Logger),
	}
}

// SQL implements sqlkit.Source.
func (s *Store) SQL() sqlkit.DB { return s.kit }

// pingTimeout is the maximum duration of a Ping.
const pingTimeout = 5 * time.Second

// Backlog implements store.Maintenance.
func (s *Store) Backlog(ctx context.Context) (store.Backlog, error) {
	if err := s.enter(ctx); err != nil {
		return store.Backlog{}, err
	}
	defer s.leave()
	if s.cfg.ReadOnly {
		return s.readBacklog(ctx)
	}
	return *s.committer.counts.Load(), nil
}

// Queued implements store.Tasks.
func (s *Store) Queued(ctx context.Context, owner string, limit int) (n int, err error) {
	err = s.read(ctx, func(r *reader) error {
		return r.queryContext(ctx, sqlQueued, func(rec record) error {
			n = min(int(rec.int(0)), limit)
			return nil
		}, owner, int64(limit))
	})
	return n, err
}

// Ping implements store.Maintenance. It commits a small change and reads it back, and so also
// detects that the file was deleted or replaced.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pingTimeout, errors.New("sqlite: ping timed out"))
	defer cancel()
	err := s.write(ctx, &request{weight: 1, apply: func(w *writer) error {
		_, err := w.exec(sqlHeartbeat)
		return err
	}})
	if err != nil {
		return pingError(ctx, err)
	}
	err = s.read(ctx, func(r *reader) error {
		return r.query(sqlReadHeartbeat, func(record) error { return nil })
	})
	if err != nil {
		return pingError(ctx, err)
	}
	if damage := s.damage.Load(); damage != nil {
		return damage
	}
	return nil
}

func pingError(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return a2a.Wrap(a2a.CodeUnavailable, errors.Join(err, context.Cause(ctx)), "the database does not answer in time")
	}
	return err
}

// Info implements store.Maintenance. A read-only store is not exclusive: another process may
// serve the same data.
func (s *Store) Info() store.Info {
	return store.Info{Name: "sqlite", Location: s.path, Durable: true, Exclusive: !s.cfg.ReadOnly}
}

// Close implements store.Store. It leaves the database as one file.
func (s *Store) Close() error {
	s.vectors.close()
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.cfg.ReadOnly {
		return s.release()
	}
	s.stopCheck()
	<-s.checked
	close(s.committer.queue)
	<-s.stopped
	s.committer.wal.truncate()
	return s.release()
}
