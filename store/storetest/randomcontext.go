package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Random calls about contexts and feedback.

func (r *randomRun) contextKey() store.ContextKey {
	return store.ContextKey{
		Owner: rapid.SampledFrom([]string{"a", "b", "B"}).Draw(r.t, "owner"),
		ID:    fmt.Sprint("c", r.pick("context", 4)),
	}
}

func (r *randomRun) contextStatus() a2a.ContextStatus {
	return rapid.SampledFrom([]a2a.ContextStatus{
		a2a.ContextActive, a2a.ContextActive, a2a.ContextPaused, a2a.ContextCompleted, a2a.ContextArchived,
	}).Draw(r.t, "context status")
}

func (r *randomRun) tags() []string {
	return rapid.SampledFrom([][]string{nil, {"x"}, {"x", "y"}, {"y"}}).Draw(r.t, "tags")
}

func (r *randomRun) role() string {
	return rapid.SampledFrom([]string{"analyst", store.DefaultContextRole}).Draw(r.t, "role")
}

func (r *randomRun) parent() string {
	return rapid.SampledFrom([]string{"", "", "c0", "c1", "c2", "c3"}).Draw(r.t, "parent")
}

// saveContext makes a change that the model often accepts.
func (r *randomRun) saveContext() {
	k := r.contextKey()
	old, err := r.want.Context(r.ctx, k.Owner, k.ID, 0)
	c := store.ContextChange{
		Context: store.Context{
			Key: k, Name: fmt.Sprint("n", r.pick("name", 3)), Role: r.role(), Status: r.contextStatus(), Tags: r.tags(),
			ParentID: r.parent(), CreatedAt: r.time(),
		},
		RequireFinished: r.oneIn("tasks over", 3),
	}
	c.Context.UpdatedAt = c.Context.CreatedAt.Add(time.Duration(r.pick("later", 3)) * 10 * time.Millisecond)
	switch guard := r.pick("guard", 8); {
	case err == nil && guard < 6:
		c.Version = old.Version
	case guard == 7:
		c.Version = old.Version + 1
	default:
		c.Create = true
	}
	if c.Create && c.Context.ParentID == k.ID {
		c.Context.ParentID = "" // stores may report it as absent or as a cycle
	}
	if r.oneIn("metadata", 3) {
		c.Context.Metadata = map[string]any{"made": c.Context.Name}
	}
	if r.oneIn("idempotent", 4) {
		c = contextWithKey(c, fmt.Sprint("k", r.pick("key", 4)), r.pick("ms", 8)*10)
	}
	compareCalls(r, fmt.Sprintf("SaveContext(%+v)", c), func(s store.Store) (store.Context, error) { return s.SaveContext(r.ctx, c) })
}

// listContexts reads all pages of a random list.
func (r *randomRun) listContexts() {
	q := store.ContextQuery{
		Owner: r.contextKey().Owner, Sort: rapid.SampledFrom(contextSorts).Draw(r.t, "sort"), Ascending: r.oneIn("ascending", 2),
		Limit: 1 + r.pick("limit", 3), MaxTaskIDs: r.pick("tasks", 4),
	}
	maybe(r, "total limit", 2, &q.TotalLimit, func() int { return 1 + r.pick("count", 4) })
	for range r.pick("statuses", 3) {
		q.Statuses = append(q.Statuses, r.contextStatus())
	}
	maybe(r, "tagged", 3, &q.Tags, r.tags)
	maybe(r, "of role", 3, &q.Role, r.role)
	maybe(r, "after", 3, &q.CreatedAfter, r.time)
	maybe(r, "before", 3, &q.CreatedBefore, r.time)
	maybe(r, "skip", 3, &q.Offset, func() int { return r.pick("offset", 4) })
	for {
		want := compareCalls(r, fmt.Sprintf("Contexts(%+v)", q), func(s store.Store) (store.ContextPage, error) { return s.Contexts(r.ctx, q) })
		if q.Cursor, q.Offset = want.Next, 0; q.Cursor == nil {
			return
		}
	}
}

