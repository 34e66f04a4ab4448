package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/memory/states"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// subject adds data of each kind of an owner to a store: two contexts with three tasks, one of them
// in a state, feedback, a webhook, an endpoint that fails, records, a transcript, facts and blobs.
func subject(t *testing.T, s store.Store, owner string, state a2a.TaskState) {
	t.Helper()
	ctx, now := t.Context(), store.Time(time.Now())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range []string{"t1", "t2", "t3"} {
		m := message("x").Message
		queue := store.QueueEntry{Phase: store.PhaseIdle, Turn: 1, Lease: store.Lease{Fence: store.FirstFence(now)}}
		events := []store.Event{{Seq: 1, Time: now, State: a2a.StateSubmitted, Received: &m}, {Seq: 2, Time: now, State: a2a.StateCompleted}}
		if i == 2 && state != a2a.StateCompleted {
			events, queue.Phase = events[:1], store.PhaseQueued
		}
		results, err := s.Commit(ctx, store.Change{
			Key: store.Key{Owner: owner, ID: id}, Create: &store.Create{ContextID: fmt.Sprint("c", i/2)}, Queue: &queue, Events: events,
			Idempotency: &store.IdempotencyRecord{Owner: owner, Key: id, TaskID: id, CreatedAt: now},
		})
		must(err)
		must(results[0].Err)
	}
	key := store.Key{Owner: owner, ID: "t1"}
	must(s.AddFeedback(ctx, store.Feedback{Key: key, ID: "f", Text: "good", Rating: 5, CreatedAt: now}))
	_, err := s.SaveWebhook(ctx, store.Webhook{Task: key, ID: "w", Endpoint: "https://example.com:443", Data: []byte("{}")}, store.WebhookCursor{}, now)
	must(err)
	must(s.SaveEndpoint(ctx, store.Endpoint{Name: "https://example.com:443 " + owner, Failures: 3, FailedAt: now, UpdatedAt: now}))
	c := engine.Contracts{}.WithParts(s, nil)
	_, err = transcripts.In(c.Stores).Append(ctx, history.Key{Owner: owner, Agent: "a", Session: "c0"}, history.AppendParams{
		Messages: []history.Message{{Body: json.RawMessage(`"hello"`)}, {Body: json.RawMessage(`"bye"`)}},
	})
	must(err)
	_, err = facts.In(c.Stores).Save(ctx, memory.Scope{Owner: owner, Agent: "a"}, "likes tea", memory.SaveParams{})
	must(err)
	if documents := documentsOf(s); documents != nil {
		_, err = documents.Add(ctx, vector.Key{Owner: owner, Collection: "notes"}, vector.WriteParams{Documents: []vector.Document{{Text: "likes tea"}}})
		must(err)
	}
	_, err = blobs.In(c.Stores).Put(ctx, strings.NewReader("content"), blob.PutParams{Owner: owner, Holder: "task/t1"})
	must(err)
	states, err := memory.NewShortTerm(memory.ShortTermConfig{Records: store.NewUpdater(s)})
	must(err)
	_, err = states.Set(ctx, memory.Key{Owner: owner, Agent: "a", Session: "c0"}, map[string]any{"n": 1}, memory.AnyVersion)
	must(err)
	boards, err := board.New(board.Config{Records: store.NewUpdater(s)})
	must(err)
	_, err = boards.Create(ctx, board.CreateParams{Owner: owner, Conversation: "c0", Titles: []string{"t"}})
	must(err)
}

// documentsOf returns the documents of a store, nil if it stores none.
func documentsOf(s store.Store) vector.Store {
	if p, ok := s.(interface {
		Vectors(cfg vector.Config) vector.Store
	}); ok {
		return p.Vectors(vector.Config{})
	}
	return nil
}

