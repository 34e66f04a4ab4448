package store

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Key identifies a task. Both parts are non-empty.
type Key struct {
	Owner string
	ID    string
}

// Event is one entry of a task's log: an artifact chunk if Artifact is set, else a
// status.
type Event struct {
	// Seq is the position in the log, from 1. The store assigns it at commit and ignores
	// the value that is passed in.
	Seq  int64     `json:"-"`
	Time time.Time `json:"time"`
	// State is the task's state after the event.
	State a2a.TaskState `json:"state"`
	// Message is the agent's message of this status.
	Message *a2a.Message `json:"message,omitempty"`
	// Progress marks a Message that is not added to the history.
	Progress bool `json:"progress,omitempty"`
	// Received is a message of the client, which this event adds to the history.
	Received *a2a.Message `json:"received,omitempty"`
	// Sender is the principal that sent Received; nil if only its ID is known, which is then the task's owner.
	Sender *a2a.Principal `json:"sender,omitempty"`

	Artifact *a2a.Artifact `json:"artifact,omitempty"`
	// Append appends the parts of Artifact to the artifact with the same id. Otherwise
	// Artifact replaces that one, or removes it if it has no parts.
	Append bool `json:"append,omitempty"`
	// LastChunk marks the last chunk of the artifact.
	LastChunk bool `json:"lastChunk,omitempty"`

	// Metadata is a patch of the task's metadata; see [MergePatch].
	Metadata map[string]any `json:"metadata,omitempty"`
}

// RemovesArtifact reports whether the event removes an artifact from the task.
func (e *Event) RemovesArtifact() bool {
	return e.Artifact != nil && !e.Append && len(e.Artifact.Parts) == 0
}

// Answer returns the agent's message if it completes the task and answers the client in place of
// the task, else nil. Such a message names no task.
func (e *Event) Answer() *a2a.Message {
	if e.State != a2a.StateCompleted || e.Message == nil || e.Message.TaskID != "" {
		return nil
	}
	return e.Message
}

// HistoryEntry is a message of a task's history.
type HistoryEntry struct {
	// Seq is the sequence of the event that added the message.
	Seq int64 `json:"seq"`
	// Received marks a message of the client.
	Received bool        `json:"received,omitempty"`
	Message  a2a.Message `json:"message"`
}

// Task is the state of a task: the result of applying the events of its log, and its
// queue entry.
type Task struct {
	Key       Key
	ContextID string
	// Seq is the sequence of the last event. It is the task's version.
	Seq    int64
	Status a2a.TaskStatus
	// History and Artifacts are incomplete if TaskOptions limited the read.
	History   []HistoryEntry
	Artifacts []a2a.Artifact
	Metadata  map[string]any
	CreatedAt time.Time
	// ReceivedSeq is the sequence of the newest message of the client.
	ReceivedSeq int64
	// Sender is the Sender of the newest message of the client; see [Event.Sender].
	Sender *a2a.Principal
	// Bytes is the sum of Event.Size of all events. No part of the task is larger.
	Bytes int64
	// Outline reports that the task was read without its content, because of
	// TaskOptions.Outline, ClaimParams.OutlineAbove or Query.Cached.
	Outline bool
	Queue   QueueEntry
	// LogSize is the approximate number of bytes of the log that a read of the task
	// reads, or 0 if the store does not count them. See package encoding.
	LogSize int64

	// fold makes it cheap to apply many events. Clones do not share it.
	fold *foldState
}

// TaskVersion is the result of Versions for one task.
type TaskVersion struct {
	// CreatedAt distinguishes tasks that had the same key at different times.
	CreatedAt time.Time
	Seq       int64
	Bytes     int64
	Queue     QueueEntry
}

// Same reports whether two versions are of the same task with the same content. The fence
// distinguishes tasks that had the same key at different times; see FirstFence.
func (v TaskVersion) Same(w TaskVersion) bool {
	return v.Seq == w.Seq && v.Queue.Lease.Fence == w.Queue.Lease.Fence && v.CreatedAt.Equal(w.CreatedAt)
}

// Version returns the task's version.
func (t *Task) Version() TaskVersion {
	return TaskVersion{CreatedAt: t.CreatedAt, Seq: t.Seq, Bytes: t.Bytes, Queue: t.Queue}
}

// Phase is the state of a queue entry.
type Phase string

// Phases.
const (
	// PhaseIdle: the task has no work to do.
	PhaseIdle Phase = "idle"
	// PhaseQueued: workers can claim the task from DueAt.
	PhaseQueued Phase = "queued"
	// PhaseLeased: a worker executes the task until its lease ends.
	PhaseLeased Phase = "leased"
)

