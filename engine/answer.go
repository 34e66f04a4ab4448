package engine

import (
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// maxClaims is the maximum number of attempts of a task for which Answer returns a message. After
// more attempts, the task is the answer.
const maxClaims = 64

// Answer waits until the handler of a new task has reported something, or until ctx is done. If
// the handler ended its turn with [Turn.Say], Answer returns the message that answers the client
// in place of the task, and its sequence. Otherwise it returns nil: the task is the answer. The
// message replaces the task only if the log has no other output of the agent: no status with a
// message, no artifact, no metadata, no other turn.
func (e *Engine) Answer(ctx context.Context, p a2a.Principal, id string) (*a2a.Message, int64) {
	created := int64(1)
	for u, err := range e.Follow(ctx, p, id, &created) {
		if err != nil {
			break // the caller reads the task next and gets the error
		}
		if !isClaim(u.Event) {
			return u.Event.Answer(), u.Seq
		}
	}
	return nil, 0
}

// nothingElse reports whether the log has only the message that created the task, and claims.
func (o *output) nothingElse() bool {
	task, _ := o.l.snapshot()
	o.mu.Lock()
	pending := len(o.pending)
	o.mu.Unlock()
	if task == nil || pending > 0 || len(task.History) != 1 || task.Seq > 1+maxClaims {
		return false
	}
	if task.Seq <= 2 { // the second event of a task that runs is its claim
		return true
	}
	events, err := o.hub.cfg.Store.Events(o.ctx, o.l.key, 1, maxClaims)
	for i := range events {
		if !isClaim(&events[i]) {
			return false
		}
	}
	return err == nil
}

// isClaim reports whether an event records only that an attempt started.
func isClaim(e *store.Event) bool {
	return e.State == a2a.StateWorking && e.Message == nil && e.Received == nil && e.Artifact == nil && e.Metadata == nil
}
