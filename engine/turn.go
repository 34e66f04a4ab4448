package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// Turn is what a handler is given: the messages that call for work, and the
// means to answer. It is safe for concurrent use and ends when the handler
// returns; its methods then return [ErrEnded].
type Turn struct {
	r        *run
	task     *store.Task // as the turn began
	run      store.Run   // its place in the queue then
	messages []a2a.Message

	earlier *earlier // what earlier attempts left; nil in the first

	reserved reserved

	mu    sync.Mutex
	ended bool
	// metadata is the task's, with what SetMetadata has merged.
	metadata map[string]any
	names    map[string]int // uses of each name of a step and of an artifact
	scopes   []*scope       // steps that run, in the order of their starts
	writers  []*ArtifactWriter
	open     map[string]*ArtifactWriter // by name, the newest that is not complete
	// generations counts the events that replaced an artifact, by id, where earlier
	// attempts wrote or ids are explicit.
	generations map[string]int
	// order has the ids of the artifacts that this attempt has begun, wrote is the set
	// of them; both only after the first attempt.
	order []string
	wrote map[string]bool
}

func (r *run) newTurn(ctx context.Context) (*Turn, error) {
	task, _ := r.l.snapshot()
	if task == nil { // another run of the task has begun and ended
		return nil, ErrLeaseLost
	}
	var before *earlier
	if r.queue.Turn == r.retried {
		var err error
		if before, err = r.readEarlier(ctx, task); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen, r.total = task.ReceivedSeq, task.Bytes
	r.turnNow = &Turn{
		r: r, task: task, metadata: task.Metadata, run: r.queue, messages: task.Unread(r.queue.SeenSeq), names: make(map[string]int), earlier: before,
	}
	return r.turnNow, nil
}

func (t *Turn) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

func (t *Turn) usable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return ErrEnded
	}
	return nil
}

// writing returns the step that a write to an artifact belongs to, nil outside of
// steps, or why the artifact cannot be written.
func (t *Turn) writing() (*scope, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writable()
}

// writable is writing for a caller that holds t.mu.
func (t *Turn) writable() (*scope, error) {
	if t.ended {
		return nil, ErrEnded
	}
	return t.scope()
}

// TaskID is the task's id.
func (t *Turn) TaskID() string { return t.task.Key.ID }

// ContextID is the id of the conversation the task belongs to.
func (t *Turn) ContextID() string { return t.task.ContextID }

// Owner is the id of the principal whose task it is.
func (t *Turn) Owner() string { return t.task.Key.Owner }

// Number counts the task's turns, from 1.
func (t *Turn) Number() int { return t.run.Turn }

// Attempt counts how often this turn has begun, from 1. Above 1, an earlier
// attempt ended with its process or asked for another; a turn that a stopping
// process handed back has not been counted.
func (t *Turn) Attempt() int { return t.run.Attempt }

// Metadata is the task's metadata as the turn began. It must not be changed.
func (t *Turn) Metadata() map[string]any { return t.task.Metadata }

// Messages are the client's messages that this turn is to answer, oldest first;
// at least one.
func (t *Turn) Messages() []a2a.Message { return t.messages }

// TaskHistory are the messages of the task before this turn, oldest first.
func (t *Turn) TaskHistory() []a2a.Message {
	first := t.run.SeenSeq
	var earlier []a2a.Message
	for _, e := range t.task.History {
		if !e.Received || e.Seq <= first {
			earlier = append(earlier, e.Message)
		}
	}
	return earlier
}

// Artifacts returns the task's artifacts as the turn started, in every attempt: without
// those of an attempt that was interrupted. They must not be changed.
func (t *Turn) Artifacts() []a2a.Artifact {
	if t.earlier != nil {
		return t.earlier.start
	}
	return t.task.Artifacts
}

// Inbox returns the messages that have arrived since the turn began or Inbox was
// last called, and takes them: the turn answers them too. Messages not taken
// begin a turn of their own after this one.
func (t *Turn) Inbox() []a2a.Message {
	if t.usable() != nil {
		return nil
	}
	task, _ := t.r.l.snapshot()
	if task == nil { // the run has ended
		return nil
	}
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	unread := task.Unread(t.r.seen)
	t.r.seen = max(t.r.seen, task.ReceivedSeq)
	return unread
}

