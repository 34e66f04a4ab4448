package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/board/boards"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
	"github.com/holdfast-dev/holdfast/store/memory/states"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// dataStore is a store with transcripts, facts and blobs.
type dataStore interface {
	store.Store
	sqlkit.Source
}

// onDataStores runs a test on all backends with transcripts and blobs.
func onDataStores(t *testing.T, test func(t *testing.T, s dataStore)) {
	t.Helper()
	onAllStores(t, func(t *testing.T, _ string, s store.Store) { test(t, s.(dataStore)) })
}

// outage makes the stores of an engine fail while it is down.
type outage struct{ down atomic.Bool }

var errDown = errors.New("the other system is down")

func (o *outage) err() error {
	if !o.down.Load() {
		return nil
	}
	return errDown
}

type failingHistory struct {
	history.Provider
	o *outage
}

func (h failingHistory) Clear(ctx context.Context, k history.Key) error {
	return unless(h.o.err(), func() error { return h.Provider.Clear(ctx, k) })
}

func (h failingHistory) Count(ctx context.Context, k history.Key) (n int64, err error) {
	err = unless(h.o.err(), func() (err error) { n, err = h.Provider.Count(ctx, k); return err })
	return n, err
}

func (h failingHistory) Expire(ctx context.Context, now time.Time, limit int) (n int, err error) {
	err = unless(h.o.err(), func() (err error) { n, err = h.Provider.Expire(ctx, now, limit); return err })
	return n, err
}

type failingBlobs struct {
	*blobdriver.Blobs
	o *outage
}

func (b failingBlobs) UnpinAll(ctx context.Context, owner, holder string) error {
	return unless(b.o.err(), func() error { return b.Blobs.UnpinAll(ctx, owner, holder) })
}

// unless returns err or, if it is nil, the error of f.
func unless(err error, f func() error) error {
	if err != nil {
		return err
	}
	return f()
}

// keptData is what a task keeps in other stores: a message of its run and a pinned blob.
type keptData struct {
	*testing.T
	s       dataStore
	session history.Key
	refs    map[string]string // by task
}

// keep adds data of tasks. Each context has a message without a run.
func keep(t *testing.T, s dataStore, contextID string, tasks ...string) *keptData {
	t.Helper()
	k := &keptData{T: t, s: s, session: history.Key{Owner: alice.ID, Agent: "agent", Session: contextID}, refs: make(map[string]string)}
	k.append("")
	for _, id := range tasks {
		k.append(id)
		info, err := blobsql.Of(s, blob.Config{}).Put(t.Context(), bytes.NewReader([]byte(id)), blob.PutParams{Owner: alice.ID, Holder: "task/" + id})
		if err != nil {
			t.Fatalf("Put() = %v", err)
		}
		k.refs[id] = info.Ref
	}
	return k
}

func (k *keptData) append(run string) {
	k.Helper()
	_, err := historysql.Of(k.s).Append(k.Context(), k.session, history.AppendParams{Run: run, Messages: []history.Message{{Role: "user", Body: []byte(`"x"`)}}})
	if err != nil {
		k.Fatalf("Append() = %v", err)
	}
}

// left returns the runs in the transcript, the tasks with pinned blobs, and the number of
// removals.
func (k *keptData) left() (runs, pinned []string, removals int) {
	k.Helper()
	ctx := context.WithoutCancel(k.Context())
	for m, err := range history.All(ctx, historysql.Of(k.s), k.session, 0) {
		if err != nil {
			k.Fatalf("Page() = %v", err)
		}
		runs = append(runs, m.Run)
	}
	for id, ref := range k.refs {
		info, err := blobsql.Of(k.s, blob.Config{}).Stat(ctx, alice.ID, ref)
		if err != nil {
			k.Fatalf("Stat() = %v", err)
		}
		if len(info.Holders) > 0 {
			pinned = append(pinned, id)
		}
	}
	found, err := k.s.Removals(ctx, store.Removal{}, 1000)
	if err != nil {
		k.Fatalf("Removals() = %v", err)
	}
	slices.Sort(pinned)
	return runs, pinned, len(found)
}

