package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// The stored phases.
const (
	phaseIdle int64 = iota
	phaseReady
	phaseLeased
	phaseWaiting
)

// phaseNumber returns the stored phase of a queue entry. A task with a due time is waiting
// until a claim promotes it. Claims read only ready tasks, so waiting tasks cost them nothing.
func phaseNumber(p store.Phase, dueAt time.Time) int64 {
	switch p {
	case store.PhaseQueued:
		if !dueAt.IsZero() {
			return phaseWaiting
		}
		return phaseReady
	case store.PhaseLeased:
		return phaseLeased
	case store.PhaseIdle:
	}
	return phaseIdle
}

func phaseName(n int64) store.Phase {
	switch n {
	case phaseReady, phaseWaiting:
		return store.PhaseQueued
	case phaseLeased:
		return store.PhaseLeased
	}
	return store.PhaseIdle
}

// taskRow is a row of task_rows: the data for guards, lists and claims of a task.
type taskRow struct {
	pk          int64
	key         store.Key
	contextID   string
	state       string
	stateAt     int64
	seq         int64
	receivedSeq int64
	checkpoint  int64
	phase       int64
	dueAt       int64
	worker      string
	fence       int64
	leaseUntil  int64
	turn        int64
	attempt     int64
	seenSeq     int64
	startSeq    int64
	createdAt   int64
	updatedAt   int64
	bytes       int64 // size of the content of its events
}

// rowColumns are the columns of task_rows that scan reads, in its order.
const rowColumns = `t.pk, t.owner, t.id, t.context_id, t.state, t.state_at, t.seq, t.received_seq, t.checkpoint,
	t.phase, t.due_at, t.lease_worker, t.fence, t.lease_until, t.turn, t.attempt, t.seen_seq, t.turn_start_seq, t.created_at, t.updated_at, t.bytes`

// rowWidth is the number of rowColumns.
const rowWidth = 21

func (t *taskRow) scan(r record) {
	*t = taskRow{
		pk: r.int(0), key: store.Key{Owner: r.text(1), ID: r.text(2)}, contextID: r.text(3),
		state: r.text(4), stateAt: r.int(5), seq: r.int(6), receivedSeq: r.int(7), checkpoint: r.int(8),
		phase: r.int(9), dueAt: r.int(10), worker: r.text(11), fence: r.int(12), leaseUntil: r.int(13),
		turn: r.int(14), attempt: r.int(15), seenSeq: r.int(16), startSeq: r.int(17),
		createdAt: r.int(18), updatedAt: r.int(19), bytes: r.int(20),
	}
}

// task returns the task without the content of its log.
func (t *taskRow) task() *store.Task {
	return &store.Task{
		Key: t.key, ContextID: t.contextID, Seq: t.seq,
		CreatedAt: fromMillis(t.createdAt), ReceivedSeq: t.receivedSeq, Bytes: t.bytes,
		Queue: store.QueueEntry{
			Phase: phaseName(t.phase), DueAt: fromMillis(t.dueAt),
			Lease: store.Lease{Worker: t.worker, Fence: t.fence, Until: fromMillis(t.leaseUntil)},
			Turn:  int(t.turn), Attempt: int(t.attempt), SeenSeq: t.seenSeq, StartSeq: t.startSeq,
		},
	}
}

// outline returns the outline of the task, as [store.Task.AsOutline] does.
func (t *taskRow) outline() *store.Task {
	task := t.task()
	task.Status = a2a.TaskStatus{State: a2a.TaskState(t.state), Timestamp: fromMillis(t.stateAt)}
	task.Outline = true
	return task
}

func (t *taskRow) setQueueEntry(r *store.QueueEntry) {
	t.phase, t.dueAt = phaseNumber(r.Phase, r.DueAt), millis(r.DueAt)
	t.worker, t.fence, t.leaseUntil = r.Lease.Worker, r.Lease.Fence, millis(r.Lease.Until)
	t.turn, t.attempt, t.seenSeq, t.startSeq = int64(r.Turn), int64(r.Attempt), r.SeenSeq, r.StartSeq
}

// advance updates the row by events.
func (t *taskRow) advance(events []store.Event) {
	for i := range events {
		e := &events[i]
		t.seq++
		t.bytes += int64(e.Size())
		if t.seq == 1 {
			t.createdAt = millis(e.Time)
		}
		t.updatedAt = millis(e.Time)
		if e.Artifact != nil {
			continue
		}
		t.state, t.stateAt = string(e.State), millis(e.Time)
		if e.Received != nil {
			t.receivedSeq = t.seq
		}
	}
}

func (t *taskRow) holds(l *store.HeldLease) bool {
	return t.phase == phaseLeased && t.worker == l.Worker && t.fence == l.Fence
}

// record is a row of a result in binary format. It is valid until the next row is read.
type record [][]byte

// int returns a smallint, integer, bigint or boolean column, 0 for null.
func (r record) int(i int) int64 {
	switch b := r[i]; len(b) {
	case 8:
		return int64(binary.BigEndian.Uint64(b)) //nolint:gosec // as it was written
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b))) //nolint:gosec // as it was written
	case 2:
		return int64(int16(binary.BigEndian.Uint16(b))) //nolint:gosec // as it was written
	case 1:
		return int64(b[0]) // a boolean
	case 0:
		return 0
	default:
		panic(fmt.Sprintf("column %d is an integer of %d bytes", i, len(b)))
	}
}

func (r record) text(i int) string { return string(r[i]) }

// clone returns a copy that remains valid, in one allocation for all values.
func (r record) clone() record {
	size := 0
	for _, value := range r {
		size += len(value)
	}
	c, buf := make(record, len(r)), make([]byte, 0, size)
	for i, value := range r {
		if value != nil {
			from := len(buf)
			buf = append(buf, value...)
			c[i] = buf[from:len(buf):len(buf)]
		}
	}
	return c
}

// json returns a JSON column for [wire.UnmarshalShared]: a copy if its strings may be shared.
func (r record) json(i int) []byte {
	if len(r[i]) > wire.ShareFrom {
		return bytes.Clone(r[i])
	}
	return r[i]
}

func (r record) null(i int) bool { return r[i] == nil }

func (r record) bool(i int) bool { return len(r[i]) == 1 && r[i][0] != 0 }

// texts decodes an array of texts.
func texts(b []byte) (all []string) {
	const header, length = arrayHeader, 4
	if len(b) < header {
		return nil // null, or empty and so without a dimension
	}
	for b = b[header:]; len(b) >= length; {
		n := int(binary.BigEndian.Uint32(b))
		all = append(all, string(b[length:length+n]))
		b = b[length+n:]
	}
	return all
}
