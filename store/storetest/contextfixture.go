package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// implicitContext returns the context that is created with its first task at ms, with the given
// task ids.
func implicitContext(owner, id string, ms int, tasks ...string) store.Context {
	return store.Context{
		Key: store.ContextKey{Owner: owner, ID: id}, Role: store.DefaultContextRole, Status: a2a.ContextActive,
		CreatedAt: at(ms), UpdatedAt: at(ms), Version: 1, TaskCount: len(tasks), TaskIDs: tasks,
	}
}

// fullContext returns a context with a value in every field except ParentID.
func fullContext(owner, id string, ms int) store.Context {
	return store.Context{
		Key: store.ContextKey{Owner: owner, ID: id}, Name: "name of " + id, Description: "about " + id, Role: "analyst",
		Status: a2a.ContextActive, Tags: []string{"a", "b"}, Metadata: map[string]any{"a": map[string]any{"b": []any{"c"}}},
		ReferenceIDs: []string{"r2", "r1"}, Extensions: map[string]any{"x": map[string]any{"y": []any{"z"}}},
		CreatedAt: at(ms), UpdatedAt: at(ms),
	}
}

// newContext returns the change that creates a fullContext.
func newContext(id string, ms int) store.ContextChange {
	return store.ContextChange{Context: fullContext(owner, id, ms), Create: true}
}

// withStatus returns the change of a context to another status.
func withStatus(c store.Context, s a2a.ContextStatus) store.ContextChange {
	c.Status = s
	return store.ContextChange{Context: c, Version: c.Version}
}

// withParent returns the change of a context to another parent.
func withParent(c store.Context, parent string) store.ContextChange {
	c.ParentID = parent
	return store.ContextChange{Context: c, Version: c.Version}
}

// contextWithKey adds an idempotency record to a change of a context.
func contextWithKey(c store.ContextChange, k string, ms int) store.ContextChange {
	c.Idempotency = &store.IdempotencyRecord{
		Owner: c.Context.Key.Owner, Key: k, Hash: [32]byte{3, 4, 254}, TaskID: c.Context.Key.ID, CreatedAt: at(ms),
	}
	return c
}

// idleTask returns the change that creates an idle task in a state.
func idleTask(k store.Key, contextID string, ms int, s a2a.TaskState) store.Change {
	c := newTask(k, contextID, at(ms))
	c.Events, c.Queue = append(c.Events, statusEvent(at(ms), s)), idle()
	return c
}

func (f *fixture) trySaveContext(c store.ContextChange) (store.Context, error) {
	return f.s.SaveContext(f.ctx, c)
}

// saveContext makes a change that must succeed and returns the context.
func (f *fixture) saveContext(c store.ContextChange) store.Context {
	f.Helper()
	return suite.Call(f.trySaveContext(c)).Must(f, "SaveContext(%q)", c.Context.Key.ID)
}

// wantSaveRejected makes a change that must fail with an error and have no effect.
func (f *fixture) wantSaveRejected(want error, c store.ContextChange) {
	f.Helper()
	k := c.Context.Key
	before, absent := f.s.Context(f.ctx, k.Owner, k.ID, 9)
	suite.Call(f.trySaveContext(c)).Fails(f, want, "SaveContext(%q)", k.ID)
	after, err := f.s.Context(f.ctx, k.Owner, k.ID, 9)
	if errors.Is(err, store.ErrNotFound) != errors.Is(absent, store.ErrNotFound) {
		f.Errorf("Context(%q) after a rejected change = %v, before %v", k.ID, err, absent)
	}
	f.equal("Context() after a rejected change", after, before)
	if c.Idempotency != nil && !errors.Is(want, store.ErrDuplicate) {
		f.wantNoRecord(c.Idempotency.Owner, c.Idempotency.Key)
	}
}

// contexts reads a page of contexts. By default the page is unlimited and sorted by update,
// newest first.
func (f *fixture) contexts(q store.ContextQuery) store.ContextPage {
	f.Helper()
	if q.Limit == 0 {
		q.Limit = 1000
	}
	if q.Sort == "" {
		q.Sort = store.ContextsByUpdated
	}
	return suite.Call(f.s.Contexts(f.ctx, q)).Must(f, "Contexts(%+v)", q)
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

// deleteContextBatch makes one call that starts or continues the deletion of a context.
func (f *fixture) deleteContextBatch(id string, limit int) (more bool) {
	f.Helper()
	call := f.s.FinishDelete
	if !slices.Contains(f.pendingDeletions(1<<20), owner+"/"+id) {
		call = f.s.DeleteContext
	}
	return suite.Call(call(f.ctx, owner, id, limit)).Must(f, "DeleteContext() or FinishDelete() of %q with limit %d", id, limit)
}

// deleteContext deletes a context with up to the given number of tasks, in batches.
func (f *fixture) deleteContext(id string, tasks, limit int) {
	f.Helper()
	for range tasks/limit + 2 {
		if !f.deleteContextBatch(id, limit) {
			return
		}
	}
	f.Fatalf("DeleteContext(%q, %d) is not complete for %d tasks", id, limit, tasks)
}

// pendingDeletions returns the contexts that are pending deletion, as "owner/id", sorted.
func (f *fixture) pendingDeletions(limit int) []string {
	f.Helper()
	keys := suite.Call(f.s.PendingDeletions(f.ctx, limit)).Must(f, "PendingDeletions(%d)", limit)
	var names []string
	for _, k := range keys {
		names = append(names, k.Owner+"/"+k.ID)
	}
	slices.Sort(names)
	return names
}

// addFeedback adds feedback that must be accepted.
func (f *fixture) addFeedback(all ...store.Feedback) {
	f.Helper()
	for _, b := range all {
		suite.Do(f.s.AddFeedback(f.ctx, b)).Must(f, "AddFeedback()")
	}
}

// feedbackOf returns all feedback on a task, newest first.
func (f *fixture) feedbackOf(k store.Key) []store.Feedback {
	f.Helper()
	return f.allFeedback(store.FeedbackQuery{Owner: k.Owner, TaskID: k.ID, Limit: 100})
}

// allFeedback reads all pages of feedback.
func (f *fixture) allFeedback(q store.FeedbackQuery) []store.Feedback {
	f.Helper()
	var all []store.Feedback
	for range 200 {
		page := suite.Call(f.s.Feedback(f.ctx, q)).Must(f, "Feedback(%+v)", q)
		all = append(all, page.Feedback...)
		if q.Cursor = page.Next; q.Cursor == nil {
			return all
		}
		suite.Equal(f, len(page.Feedback), q.Limit, "Feedback() with limit %d", q.Limit)
	}
	f.Fatalf("Feedback(%+v) has more than 200 pages", q)
	return nil
}

func (f *fixture) summary(owner string) store.FeedbackSummary {
	f.Helper()
	return suite.Call(f.s.FeedbackSummary(f.ctx, owner)).Must(f, "FeedbackSummary(%q)", owner)
}

// sequence returns n ids that consist of a prefix and a number from 0.
func sequence(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(prefix, i)
	}
	return ids
}
