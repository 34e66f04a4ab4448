package sqlite

import (
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// The values of task_rows.phase.
const (
	phaseIdle int64 = iota
	phaseReady
	phaseLeased
	phaseWaiting
)

// phaseNumber returns the stored phase of a queue entry. A queued task with a due time
// is waiting until a claim finds it due, so that claims read only ready tasks.
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

// taskRow is a row of task_rows: the columns for preconditions, lists and claims.
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
	bytes       int64 // total size of its events
	first       int64 // 1 for the first task of its context
	lanes       int64 // number of its webhooks
}

func (t *taskRow) contextKey() store.ContextKey {
	return store.ContextKey{Owner: t.key.Owner, ID: t.contextID}
}

// rowColumns are the columns of task_rows that scan reads, in its order.
const rowColumns = `t.pk, t.owner, t.id, t.context_id, t.state, t.state_at, t.seq, t.received_seq, t.checkpoint,
	t.phase, t.due_at, t.lease_worker, t.fence, t.lease_until, t.turn, t.attempt, t.seen_seq, t.turn_start_seq, t.created_at, t.updated_at,
	t.first, t.lanes, t.bytes`

// rowWidth is the number of rowColumns.
const rowWidth = 23

func (t *taskRow) scan(r record) {
	*t = taskRow{
		pk: r.int(0), key: store.Key{Owner: r.text(1), ID: r.text(2)}, contextID: r.text(3),
		state: r.text(4), stateAt: r.int(5), seq: r.int(6), receivedSeq: r.int(7), checkpoint: r.int(8),
		phase: r.int(9), dueAt: r.int(10), worker: r.text(11), fence: r.int(12), leaseUntil: r.int(13),
		turn: r.int(14), attempt: r.int(15), seenSeq: r.int(16), startSeq: r.int(17),
		createdAt: r.int(18), updatedAt: r.int(19), first: r.int(20), lanes: r.int(21), bytes: r.int(22),
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

// outline returns the task as an outline, without its content.
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

// advance applies events to the row. It reports whether the status changed.
func (t *taskRow) advance(events []store.Event) (status bool) {
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
		status = true
		t.state, t.stateAt = string(e.State), millis(e.Time)
		if e.Received != nil {
			t.receivedSeq = t.seq
		}
	}
	return status
}

// logID returns the id of the log row whose first event has the given sequence.
func (t *taskRow) logID(seq int64) int64 { return t.pk<<logShift | seq }

// The id of a log row is the task's pk << logShift plus the sequence of its first
// event.
const (
	logShift = 24
	logMask  = 1<<logShift - 1
)

// rowCache caches rows of tasks. It has two generations of up to limit rows. When the
// young one is full, it replaces the old one, whose rows are dropped.
type rowCache struct {
	limit int
	young map[store.Key]taskRow
	old   map[store.Key]taskRow
}

func newRowCache(limit int) *rowCache {
	return &rowCache{limit: limit, young: make(map[store.Key]taskRow)}
}

func (c *rowCache) get(k store.Key) (taskRow, bool) {
	if row, ok := c.young[k]; ok {
		return row, true
	}
	row, ok := c.old[k]
	return row, ok
}

func (c *rowCache) put(row taskRow) {
	if _, ok := c.young[row.key]; !ok && len(c.young) >= c.limit {
		c.old, c.young = c.young, make(map[store.Key]taskRow, c.limit/4)
	}
	c.young[row.key] = row
}

func (c *rowCache) remove(k store.Key) {
	delete(c.young, k)
	delete(c.old, k)
}