// wantLeft checks that only the data of some tasks is left. With eventually, it waits for that.
func (k *keptData) wantLeft(eventually bool, wantRuns []string, tasks ...string) {
	k.Helper()
	want := fmt.Sprint(wantRuns, slices.Sorted(slices.Values(tasks)), 0)
	got := func() string {
		runs, pinned, removals := k.left()
		return fmt.Sprint(runs, pinned, removals)
	}
	if eventually {
		await.True(k.T, "the data of removed tasks is removed", func() bool { return got() == want })
	}
	if got := got(); got != want {
		k.Errorf("runs, tasks with pins and number of removals = %s, want %s", got, want)
	}
}

func TestDeletedTaskLeavesNothing(t *testing.T) {
	t.Parallel()
	onDataStores(t, func(t *testing.T, s dataStore) {
		e := start(t, engine.Config{Handler: commandHandler, Store: s})
		c := newID()
		deleted, kept := sendWait(t, e, messageIn(c, "x")).Key.ID, sendWait(t, e, messageIn(c, "x")).Key.ID
		data := keep(t, s, c, deleted, kept)
		wantError(t, "DeleteTask()", e.DeleteTask(t.Context(), alice, a2a.DeleteTaskParams{ID: deleted}), "")
		data.wantLeft(false, []string{"", kept}, kept)
	})
}

func TestExpiredTasksLeaveNothing(t *testing.T) {
	t.Parallel()
	onDataStores(t, func(t *testing.T, s dataStore) {
		c := newID()
		var tasks []string
		for range 450 { // more than two batches
			tasks = append(tasks, newID())
		}
		addOldTasksIn(t, s, c, 2*time.Hour, tasks...)
		addOldTasksIn(t, s, c, time.Minute, "kept")
		data := keep(t, s, c, slices.Concat(tasks[:3], tasks[447:], []string{"kept"})...)
		start(t, engine.Config{Handler: commandHandler, Store: s, Retention: engine.Retention{engine.RetainTasks: time.Hour}})
		data.wantLeft(true, []string{"", "kept"}, "kept")
	})
}

// addOldTasksIn adds completed tasks to a context.
func addOldTasksIn(t *testing.T, s store.Store, contextID string, ago time.Duration, ids ...string) {
	t.Helper()
	for _, id := range ids {
		m, at := message("x").Message, store.Time(time.Now().Add(-ago))
		commit(t, s, store.Change{
			Key: store.Key{Owner: alice.ID, ID: id}, Create: &store.Create{ContextID: contextID}, Queue: &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1},
			Events: []store.Event{{Time: at, State: a2a.StateSubmitted, Received: &m}, {Time: at, State: a2a.StateCompleted}},
		})
	}
}

// A process dies between the removal of tasks and the removal of their data, at each call of a
// store. Another process completes the removal.
func TestInterruptedRemovalIsCompleted(t *testing.T) {
	t.Parallel()
	faults := map[string]storetest.Plan{
		"removals cannot be read": func(c storetest.Call) storetest.Fault { return failIf(c.Method == "Removals", storetest.FailBefore) },
		"forgetting fails": func(c storetest.Call) storetest.Fault {
			return failIf(c.Method == "ForgetRemovals", storetest.FailBefore)
		},
		"forgetting is not acknowledged": func(c storetest.Call) storetest.Fault {
			return failIf(c.Method == "ForgetRemovals", storetest.FailAfter)
		},
		"the deletion is not acknowledged": func(c storetest.Call) storetest.Fault {
			return failIf(c.Method == "DeleteTask" || c.Method == "ExpireTasks" || c.Method == "Removals", storetest.FailAfter)
		},
		"the other systems are down": nil,
	}
	for name, plan := range faults { // each in a store of its own, because its engine removes all old tasks
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onDataStores(t, func(t *testing.T, s dataStore) { testInterruptedRemoval(t, s, plan) })
		})
	}
}

