package inmem

import (
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/store"
)

// Store is a [store.Store] that keeps its data in memory. Its parts implement the contract by
// concern. Each has its own state, and a field for each part that it uses.
type Store struct {
	*database
	*taskStore
	*contextStore
	*feedbackStore
	*webhookStore

	contracts *sqlite.Memory
}

var _ store.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	db := &database{owners: make(map[string]*owner)}
	feedbacks, webhooks := &feedbackStore{database: db}, &webhookStore{database: db, webhookState: newWebhookState()}
	contracts := sqlite.NewMemory()
	tasks := &taskStore{database: db, feedbacks: feedbacks, webhooks: webhooks, contracts: contracts}
	tasks.empty.defaultRecord = &store.Context{Role: store.DefaultContextRole, Status: a2a.ContextActive}
	return &Store{
		database: db, taskStore: tasks, contextStore: &contextStore{taskStore: tasks}, feedbackStore: feedbacks, webhookStore: webhooks,
		contracts: contracts,
	}
}

// Ping implements [store.Maintenance].
func (s *Store) Ping(ctx context.Context) error {
	defer s.mu.RUnlock()
	return s.read(ctx)
}

// Info implements [store.Maintenance].
func (s *Store) Info() store.Info { return store.Info{Name: "memory", Exclusive: true} }

// Close implements [store.Store]. It discards all data.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.owners, s.ownersByName, s.records, s.deleting = nil, index[*owner]{}, index[*record]{}, index[*contextEntry]{}
	s.removals = index[removal]{}
	s.queue, s.empty, s.webhookState = queue{}, emptyContexts{}, webhookState{}
	return s.contracts.Close()
}

// Backlog implements [store.Maintenance].
func (s *taskStore) Backlog(ctx context.Context) (store.Backlog, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return store.Backlog{}, err
	}
	return store.Backlog{Queued: s.queue.queued, Leased: s.queue.leased}, nil
}

// Queued implements [store.Tasks].
func (s *taskStore) Queued(ctx context.Context, owner string, most int) (int, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return 0, err
	}
	if o := s.owners[owner]; o != nil {
		return min(o.queued, most), nil
	}
	return 0, nil
}
