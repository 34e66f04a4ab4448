package sqlrow

import (
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
	"github.com/holdfast-dev/holdfast/store/rules"
)

// Task is a row of task_rows: the data for guards, lists and claims of a task. Times are in
// milliseconds since 1970.
type Task struct {
	PK          int64     `col:"pk"`
	Key         store.Key `col:"owner,id"`
	ContextID   string    `col:"context_id"`
	State       string    `col:"state"`
	StateAt     int64     `col:"state_at"`
	Seq         int64     `col:"seq"`
	ReceivedSeq int64     `col:"received_seq"`
	Checkpoint  int64     `col:"checkpoint"` // sequence of the log row with the snapshot, or 1
	Phase       Phase     `col:"phase"`
	DueAt       int64     `col:"due_at"`
	Worker      string    `col:"lease_worker"`
	Fence       int64     `col:"fence"`
	LeaseUntil  int64     `col:"lease_until"`
	Turn        int64     `col:"turn"`
	Attempt     int64     `col:"attempt"`
	SeenSeq     int64     `col:"seen_seq"`
	StartSeq    int64     `col:"turn_start_seq"`
	CreatedAt   int64     `col:"created_at"`
	UpdatedAt   int64     `col:"updated_at"`
	Bytes       int64     `col:"bytes"` // size of the content of its events
}

// QueueColumns are the columns of a queue entry.
const QueueColumns = "phase due_at lease_worker fence lease_until turn attempt seen_seq turn_start_seq"

// Value returns the task without the content of its log.
func (t *Task) Value() *store.Task {
	return &store.Task{
		Key: t.Key, ContextID: t.ContextID, Seq: t.Seq,
		CreatedAt: encoding.FromMillis(t.CreatedAt), ReceivedSeq: t.ReceivedSeq, Bytes: t.Bytes,
		Queue: store.QueueEntry{
			Phase: t.Phase.queuePhase(), DueAt: encoding.FromMillis(t.DueAt),
			Lease: store.Lease{Worker: t.Worker, Fence: t.Fence, Until: encoding.FromMillis(t.LeaseUntil)},
			Turn:  int(t.Turn), Attempt: int(t.Attempt), SeenSeq: t.SeenSeq, StartSeq: t.StartSeq,
		},
	}
}

// Outline returns the outline of the task, as [store.Task.AsOutline] does.
func (t *Task) Outline() *store.Task {
	task := t.Value()
	task.Status = a2a.TaskStatus{State: a2a.TaskState(t.State), Timestamp: encoding.FromMillis(t.StateAt)}
	task.Outline = true
	return task
}

// CopyTo sets the fields of a task that a partly read log does not determine.
func (t *Task) CopyTo(task *store.Task) {
	if task != nil {
		task.Seq, task.ReceivedSeq, task.CreatedAt, task.Bytes = t.Seq, t.ReceivedSeq, encoding.FromMillis(t.CreatedAt), t.Bytes
	}
}

// SetQueueEntry sets the columns of the queue entry.
func (t *Task) SetQueueEntry(q *store.QueueEntry) {
	t.Phase, t.DueAt = phaseOf(q.Phase, q.DueAt), encoding.Millis(q.DueAt)
	t.Worker, t.Fence, t.LeaseUntil = q.Lease.Worker, q.Lease.Fence, encoding.Millis(q.Lease.Until)
	t.Turn, t.Attempt, t.SeenSeq, t.StartSeq = int64(q.Turn), int64(q.Attempt), q.SeenSeq, q.StartSeq
}

// Advance updates the row by events. It reports whether the status changed.
func (t *Task) Advance(events []store.Event) (status bool) {
	for i := range events {
		e := &events[i]
		t.Seq++
		t.Bytes += int64(e.Size())
		if t.Seq == 1 {
			t.CreatedAt = encoding.Millis(e.Time)
		}
		t.UpdatedAt = encoding.Millis(e.Time)
		if e.Artifact != nil {
			continue
		}
		status = true
		t.State, t.StateAt = string(e.State), encoding.Millis(e.Time)
		if e.Received != nil {
			t.ReceivedSeq = t.Seq
		}
	}
	return status
}

// Seen returns the values that package rules checks before the task is changed or deleted.
func (t *Task) Seen() rules.Task {
	s := rules.Task{Seq: t.Seq, ReceivedSeq: t.ReceivedSeq, Finished: a2a.TaskState(t.State).Terminal() && t.Phase == PhaseIdle}
	if t.Phase == PhaseLeased {
		s.Worker, s.Fence = t.Worker, t.Fence
	}
	return s
}

// ErrSuperseded reports that the snapshot of a task was replaced after its row was read. The
// task can still be built from the start of its log.
var ErrSuperseded = errors.New("snapshot was replaced")

// Fold applies a row of the log to a task: the current snapshot, if the row has it, or else the
// events. snapshot is nil if the row has none. It returns [ErrSuperseded] if the row should have the
// current snapshot and does not.
func (t *Task) Fold(task *store.Task, first int64, snapshot, events []byte, omitArtifacts bool) error {
	if first == t.Checkpoint && snapshot != nil {
		task.LogSize = int64(len(snapshot))
		if err := encoding.DecodeSnapshot(task, snapshot, omitArtifacts); err != nil {
			return fmt.Errorf("task %s: %w", t.Key.ID, err)
		}
		return nil
	}
	if first == t.Checkpoint && first > 1 {
		return ErrSuperseded
	}
	task.LogSize += int64(len(events))
	decoded, err := DecodeEvents(events, first, t.Key, t.ContextID)
	if err == nil {
		task.Apply(decoded...)
	}
	return err
}

// DecodeEvents is [encoding.DecodeEvents] with an error that names the task.
func DecodeEvents(data []byte, first int64, task store.Key, contextID string) ([]store.Event, error) {
	events, err := encoding.DecodeEvents(data, first, task, contextID)
	if err != nil {
		return nil, fmt.Errorf("task %s: event %d: %w", task.ID, first, err)
	}
	return events, nil
}