// testInterruptedRemoval removes tasks with faults of a plan; nil means that the other systems are
// down.
func testInterruptedRemoval(t *testing.T, s dataStore, plan storetest.Plan) {
	c, deleted, expired, kept := newID(), newID(), newID(), newID()
	addOldTasksIn(t, s, c, 2*time.Hour, deleted, expired)
	addOldTasksIn(t, s, c, time.Minute, kept)
	data := keep(t, s, c, deleted, expired, kept)
	o := &outage{}
	o.down.Store(plan == nil)
	e := start(t, engine.Config{Handler: commandHandler, Store: storetest.Faulty(s, orPass(plan)), Contracts: engine.Contracts{Stores: []contract.Store{transcripts.Of(failingHistory{historysql.Of(s), o}), blobs.Of(failingBlobs{blobsql.Of(s, blob.Config{}), o})}}, Retention: engine.Retention{engine.RetainTasks: time.Hour}, Turns: engine.Turns{Lease: 2 * time.Second}}) // passes are four leases apart
	_ = e.DeleteTask(t.Context(), alice, a2a.DeleteTaskParams{ID: deleted})
	await.True(t, "the tasks are removed", func() bool {
		for _, id := range []string{deleted, expired} {
			if _, err := s.Task(t.Context(), store.Key{Owner: alice.ID, ID: id}, store.TaskOptions{}); !errors.Is(err, store.ErrNotFound) {
				return false
			}
		}
		return true
	})
	stop(t, e)
	if _, pinned, _ := data.left(); plan == nil && len(pinned) != 3 {
		t.Errorf("pins of %v are left while the other systems are down, want all", pinned)
	}
	next := start(t, engine.Config{Handler: commandHandler, Store: s, Turns: engine.Turns{Lease: 2 * time.Second}})
	data.wantLeft(true, []string{"", kept}, kept)
	stop(t, next)
}

func failIf(fails bool, fault storetest.Fault) storetest.Fault {
	if fails {
		return fault
	}
	return storetest.Pass
}

func orPass(p storetest.Plan) storetest.Plan {
	if p == nil {
		return func(storetest.Call) storetest.Fault { return storetest.Pass }
	}
	return p
}

// A task that was created with the id of a removed one keeps its data.
func TestTaskWithARemovedIDKeepsItsData(t *testing.T) {
	t.Parallel()
	onDataStores(t, func(t *testing.T, s dataStore) {
		c := newID()
		addOldTasksIn(t, s, c, time.Hour, "reused", "removed")
		for _, id := range []string{"reused", "removed"} {
			if _, err := s.DeleteTask(t.Context(), store.Key{Owner: alice.ID, ID: id}, false); err != nil {
				t.Fatalf("DeleteTask() = %v", err)
			}
		}
		addOldTasksIn(t, s, c, time.Minute, "reused")
		data := keep(t, s, c, "reused", "removed")
		start(t, engine.Config{Handler: commandHandler, Store: s})
		data.wantLeft(true, []string{"", "reused"}, "reused")
	})
}

// sessionHandler keeps a state and a board.
func sessionHandler(ctx context.Context, turn *engine.Turn) error {
	if _, err := boards.For(turn.Contracts()).Create(ctx, boards.Params{}); err != nil {
		return err
	}
	return states.For(turn.Contracts()).Update(ctx, map[string]any{"a": 1})
}

// The deletion of a context is interrupted at each of its steps. The next process removes all that
// belongs to the context before its id is free.
func TestInterruptedClearLeavesNothing(t *testing.T) {
	t.Parallel()
	steps := []string{"DeleteContext 1", "Records 1", "FinishDelete 1", "SaveRecords 1", "SaveRecords 2", "history", "FinishDelete 2"}
	onDataStores(t, func(t *testing.T, s dataStore) {
		for _, step := range steps {
			t.Run(step, func(t *testing.T) { testInterruptedClear(t, s, step) })
		}
	})
}

// testInterruptedClear clears a context in a process that has no store any more after a step.
func testInterruptedClear(t *testing.T, s dataStore, step string) {
	var clearing, dead atomic.Bool
	var calls [4]atomic.Int64 // by method
	methods := []string{"DeleteContext", "Records", "FinishDelete", "SaveRecords"}
	plan := func(c storetest.Call) storetest.Fault {
		i := slices.Index(methods, c.Method)
		switch {
		case dead.Load() || c.Method == "PendingDeletions":
			return storetest.FailBefore
		case !clearing.Load() || i < 0:
			return storetest.Pass
		case fmt.Sprint(c.Method, " ", calls[i].Add(1)) == step:
			dead.Store(true)
			return storetest.FailAfter
		}
		return storetest.Pass
	}
	o := &outage{}
	e := start(t, engine.Config{
		Handler: sessionHandler, Store: storetest.Faulty(s, plan),
		Contracts: engine.Contracts{Stores: []contract.Store{transcripts.Of(failingHistory{historysql.Of(s), o}), blobs.Of(blobsql.Of(s, blob.Config{}))}},
	})
	c := newID()
	task := sendIn(t, e, c).Key.ID
	data := keep(t, s, c, task)
	o.down.Store(step == "history")
	clearing.Store(true)
	_, err := clearContext(t, e, c, false)
	wantError(t, "ClearContext()", err, a2a.CodeUnavailable)
	stop(t, e)
	next := start(t, engine.Config{Handler: sessionHandler, Store: s})
	data.wantLeft(true, nil)
	wantDeleted(t, next, s, c, task)
	if state, boards := sessionState(t, s, c), boardsOf(t, s, c); state != "null" || len(boards) != 0 {
		t.Errorf("cleared context has state %s and %d boards", state, len(boards))
	}
	stop(t, next)
}