// left returns how much data of each kind an owner has.
func left(t *testing.T, s store.Store, owner string) map[string]int {
	t.Helper()
	ctx, n := t.Context(), map[string]int{}
	add := func(kind string, count int, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if count > 0 {
			n[kind] = count
		}
	}
	contexts, err := s.Contexts(ctx, store.ContextQuery{Owner: owner, Sort: store.ContextsByCreated, Limit: 100})
	add("contexts", len(contexts.Contexts), err)
	tasks, err := s.Tasks(ctx, store.Query{Owner: owner, Limit: 100})
	add("tasks", len(tasks.Tasks), err)
	feedback, err := s.FeedbackSummary(ctx, owner)
	add("feedback", feedback.Count(), err)
	lanes, err := s.Lanes(ctx, store.LaneQuery{Owner: owner, Limit: 100})
	add("webhooks", len(lanes.Lanes), err)
	endpoints, err := s.Endpoints(ctx)
	count := 0
	for _, e := range endpoints {
		if strings.HasSuffix(e.Name, " "+owner) {
			count++
		}
	}
	add("endpoints", count, err)
	if _, err := s.Idempotency(ctx, owner, "t1"); !errors.Is(err, store.ErrNotFound) {
		add("idempotency", 1, err)
	}
	records, err := s.Records(ctx, store.RecordQuery{Owner: owner, Limit: 100})
	add("records", len(records.Records), err)
	c := engine.Contracts{}.WithParts(s, nil)
	sessions, err := transcripts.In(c.Stores).(history.SessionLister).Sessions(ctx, history.SessionQuery{Owner: owner})
	add("sessions", len(sessions.Sessions), err)
	facts, err := facts.In(c.Stores).(memory.Lister).Facts(ctx, memory.FactQuery{Owner: owner})
	add("facts", len(facts.Facts), err)
	blobs, err := blobs.In(c.Stores).List(ctx, blob.ListParams{Owner: owner})
	add("blobs", len(blobs.Blobs), err)
	if documents := documentsOf(s); documents != nil {
		collections, err := documents.Collections(ctx, owner)
		add("documents", len(collections), err)
	}
	removals, err := s.Removals(ctx, store.Removal{Key: store.Key{Owner: owner}}, 1)
	if len(removals) > 0 && removals[0].Key.Owner != owner {
		removals = nil
	}
	add("removals", len(removals), err)
	return n
}

var everything = map[string]int{
	"contexts": 2, "tasks": 3, "feedback": 1, "webhooks": 1, "endpoints": 1, "idempotency": 1, "records": 2, "sessions": 1, "facts": 1, "blobs": 1,
}

func wantLeft(t *testing.T, s store.Store, owner string, want map[string]int) {
	t.Helper()
	want = maps.Clone(want)
	if want["facts"] > 0 && documentsOf(s) != nil {
		want["documents"] = 1
	}
	if diff := cmp.Diff(want, left(t, s, owner)); diff != "" {
		t.Errorf("data of %s, -want +got:\n%s", owner, diff)
	}
}

func TestForgetRemovesEverythingOfThePrincipalOnly(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		subject(t, s, "alice", a2a.StateCompleted)
		subject(t, s, "bob", a2a.StateCompleted)
		wantLeft(t, s, "alice", everything)
		got, err := engine.Forget(t.Context(), engine.ForgetParams{Store: s, Owner: "alice"})
		want := engine.ForgetReport{
			Removed: contract.Counts{
				"contexts": 2, "tasks": 3, "feedback": 1, "webhooks": 1, "records": 2, "sessions": 1, "messages": 2, "facts": 1, "factVersions": 1, "blobs": 1, "blobBytes": 7,
			},
			Notes: []string{"a running server removes the contents of the blobs after their grace period"},
		}
		if documentsOf(s) != nil {
			want.Removed["documents"] = 1
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Forget(): %v, report, -want +got:\n%s", err, diff)
		}
		wantLeft(t, s, "alice", map[string]int{})
		wantLeft(t, s, "bob", everything)
		got, err = engine.Forget(t.Context(), engine.ForgetParams{Store: s, Owner: "alice"})
		if err != nil || !cmp.Equal(got, engine.ForgetReport{}) {
			t.Errorf("Forget() again = %+v, %v, want nothing to do", got, err)
		}
	})
}

