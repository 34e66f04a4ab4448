package engine

import (
	"context"
	"iter"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// eventPage is the number of events that are read from the store at a time.
const eventPage = 256

// Update is one item of a task's stream.
type Update struct {
	// Seq identifies the update. To resume after it, a reader passes Seq to
	// [Engine.Follow].
	Seq int64
	// Task is set if the update is the whole task, Event if it is a change.
	Task  *store.Task
	Event *store.Event
	// Last is set on the update that ends the stream.
	Last bool
	// More is set if the next update is already available.
	More bool
}

// Follow yields the updates of a task of the principal. The stream ends when the task has
// finished or waits for its client, when ctx is done, or when the consumer stops. If after is
// nil, the stream starts with the current task. Otherwise it starts with the first event after
// that sequence, and event 1 is yielded as the task that it created. A consumer that falls
// behind gets its events from the store, one page at a time, using Config.Memory. Errors:
// task_not_found, also if the task is deleted during the stream, invalid_params,
// resource_exhausted.
func (e *Engine) Follow(ctx context.Context, p a2a.Principal, id string, after *int64) iter.Seq2[Update, error] {
	return e.updates(ctx, p, id, after, false)
}

// Subscribe is like Follow, but the stream continues while the task waits for its client. If
// after is nil and the task has finished, the error is unsupported_operation (A2A 1.0 section
// 3.1.6).
func (e *Engine) Subscribe(ctx context.Context, p a2a.Principal, id string, after *int64) iter.Seq2[Update, error] {
	return e.updates(ctx, p, id, after, true)
}

func (e *Engine) updates(ctx context.Context, p a2a.Principal, id string, after *int64, untilFinished bool) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		if a2a.CheckID("id", id) != nil {
			yield(Update{}, a2a.TaskNotFound(id))
			return
		}
		f := &follower{e: e, l: e.hub.acquire(store.Key{Owner: p.ID, ID: id}), yield: yield, untilFinished: untilFinished}
		defer e.hub.release(f.l)
		if err := f.follow(ctx, after); err != nil {
			yield(Update{}, err)
		}
	}
}

type follower struct {
	e     *Engine
	l     *live
	yield func(Update, error) bool
	seq   int64 // of the last yielded update
	// untilFinished continues the stream while the task waits for its client.
	untilFinished bool
	// createdAt is the creation time of the task. A task with the same id and another creation
	// time is another task.
	createdAt time.Time
}

// ends reports whether the stream ends at a state.
func (f *follower) ends(s a2a.TaskState) bool {
	return s.Terminal() || !f.untilFinished && s.Paused()
}

func (f *follower) follow(ctx context.Context, after *int64) error {
	t, err := f.e.hub.refresh(ctx, f.l)
	if err != nil {
		return taskError(f.l.key.ID, err)
	}
	f.createdAt = t.CreatedAt
	f.l.addFollowers(1)
	defer f.l.addFollowers(-1)
	if after == nil {
		if state := t.Status.State; f.untilFinished && state.Terminal() {
			return a2a.Errorf(a2a.CodeUnsupported, "task %s is %s: it has no more updates to subscribe to", a2a.Quote(f.l.key.ID), state)
		}
		f.seq = t.Seq
		if last := f.ends(t.Status.State); !f.yield(Update{Seq: t.Seq, Task: t, Last: last}, nil) || last {
			return nil
		}
	} else {
		if f.seq = *after; f.seq < 0 || f.seq > t.Seq {
			return a2a.Invalid("Last-Event-ID", "is %d, but the task's last event is %d", f.seq, t.Seq)
		}
		if f.seq == t.Seq && f.ends(t.Status.State) {
			return nil
		}
	}
	return f.stream(ctx, t.ContextID)
}

func (f *follower) stream(ctx context.Context, contextID string) error {
	for {
		if !f.l.version().CreatedAt.Equal(f.createdAt) {
			return a2a.TaskNotFound(f.l.key.ID)
		}
		before := f.seq
		events, changed, ok := f.l.eventsAfter(f.seq)
		more := true
		if ok {
			more = f.yieldAll(events, contextID)
		} else if err := store.WalkLog(ctx, f.e.cfg.Store, f.e.cfg.Memory, f.l.key, f.seq, math.MaxInt64, func(page []store.Event) bool {
			if !f.l.version().CreatedAt.Equal(f.createdAt) {
				return false
			}
			more = f.yieldAll(page, contextID)
			return more
		}); err != nil {
			return taskError(f.l.key.ID, err)
		}
		if !more {
			return nil
		}
		if f.seq == before {
			if f.untilFinished {
				f.l.dropPaused() // do not hold content while waiting for the client
			}
			if f.e.hub.await(ctx, f.l, changed) {
				return nil
			}
		}
	}
}

// yieldAll yields events and reports whether the stream continues.
func (f *follower) yieldAll(events []store.Event, contextID string) bool {
	for i := range events {
		u := f.update(&events[i], contextID)
		final := f.ends(events[i].State) && events[i].Artifact == nil
		u.Last = final && f.isNewest(events[i:])
		u.More = i+1 < len(events)
		if !f.yield(u, nil) || u.Last {
			return false
		}
	}
	return true
}

func (f *follower) update(event *store.Event, contextID string) Update {
	f.seq = event.Seq
	if event.Seq > 1 {
		return Update{Seq: event.Seq, Event: event}
	}
	t := &store.Task{Key: f.l.key, ContextID: contextID}
	t.Apply(*event)
	return Update{Seq: 1, Task: t}
}

// isNewest reports whether the first of rest is the last event of the log, as far as known in
// this process.
func (f *follower) isNewest(rest []store.Event) bool {
	if len(rest) > 1 {
		return false
	}
	return f.l.version().Seq <= rest[0].Seq
}
