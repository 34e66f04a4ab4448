package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// Turn is passed to the handler. It provides the messages to answer and the methods to report
// progress, artifacts and the outcome. It is safe for concurrent use. After the handler has
// returned, its methods return [ErrEnded].
type Turn struct {
	r        *run
	task     *store.Task      // the task when the turn started
	entry    store.QueueEntry // its queue entry at that time
	messages []a2a.Message
	sender   *a2a.Principal // of the newest message that the handler has received; guarded by mu

	earlier *earlierAttempts // stored by earlier attempts; nil in the first attempt

	memory handlerMemory
	files  turnFiles

	mu    sync.Mutex
	ended bool
	// metadata is the task's metadata with the patches of SetMetadata applied.
	metadata  map[string]any
	steps     turnSteps
	artifacts turnArtifacts
	calls     callNumbers
}

func (r *run) newTurn(ctx context.Context) (*Turn, error) {
	task, _ := r.l.snapshot()
	if task == nil { // another run of the task has started and ended
		return nil, ErrLeaseLost
	}
	var before *earlierAttempts
	if entry := r.out.entry(); entry.Turn == r.retriedTurn {
		reader := earlierReader{settings: r.e.settings, task: task, entry: entry}
		if err := r.stores.waitOutRead(ctx, "events of earlier attempts", func() error { return reader.read(ctx) }); err != nil {
			return nil, err
		}
		before = reader.found
	}
	entry := r.out.startTurn(task)
	t := &Turn{
		r: r, task: task, metadata: task.Metadata, entry: entry, messages: task.Unread(entry.SeenSeq), sender: task.Sender, earlier: before,
		memory: handlerMemory{run: r, owner: task.Key.Owner}, artifacts: turnArtifacts{taskID: task.Key.ID, turn: entry.Turn},
	}
	t.files = turnFiles{settings: r.e.settings, key: task.Key, memory: &t.memory, stores: &r.stores}
	r.currentTurn = t
	return t, nil
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

// writeScope returns the step that an artifact write belongs to, nil outside of steps, or an
// error if the artifact cannot be written.
func (t *Turn) writeScope() (*stepScope, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, ErrEnded
	}
	return t.steps.innermost()
}

// TaskID returns the id of the task.
func (t *Turn) TaskID() string { return t.task.Key.ID }

// ContextID returns the id of the context that the task belongs to.
func (t *Turn) ContextID() string { return t.task.ContextID }

// Owner returns the id of the principal that owns the task.
func (t *Turn) Owner() string { return t.task.Key.Owner }

// Principal returns the principal that sent the newest message which the handler has received: from [Turn.Messages],
// [Turn.Inbox] or [Turn.Receive]. Its facts are as its authenticator verified them when the message arrived. A principal
// without facts has only an ID.
func (t *Turn) Principal() a2a.Principal {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sender == nil {
		return a2a.Principal{ID: t.Owner()}
	}
	return *t.sender
}

// Number returns the number of the turn within its task, starting at 1.
func (t *Turn) Number() int { return t.entry.Turn }

// Attempt returns the number of this attempt of the turn, starting at 1. It is above 1 if the
// process of an earlier attempt died or its handler returned an error made by [Retry]. Attempts
// that were requeued because their process stopped are not counted.
func (t *Turn) Attempt() int { return t.entry.Attempt }

// Metadata returns the task's metadata at the start of the turn, without changes of interrupted
// attempts. It must not be modified.
func (t *Turn) Metadata() map[string]any {
	if t.earlier != nil {
		return t.earlier.startMetadata
	}
	return t.task.Metadata
}

// Messages returns the client's messages that this turn must answer, oldest first. It contains
// at least one message.
func (t *Turn) Messages() []a2a.Message { return t.messages }

// TaskHistory returns the messages of the task before this turn, oldest first.
func (t *Turn) TaskHistory() []a2a.Message {
	first := t.entry.SeenSeq
	var earlier []a2a.Message
	for _, e := range t.task.History {
		if !e.Received || e.Seq <= first {
			earlier = append(earlier, e.Message)
		}
	}
	return earlier
}

// Artifacts returns the task's artifacts at the start of the turn. Every attempt gets the same
// artifacts, without artifacts of interrupted attempts. They must not be modified.
func (t *Turn) Artifacts() []a2a.Artifact {
	if t.earlier != nil {
		return t.earlier.startArtifacts
	}
	return t.task.Artifacts
}