func TestForgetCancelsTasksOnlyIfAllowed(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		subject(t, s, "alice", a2a.StateSubmitted)
		_, err := engine.Forget(t.Context(), engine.ForgetParams{Store: s, Owner: "alice"})
		if a2a.CodeOf(err) != a2a.CodeConflict || !strings.Contains(err.Error(), `"t3"`) {
			t.Errorf("Forget() = %v, want conflict with the task", err)
		}
		wantLeft(t, s, "alice", everything)
		got, err := engine.Forget(t.Context(), engine.ForgetParams{Store: s, Owner: "alice", Cancel: true})
		if err != nil || got.Canceled != 1 || got.Removed["tasks"] != 3 {
			t.Errorf("Forget() with Cancel = %+v, %v, want a canceled task", got, err)
		}
		wantLeft(t, s, "alice", map[string]int{})
	})
}

func TestForgetEndsRunningHandlers(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		ended := make(chan struct{})
		started := make(chan struct{})
		e := start(t, engine.Config{Store: s, Handler: func(ctx context.Context, t *engine.Turn) error {
			close(started)
			<-ctx.Done()
			close(ended)
			return ctx.Err()
		}})
		if _, err := e.Send(t.Context(), alice, message("x"), engine.SendOptions{}); err != nil {
			t.Fatal(err)
		}
		<-started
		got, err := engine.Forget(t.Context(), engine.ForgetParams{Store: s, Engine: e, Owner: alice.ID, Cancel: true})
		if err != nil || got.Canceled != 1 || got.Removed["tasks"] != 1 {
			t.Errorf("Forget() = %+v, %v, want the running task", got, err)
		}
		<-ended
		wantLeft(t, s, alice.ID, map[string]int{})
	})
}

// Whatever call fails, another Forget removes the rest.
func TestForgetContinuesAfterFailures(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Tasks", "Contexts", "DeleteContext", "FinishDelete", "PendingDeletions", "Lanes", "Endpoints", "SaveEndpoint", "Records", "SaveRecords", "FeedbackSummary", "PurgeDeleted", "Commit"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			for n := 1; n < 20; n++ {
				s := inmem.New()
				subject(t, s, "alice", a2a.StateSubmitted)
				failed := false
				faulty := storetest.Faulty(s, func(c storetest.Call) storetest.Fault {
					if c.Method == method && c.N == n {
						failed = true
						return storetest.FailBefore
					}
					return storetest.Pass
				})
				p := engine.ForgetParams{Store: faulty, Contracts: engine.Contracts{}.WithParts(s, nil), Owner: "alice", Cancel: true}
				_, err := engine.Forget(t.Context(), p)
				if failed == (err == nil) {
					t.Fatalf("Forget() with a failure = %v, failed: %t", err, failed)
				}
				if _, err := engine.Forget(t.Context(), engine.ForgetParams{Store: s, Owner: "alice", Cancel: true}); err != nil {
					t.Fatalf("Forget() again = %v", err)
				}
				wantLeft(t, s, "alice", map[string]int{})
				if !failed {
					return
				}
			}
		})
	}
}

// writer is a store to which the principal writes whenever its contexts are listed.
type busyWriter struct {
	history.Provider
	history.SessionLister
	appends int
}

func (w *busyWriter) Sessions(ctx context.Context, q history.SessionQuery) (history.SessionPage, error) {
	if q.Next == nil && w.appends > 0 {
		w.appends--
		_, err := w.Append(ctx, history.Key{Owner: q.Owner, Agent: "a", Session: fmt.Sprint(w.appends)}, history.AppendParams{Messages: []history.Message{{Body: json.RawMessage(`1`)}}})
		if err != nil {
			return history.SessionPage{}, err
		}
	}
	return w.SessionLister.Sessions(ctx, q)
}

