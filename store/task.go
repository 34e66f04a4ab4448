package store

import (
	"maps"
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
	// Append adds the artifact's parts to those of the same id.
	Append bool `json:"append,omitempty"`
	// LastChunk completes the artifact.
	LastChunk bool `json:"lastChunk,omitempty"`

	// Metadata is merged into the task's.
	Metadata map[string]any `json:"metadata,omitempty"`
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
	Run         Run
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
	// DueAt is when a queued task may be claimed; the zero time is at once.
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
}

// Lease is the right to run a task.
type Lease struct {
	Worker string
	// Fence grows with every claim of the task.
	Fence int64
	// Until is when others may claim the task.
	Until time.Time
}

// Apply folds events, whose Seq is set, into t. It never changes a slice, map or
// message that t had before: snapshots taken earlier stay as they were.
func (t *Task) Apply(events ...Event) {
	for i := range events {
		t.apply(&events[i])
	}
}

func (t *Task) apply(e *Event) {
	t.Seq = e.Seq
	if e.Seq == 1 {
		t.CreatedAt = e.Time
	}
	if len(e.Metadata) > 0 {
		merged := maps.Clone(t.Metadata)
		if merged == nil {
			merged = make(map[string]any, len(e.Metadata))
		}
		maps.Copy(merged, e.Metadata)
		t.Metadata = merged
	}
	if e.Artifact != nil {
		t.applyArtifact(e)
		return
	}
	t.Status = a2a.TaskStatus{State: e.State, Message: e.Message, Timestamp: e.Time}
	if e.Received != nil {
		t.History = append(slices.Clip(t.History), Entry{Seq: e.Seq, Received: true, Message: *e.Received})
		t.ReceivedSeq = e.Seq
	}
	if e.Message != nil && !e.Progress {
		t.History = append(slices.Clip(t.History), Entry{Seq: e.Seq, Message: *e.Message})
	}
}

func (t *Task) applyArtifact(e *Event) {
	i := slices.IndexFunc(t.Artifacts, func(a a2a.Artifact) bool { return a.ID == e.Artifact.ID })
	if i < 0 {
		t.Artifacts = append(slices.Clip(t.Artifacts), *e.Artifact)
		return
	}
	next := *e.Artifact
	if e.Append {
		next = merge(t.Artifacts[i], next)
	}
	t.Artifacts = slices.Clone(t.Artifacts)
	t.Artifacts[i] = next
}

// merge adds a chunk to an artifact. Text that goes on in plain text joins the
// last part, so that a text streamed in chunks reads as one part.
func merge(a, chunk a2a.Artifact) a2a.Artifact {
	parts := slices.Clip(a.Parts)
	for _, p := range chunk.Parts {
		if joined, ok := joinText(parts, p); ok {
			parts = append(slices.Clone(parts[:len(parts)-1]), joined)
			continue
		}
		parts = append(parts, p)
	}
	a.Parts = parts
	if chunk.Name != "" {
		a.Name = chunk.Name
	}
	if chunk.Description != "" {
		a.Description = chunk.Description
	}
	if len(chunk.Metadata) > 0 {
		metadata := maps.Clone(a.Metadata)
		if metadata == nil {
			metadata = make(map[string]any)
		}
		maps.Copy(metadata, chunk.Metadata)
		a.Metadata = metadata
	}
	return a
}

func joinText(parts []a2a.Part, p a2a.Part) (a2a.Part, bool) {
	if len(parts) == 0 {
		return nil, false
	}
	last, ok := parts[len(parts)-1].(a2a.TextPart)
	next, ok2 := p.(a2a.TextPart)
	if !ok || !ok2 || len(last.Metadata) > 0 || len(next.Metadata) > 0 {
		return nil, false
	}
	last.Text += next.Text
	return last, true
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

// Cut applies opts to a whole task: it keeps the newest messages and drops the
// artifacts if so asked. Backends that read everything use it.
func (t *Task) Cut(opts TaskOptions) {
	if n := opts.History; n != nil && *n < len(t.History) {
		t.History = t.History[len(t.History)-max(*n, 0):]
	}
	if opts.OmitArtifacts {
		t.Artifacts = nil
	}
}

// Time returns t as stores keep it: in UTC, to the millisecond.
func Time(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
