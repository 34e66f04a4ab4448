package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/content"
	"github.com/holdfast-dev/holdfast/store"
)

// change is a store.Change made ready by its caller: whatever needs no look at
// the database is done before the writer sees it.
type change struct {
	*store.Change
	events   string
	snapshot string
	contents []content.Value // of both
	large    int64           // bytes of those of events
	logSize  int64           // of the task after the change
	// received is the time of the newest message of a client that it brings.
	received int64
	result   store.Result
	// kept is where the change's idempotency record is written.
	kept int64
	// context is that of the task, as it was: read when a message is brought.
	context contextHead
}

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	defer s.gate.RUnlock()
	if s.gate.RLock(); s.closed {
		return nil, store.ErrClosed
	}
	ready := make([]change, len(changes))
	size := 0
	for i := range changes {
		if err := ready[i].prepare(&changes[i]); err != nil {
			return nil, err
		}
		size += ready[i].size()
	}
	if len(changes) == 0 {
		return nil, ctx.Err()
	}
	err := s.submit(ctx, &request{weight: len(ready), bytes: size, apply: func(w *writer) error {
		for i := range ready {
			if err := w.apply(&ready[i]); err != nil {
				return fmt.Errorf("task %s: %w", ready[i].Key.ID, err)
			}
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	results := make([]store.Result, len(ready))
	for i := range ready {
		results[i] = ready[i].result
		if t := changes[i].Snapshot; t != nil && results[i].Err == nil && results[i].Seq == t.Seq {
			results[i].LogSize = ready[i].logSize
		}
	}
	return results, nil
}

func (c *change) prepare(from *store.Change) (err error) {
	if err = from.Check(); err != nil {
		return err
	}
	c.Change, c.received = from, lastReceived(from.Events)
	if len(from.Events) > 0 {
		events, err := store.EncodeEvents(from.Events, from.Key, from.ContextID())
		if c.events = jsonText(events); err != nil {
			return a2a.Wrap(a2a.CodeInvalid, err, "task %s cannot be written as JSON", a2a.Quote(from.Key.ID))
		}
	}
	if c.snapshot, err = encodeSnapshot(from.Snapshot, len(c.events)); err != nil {
		return a2a.Wrap(a2a.CodeInvalid, err, "task %s cannot be written as JSON", a2a.Quote(from.Key.ID))
	}
	switch {
	case c.snapshot != "":
		c.logSize = int64(len(c.snapshot))
	case from.Snapshot != nil:
		c.logSize = from.Snapshot.LogSize + int64(len(c.events))
	}
	whole := len(c.events)
	c.events, c.contents = content.Cut(c.events, nil)
	c.large = int64(whole - len(c.events))
	c.snapshot, c.contents = content.Cut(c.snapshot, c.contents)
	return nil
}

// size is how many bytes of JSON the change writes.
func (c *change) size() int {
	size := len(c.events) + len(c.snapshot)
	for i := range c.contents {
		size += len(c.contents[i].JSON)
	}
	return size
}

// lastReceived is the time of the newest message of a client, never when there is
// none.
func lastReceived(events []store.Event) int64 {
	last := never
	for i := range events {
		if events[i].Received != nil {
			last = max(last, millis(events[i].Time))
		}
	}
	return last
}

// never is before all times.
const never = earliest

// apply applies one change or refuses it in its result. Guards are decided
// before anything is written, so that a refusal leaves nothing to undo; only a
// task to be created is found to exist by trying, and its context, which saves two
// reads.
func (w *writer) apply(c *change) error {
	c.result = store.Result{}
	before, refusal, err := w.guard(c)
	if err != nil {
		return err
	}
	row := before
	if c.Create != nil {
		row = taskRow{pk: w.pendingNext, key: c.Key, contextID: c.Create.ContextID, checkpoint: 1}
	}
	if c.Idempotency != nil {
		taken, err := w.takeKey(c, &row, refusal != nil)
		if err != nil || taken {
			return err
		}
	}
	if refusal == nil {
		refusal, err = w.write(c, row, before.phase)
	}
	c.result.Err = refusal
	return err
}

// guard compares what a change saw with what is there.
func (w *writer) guard(c *change) (row taskRow, refusal, err error) {
	if c.Create != nil {
		return row, nil, nil
	}
	row, found, err := w.row(c.Key)
	switch {
	case err != nil:
		return row, nil, err
	case !found:
		return row, store.ErrNotFound, nil
	}
	if c.received != never {
		c.context, err = readContextHead(w.contextHead, row.contextKey())
		if err != nil || c.context.shelf == shelfDeletion {
			return row, store.ErrNotFound, err
		}
	}
	switch {
	case c.Version > 0 && row.seq != c.Version:
		return row, store.ErrConflict, nil
	case c.Lease != nil && !row.holds(c.Lease):
		return row, store.ErrLeaseLost, nil
	case c.Seen > 0 && row.receivedSeq > c.Seen:
		return row, store.ErrUnread, nil
	case row.seq+int64(len(c.Events)) > logMask:
		return row, nil, a2a.Errorf(a2a.CodeExhausted, "task %s has too many events", a2a.Quote(c.Key.ID))
	}
	return row, nil, nil
}

func (t *taskRow) holds(l *store.HeldLease) bool {
	return t.phase == phaseLeased && t.worker == l.Worker && t.fence == l.Fence
}

// takeKey writes the change's idempotency record, or reports that the key is
// taken. A change that is refused anyway only looks.
func (w *writer) takeKey(c *change, row *taskRow, look bool) (taken bool, err error) {
	k := c.Idempotency
	record, found, err := w.findKey(k.Owner, k.Key)
	switch {
	case err != nil:
		return false, err
	case found:
		c.result = store.Result{Err: store.ErrDuplicate, Record: &record}
		return true, nil
	case look:
		return false, nil
	}
	seq := row.seq + int64(len(c.Events))
	switch {
	case w.isRecent(c):
		c.kept = keptRecent
		w.addRecent(c, row.pk, seq)
		return false, nil
	case c.namesKey() && c.Create == nil:
		c.kept = keptInLog
	default:
		c.kept = keptApart
	}
	_, err = w.insertKey.exec(k.Owner, k.Key, k.HashBytes(), k.TaskID, seq, millis(k.CreatedAt), c.kept)
	return false, err
}

// namesKey reports whether the row of the log that the change writes can name the key
// of its record, so that the record is found when the task is deleted.
func (c *change) namesKey() bool {
	k := c.Idempotency
	return k != nil && len(c.Events) > 0 && k.Owner == c.Key.Owner && k.TaskID == c.Key.ID
}

// write applies a change whose guards hold to its task's row.
func (w *writer) write(c *change, row taskRow, phase int64) (refusal, err error) {
	first := row.seq + 1
	status := row.advance(c.Events)
	if c.Run != nil {
		row.setRun(c.Run)
	}
	snapshot := c.snapshot
	if snapshot != "" && c.Snapshot.Seq != row.seq {
		snapshot = ""
	}
	if snapshot != "" {
		if _, err := w.dropSnapshot.exec(row.logID(row.checkpoint)); err != nil {
			return nil, err
		}
		row.checkpoint = first
	}
	if c.Create != nil {
		if refusal, err = w.create(c, &row); refusal != nil || err != nil {
			return refusal, err
		}
	} else if err := w.update(c, &row, status); err != nil {
		return nil, err
	}
	if c.Create == nil && c.received != never {
		if err := w.touch(row.contextKey(), &c.context, c.received, 0); err != nil {
			return nil, err
		}
	}
	if len(c.Events) > 0 {
		if err := w.appendLog(&row, first, snapshot, c); err != nil {
			return nil, err
		}
		for i := range c.contents {
			if _, err := w.insertContent.exec(row.pk, c.contents[i].Hash[:], c.contents[i].JSON); err != nil {
				return nil, err
			}
		}
		if err := w.moveLanes(&row); err != nil {
			return nil, err
		}
	}
	if err := w.savePushes(&row, c.Push); err != nil {
		return nil, err
	}
	for _, step := range c.Steps {
		if _, err := w.upsertStep.exec(row.pk, int64(step.Turn), step.Name, step.Result, bytesOrNull(step.Artifacts)); err != nil {
			return nil, err
		}
	}
	w.keep(row, phase)
	c.result.Seq = row.seq
	return nil, nil
}

// create writes a new task's row, unless there is one or its context is closed.
// Most contexts are new; so the context is tried first.
func (w *writer) create(c *change, t *taskRow) (refusal, err error) {
	k, created := t.contextKey(), millis(c.Events[0].Time)
	updated, shelf := max(created, c.received), shelfNew
	if updated > created {
		shelf = shelfUsed
	}
	n, err := w.insertContext.exec(k.Owner, k.ID, created, updated, shelf, t.pk)
	if err != nil {
		return nil, err
	}
	isNew := n > 0
	if !isNew {
		if c.context, err = readContextHead(w.contextHead, k); err != nil {
			return nil, err
		}
		if c.context.status() != a2a.ContextActive {
			return w.refuseClosed(c)
		}
	} else {
		t.first = 1
	}
	n, err = w.insertRow.exec(t.pk, t.key.Owner, t.key.ID, t.contextID, t.state, t.stateAt, t.seq, t.receivedSeq,
		t.checkpoint, t.phase, t.dueAt, t.worker, t.fence, t.leaseUntil, t.turn, t.attempt, t.seenSeq, t.startSeq,
		t.createdAt, t.updatedAt, t.first, t.bytes)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		if isNew {
			_, err = w.dropContext.exec(k.Owner, k.ID)
		}
		return store.ErrExists, errors.Join(err, w.takeBack(c.Idempotency))
	}
	w.pendingNext++
	if isNew {
		w.tally(k.Owner, labelAll, shelf, 1)
		return nil, nil
	}
	return nil, w.touch(k, &c.context, c.received, 1)
}

// refuseClosed refuses a task of a context that takes none.
func (w *writer) refuseClosed(c *change) (refusal, err error) {
	_, found, err := w.row(c.Key)
	if refusal = store.ErrContextClosed; found {
		refusal = store.ErrExists
	}
	return refusal, errors.Join(err, w.takeBack(c.Idempotency))
}

// takeBack removes the record of a change that is refused after all.
func (w *writer) takeBack(k *store.IdempotencyRecord) error {
	if k == nil {
		return nil
	}
	if name := (keyName{k.Owner, k.Key}); w.pendingKeys[name].pk != 0 {
		w.pendingKeys[name] = recentRecord{}
		return nil
	}
	_, err := w.dropKey.exec(k.Owner, k.Key)
	return err
}

// update writes what a change has changed in a task's row.
func (w *writer) update(c *change, t *taskRow, status bool) (err error) {
	switch {
	case c.Run != nil && len(c.Events) > 0:
		_, err = w.updateAll.exec(t.state, t.stateAt, t.seq, t.receivedSeq, t.checkpoint, t.updatedAt, t.bytes, t.phase, t.dueAt,
			t.worker, t.fence, t.leaseUntil, t.turn, t.attempt, t.seenSeq, t.startSeq, t.pk)
	case c.Run != nil:
		_, err = w.updateRun.exec(t.phase, t.dueAt, t.worker, t.fence, t.leaseUntil, t.turn, t.attempt, t.seenSeq, t.startSeq, t.pk)
	case status:
		_, err = w.updateStatus.exec(t.state, t.stateAt, t.seq, t.receivedSeq, t.checkpoint, t.updatedAt, t.bytes, t.pk)
	case len(c.Events) > 0:
		_, err = w.updateLog.exec(t.seq, t.checkpoint, t.updatedAt, t.bytes, t.pk)
	}
	return err
}

// appendLog writes a change's events as one row, with the key of its record if
// that is found there.
func (w *writer) appendLog(t *taskRow, first int64, snapshot string, c *change) error {
	var key, hash any
	if c.Idempotency != nil && c.kept != keptApart {
		key = c.Idempotency.Key
		if c.kept == keptRecent {
			hash = bytesOrNull(c.Idempotency.HashBytes())
		}
	}
	_, err := w.insertLog.exec(t.logID(first), t.seq-first+1, key, hash, textOrNull(snapshot), c.events, c.large)
	return err
}

func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func bytesOrNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}