func TestForgetRemovesWhatIsWrittenMeanwhile(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	w := &busyWriter{historysql.Of(s), historysql.Of(s).(history.SessionLister), 3}
	got, err := engine.Forget(t.Context(), engine.ForgetParams{Store: s, Contracts: engine.Contracts{Stores: []contract.Store{transcripts.Of(w)}}, Owner: "alice"})
	if err != nil || got.Removed["sessions"] != 3 {
		t.Errorf("Forget() = %+v, %v, want 3 sessions", got, err)
	}
	wantLeft(t, s, "alice", map[string]int{})
}

// onlyProvider is a store without optional interfaces.
type onlyProvider struct{ history.Provider }

func TestForgetReportsWhatItCannotRemove(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	other, err := memory.NewShortTerm(memory.ShortTermConfig{Records: store.NewUpdater(inmem.New())})
	if err != nil {
		t.Fatal(err)
	}
	k := memory.Key{Owner: "alice", Agent: "a", Session: "s"}
	if _, err := other.Set(t.Context(), k, map[string]any{"n": 1}, memory.AnyVersion); err != nil {
		t.Fatal(err)
	}
	got, err := engine.Forget(t.Context(), engine.ForgetParams{Store: s, Contracts: engine.Contracts{Stores: []contract.Store{transcripts.Of(onlyProvider{historysql.Of(s)}), states.Of(other)}}, Owner: "alice"})
	want := engine.ForgetReport{Removed: contract.Counts{"states": 1}, Notes: []string{"transcripts were not removed: their store does not list sessions"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Forget(): %v, report, -want +got:\n%s", err, diff)
	}
	if st, err := other.Get(t.Context(), k); err != nil || st.Values != nil {
		t.Errorf("Get() = %+v, %v, want no state", st, err)
	}
	for _, owner := range []string{"", "\x1fholdfast"} {
		if _, err := engine.Forget(t.Context(), engine.ForgetParams{Store: s, Owner: owner}); a2a.CodeOf(err) != a2a.CodeInvalid {
			t.Errorf("Forget() of the owner %q = %v, want invalid_params", owner, err)
		}
	}
}

// Removals of tasks remain for a server that has the stores, if Forget cannot remove their data.
func TestForgetKeepsRemovalsOfDataThatRemains(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	subject(t, s, "alice", a2a.StateCompleted)
	_, err := engine.Forget(t.Context(), engine.ForgetParams{Store: s, Contracts: engine.Contracts{Stores: []contract.Store{transcripts.Of(onlyProvider{historysql.Of(s)})}}, Owner: "alice"})
	wantError(t, "Forget()", err, "")
	if found, err := s.Removals(t.Context(), store.Removal{}, 10); err != nil || len(found) != 3 {
		t.Errorf("Removals() = %d, %v, want the removals of the 3 tasks", len(found), err)
	}
	_, err = engine.Forget(t.Context(), engine.ForgetParams{Store: s, Owner: "alice"})
	wantError(t, "Forget()", err, "")
	wantLeft(t, s, "alice", map[string]int{})
}

func TestForgetFinishesDeletionsBehindThoseOfOthers(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	pend := func(owner string, contexts int) {
		for i := range contexts {
			m, at, c := message("x").Message, store.Time(time.Now()), fmt.Sprint("c", i)
			commit(t, s, store.Change{
				Key: store.Key{Owner: owner, ID: c}, Create: &store.Create{ContextID: c}, Queue: &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1},
				Events: []store.Event{{Time: at, State: a2a.StateSubmitted, Received: &m}, {Time: at, State: a2a.StateCompleted}},
			})
			if more, err := s.DeleteContext(t.Context(), owner, c, 0); err != nil || !more {
				t.Fatalf("DeleteContext() = %t, %v, want a pending deletion", more, err)
			}
		}
	}
	pend("aaron", 1100)
	pend("alice", 1)
	_, err := engine.Forget(t.Context(), engine.ForgetParams{Store: s, Owner: "alice"})
	wantError(t, "Forget()", err, "")
	pending, err := s.PendingDeletions(t.Context(), 2000)
	if err != nil || len(pending) != 1100 {
		t.Errorf("PendingDeletions() = %d, %v, want the 1100 of the other owner", len(pending), err)
	}
}