// While a store of transcripts fails or does not answer, blobs and facts are removed, and the log
// has few lines.
func TestFailingStoreDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	for name, hang := range map[string]bool{"fails": false, "does not answer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, o, log := inmem.New(), &outage{}, &logLines{}
				o.down.Store(true)
				var h history.Provider = failingHistory{historysql.Of(s), o}
				if hang {
					h = hangingHistory{historysql.Of(s)}
				}
				e := start(t, engine.Config{
					Handler: commandHandler, Store: s, Turns: engine.Turns{Lease: time.Minute, Poll: time.Minute}, Logger: log.logger(),
					Contracts: engine.Contracts{Stores: []contract.Store{transcripts.Of(h)}}, Retention: engine.Retention{engine.RetainTasks: time.Hour},
				})
				task := sendWait(t, e, message("x"))
				data := keep(t, s, task.ContextID, task.Key.ID)
				facts := memorysql.Of(s, memory.LongTermConfig{})
				_, err := facts.Save(t.Context(), memory.Scope{Owner: alice.ID, Agent: "agent"}, "x", memory.SaveParams{TTL: time.Minute})
				wantError(t, "Save()", err, "")
				_, err = blobsql.Of(s, blob.Config{}).Put(t.Context(), bytes.NewReader([]byte("x")), blob.PutParams{Owner: alice.ID, TTL: time.Minute})
				wantError(t, "Put()", err, "")
				time.Sleep(3 * time.Hour)
				got := e.Health(t.Context())
				if x := got.Expired; x.Tasks != 1 || !maps.Equal(got.Swept, contract.Counts{"facts": 1, "blobs": 1}) || len(got.Problems) > 0 {
					t.Errorf("Health() = %+v, want a removed task, fact and blob", got)
				}
				if _, pinned, removals := data.left(); len(pinned) > 0 || removals != 1 {
					t.Errorf("%d tasks have pins and %d removals are left, want 0 and 1", len(pinned), removals)
				}
				if n := log.count("sweep failed, retrying"); n < 2 || n > 100 {
					t.Errorf("the log has %d warnings in 3 hours with two failing kinds, want one per kind and pass", n)
				}
			})
		})
	}
}

// hangingHistory does not answer before the context is done.
type hangingHistory struct{ history.Provider }

func (hangingHistory) Count(ctx context.Context, _ history.Key) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func (hangingHistory) Expire(ctx context.Context, _ time.Time, _ int) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func TestExpiredDataOfHandlersIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inmem.New()
		e := start(t, engine.Config{Handler: commandHandler, Store: s, Turns: engine.Turns{Lease: time.Minute, Poll: time.Minute}})
		for i := range 450 {
			k := history.Key{Owner: alice.ID, Agent: "agent", Session: fmt.Sprint(i)}
			_, err := historysql.Of(s).Append(t.Context(), k, history.AppendParams{TTL: time.Hour, Messages: []history.Message{{Body: []byte(`1`)}}})
			wantError(t, "Append()", err, "")
			_, err = blobsql.Of(s, blob.Config{}).Put(t.Context(), bytes.NewReader([]byte{byte(i)}), blob.PutParams{Owner: alice.ID, TTL: time.Hour})
			wantError(t, "Put()", err, "")
		}
		time.Sleep(50 * time.Minute)
		if got := e.Health(t.Context()).Swept; len(got) > 0 {
			t.Errorf("Health().Swept = %+v before the expiry, want none", got)
		}
		time.Sleep(15 * time.Minute)
		if got := e.Health(t.Context()).Swept; !maps.Equal(got, contract.Counts{"transcripts": 450, "blobs": 450}) {
			t.Errorf("Health().Swept = %+v, want 450 transcripts and blobs", got)
		}
		if n, err := blobsql.Of(s, blob.Config{}).Usage(t.Context(), alice.ID); err != nil || n.Blobs != 0 {
			t.Errorf("Usage() = %+v, %v, want none", n, err)
		}
	})
}

