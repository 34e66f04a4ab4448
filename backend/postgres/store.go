package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/internal/sqltask"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
)

var (
	_ store.Store   = (*Store)(nil)
	_ store.Clock   = (*Store)(nil)
	_ store.Watcher = (*Store)(nil)
)

// These parts are written once for SQLite and PostgreSQL.
type (
	endpointStore = sqltask.EndpointStore
	feedbackStore = sqltask.FeedbackStore
	removalStore  = sqltask.RemovalStore
)

// Store is a store.Store in a schema of a PostgreSQL database. Its parts implement the contract
// by concern. Each has its own state, and a field for each part that it uses.
type Store struct {
	*database
	*changeWriter
	*taskStore
	*contextStore
	*webhookStore

	endpointStore
	feedbackStore
	removalStore

	vectors *vectorIndexes

	stop context.CancelFunc // stops maintenance and notifications
}

// cacheMemory returns the memory for caches of contracts in bytes: 1/32 of the cgroup's or machine's
// memory, 16 to 256 MiB.
func cacheMemory() int64 { return max(16<<20, min(256<<20, memory.Default()/24)) } // memory.Default is three quarters

// newStore returns a store without connections.
func newStore(cfg Config) *Store {
	db := newDatabase(cfg)
	db.callSlots = make(slots, cfg.PoolMax-cfg.reserved())
	db.listSlots = make(slots, max(1, cap(db.callSlots)/2))
	writer := &changeWriter{
		database: db, notifier: &notifier{database: db, outbox: newOutbox()}, pks: &pkSource{now: db.Now}, eras: newEras(), queue: make(chan *request, queueLength),
	}
	inner := &kit{db, true}
	tasks := &taskStore{changeWriter: writer}
	tasks.taskBatches.read, tasks.versionBatches.read = tasks.readTaskBatch, tasks.readVersionBatch
	contexts := &contextStore{taskStore: tasks}
	contexts.deletions.db, contexts.deletions.alone, contexts.deletions.together = db, contexts.deleteContextAlone, contexts.deleteContextsTogether
	return &Store{
		database: db, changeWriter: writer, taskStore: tasks, contextStore: contexts,
		webhookStore: &webhookStore{taskStore: tasks}, vectors: newVectorIndexes(db),
		endpointStore: sqltask.NewEndpointStore(inner), removalStore: sqltask.NewRemovalStore(inner),
		feedbackStore: sqltask.NewFeedbackStore(&kit{database: db}, writer.ratings()),
	}
}

// SQL implements sqlkit.Source. The transactions of the database are also a [RawTx].
func (s *Store) SQL() sqlkit.DB { return &kit{database: s.database} }

// pingTimeout is the maximum duration of a Ping.
const pingTimeout = 5 * time.Second

const (
	sqlHeartbeat = `UPDATE {s}.heartbeat SET beats = beats + 1 WHERE pk = 1`
	sqlBacklog   = `SELECT (SELECT count(*) FROM {s}.task_rows WHERE phase = {ready} AND era = {era}) + (SELECT count(*) FROM {s}.task_rows WHERE phase = {waiting}),
		(SELECT count(*) FROM {s}.task_rows WHERE phase = {leased} AND era = {era})`
	// sqlQueued counts the queued tasks of an owner. To find the waiting ones, it reads the waiting
	// tasks of all owners.
	sqlQueued = `SELECT (SELECT count(*) FROM (SELECT 1 FROM {s}.task_rows WHERE phase = {ready} AND era = {era} AND owner = $1::text COLLATE "ucs_basic" ORDER BY ` + readySince + `, id LIMIT $2::bigint) x) +
		(SELECT count(*) FROM (SELECT 1 FROM {s}.task_rows WHERE phase = {waiting} AND due_at > -4611686018427387904 AND owner || '' = $1::text COLLATE "C" LIMIT $2::bigint) x)`
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