// deleteContext deletes a context completely, since the contract does not define which tasks a
// batch removes. It reads the context between the first batch and the others.
func (r *randomRun) deleteContext() {
	k, limit := r.contextKey(), 1+r.pick("limit", 3)
	more, err := r.got.DeleteContext(r.ctx, k.Owner, k.ID, limit)
	wantMore, wantErr := r.want.DeleteContext(r.ctx, k.Owner, k.ID, limit)
	if !errors.Is(err, wantErr) {
		r.t.Fatalf("DeleteContext(%+v, %d) = %v, want %v", k, limit, err, wantErr)
	}
	if wantErr != nil {
		return
	}
	if wantMore && !more {
		r.t.Fatalf("DeleteContext(%+v, %d) = no more, want more", k, limit)
	}
	if wantMore {
		if r.reopen != nil && r.oneIn("reopen", 2) {
			r.got = r.reopen(r.got)
		}
		r.readContext(k)
		compareCalls(r, "PendingDeletions()", func(s store.Store) ([]store.ContextKey, error) { return s.PendingDeletions(r.ctx, 9) })
		created := withKey(newTask(store.Key{Owner: k.Owner, ID: "9"}, k.ID, at(0)), "k9", at(0))
		compareCalls(r, "Commit() during a deletion", func(s store.Store) (int64, error) {
			results, err := s.Commit(r.ctx, created)
			if err != nil {
				return 0, err
			}
			return results[0].Seq, results[0].Err
		})
	}
	r.finishDeletion("DeleteContext() of the store", r.got, k, more)
	r.finishDeletion("DeleteContext() of the model", r.want, k, wantMore)
	r.readContext(k)
}

// finishDeletion completes the deletion of a context.
func (r *randomRun) finishDeletion(label string, s store.Store, k store.ContextKey, more bool) {
	r.t.Helper()
	for n := 0; more; n++ {
		var err error
		if more, err = s.DeleteContext(r.ctx, k.Owner, k.ID, 1); err != nil || n > 9 {
			r.t.Fatalf("%s, call %d = %v, want nil and no more", label, n, err)
		}
	}
}

func (r *randomRun) readContext(k store.ContextKey) {
	tasks := r.pick("tasks", 4)
	compareCalls(r, "Context()", func(s store.Store) (store.Context, error) { return s.Context(r.ctx, k.Owner, k.ID, tasks) })
}

func (r *randomRun) addFeedback() {
	b := store.Feedback{Key: r.key(), ID: fmt.Sprint("f", r.pick("feedback", 3)), Rating: r.pick("rating", 6), CreatedAt: r.time()}
	compareCalls(r, "AddFeedback()", func(s store.Store) (struct{}, error) { return struct{}{}, s.AddFeedback(r.ctx, b) })
}

// listFeedback reads all pages of feedback.
func (r *randomRun) listFeedback() {
	q := store.FeedbackQuery{Owner: r.key().Owner, Limit: 1 + r.pick("limit", 3)}
	if r.oneIn("of a task", 3) {
		q.TaskID = r.key().ID
	}
	for {
		want := compareCalls(r, fmt.Sprintf("Feedback(%+v)", q), func(s store.Store) (store.FeedbackPage, error) { return s.Feedback(r.ctx, q) })
		if q.Cursor = want.Next; q.Cursor == nil {
			return
		}
	}
}

// compareContexts compares all contexts and feedback of the two stores.
func (r *randomRun) compareContexts(owners []string) {
	for _, o := range owners {
		compareCalls(r, "Contexts()", func(s store.Store) (store.ContextPage, error) {
			q := newestContexts(o, 10)
			q.MaxTaskIDs = 3
			return s.Contexts(r.ctx, q)
		})
		compareCalls(r, "Feedback()", func(s store.Store) (store.FeedbackPage, error) {
			return s.Feedback(r.ctx, store.FeedbackQuery{Owner: o, Limit: 100})
		})
	}
	for _, o := range slices.Concat(owners, []string{""}) {
		compareCalls(r, "FeedbackSummary()", func(s store.Store) (store.FeedbackSummary, error) { return s.FeedbackSummary(r.ctx, o) })
	}
	compareCalls(r, "PendingDeletions()", func(s store.Store) ([]store.ContextKey, error) { return s.PendingDeletions(r.ctx, 10) })
}
