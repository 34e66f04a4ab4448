package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// Limits of a change and of a commit.
const (
	changeEvents = 256
	commitSize   = 4 << 20 // bytes
	commitItems  = 512     // changes, events and feedback
)

// incoming is a task that is being imported.
type incoming struct {
	*taskHead
	key            store.Key
	existingSeq    int64         // last event in the store before the import
	existingEvents []store.Event // existing events to compare next
	fence          int64         // fence of the written queue entry
	steps          []store.Step

	base int64         // the task's version after the changes so far
	add  []store.Event // events of the next change
	size int           // of add and steps, in bytes
	sum  int64         // of earlier changes, in bytes
}

// batch collects the next commit.
type batch struct {
	changes  []store.Change
	feedback []store.Feedback
	items    int // changes, events and feedback
	size     int // in bytes
	counts   contract.Counts
	queued   int64
	canceled int64
}

func (m *importer) task(ctx context.Context, head *taskHead) error {
	t := &incoming{taskHead: head, key: store.Key{Owner: m.saved.Key.Owner, ID: head.ID}, fence: store.FirstFence(m.opts.Now())}
	m.cur = t
	existing, err := m.store.Task(ctx, t.key, store.TaskOptions{Outline: true})
	switch {
	case errors.Is(err, store.ErrNotFound):
		if c := m.existing; c != nil && c.Status != a2a.ContextActive {
			return m.conflict("context %s is %s and accepts no new tasks; task %s does not exist in it", a2a.Quote(c.Key.ID), c.Status, a2a.Quote(t.ID))
		}
	case err != nil:
		return err
	case existing.ContextID != m.saved.Key.ID:
		return m.conflict("task %s exists in another context", a2a.Quote(t.ID))
	default:
		t.existingSeq, t.base, t.fence = existing.Seq, existing.Seq, existing.Queue.Lease.Fence+1
	}
	if !unfinished(t.State) || t.existingSeq >= t.Events {
		return nil
	}
	if m.unfinishedCount++; len(m.unfinishedIDs) < maxNamed {
		m.unfinishedIDs = append(m.unfinishedIDs, a2a.Quote(t.ID))
	}
	if m.opts.Unfinished == UnfinishedCancel && !t.State.CanMove(a2a.StateCanceled) {
		return m.conflict("task %s is %s and cannot be canceled", a2a.Quote(t.ID), t.State)
	}
	return nil
}

func (m *importer) step(s store.Step) {
	m.cur.steps = append(m.cur.steps, s)
	m.cur.size += len(s.Result) + len(s.Artifacts)
}

func (m *importer) event(ctx context.Context, e *store.Event, fold *store.Task, size int) error {
	t := m.cur
	if e.Seq <= t.existingSeq {
		return m.compareEvent(ctx, e)
	}
	if !m.write {
		return nil
	}
	stored, size, err := m.files.event(ctx, t.key, e, size)
	if err != nil {
		return err
	}
	t.add = append(t.add, stored)
	t.size += size
	switch {
	case e.Seq == t.Events:
		return m.finishTask(ctx, fold.Clone())
	case len(t.add) >= changeEvents || t.size >= commitSize:
		return m.addChange(ctx, fold.Clone(), t.idleEntry())
	}
	return nil
}

// compareEvent reports a conflict if the task's existing log differs from the document's.
func (m *importer) compareEvent(ctx context.Context, e *store.Event) error {
	t := m.cur
	if m.firstConflict != nil {
		return nil
	}
	if len(t.existingEvents) == 0 {
		var err error
		if t.existingEvents, err = m.store.Events(ctx, t.key, e.Seq-1, eventPage); err != nil {
			return fmt.Errorf("task %s: %w", t.ID, err)
		}
	}
	if len(t.existingEvents) > 0 {
		existing, document := fileref.CanonicalEvent(t.existingEvents[0]), fileref.CanonicalEvent(*e)
		got, err := wire.Marshal(&existing)
		if err != nil {
			return err
		}
		want, err := wire.Marshal(&document)
		if err != nil {
			return err
		}
		if t.existingEvents = t.existingEvents[1:]; bytes.Equal(got, want) {
			return nil
		}
	}
	return m.conflict("task %s exists and differs from the document at event %d", a2a.Quote(t.ID), e.Seq)
}

