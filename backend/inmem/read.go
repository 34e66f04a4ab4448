package inmem

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/store"
)

// taskStore implements [store.Tasks], [store.Records], and the methods of [store.Maintenance] for tasks.
type taskStore struct {
	*database
	feedbacks *feedbackStore
	webhooks  *webhookStore
	queue     queue
	empty     emptyContexts
	contracts *sqlite.Memory
}

// Task implements [store.Tasks].
func (s *taskStore) Task(ctx context.Context, k store.Key, opts store.TaskOptions) (*store.Task, error) {
	t, err := s.clone(ctx, k)
	if err != nil {
		return nil, err
	}
	return copyTask(t, opts), nil
}

func (s *taskStore) clone(ctx context.Context, k store.Key) (*store.Task, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	t := s.task(k)
	if t == nil {
		return nil, store.ErrNotFound
	}
	return t.fold.Clone(), nil
}

// copyTask returns a copy of a clone. It cuts the clone to opts first, to copy no more
// than needed.
func copyTask(clone *store.Task, opts store.TaskOptions) *store.Task {
	clone.Cut(opts)
	return clone.Copy()
}

// Events implements [store.Tasks].
func (s *taskStore) Events(ctx context.Context, k store.Key, after int64, limit int) ([]store.Event, error) {
	events, err := s.log(ctx, k, after, limit)
	for i := range events {
		events[i] = events[i].Copy()
	}
	return events, err
}

func (s *taskStore) log(ctx context.Context, k store.Key, after int64, limit int) ([]store.Event, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	t := s.task(k)
	if t == nil {
		return nil, store.ErrNotFound
	}
	n := int64(len(t.log))
	from := min(max(after, 0), n)
	to := from + min(int64(max(limit, 0)), n-from)
	return slices.Clone(t.log[from:to]), nil
}

// LogRows implements [store.Tasks]. Each event is one row.
func (s *taskStore) LogRows(ctx context.Context, k store.Key, after int64, limit int) ([]store.LogRow, error) {
	events, err := s.log(ctx, k, after, limit)
	rows := make([]store.LogRow, len(events))
	for i := range events {
		rows[i] = store.LogRow{Seq: events[i].Seq, Events: 1, Bytes: int64(events[i].Size())}
	}
	return rows, err
}

// Versions implements [store.Tasks].
func (s *taskStore) Versions(ctx context.Context, keys []store.Key) (map[store.Key]store.TaskVersion, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	versions := make(map[store.Key]store.TaskVersion, len(keys))
	for _, k := range keys {
		if t := s.task(k); t != nil {
			versions[k] = t.fold.Version()
		}
	}
	return versions, nil
}

// fromMillis is the inverse of millis.
func fromMillis(at int64) time.Time {
	if at == math.MinInt64 {
		return time.Time{}
	}
	return time.UnixMilli(at).UTC()
}

// Steps implements [store.Tasks].
func (s *taskStore) Steps(ctx context.Context, k store.Key, turn int) ([]store.Step, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	t := s.task(k)
	if t == nil {
		return nil, nil
	}
	var steps []store.Step
	for _, step := range t.steps {
		if step.Turn == turn {
			step.Result, step.Artifacts = slices.Clone(step.Result), slices.Clone(step.Artifacts)
			steps = append(steps, step)
		}
	}
	return steps, nil
}
