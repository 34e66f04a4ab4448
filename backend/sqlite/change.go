package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

const (
	sqlInsertLog     = `INSERT INTO task_log (id, n, key, key_hash, snapshot, events, large) VALUES (?,?,?,?,?,?,?)`
	sqlInsertContent = `INSERT INTO task_contents (task_pk, hash, data) VALUES (?,?,?) ON CONFLICT DO NOTHING`
	sqlDropSnapshot  = `UPDATE task_log SET snapshot = NULL WHERE id = ? AND snapshot IS NOT NULL`
	sqlUpsertStep    = `INSERT INTO task_steps (task_pk, turn, name, result, artifacts) VALUES (?,?,?,?,?)
		ON CONFLICT DO UPDATE SET result = excluded.result, artifacts = excluded.artifacts`
)

// changeWriter applies changes of tasks in groups.
type changeWriter struct {
	*database
	committer *committer // nil if read-only
}

// request is work for the committer. apply runs in a transaction. If the transaction fails
// because of another request, apply runs again from the start.
type request struct {
	apply  func(w *writer) error
	weight int
	bytes  int
	state  atomic.Int32
	done   chan error
}

// The states of a request. A canceled caller abandons a request unless the committer
// has started it.
const (
	requestQueued int32 = iota
	requestStarted
	requestAbandoned
)

// change is a store.Change that its caller has checked and encoded, so that the committer
// has less to do.
type change struct {
	*store.Change
	sqlrow.Content
	// received is the time of the newest client message in Events, noTime without one.
	received int64
	result   store.Result
	// lookup is how a deletion finds the change's idempotency record.
	lookup int64
	// contextHead is the task's context before the change. It is read only if the
	// change has a client message.
	contextHead contextHead
	// tx is the transaction of the effects.
	tx *kitTx
}

