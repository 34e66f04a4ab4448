package engine

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Task returns a task of the principal. The caller must not modify it. historyLength limits the
// history to the newest messages; nil returns all.
func (e *Engine) Task(ctx context.Context, p a2a.Principal, id string, historyLength *int) (*store.Task, error) {
	if err := checkHistoryLength("historyLength", historyLength); err != nil {
		return nil, err
	}
	if a2a.CheckID("id", id) != nil {
		return nil, a2a.TaskNotFound(id)
	}
	return e.task(ctx, store.Key{Owner: p.ID, ID: id}, store.TaskOptions{History: historyLength})
}

// Outline returns a task of the principal without content; see [store.TaskOptions].
func (e *Engine) Outline(ctx context.Context, p a2a.Principal, id string) (*store.Task, error) {
	if a2a.CheckID("id", id) != nil {
		return nil, a2a.TaskNotFound(id)
	}
	return e.task(ctx, store.Key{Owner: p.ID, ID: id}, store.TaskOptions{Outline: true})
}

// Version returns the version of a task of the principal.
func (e *Engine) Version(ctx context.Context, p a2a.Principal, id string) (store.TaskVersion, error) {
	key := store.Key{Owner: p.ID, ID: id}
	versions, err := e.cfg.Store.Versions(ctx, []store.Key{key})
	if err != nil {
		return store.TaskVersion{}, err
	}
	v, ok := versions[key]
	if !ok {
		return v, a2a.TaskNotFound(id)
	}
	return v, nil
}

func (e *Engine) task(ctx context.Context, key store.Key, opts store.TaskOptions) (*store.Task, error) {
	if e.exclusive() { // otherwise another process may have a newer version
		if running := e.hub.runningTask(key); running != nil {
			t := running.Clone()
			t.Cut(opts)
			return t, nil
		}
	}
	t, err := e.cfg.Store.Task(ctx, key, opts)
	return t, taskError(key.ID, err)
}

// taskError replaces store.ErrNotFound with task_not_found and returns other errors unchanged.
func taskError(id string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return a2a.TaskNotFound(id)
	}
	return err
}
