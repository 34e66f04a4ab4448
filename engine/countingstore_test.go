package engine_test

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/store"
)

// countingStore is a store that counts the tasks returned in lists. Its reads fail while
// failing is set.
type countingStore struct {
	store.Store
	tasks   atomic.Int64
	failing atomic.Bool
}

var errSecret = errors.New("secret")

func (s *countingStore) Tasks(ctx context.Context, q store.Query) (store.Page, error) {
	if s.failing.Load() {
		return store.Page{}, errSecret
	}
	page, err := s.Store.Tasks(ctx, q)
	s.tasks.Add(int64(len(page.Tasks)))
	return page, err
}

func (s *countingStore) Task(ctx context.Context, k store.Key, opts store.TaskOptions) (*store.Task, error) {
	if s.failing.Load() {
		return nil, errSecret
	}
	return s.Store.Task(ctx, k, opts)
}

func (s *countingStore) Context(ctx context.Context, owner, id string, tasks int) (store.Context, error) {
	if s.failing.Load() {
		return store.Context{}, errSecret
	}
	return s.Store.Context(ctx, owner, id, tasks)
}