// QueueEntry records whether a task is idle, waits for a worker, or is leased to one.
type QueueEntry struct {
	Phase Phase
	// DueAt is when a queued task can be claimed; the zero time means immediately. Stores
	// need not keep it while the task is not queued.
	DueAt time.Time
	// Lease is the current lease if the task is leased, else the last one.
	Lease Lease
	// Turn numbers the turns of the task. It grows when the task resumes after a pause or
	// continues with unread messages.
	Turn int
	// Attempt is the number of claims of the current turn.
	Attempt int
	// SeenSeq is the sequence up to which the agent has processed messages.
	SeenSeq int64
	// StartSeq is the version of the task at which the current turn started. The events
	// of the turn have greater sequences.
	StartSeq int64
}

// Lease is the right of a worker to execute a task.
type Lease struct {
	Worker string
	// Fence is the fencing token. Every claim of the task increments it. It starts at
	// FirstFence, so that a lease of a deleted task is not valid for a new task with the
	// same id.
	Fence int64
	// Until is when other workers can claim the task. Stores need not keep it while the
	// task is not leased.
	Until time.Time
}

// FirstFence returns the fence of a task that is created at the given time: nanoseconds
// since 1970. Claims are less frequent than one per nanosecond, so the fences of a
// deleted task are not used again.
func FirstFence(created time.Time) int64 { return created.UnixNano() }

// Apply applies events to t. Their Seq must be set. It does not affect copies made by
// Clone. After a plain copy of the struct, call Apply on only one of the two.
func (t *Task) Apply(events ...Event) {
	for i := range events {
		t.apply(&events[i])
	}
}

// Answer returns the message that completed the task and answers the client in place of the task,
// nil if there is none; see [Event.Answer].
func (t *Task) Answer() *a2a.Message {
	last := Event{State: t.Status.State, Message: t.Status.Message}
	return last.Answer()
}

// Clone returns a copy of t. Apply on either of them does not affect the other. Clone is
// cheap: both share messages, artifacts and maps, which callers must not modify.
func (t *Task) Clone() *Task {
	c := *t
	c.History, c.Artifacts, c.fold = slices.Clip(t.History), slices.Clip(t.Artifacts), nil
	if t.fold != nil {
		t.fold.cloned.Store(true)
	}
	return &c
}

func (t *Task) apply(e *Event) {
	t.Seq, t.Bytes = e.Seq, t.Bytes+int64(e.Size())
	if e.Seq == 1 {
		t.CreatedAt = e.Time
	}
	t.Metadata = MergePatch(t.Metadata, e.Metadata)
	if e.Artifact != nil {
		t.applyArtifact(e)
		return
	}
	t.Status = a2a.TaskStatus{State: e.State, Message: e.Message, Timestamp: e.Time}
	if e.Received != nil {
		t.History = append(t.History, HistoryEntry{Seq: e.Seq, Received: true, Message: *e.Received})
		t.ReceivedSeq, t.Sender = e.Seq, e.Sender
	}
	if e.Message != nil && !e.Progress {
		t.History = append(t.History, HistoryEntry{Seq: e.Seq, Message: *e.Message})
	}
}

// Unread returns the client's messages after the given sequence, oldest first.
func (t *Task) Unread(after int64) []a2a.Message {
	var unread []a2a.Message
	for _, e := range t.History {
		if e.Received && e.Seq > after {
			unread = append(unread, e.Message)
		}
	}
	return unread
}

// AsOutline returns a copy of the task without its content: messages, artifacts and
// metadata.
func (t *Task) AsOutline() *Task {
	return &Task{
		Key: t.Key, ContextID: t.ContextID, Seq: t.Seq, Status: a2a.TaskStatus{State: t.Status.State, Timestamp: t.Status.Timestamp},
		CreatedAt: t.CreatedAt, ReceivedSeq: t.ReceivedSeq, Bytes: t.Bytes, Queue: t.Queue, Outline: true,
	}
}

// Cut removes the content that opts exclude from a completely read task. Backends that
// always read everything use it.
func (t *Task) Cut(opts TaskOptions) {
	if opts.Outline {
		*t = *t.AsOutline()
		return
	}
	if n := opts.History; n != nil && *n < len(t.History) {
		// A copy, so that the removed messages can be garbage-collected.
		t.History = slices.Clone(t.History[len(t.History)-max(*n, 0):])
	}
	if opts.OmitArtifacts {
		t.Artifacts, t.fold = nil, nil
	}
}

// Time returns t with the precision of stores: in UTC, truncated to milliseconds.
func Time(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