// Commit implements store.Tasks.
func (s *changeWriter) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	ready := make([]change, len(changes))
	size := 0
	for i := range changes {
		if err := ready[i].prepare(&changes[i]); err != nil {
			return nil, err
		}
		size += ready[i].Size()
	}
	if len(changes) == 0 {
		return nil, nil
	}
	err := s.submit(ctx, &request{weight: len(ready), bytes: size, apply: func(w *writer) (err error) {
		for i := range ready {
			if c := &ready[i]; len(c.Effects) == 0 {
				err = w.apply(c)
			} else {
				err = (&kit{changeWriter: s}).applyWithEffects(w, c)
			}
			if err != nil {
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
		results[i] = ready[i].Result(&changes[i], ready[i].result)
	}
	return results, nil
}

// write submits a request.
func (s *changeWriter) write(ctx context.Context, r *request) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	return s.submit(ctx, r)
}

// submit queues a request and waits for its result. If ctx is done before the committer
// has started it, the request is not applied.
func (s *changeWriter) submit(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.cfg.ReadOnly {
		return errReadOnly
	}
	r.done = make(chan error, 1)
	if r.bytes >= largeBytes {
		select {
		case s.committer.large <- struct{}{}:
			defer func() { <-s.committer.large }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case s.committer.queue <- r:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		if r.state.CompareAndSwap(requestQueued, requestAbandoned) {
			return ctx.Err()
		}
		return <-r.done
	}
}

func (c *change) prepare(from *store.Change) (err error) {
	if err = from.Check(); err != nil {
		return err
	}
	c.Change, c.received = from, lastReceived(from.Events)
	c.Content, err = sqlrow.Encode(from)
	return err
}

// lastReceived returns the time of the newest client message, noTime if there is none.
func lastReceived(events []store.Event) int64 {
	last := noTime
	for i := range events {
		if events[i].Received != nil {
			last = max(last, millis(events[i].Time))
		}
	}
	return last
}

// noTime sorts before all times.
const noTime = earliest

// apply applies one change, or sets the error of its result. It checks all preconditions
// before it writes, so a rejected change leaves nothing to undo. The exception is a new
// task: the inserts of its row and of its context detect whether these exist, which saves
// two reads.
func (w *writer) apply(c *change) error {
	c.result = store.Result{}
	before, refusal, err := w.guard(c)
	if err != nil {
		return err
	}
	row := before
	if c.Create != nil {
		row = taskRow{Task: sqlrow.Task{PK: w.pendingNext, Key: c.Key, ContextID: c.Create.ContextID, Checkpoint: 1}}
	}
	if c.Idempotency != nil {
		exists, err := w.reserveKey(c, &row, refusal != nil)
		if err != nil || exists {
			return err
		}
	}
	if refusal == nil {
		if refusal, err = c.applyEffects(); refusal != nil {
			err = w.releaseKey(c.Idempotency)
		}
	}
	if refusal == nil && err == nil {
		refusal, err = w.write(c, row, before.Phase)
	}
	c.result.Err = refusal
	return err
}

// guard checks the preconditions of a change against the stored task.
func (w *writer) guard(c *change) (row taskRow, refusal, err error) {
	if c.Create != nil {
		refusal, err = w.guardNew(c)
		return row, refusal, err
	}
	row, found, err := w.row(c.Key)
	switch {
	case err != nil:
		return row, nil, err
	case !found:
		return row, store.ErrNotFound, nil
	}
	if c.received != noTime {
		c.contextHead, err = w.readContextHead(row.contextKey())
		if err != nil || c.contextHead.Bucket == bucketDeleting {
			return row, store.ErrNotFound, err
		}
	}
	versions, err := w.recordVersions(c.Key.Owner, c.Records)
	if err != nil {
		return row, nil, err
	}
	seen := row.Seen()
	if refusal = rules.Change(c.Change, nil, &seen, false, versions); refusal == nil && row.Seq+int64(len(c.Events)) > logMask {
		return row, nil, a2a.Errorf(a2a.CodeExhausted, "task %s: the change exceeds the limit of %d events", a2a.Quote(c.Key.ID), logMask)
	}
	return row, refusal, nil
}

// guardNew checks the versions of the records that a change writes together with a new
// task. If one conflicts, or an effect may fail, it also reads the task and its context,
// because their errors take precedence.
func (w *writer) guardNew(c *change) (refusal, err error) {
	versions, err := w.recordVersions(c.Key.Owner, c.Records)
	if err != nil || len(c.Effects) == 0 && rules.Records(c.Records, versions) == nil {
		return nil, err
	}
	var seen *rules.Task
	row, found, err := w.row(c.Key)
	if err != nil {
		return nil, err
	}
	if found {
		task := row.Seen()
		seen = &task
	}
	in, err := w.readContextHead(store.ContextKey{Owner: c.Key.Owner, ID: c.Create.ContextID})
	return rules.Change(c.Change, nil, seen, in.found && in.status() != a2a.ContextActive, versions), err
}

// reserveKey writes the change's idempotency record. It reports whether a record of the
// key exists already. With checkOnly it writes nothing.
func (w *keyWriter) reserveKey(c *change, row *taskRow, checkOnly bool) (exists bool, err error) {
	k := c.Idempotency
	record, found, err := w.findKey(k.Owner, k.Key)
	switch {
	case err != nil:
		return false, err
	case found:
		c.result = store.Result{Err: store.ErrDuplicate, Record: &record}
		return true, nil
	case checkOnly:
		return false, nil
	}
	seq := row.Seq + int64(len(c.Events))
	switch {
	case w.isRecent(c):
		c.lookup = lookupRecent
		w.addRecent(c, row.PK, seq)
		return false, nil
	case c.namesKey() && c.Create == nil:
		c.lookup = lookupByLog
	default:
		c.lookup = lookupByTask
	}
	return false, w.insertKey(k, seq, c.lookup)
}

// namesKey reports whether the change's log row can name the idempotency key. A deletion
// of the task then finds the record by the task's log.
func (c *change) namesKey() bool {
	k := c.Idempotency
	return k != nil && len(c.Events) > 0 && k.Owner == c.Key.Owner && k.TaskID == c.Key.ID
}

// write applies a change. The preconditions of the change must hold.
func (w *writer) write(c *change, row taskRow, phase sqlrow.Phase) (refusal, err error) {
	first := row.Seq + 1
	status := row.Advance(c.Events)
	if c.Queue != nil {
		row.SetQueueEntry(c.Queue)
	}
	snapshot := c.SnapshotJSON
	if snapshot != "" && c.Snapshot.Seq != row.Seq {
		snapshot = ""
	}
	if snapshot != "" {
		if _, err := w.exec(sqlDropSnapshot, row.logID(row.Checkpoint)); err != nil {
			return nil, err
		}
		row.Checkpoint = first
	}
	if c.Create != nil {
		if refusal, err = w.create(c, &row); refusal != nil || err != nil {
			return refusal, err
		}
	} else if err := w.update(c, &row, status); err != nil {
		return nil, err
	}
	if c.Create == nil && c.received != noTime {
		if err := w.touchContextRow(row.contextKey(), &c.contextHead, c.received, 0); err != nil {
			return nil, err
		}
	}
	if len(c.Events) > 0 {
		if err := w.appendLog(&row, first, snapshot, c); err != nil {
			return nil, err
		}
		for i := range c.Values {
			if _, err := w.exec(sqlInsertContent, row.PK, c.Values[i].Hash[:], c.Values[i].JSON); err != nil {
				return nil, err
			}
		}
		if err := w.moveLanes(&row); err != nil {
			return nil, err
		}
	}
	if err := w.saveWebhooks(&row, c.Webhooks); err != nil {
		return nil, err
	}
	if refusal, err := w.saveRecords(row.Key.Owner, c.Records); err != nil || refusal != nil {
		return nil, cmp.Or(err, refusal)
	}
	for _, step := range c.Steps {
		if _, err := w.exec(sqlUpsertStep, row.PK, int64(step.Turn), step.Name, step.Result, bytesOrNull(step.Artifacts)); err != nil {
			return nil, err
		}
	}
	w.stageRow(row, phase)
	c.result.Seq = row.Seq
	return nil, nil
}

// create writes the row of a new task. It rejects the change if the task exists or its
// context is closed. Most contexts are new, so it inserts the context first.
func (w *writer) create(c *change, t *taskRow) (refusal, err error) {
	k, created := t.contextKey(), millis(c.Events[0].Time)
	updated, bucket := max(created, c.received), bucketNew
	if updated > created {
		bucket = bucketUsed
	}
	n, err := w.exec(sqlInsertContext, k.Owner, k.ID, created, updated, bucket, t.PK)
	if err != nil {
		return nil, err
	}
	isNew := n > 0
	if !isNew {
		if c.contextHead, err = w.readContextHead(k); err != nil {
			return nil, err
		}
		if c.contextHead.status() != a2a.ContextActive {
			return w.closedContextError(c)
		}
	} else {
		t.First = 1
	}
	n, err = w.exec(sqlInsertRow, newTask.Args(t)...)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		if isNew {
			_, err = w.exec(sqlDropContext, k.Owner, k.ID)
		}
		return store.ErrExists, errors.Join(err, w.releaseKey(c.Idempotency))
	}
	w.pendingNext++
	if isNew {
		w.addCount(k.Owner, labelAll, bucket, 1)
		return nil, nil
	}
	return nil, w.touchContextRow(k, &c.contextHead, c.received, 1)
}

// closedContextError returns the error for a new task in a context that is not active,
// or store.ErrExists if the task exists already. It releases the idempotency key.
func (w *writer) closedContextError(c *change) (refusal, err error) {
	_, found, err := w.row(c.Key)
	if refusal = store.ErrContextClosed; found {
		refusal = store.ErrExists
	}
	return refusal, errors.Join(err, w.releaseKey(c.Idempotency))
}

// releaseKey removes the idempotency record of a change that is rejected after
// reserveKey.
func (w *keyWriter) releaseKey(k *store.IdempotencyRecord) error {
	if k == nil {
		return nil
	}
	if name := (keyName{k.Owner, k.Key}); w.pendingKeys[name].pk != 0 {
		w.pendingKeys[name] = recentRecord{}
		return nil
	}
	_, err := w.exec(sqlDropKey, k.Owner, k.Key)
	return err
}

// update writes the changed columns of a task's row.
func (w *taskWriter) update(c *change, t *taskRow, status bool) (err error) {
	switch {
	case c.Queue != nil && len(c.Events) > 0:
		_, err = w.exec(sqlUpdateAll, taskAll.Args(t, t.PK)...)
	case c.Queue != nil:
		_, err = w.exec(sqlUpdateQueue, taskQueue.Args(t, t.PK)...)
	case status:
		_, err = w.exec(sqlUpdateStatus, taskStatus.Args(t, t.PK)...)
	case len(c.Events) > 0:
		_, err = w.exec(sqlUpdateLog, taskLog.Args(t, t.PK)...)
	}
	return err
}

// appendLog writes a change's events as one log row. The row names the idempotency key
// unless the record is found by task.
func (w *taskWriter) appendLog(t *taskRow, first int64, snapshot string, c *change) error {
	var key, hash any
	if c.Idempotency != nil && c.lookup != lookupByTask {
		key = c.Idempotency.Key
		if c.lookup == lookupRecent {
			hash = bytesOrNull(c.Idempotency.HashBytes())
		}
	}
	_, err := w.exec(sqlInsertLog, t.logID(first), t.Seq-first+1, key, hash, textOrNull(snapshot), c.EventsJSON, c.Large)
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
