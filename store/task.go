package store

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Key names a task. Both parts are non-empty.
type Key struct {
	Owner string
	ID    string
}

// Event is one entry of a task's log. It tells a status, or an artifact chunk
// when Artifact is set.
type Event struct {
	// Seq is the place in the log, from 1. The store assigns it at commit and
	// ignores what is passed in.
	Seq  int64     `json:"-"`
	Time time.Time `json:"time"`
	// State is the task's state after the event.
	State a2a.TaskState `json:"state"`
	// Message is what the agent says with this status.
	Message *a2a.Message `json:"message,omitempty"`
	// Progress marks a Message that is shown but does not join the history.
	Progress bool `json:"progress,omitempty"`
	// Received is a message of the client that joins the history here.
	Received *a2a.Message `json:"received,omitempty"`

	Artifact *a2a.Artifact `json:"artifact,omitempty"`
	// Append adds the artifact's parts to those of the same id. Without it the
	// artifact replaces the one of the same id, or withdraws it if it has no parts.
	Append bool `json:"append,omitempty"`
	// LastChunk completes the artifact.
	LastChunk bool `json:"lastChunk,omitempty"`

	// Metadata is a [MergePatch] of the task's metadata.
	Metadata map[string]any `json:"metadata,omitempty"`
}

// Withdraws reports whether the event withdraws an artifact: the task no longer has it.
func (e *Event) Withdraws() bool {
	return e.Artifact != nil && !e.Append && len(e.Artifact.Parts) == 0
}

// Entry is a message of a task's history.
type Entry struct {
	// Seq is the event with which the message joined.
	Seq int64 `json:"seq"`
	// Received marks a message of the client.
	Received bool        `json:"received,omitempty"`
	Message  a2a.Message `json:"message"`
}

// Task is the fold of a task's log, with its place in the work queue.
type Task struct {
	Key       Key
	ContextID string
	// Seq is the sequence of the last event: the task's version.
	Seq    int64
	Status a2a.TaskStatus
	// History and Artifacts may have been cut short by TaskOptions.
	History   []Entry
	Artifacts []a2a.Artifact
	Metadata  map[string]any
	CreatedAt time.Time
	// ReceivedSeq is the sequence of the newest message of the client.
	ReceivedSeq int64
	// Bytes is the size of the content of all events: the sum of Event.Size. No part of the
	// task is larger.
	Bytes int64
	// Outline is set when content was left out because of TaskOptions.Outline, ClaimParams.Whole
	// or Query.Known.
	Outline bool
	Run     Run
	// LogSize is about how many bytes of the log a read of the task reads, where the store
	// that read it counts them. See SnapshotDue.
	LogSize int64

	// fold has what makes applying many events cheap; it is not cloned.
	fold *folding
}

// TaskVersion is what Versions returns of a task.
type TaskVersion struct {
	// CreatedAt differs between tasks that had the same key one after the other.
	CreatedAt time.Time
	Seq       int64
	Bytes     int64
	Run       Run
}

// Same reports whether two versions are of the same task with the same content. The fence
// distinguishes tasks that had the same key one after the other: see FirstFence.
func (v TaskVersion) Same(w TaskVersion) bool {
	return v.Seq == w.Seq && v.Run.Lease.Fence == w.Run.Lease.Fence && v.CreatedAt.Equal(w.CreatedAt)
}

// Version returns the task's version.
func (t *Task) Version() TaskVersion {
	return TaskVersion{CreatedAt: t.CreatedAt, Seq: t.Seq, Bytes: t.Bytes, Run: t.Run}
}

// Phase is where a task stands in the work queue.
type Phase string

// The phases.
const (
	// PhaseIdle: there is nothing to run.
	PhaseIdle Phase = "idle"
	// PhaseQueued: to be claimed once DueAt has come.
	PhaseQueued Phase = "queued"
	// PhaseLeased: a worker runs it until its lease ends.
	PhaseLeased Phase = "leased"
)

// Run is a task's place in the work queue.
type Run struct {
	Phase Phase
	// DueAt is when a queued task may be claimed; the zero time is at once. It
	// means nothing, and need not be kept, while the task is not queued.
	DueAt time.Time
	// Lease is the current or, when not leased, the last lease.
	Lease Lease
	// Turn counts the runs that had a beginning and an end of their own: it grows
	// when a task goes on after a pause or with messages left unread.
	Turn int
	// Attempt counts the claims of this turn.
	Attempt int
	// SeenSeq is the sequence through which messages have been dealt with.
	SeenSeq int64
	// StartSeq is the version of the task at which the current turn started: the
	// events of the turn come after it.
	StartSeq int64
}

// Lease is the right to run a task.
type Lease struct {
	Worker string
	// Fence grows with every claim of the task. That of a new task starts at
	// FirstFence, so that a lease of a deleted task is not valid for a new one with
	// the same id.
	Fence int64
	// Until is when others may claim the task. It need not be kept once the task
	// is not leased.
	Until time.Time
}

// FirstFence returns the fence of a task that is created at a time: the nanoseconds
// since 1970. A task is not claimed once per nanosecond, so no fence of a deleted task
// is used again.
func FirstFence(created time.Time) int64 { return created.UnixNano() }

// Apply folds events, whose Seq is set, into t. Copies of t made by Clone stay
// as they were; a plain copy of the struct must not be applied to as well.
func (t *Task) Apply(events ...Event) {
	for i := range events {
		t.apply(&events[i])
	}
}

// Clone returns a copy that later calls of Apply, on t or on the copy, leave
// alone. It is cheap: messages, artifacts and maps are shared, and are not to be
// changed through either.
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
		t.History = append(t.History, Entry{Seq: e.Seq, Received: true, Message: *e.Received})
		t.ReceivedSeq = e.Seq
	}
	if e.Message != nil && !e.Progress {
		t.History = append(t.History, Entry{Seq: e.Seq, Message: *e.Message})
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

// AsOutline returns the task without its content: messages, artifacts and metadata.
func (t *Task) AsOutline() *Task {
	return &Task{
		Key: t.Key, ContextID: t.ContextID, Seq: t.Seq, Status: a2a.TaskStatus{State: t.Status.State, Timestamp: t.Status.Timestamp},
		CreatedAt: t.CreatedAt, ReceivedSeq: t.ReceivedSeq, Bytes: t.Bytes, Run: t.Run, Outline: true,
	}
}

// Cut applies opts to a whole task: it keeps the newest messages and drops the
// artifacts if so asked. Backends that read everything use it.
func (t *Task) Cut(opts TaskOptions) {
	if opts.Outline {
		*t = *t.AsOutline()
		return
	}
	if n := opts.History; n != nil && *n < len(t.History) {
		// A copy, so that the messages left out are not held in memory.
		t.History = slices.Clone(t.History[len(t.History)-max(*n, 0):])
	}
	if opts.OmitArtifacts {
		t.Artifacts, t.fold = nil, nil
	}
}

// Time returns t as stores keep it: in UTC, to the millisecond.
func Time(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