// idleEntry returns a queue entry that does not execute the task.
func (t *incoming) idleEntry() store.QueueEntry {
	return store.QueueEntry{Phase: store.PhaseIdle, Turn: t.Run.Turn, SeenSeq: t.Run.SeenSeq, StartSeq: t.Run.StartSeq, Lease: store.Lease{Fence: t.fence}}
}

// finishTask adds the change with the last events of a task. Only this change queues or cancels
// an unfinished task. after is the task after the events.
func (m *importer) finishTask(ctx context.Context, after *store.Task) error {
	t, entry := m.cur, m.cur.idleEntry()
	if unfinished(t.State) {
		switch m.opts.Unfinished {
		case UnfinishedQueue:
			entry.Phase = store.PhaseQueued
			m.batch.queued++
		case UnfinishedCancel:
			at := later(store.Time(m.opts.Now()), t.add[len(t.add)-1].Time)
			canceled := store.Event{Seq: t.Events + 1, Time: at, State: a2a.StateCanceled}
			t.add = append(t.add, canceled)
			after.Apply(canceled)
			m.batch.canceled++
		case UnfinishedRefuse:
			return m.conflict("task %s is not finished", a2a.Quote(t.ID))
		}
	}
	return m.addChange(ctx, after, entry)
}

// addChange adds the collected events to the batch as one change. The first change contains all
// steps of the task.
func (m *importer) addChange(ctx context.Context, after *store.Task, entry store.QueueEntry) error {
	t, b := m.cur, &m.batch
	after, err := m.files.task(ctx, t.key, after)
	if err != nil {
		return err
	}
	after.Key, after.Queue, after.LogSize = t.key, entry, t.sum
	c := store.Change{Key: t.key, Version: t.base, Events: t.add, Queue: &entry, Steps: t.steps, Snapshot: after}
	if t.base == 0 {
		c.Create = &store.Create{ContextID: m.saved.Key.ID}
	}
	if t.base == t.existingSeq {
		b.counts.Add(Tasks, 1)
	}
	b.counts.Add(Events, int64(len(t.add)))
	b.changes = append(b.changes, c)
	b.items += 1 + len(t.add)
	b.size += t.size
	t.base += int64(len(t.add))
	t.sum += int64(t.size)
	t.add, t.steps, t.size = nil, nil, 0
	return m.flushFull(ctx)
}

func (m *importer) feedback(ctx context.Context, f store.Feedback) error {
	if !m.write {
		return nil
	}
	f.Key = m.cur.key
	m.batch.feedback = append(m.batch.feedback, f)
	m.batch.items++
	m.batch.size += len(f.Text)
	return m.flushFull(ctx)
}

func (m *importer) flushFull(ctx context.Context) error {
	if m.batch.items < commitItems && m.batch.size < commitSize {
		return nil
	}
	return m.flush(ctx)
}

// flush writes the batch.
func (m *importer) flush(ctx context.Context) error {
	b := m.batch
	m.batch = batch{}
	if len(b.changes) > 0 {
		results, err := m.store.Commit(ctx, b.changes...)
		if err != nil {
			return fmt.Errorf("write tasks: %w", err)
		}
		for i, r := range results {
			if r.Err != nil {
				return a2a.Wrap(a2a.CodeConflict, r.Err, "task %s was changed while it was imported", a2a.Quote(b.changes[i].Key.ID))
			}
		}
	}
	for _, f := range b.feedback {
		err := m.store.AddFeedback(ctx, f)
		switch {
		case err == nil:
			b.counts.Add(Feedback, 1)
		case !errors.Is(err, store.ErrExists):
			return fmt.Errorf("feedback %s on task %s: %w", f.ID, f.Key.ID, err)
		}
	}
	m.report.Written.AddAll(b.counts)
	m.report.Queued += b.queued
	m.report.Canceled += b.canceled
	return nil
}