// Inbox returns the messages that have arrived since the turn started or since the last call of
// Inbox. This turn must answer them. Messages that the handler does not receive start another
// turn after this one.
func (t *Turn) Inbox() []a2a.Message {
	if t.usable() != nil {
		return nil
	}
	task, _ := t.r.l.snapshot()
	if task == nil { // the run has ended
		return nil
	}
	unread := t.r.out.receive(task)
	if len(unread) > 0 {
		t.mu.Lock()
		t.sender = task.Sender
		t.mu.Unlock()
	}
	if err := t.files.load(t.r.ctx, unread); err != nil {
		t.r.log().Warn("files of a message were not loaded; the handler gets references", "error", err)
	}
	return unread
}

// Receive waits for messages and returns them like Inbox. It returns an error when ctx is done
// or the turn has ended.
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

// Status reports progress: a working event with text. Readers of the task see it; it is not
// added to the history.
func (t *Turn) Status(text string) error {
	if err := t.usable(); err != nil {
		return err
	}
	return t.r.out.enqueue(store.Event{State: a2a.StateWorking, Message: t.r.agentText(text), Progress: true})
}

// SetMetadata changes the task's metadata by a JSON merge patch (RFC 7396): nil removes a
// member, objects (map[string]any) merge recursively, any other value replaces. Values must be
// encodable as JSON. It returns an error if the metadata would exceed Limits.MetadataBytes.
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
	if err := t.r.out.enqueue(store.Event{State: a2a.StateWorking, Message: t.r.out.statusMessage(), Progress: true, Metadata: patch}); err != nil {
		return err
	}
	t.metadata = merged
	return nil
}

// statusMessage returns the message of the task's status after all pending events are
// committed.
func (o *output) statusMessage() *a2a.Message {
	o.mu.Lock()
	for _, e := range slices.Backward(o.pending) {
		if e.Artifact == nil {
			o.mu.Unlock()
			return e.Message
		}
	}
	o.mu.Unlock()
	if t, _ := o.l.snapshot(); t != nil {
		return t.Status.Message
	}
	return nil // the run has ended
}

// Flush commits all progress and artifact chunks reported so far and returns after they are
// stored.
func (t *Turn) Flush() error {
	if err := t.usable(); err != nil {
		return err
	}
	return t.r.out.flush(t.r.ctx)
}

// Reply completes the task with a message. The handler must return the result.
func (t *Turn) Reply(parts ...a2a.Part) error { return t.outcome(a2a.StateCompleted, parts) }

// Say completes the task with a message that answers the client in place of the task, where the
// client and the task allow it; see [Engine.Answer]. Otherwise Say is like Reply. The handler must
// return the result.
func (t *Turn) Say(parts ...a2a.Part) error {
	err := t.outcome(a2a.StateCompleted, parts)
	if o, ok := err.(*Outcome); ok { //nolint:errorlint // outcome does not wrap it
		o.alone = true
	}
	return err
}

// RequireInput pauses the task until the client sends another message. The handler must return
// the result.
func (t *Turn) RequireInput(parts ...a2a.Part) error {
	return t.outcome(a2a.StateInputRequired, parts)
}

// RequireAuth pauses the task until the client has granted the authorization described by the
// message and sends another message. The handler must return the result.
func (t *Turn) RequireAuth(parts ...a2a.Part) error { return t.outcome(a2a.StateAuthRequired, parts) }

// Reject ends the task as rejected: the agent declines to do it. The handler must return the
// result.
func (t *Turn) Reject(parts ...a2a.Part) error { return t.outcome(a2a.StateRejected, parts) }

// Fail ends the task as failed. The handler must return the result.
func (t *Turn) Fail(parts ...a2a.Part) error { return t.outcome(a2a.StateFailed, parts) }

func (t *Turn) outcome(state a2a.TaskState, parts []a2a.Part) error {
	o := &Outcome{State: state}
	if len(parts) == 0 {
		return o
	}
	for _, p := range parts {
		if err := checkEncodable(p); err != nil {
			return a2a.Invalid("parts", "cannot be stored: %s", err)
		}
	}
	parts, err := t.files.store(parts)
	if err != nil {
		return err
	}
	if err := t.r.out.addBytes(int64(store.PartsSize(parts))); err != nil {
		return err
	}
	o.Message = store.Event{Message: t.r.agentMessage(parts)}.Copy().Message
	return o
}