// keepingHandler appends to the transcript and puts a blob.
func keepingHandler(ctx context.Context, turn *engine.Turn) error {
	if err := transcripts.For(turn.Contracts()).AppendText(ctx, "user", "x"); err != nil {
		return err
	}
	_, err := blobs.For(turn.Contracts()).Put(ctx, bytes.NewReader([]byte("content")), blobs.Params{})
	return err
}

// kept returns the number of messages in a transcript, and the number of pinned blobs.
func kept(t *testing.T, s dataStore, contextID string) (messages int64, pinned int) {
	t.Helper()
	messages, err := historysql.Of(s).Count(t.Context(), history.Key{Owner: alice.ID, Agent: "agent", Session: contextID})
	wantError(t, "Count()", err, "")
	page, err := blobsql.Of(s, blob.Config{}).List(t.Context(), blob.ListParams{Owner: alice.ID})
	wantError(t, "List()", err, "")
	for _, info := range page.Blobs {
		if len(info.Holders) > 0 {
			pinned++
		}
	}
	return messages, pinned
}

func TestRemovalsRemoveDataOfHandlers(t *testing.T) {
	t.Parallel()
	onDataStores(t, func(t *testing.T, s dataStore) {
		e := start(t, engine.Config{Handler: keepingHandler, Store: s})
		c := newID()
		task := sendIn(t, e, c).Key.ID
		sendIn(t, e, c)
		if messages, pinned := kept(t, s, c); messages != 2 || pinned != 2 {
			t.Fatalf("the handlers kept %d messages and %d pinned blobs, want 2 and 2", messages, pinned)
		}
		wantError(t, "DeleteTask()", e.DeleteTask(t.Context(), alice, a2a.DeleteTaskParams{ID: task}), "")
		if messages, pinned := kept(t, s, c); messages != 1 || pinned != 1 {
			t.Errorf("%d messages and %d pinned blobs are left of two tasks, want 1 and 1", messages, pinned)
		}
		_, err := clearContext(t, e, c, false)
		wantError(t, "ClearContext()", err, "")
		await.True(t, "nothing is left of the context", func() bool {
			messages, pinned := kept(t, s, c)
			return messages == 0 && pinned == 0
		})
	})
}

// The messages of a handler that appended with the fence of its lease are removed.
func TestRemovalClearsAFencedRun(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		s, c := st.(dataStore), newID()
		addOldTasksIn(t, s, c, time.Hour, "fenced")
		data := keep(t, s, c)
		_, err := historysql.Of(s).Append(t.Context(), data.session, history.AppendParams{
			Run: "fenced", Fence: store.FirstFence(time.Now().Add(-time.Hour)) + 3, Messages: []history.Message{{Body: []byte(`1`)}},
		})
		wantError(t, "Append()", err, "")
		_, err = s.DeleteTask(t.Context(), store.Key{Owner: alice.ID, ID: "fenced"}, false)
		wantError(t, "DeleteTask()", err, "")
		start(t, engine.Config{Handler: commandHandler, Store: s})
		data.wantLeft(true, []string{""})
	})
}

// sessionHistory calls f before it counts the messages of a session.
type sessionHistory struct {
	history.Provider
	session string
	f       func(ctx context.Context) error
}

func (h sessionHistory) Count(ctx context.Context, k history.Key) (int64, error) {
	if k.Session == h.session {
		if err := h.f(ctx); err != nil {
			return 0, err
		}
	}
	return h.Provider.Count(ctx, k)
}

// removeTasks adds tasks to a context and removes them without their data.
func removeTasks(t *testing.T, s store.Store, contextID string, ids ...string) {
	t.Helper()
	addOldTasksIn(t, s, contextID, time.Hour, ids...)
	for _, id := range ids {
		_, err := s.DeleteTask(t.Context(), store.Key{Owner: alice.ID, ID: id}, false)
		wantError(t, "DeleteTask()", err, "")
	}
}

func numbered(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("a%03d", i))
	}
	return ids
}

