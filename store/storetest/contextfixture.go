package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// born is a context as its first task, at some milliseconds, brings it into
// being, with the ids of its tasks.
func born(owner, id string, ms int, tasks ...string) store.Context {
	return store.Context{
		Key: store.ContextKey{Owner: owner, ID: id}, Role: store.DefaultContextRole, Status: a2a.ContextActive,
		CreatedAt: at(ms), UpdatedAt: at(ms), Version: 1, TaskCount: len(tasks), TaskIDs: tasks,
	}
}

// described is a context with something in every field but the parent.
func described(owner, id string, ms int) store.Context {
	return store.Context{
		Key: store.ContextKey{Owner: owner, ID: id}, Name: "name of " + id, Description: "about " + id, Role: "analyst",
		Status: a2a.ContextActive, Tags: []string{"a", "b"}, Metadata: map[string]any{"a": map[string]any{"b": []any{"c"}}},
		ReferenceIDs: []string{"r2", "r1"}, Extensions: map[string]any{"x": map[string]any{"y": []any{"z"}}},
		CreatedAt: at(ms), UpdatedAt: at(ms),
	}
}

// newContext is the change that creates a described context.
func newContext(id string, ms int) store.ContextChange {
	return store.ContextChange{Context: described(owner, id, ms), Create: true}
}

// as is the change of a context's record to another status.
func as(c store.Context, s a2a.ContextStatus) store.ContextChange {
	c.Status = s
	return store.ContextChange{Context: c, Version: c.Version}
}

// within is the change of a context's record to another parent.
func within(c store.Context, parent string) store.ContextChange {
	c.ParentID = parent
	return store.ContextChange{Context: c, Version: c.Version}
}

func idempotentContext(c store.ContextChange, k string, ms int) store.ContextChange {
	c.Idempotency = &store.IdempotencyRecord{
		Owner: c.Context.Key.Owner, Key: k, Hash: [32]byte{3, 4, 254}, TaskID: c.Context.Key.ID, CreatedAt: at(ms),
	}
	return c
}

// idleTask is the change that creates a task in a state, with nothing to run.
func idleTask(k store.Key, contextID string, ms int, s a2a.TaskState) store.Change {
	c := newTask(k, contextID, at(ms))
	c.Events, c.Run = append(c.Events, status(at(ms), s)), idle()
	return c
}

func (f *fixture) save(c store.ContextChange) (store.Context, error) {
	return f.s.SaveContext(f.ctx, c)
}

// saved makes a change that has to be applied and returns the context.
func (f *fixture) saved(c store.ContextChange) store.Context {
	f.Helper()
	saved, err := f.save(c)
	if err != nil {
		f.Fatalf("SaveContext(%q) = %v, want it saved", c.Context.Key.ID, err)
	}
	return saved
}

// unsaved makes a change that has to be refused with an error and to leave
// nothing behind.
func (f *fixture) unsaved(want error, c store.ContextChange) {
	f.Helper()
	k := c.Context.Key
	before, absent := f.s.Context(f.ctx, k.Owner, k.ID, 9)
	if got, err := f.save(c); !errors.Is(err, want) {
		f.Errorf("SaveContext(%q) = %+v, %v, want %v", k.ID, got, err, want)
	}
	after, err := f.s.Context(f.ctx, k.Owner, k.ID, 9)
	if errors.Is(err, store.ErrNotFound) != errors.Is(absent, store.ErrNotFound) {
		f.Errorf("Context(%q) after a refusal = %v, before %v", k.ID, err, absent)
	}
	f.equal("Context() after a refusal", after, before)
	if c.Idempotency != nil && !errors.Is(want, store.ErrDuplicate) {
		f.noRecord(c.Idempotency.Owner, c.Idempotency.Key)
	}
}

// contexts reads a page of at least one context; by default all, newest first.
func (f *fixture) contexts(q store.ContextQuery) store.ContextPage {
	f.Helper()
	if q.Limit == 0 {
		q.Limit = 1000
	}
	if q.Sort == "" {
		q.Sort = store.ContextsByUpdated
	}
	page, err := f.s.Contexts(f.ctx, q)
	if err != nil {
		f.Fatalf("Contexts(%+v) = %v, want a page", q, err)
	}
	return page
}

func newestContexts(owner string, limit int) store.ContextQuery {
	return store.ContextQuery{Owner: owner, Sort: store.ContextsByUpdated, Limit: limit}
}

func contextIDs(contexts []store.Context) []string {
	ids := make([]string, len(contexts))
	for i, c := range contexts {
		ids[i] = c.Key.ID
	}
	return ids
}

// batch makes one call that removes tasks of a context, which has to do so.
func (f *fixture) batch(id string, limit int) (more bool) {
	f.Helper()
	call := f.s.FinishDelete
	if !slices.Contains(f.pendingDeletions(1<<20), owner+"/"+id) {
		call = f.s.DeleteContext
	}
	more, err := call(f.ctx, owner, id, limit)
	if err != nil {
		f.Fatalf("DeleteContext or FinishDelete(%q, %d) = %v, want it to go on", id, limit, err)
	}
	return more
}

// remove deletes a context of up to some tasks in batches.
func (f *fixture) remove(id string, tasks, limit int) {
	f.Helper()
	for range tasks/limit + 2 {
		if !f.batch(id, limit) {
			return
		}
	}
	f.Fatalf("DeleteContext(%q, %d) does not end with %d tasks", id, limit, tasks)
}

// pendingDeletions returns the contexts whose deletion has begun, as "owner/id", sorted.
func (f *fixture) pendingDeletions(limit int) []string {
	f.Helper()
	keys, err := f.s.PendingDeletions(f.ctx, limit)
	if err != nil {
		f.Fatalf("PendingDeletions(%d) = %v, want contexts", limit, err)
	}
	var names []string
	for _, k := range keys {
		names = append(names, k.Owner+"/"+k.ID)
	}
	slices.Sort(names)
	return names
}

// feedback adds feedback to tasks.
func (f *fixture) feedback(all ...store.Feedback) {
	f.Helper()
	for _, b := range all {
		if err := f.s.AddFeedback(f.ctx, b); err != nil {
			f.Fatalf("AddFeedback() = %v, want it added", err)
		}
	}
}

// feedbackOn returns all feedback on a task, newest first.
func (f *fixture) feedbackOn(k store.Key) []store.Feedback {
	f.Helper()
	return f.pagedFeedback(store.FeedbackQuery{Owner: k.Owner, TaskID: k.ID, Limit: 100})
}

// pagedFeedback reads feedback to its end.
func (f *fixture) pagedFeedback(q store.FeedbackQuery) []store.Feedback {
	f.Helper()
	var all []store.Feedback
	for range 200 {
		page, err := f.s.Feedback(f.ctx, q)
		if err != nil {
			f.Fatalf("Feedback(%+v) = %v, want a page", q, err)
		}
		all = append(all, page.Feedback...)
		if q.Cursor = page.Next; q.Cursor == nil {
			return all
		}
		if len(page.Feedback) != q.Limit {
			f.Errorf("Feedback() of at most %d = %d and a next page", q.Limit, len(page.Feedback))
		}
	}
	f.Fatalf("the pages of Feedback(%+v) have no end", q)
	return nil
}

func (f *fixture) summary(owner string) store.FeedbackSummary {
	f.Helper()
	s, err := f.s.FeedbackSummary(f.ctx, owner)
	if err != nil {
		f.Fatalf("FeedbackSummary(%q) = %v, want counts", owner, err)
	}
	return s
}

// sequence returns ids with a prefix and numbers from 0.
func sequence(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(prefix, i)
	}
	return ids
}
