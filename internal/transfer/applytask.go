package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// What goes into one change, and into one commit of several, at most.
const (
	changeEvents = 256
	commitSize   = 4 << 20
	commitItems  = 512
)

// incoming is a task that is being imported.
type incoming struct {
	*taskHead
	key   store.Key
	there int64         // events through this one are in the store
	kept  []store.Event // some of those, the next to be compared first
	fence int64         // that it is written with
	steps []store.Step

	base int64         // the task's version after the changes made so far
	add  []store.Event // to be written with the next change
	size int           // of add and steps
	sum  int64         // of the sizes of earlier changes
}

// batch is what is written next.
type batch struct {
	changes  []store.Change
	feedback []store.Feedback
	items    int // changes, their events, feedback
	size     int
	counts   Counts
	queued   int64
	canceled int64
}

func (m *importer) task(ctx context.Context, head *taskHead) error {
	m.report.Document.add(Counts{Tasks: 1, Events: head.Events})
	t := &incoming{taskHead: head, key: store.Key{Owner: m.record.Key.Owner, ID: head.ID}, fence: store.FirstFence(m.opts.Now())}
	m.cur = t
	there, err := m.store.Task(ctx, t.key, store.TaskOptions{Outline: true})
	switch {
	case errors.Is(err, store.ErrNotFound):
		if c := m.there; c != nil && c.Status != a2a.ContextActive {
			return m.refuse("context %s is %s here and takes no new tasks, but lacks task %s", a2a.Quote(c.Key.ID), c.Status, a2a.Quote(t.ID))
		}
	case err != nil:
		return err
	case there.ContextID != m.record.Key.ID:
		return m.refuse("task %s is there already, in another context", a2a.Quote(t.ID))
	default:
		t.there, t.base, t.fence = there.Seq, there.Seq, there.Run.Lease.Fence+1
	}
	if !unfinished(t.State) || t.there >= t.Events {
		return nil
	}
	if m.waiting++; len(m.unfinished) < maxNamed {
		m.unfinished = append(m.unfinished, a2a.Quote(t.ID))
	}
	if m.opts.Unfinished == UnfinishedCancel && !t.State.CanMove(a2a.StateCanceled) {
		return m.refuse("task %s is %s and cannot be canceled", a2a.Quote(t.ID), t.State)
	}
	return nil
}

func (m *importer) step(s store.Step) {
	m.cur.steps = append(m.cur.steps, s)
	m.cur.size += len(s.Result) + len(s.Artifacts)
}

func (m *importer) event(ctx context.Context, e *store.Event, fold *store.Task, size int) error {
	t := m.cur
	if e.Seq <= t.there {
		return m.compareEvent(ctx, e)
	}
	if !m.write {
		return nil
	}
	t.add = append(t.add, *e)
	t.size += size
	switch {
	case e.Seq == t.Events:
		return m.last(ctx, fold.Clone())
	case len(t.add) >= changeEvents || t.size >= commitSize:
		return m.change(ctx, fold.Clone(), t.idle())
	}
	return nil
}

// compareEvent refuses a task whose log is another than the document's.
func (m *importer) compareEvent(ctx context.Context, e *store.Event) error {
	t := m.cur
	if m.refused != nil {
		return nil
	}
	if len(t.kept) == 0 {
		var err error
		if t.kept, err = m.store.Events(ctx, t.key, e.Seq-1, eventPage); err != nil {
			return fmt.Errorf("task %s: %w", t.ID, err)
		}
	}
	if len(t.kept) > 0 {
		got, err := wire.Marshal(&t.kept[0])
		if err != nil {
			return err
		}
		want, err := wire.Marshal(e)
		if err != nil {
			return err
		}
		if t.kept = t.kept[1:]; bytes.Equal(got, want) {
			return nil
		}
	}
	return m.refuse("task %s is there already and is not the one of the export: event %d differs", a2a.Quote(t.ID), e.Seq)
}

// idle is the place in the queue of a task that is not to run.
func (t *incoming) idle() store.Run {
	return store.Run{Phase: store.PhaseIdle, Turn: t.Run.Turn, SeenSeq: t.Run.SeenSeq, StartSeq: t.Run.StartSeq, Lease: store.Lease{Fence: t.fence}}
}

// last makes the change with the last events of a task: with it, and not before, the
// task comes to where it is to stand. after is the task after those events.
func (m *importer) last(ctx context.Context, after *store.Task) error {
	t, run := m.cur, m.cur.idle()
	if unfinished(t.State) {
		switch m.opts.Unfinished {
		case UnfinishedQueue:
			run.Phase = store.PhaseQueued
			m.batch.queued++
		case UnfinishedCancel:
			at := later(store.Time(m.opts.Now()), t.add[len(t.add)-1].Time)
			over := store.Event{Seq: t.Events + 1, Time: at, State: a2a.StateCanceled}
			t.add = append(t.add, over)
			after.Apply(over)
			m.batch.canceled++
		case UnfinishedRefuse:
			return m.refuse("task %s is not finished", a2a.Quote(t.ID))
		}
	}
	return m.change(ctx, after, run)
}

// change puts the events gathered so far into a change. All steps go with the first,
// so that a task that is to run has them.
func (m *importer) change(ctx context.Context, after *store.Task, run store.Run) error {
	t, b := m.cur, &m.batch
	after.Key, after.Run, after.LogSize = t.key, run, t.sum
	c := store.Change{Key: t.key, Version: t.base, Events: t.add, Run: &run, Steps: t.steps, Snapshot: after}
	if t.base == 0 {
		c.Create = &store.Create{ContextID: m.record.Key.ID}
	}
	if t.base == t.there {
		b.counts.Tasks++
	}
	b.counts.Events += int64(len(t.add))
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
	m.report.Document.Feedback++
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

// flush writes what has been gathered.
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
			b.counts.Feedback++
		case !errors.Is(err, store.ErrExists):
			return fmt.Errorf("feedback %s on task %s: %w", f.ID, f.Key.ID, err)
		}
	}
	m.report.Written.add(b.counts)
	m.report.Queued += b.queued
	m.report.Canceled += b.canceled
	return nil
}