// Removals that always fail, more than a batch, do not keep later ones from being completed.
func TestFailingRemovalsDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inmem.New()
		removeTasks(t, s, "fails", numbered(220)...)
		removeTasks(t, s, "works", "z")
		data := keep(t, s, "works", "z")
		h := sessionHistory{historysql.Of(s), "fails", func(context.Context) error { return errDown }}
		start(t, engine.Config{Handler: commandHandler, Store: s, Turns: engine.Turns{Lease: time.Minute, Poll: time.Minute}, Contracts: engine.Contracts{Stores: []contract.Store{transcripts.Of(h)}}})
		time.Sleep(time.Hour)
		if runs, pinned, removals := data.left(); len(runs) != 1 || len(pinned) > 0 || removals != 220 {
			t.Errorf("%d messages, pins of %v and %d removals are left, want 1, none and those 220 that fail", len(runs), pinned, removals)
		}
	})
}

// A store that is too slow for a batch, or that does not answer for some removals, does not keep
// completed ones from being forgotten.
func TestSlowRemovalsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inmem.New()
		removeTasks(t, s, "slow", numbered(220)...)
		calls := atomic.Int64{}
		h := sessionHistory{historysql.Of(s), "slow", func(ctx context.Context) error {
			if calls.Add(1) <= 8 {
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(time.Second)
			return nil
		}}
		start(t, engine.Config{Handler: commandHandler, Store: s, Turns: engine.Turns{Lease: time.Minute, Poll: time.Minute}, Contracts: engine.Contracts{Stores: []contract.Store{transcripts.Of(h)}}})
		time.Sleep(time.Hour)
		if left, err := s.Removals(t.Context(), store.Removal{}, 1000); err != nil || len(left) > 0 {
			t.Errorf("Removals() = %d, %v, want none", len(left), err)
		}
		if n := calls.Load(); n > 300 {
			t.Errorf("220 removals were tried %d times, want few repetitions", n)
		}
	})
}

// A task that was created with the id of a removed one in another context keeps its blobs, and the
// messages of the removed one are removed.
func TestTaskWithARemovedIDInAnotherContext(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		s := st.(dataStore)
		old, c := newID(), newID()
		removeTasks(t, s, old, "reused")
		addOldTasksIn(t, s, c, time.Minute, "reused")
		data, oldData := keep(t, s, c, "reused"), keep(t, s, old)
		oldData.append("reused")
		start(t, engine.Config{Handler: commandHandler, Store: s})
		oldData.wantLeft(true, []string{""})
		data.wantLeft(false, []string{"", "reused"}, "reused")
	})
}

// hookedBlobs calls a function before pins are released.
type hookedBlobs struct {
	*blobdriver.Blobs
	f func()
}

func (b hookedBlobs) UnpinAll(ctx context.Context, owner, holder string) error {
	b.f()
	return b.Blobs.UnpinAll(ctx, owner, holder)
}

// A task is created with the id of a removed one while that one's pins are released.
func TestTaskCreatedDuringARemovalKeepsItsFiles(t *testing.T) {
	t.Parallel()
	s, id := inmem.New(), newID()
	removeTasks(t, s, newID(), id)
	other := start(t, engine.Config{Handler: commandHandler, Store: storetest.Faulty(s, func(c storetest.Call) storetest.Fault {
		return failIf(c.Method == "Removals", storetest.FailBefore)
	}), Contracts: engine.Contracts{}.WithParts(s, nil)})
	create := func() {
		p := message("x")
		p.Message.TaskID, p.Message.ContextID = id, newID()
		p.Message.Parts = append(p.Message.Parts, a2a.FilePart{File: a2a.FileWithBytes{Name: "f", Bytes: make([]byte, 200<<10)}})
		if _, err := other.Send(t.Context(), alice, p, engine.SendOptions{}); err != nil {
			t.Errorf("Send() = %v", err)
		}
	}
	start(t, engine.Config{Handler: commandHandler, Store: s, Contracts: engine.Contracts{Stores: []contract.Store{blobs.Of(hookedBlobs{blobsql.Of(s, blob.Config{}), sync.OnceFunc(create)})}}})
	await.True(t, "the removal is completed", func() bool {
		left, err := s.Removals(t.Context(), store.Removal{}, 1)
		return err == nil && len(left) == 0
	})
	page, err := blobsql.Of(s, blob.Config{}).List(t.Context(), blob.ListParams{Owner: alice.ID})
	if err != nil || len(page.Blobs) != 1 || len(page.Blobs[0].Holders) != 1 {
		t.Errorf("List() = %+v, %v, want the pinned file of the task", page.Blobs, err)
	}
}
