package engine_test

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/store"
)

// counted is a store that counts the tasks it hands out in lists, and whose reads
// fail while it is broken.
type counted struct {
	store.Store
	tasks  atomic.Int64
	broken atomic.Bool
}

var errSecret = errors.New("secret")

func (s *counted) Tasks(ctx context.Context, q store.Query) (store.Page, error) {
	if s.broken.Load() {
		return store.Page{}, errSecret
	}
	page, err := s.Store.Tasks(ctx, q)
	s.tasks.Add(int64(len(page.Tasks)))
	return page, err
}

func (s *counted) Task(ctx context.Context, k store.Key, opts store.TaskOptions) (*store.Task, error) {
	if s.broken.Load() {
		return nil, errSecret
	}
	return s.Store.Task(ctx, k, opts)
}

func (s *counted) Context(ctx context.Context, owner, id string, tasks int) (store.Context, error) {
	if s.broken.Load() {
		return store.Context{}, errSecret
	}
	return s.Store.Context(ctx, owner, id, tasks)
}