// Receive waits for messages as Inbox returns them, until ctx is done or the run
// is over.
func (t *Turn) Receive(ctx context.Context) ([]a2a.Message, error) {
	for {
		if err := t.usable(); err != nil {
			return nil, err
		}
		_, changed := t.r.l.snapshot()
		if messages := t.Inbox(); len(messages) > 0 {
			return messages, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-t.r.ctx.Done():
			return nil, context.Cause(t.r.ctx)
		}
	}
}

// Status tells progress: a working event with text, which is shown to those who
// follow and does not join the history.
func (t *Turn) Status(text string) error {
	if err := t.usable(); err != nil {
		return err
	}
	return t.r.enqueue(store.Event{State: a2a.StateWorking, Message: t.r.say(text), Progress: true})
}

// SetMetadata changes the task's metadata by a JSON merge patch (RFC 7396): nil removes a
// member, objects (map[string]any) merge recursively, any other value replaces. A value must
// be one that JSON can express. It returns an error if the metadata would exceed
// Limits.MetadataBytes.
func (t *Turn) SetMetadata(patch map[string]any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return ErrEnded
	}
	if _, err := wire.Marshal(patch); err != nil {
		return a2a.Invalid("metadata", "cannot be stored: %s", err)
	}
	patch = store.CopyMap(patch)
	merged := store.MergePatch(t.metadata, patch)
	if err := t.r.e.checkMap("metadata", merged); err != nil {
		return err
	}
	if err := t.r.enqueue(store.Event{State: a2a.StateWorking, Message: t.r.saying(), Progress: true, Metadata: patch}); err != nil {
		return err
	}
	t.metadata = merged
	return nil
}

// saying is the message of the task's status once what is pending is committed.
func (r *run) saying() *a2a.Message {
	r.mu.Lock()
	for _, e := range slices.Backward(r.pending) {
		if e.Artifact == nil {
			r.mu.Unlock()
			return e.Message
		}
	}
	r.mu.Unlock()
	if t, _ := r.l.snapshot(); t != nil {
		return t.Status.Message
	}
	return nil // the run has ended
}

// Flush commits what has been told so far and returns when it is stored.
func (t *Turn) Flush() error {
	if err := t.usable(); err != nil {
		return err
	}
	return t.r.flush()
}

// Reply completes the task with a message. Return what it returns.
func (t *Turn) Reply(parts ...a2a.Part) error { return t.outcome(a2a.StateCompleted, parts) }

// RequireInput pauses the task until the client sends another message. Return
// what it returns.
func (t *Turn) RequireInput(parts ...a2a.Part) error {
	return t.outcome(a2a.StateInputRequired, parts)
}

// RequireAuth pauses the task until the client has authorised what the message
// says and sends another message. Return what it returns.
func (t *Turn) RequireAuth(parts ...a2a.Part) error { return t.outcome(a2a.StateAuthRequired, parts) }

// Reject ends the task: the agent will not do it. Return what it returns.
func (t *Turn) Reject(parts ...a2a.Part) error { return t.outcome(a2a.StateRejected, parts) }

// Fail ends the task: the agent could not do it. Return what it returns.
func (t *Turn) Fail(parts ...a2a.Part) error { return t.outcome(a2a.StateFailed, parts) }

func (t *Turn) outcome(state a2a.TaskState, parts []a2a.Part) error {
	o := &Outcome{State: state}
	if len(parts) == 0 {
		return o
	}
	for _, p := range parts {
		if err := encodable(p); err != nil {
			return a2a.Invalid("parts", "cannot be stored: %s", err)
		}
	}
	if err := t.r.grow(int64(store.PartsSize(parts))); err != nil {
		return err
	}
	o.Message = store.Event{Message: t.r.sayParts(parts)}.Copy().Message
	return o
}
