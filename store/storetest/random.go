package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// runRandom makes random calls on a store and on the model and compares every
// answer. A failure prints the seed and the shortest calls that show it.
func runRandom(t T, h Harness) {
	rapid.Check(rapidTB{t}, func(rt *rapid.T) {
		series := seriesT{t, rt}
		run := &randomRun{t: rt, ctx: t.Context(), got: h.Open(series), want: newModel()}
		if h.Reopen != nil {
			run.reopen = func(s store.Store) store.Store { return h.Reopen(series, s) }
		}
		defer func() { _ = run.got.Close() }()
		n := rapid.IntRange(1, h.Calls).Draw(rt, "calls")
		for range n {
			run.call()
		}
		run.compareAll()
	})
}

// seriesT is the T of one series of random calls: its cleanup runs when the series ends.
type seriesT struct {
	T
	series *rapid.T
}

func (t seriesT) Cleanup(f func()) { t.series.Cleanup(f) }
func (t seriesT) Failed() bool     { return t.series.Failed() || t.T.Failed() }

// rapidTB gives rapid what T does not have.
type rapidTB struct{ T }

func (t rapidTB) Log(args ...any)   { t.Logf("%s", fmt.Sprint(args...)) }
func (t rapidTB) Error(args ...any) { t.Errorf("%s", fmt.Sprint(args...)) }
func (t rapidTB) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }
func (t rapidTB) Skip(args ...any)  { t.Skipf("%s", fmt.Sprint(args...)) }
func (t rapidTB) SkipNow()          { t.Skipf("skipped") }
func (t rapidTB) FailNow()          { t.Fatalf("failed") }
func (t rapidTB) Fail()             { t.Errorf("failed") }

// randomRun is one series of random calls.
type randomRun struct {
	t         *rapid.T
	ctx       context.Context
	got, want store.Store
	reopen    func(store.Store) store.Store // nil when the store is volatile
	made      int                           // counts messages, so that each has an id of its own
	claimed   []store.ClaimedLane           // so far
}

func (r *randomRun) call() {
	switch r.pick("call", 35) {
	case 0, 1, 2, 3, 4, 5:
		r.commit()
	case 6, 7:
		r.claim()
	case 8:
		r.renew()
	case 9:
		r.list()
	case 10:
		r.expire()
	case 11:
		r.read(r.key())
	case 12, 13:
		r.saveContext()
	case 14:
		r.listContexts()
	case 15:
		r.deleteContext()
	case 16:
		r.addFeedback()
	case 17:
		r.listFeedback()
	case 18:
		r.readContext(r.contextKey())
	case 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30:
		r.aboutPush()
	case 31:
		k, force := r.key(), r.oneIn("force", 2)
		reads(r, fmt.Sprintf("DeleteTask(%v, %t)", k, force), func(s store.Store) (struct{}, error) {
			_, err := s.DeleteTask(r.ctx, k, force) // whether content is left is open
			return struct{}{}, err
		})
	case 32:
		r.expireTasks()
	case 33:
		r.expireContexts()
	default:
		if r.reopen != nil && r.oneIn("reopen", 3) {
			r.got = r.reopen(r.got)
		}
	}
}

func (r *randomRun) pick(what string, n int) int { return rapid.IntRange(0, n-1).Draw(r.t, what) }

func (r *randomRun) oneIn(what string, n int) bool { return r.pick(what, n) == n-1 }

func (r *randomRun) key() store.Key {
	return store.Key{
		Owner: rapid.SampledFrom([]string{"a", "b", "B"}).Draw(r.t, "owner"),
		ID:    rapid.SampledFrom([]string{"1", "2", "3", "4"}).Draw(r.t, "id"),
	}
}

// time returns one of few times, so that they often meet.
func (r *randomRun) time() time.Time { return at(r.pick("ms", 8) * 10) }

func (r *randomRun) worker() string {
	return rapid.SampledFrom([]string{worker, rival}).Draw(r.t, "worker")
}

func (r *randomRun) commit() {
	changes := make([]store.Change, 1+r.pick("more changes", 3))
	for i := range changes {
		changes[i] = r.change()
	}
	got, err := r.got.Commit(r.ctx, changes...)
	want, wantErr := r.want.Commit(r.ctx, changes...)
	r.same("the error of Commit()", fmt.Sprint(err), fmt.Sprint(wantErr))
	r.same("the number of results", len(got), len(want))
	for i := range want {
		if !errors.Is(got[i].Err, want[i].Err) {
			r.t.Fatalf("Commit() of change %d = %v, want %v", i, got[i].Err, want[i].Err)
		}
		r.same(fmt.Sprintf("version %d of Commit()", i), got[i].Seq, want[i].Seq)
		r.same(fmt.Sprintf("record %d of Commit()", i), got[i].Record, want[i].Record)
	}
}

// change returns a change that fits the model's task more often than not.
func (r *randomRun) change() store.Change {
	k := r.key()
	c := store.Change{Key: k, Events: make([]store.Event, r.pick("events", 4))}
	for i := range c.Events {
		c.Events[i] = r.event()
	}
	if r.oneIn("run", 2) {
		c.Run = r.run()
	}
	for range r.pick("steps", 3) {
		s := step(r.pick("turn", 2), fmt.Sprint("s", r.pick("step", 3)), fmt.Sprint(r.made))
		if r.oneIn("artifacts", 2) {
			s.Artifacts = fmt.Append(nil, "artifacts ", r.made)
		}
		c.Steps = append(c.Steps, s)
	}
	if r.oneIn("idempotent", 4) {
		made := r.time()
		if len(c.Events) > 0 && r.oneIn("made with the event", 2) {
			made = c.Events[0].Time
		}
		c = idempotent(c, fmt.Sprint("k", r.pick("key", 4)), made)
	}
	task, err := r.want.Task(r.ctx, k, store.TaskOptions{})
	if err != nil {
		task = &store.Task{Key: k}
	}
	switch guard := r.pick("guard", 8); {
	case guard == 0 || err != nil && guard < 6:
		c.Create = &store.Create{ContextID: fmt.Sprint("c", r.pick("context", 3))}
		task.ContextID = c.Create.ContextID
		c.Events = append(c.Events, r.event())
		c.Run = cmp.Or(c.Run, queued())
	case guard < 5:
		c.Version = max(1, task.Seq)
	case guard == 5:
		c.Version = task.Seq + 1
	case guard == 6:
		c.Lease = &store.HeldLease{Key: k, Worker: task.Run.Lease.Worker, Fence: task.Run.Lease.Fence}
	default:
		c.Lease = &store.HeldLease{Key: k, Worker: r.worker(), Fence: int64(r.pick("fence", 4))}
	}
	if r.oneIn("seen", 4) {
		c.Seen = max(0, task.ReceivedSeq-int64(r.pick("missed", 2)))
	}
	if r.oneIn("push", 3) {
		c.Push = r.newPushes(k)
	}
	switch r.pick("snapshot", 4) {
	case 0:
		c = withSnapshot(c, task)
	case 1:
		c.Snapshot = nonsense(k, -1)
	}
	return c
}

func (r *randomRun) event() store.Event {
	r.made++
	id := fmt.Sprint("m", r.made)
	var e store.Event
	switch r.pick("event", 6) {
	case 0:
		e = received(r.time(), id)
	case 1:
		e = said(r.time(), r.state(), id)
	case 2:
		e = said(r.time(), r.state(), id)
		e.Progress = true
	case 3:
		e = status(r.time(), r.state())
	case 4:
		e = chunk(r.time(), fmt.Sprint("a", r.pick("artifact", 2)), id+" ", r.oneIn("append", 2))
	default:
		e = store.Event{Time: r.time(), State: a2a.StateWorking, Append: true, Artifact: &a2a.Artifact{
			ID: fmt.Sprint("a", r.pick("artifact", 2)), Parts: []a2a.Part{a2a.DataPart{Data: map[string]any{"id": id}}, a2a.TextPart{Text: id}},
			Metadata: map[string]any{id: true},
		}}
	}
	if r.oneIn("metadata", 3) {
		e.Metadata = map[string]any{fmt.Sprint("k", r.pick("member", 2)): rapid.SampledFrom([]any{
			id, nil, map[string]any{id: 1.0}, map[string]any{"x": map[string]any{id: true}, "y": nil},
		}).Draw(r.t, "value")}
	}
	return e
}

func (r *randomRun) state() a2a.TaskState {
	return rapid.SampledFrom([]a2a.TaskState{a2a.StateSubmitted, a2a.StateWorking, a2a.StateCompleted}).Draw(r.t, "state")
}

func (r *randomRun) run() *store.Run {
	run := &store.Run{
		Phase:    rapid.SampledFrom([]store.Phase{store.PhaseIdle, store.PhaseQueued, store.PhaseQueued, store.PhaseLeased}).Draw(r.t, "phase"),
		Turn:     r.pick("turn", 3),
		Attempt:  r.pick("attempt", 3),
		SeenSeq:  int64(r.pick("seen", 3)),
		StartSeq: int64(r.pick("start", 3)),
		Lease:    store.Lease{Worker: r.worker(), Fence: int64(r.pick("fence", 3))},
	}
	switch run.Phase {
	case store.PhaseQueued:
		if r.oneIn("due", 2) {
			run.DueAt = r.time()
		}
	case store.PhaseLeased:
		run.Lease.Until = r.time()
	case store.PhaseIdle:
	}
	return run
}

func (r *randomRun) claim() {
	p := claimAt(r.worker(), r.time(), r.pick("limit", 6))
	p.Until = p.Now.Add(time.Duration(r.pick("lease", 4)) * 10 * time.Millisecond)
	p.Takeover = r.oneIn("takeover", 5)
	p.QueuedOnly = r.oneIn("queued only", 4)
	if r.oneIn("horizon", 4) {
		p.Horizon = 20 * time.Millisecond
	}
	p.AfterOwner = rapid.SampledFrom([]string{"", "a", "aa", "B", "b", "z"}).Draw(r.t, "after")
	p.AfterContexts = make(map[string]string)
	for _, owner := range []string{"a", "B"} {
		if c := r.pick("after context", 4); c > 0 {
			p.AfterContexts[owner] = fmt.Sprint("c", c-1)
		}
	}
	p.OldestFirst = r.oneIn("oldest first", 4)
	if r.oneIn("skip", 4) {
		p.Skip = []string{"nobody", r.key().Owner}
	}
	got, err := r.got.Claim(r.ctx, p)
	want, wantErr := r.want.Claim(r.ctx, p)
	r.same("the error of Claim()", fmt.Sprint(err), fmt.Sprint(wantErr))
	r.same(fmt.Sprintf("Claim(%+v)", p), got, want)
}

func (r *randomRun) renew() {
	leases := make([]store.HeldLease, 1+r.pick("leases", 3))
	for i := range leases {
		k := r.key()
		leases[i] = held(k, r.worker(), int64(r.pick("fence", 4)))
		if t, err := r.want.Task(r.ctx, k, store.TaskOptions{}); err == nil && r.oneIn("right", 2) {
			leases[i] = held(k, t.Run.Lease.Worker, t.Run.Lease.Fence)
		}
	}
	leases = slices.CompactFunc(leases, func(a, b store.HeldLease) bool { return a.Key == b.Key })
	until := r.time()
	got, err := r.got.Renew(r.ctx, until, leases)
	want, wantErr := r.want.Renew(r.ctx, until, leases)
	r.same("the error of Renew()", fmt.Sprint(err), fmt.Sprint(wantErr))
	slices.SortFunc(got, compareKeys)
	slices.SortFunc(want, compareKeys)
	r.same("Renew()", got, want)
}

// list reads a random list to its end.
func (r *randomRun) list() {
	q := store.Query{
		Owner:     r.key().Owner,
		ContextID: rapid.SampledFrom([]string{"", "", "c0", "c1"}).Draw(r.t, "context"),
		Limit:     1 + r.pick("limit", 4),
		Total:     r.oneIn("total", 2),
		ByCreated: r.oneIn("by created", 2),
		Ascending: r.oneIn("ascending", 2),
		Options:   r.options(),
	}
	if r.oneIn("total limit", 2) {
		q.TotalLimit = 1 + r.pick("count", 4)
	}
	for range r.pick("states", 3) {
		q.States = append(q.States, r.state())
	}
	if r.oneIn("after", 3) {
		q.After = r.time()
	}
	if r.oneIn("before", 3) {
		q.Before = r.time()
	}
	if r.oneIn("created after", 3) {
		q.CreatedAfter = r.time()
	}
	if r.oneIn("created before", 3) {
		q.CreatedBefore = r.time()
	}
	if r.oneIn("skip", 3) {
		q.Offset = r.pick("offset", 4)
	}
	for {
		got, err := r.got.Tasks(r.ctx, q)
		want, wantErr := r.want.Tasks(r.ctx, q)
		r.same("the error of Tasks()", fmt.Sprint(err), fmt.Sprint(wantErr))
		r.same(fmt.Sprintf("Tasks(%+v)", q), got, want)
		if q.Cursor, q.Offset = want.Next, 0; q.Cursor == nil {
			return
		}
	}
}

func (r *randomRun) options() store.TaskOptions {
	opts := store.TaskOptions{OmitArtifacts: r.oneIn("omit", 3), Outline: r.oneIn("outline", 5)}
	if r.oneIn("cut", 2) {
		opts.History = ptr(r.pick("history", 4))
	}
	return opts
}

// expire removes all old records or none: which ones a limit leaves is open.
func (r *randomRun) expire() {
	before := r.time()
	got, err := r.got.ExpireIdempotency(r.ctx, before, 100)
	want, wantErr := r.want.ExpireIdempotency(r.ctx, before, 100)
	r.same("the error of ExpireIdempotency()", fmt.Sprint(err), fmt.Sprint(wantErr))
	r.same("ExpireIdempotency()", got, want)
}

// expireTasks checks all tasks, by some number at a time.
func (r *randomRun) expireTasks() {
	p := store.TaskExpiry{State: a2a.StateCompleted, Before: r.time(), Limit: 1 + r.pick("limit", 3)}
	reads(r, fmt.Sprintf("ExpireTasks(%+v)", p), func(s store.Store) (total int, err error) {
		for p := p; ; {
			n, next, err := s.ExpireTasks(r.ctx, p)
			if total += n; err != nil || next == nil {
				return total, err
			}
			p.After = next
		}
	})
}

// expireContexts removes all old contexts without children: whether a parent is checked
// before or after its child is open.
func (r *randomRun) expireContexts() {
	p := store.ContextExpiry{Described: r.oneIn("described", 2), Before: r.time(), Limit: 1 + r.pick("limit", 3)}
	reads(r, fmt.Sprintf("ExpireContexts(%+v)", p), func(s store.Store) (total int, err error) {
		for round, p := 0, p; ; {
			n, next, err := s.ExpireContexts(r.ctx, p)
			if total, round = total+n, round+n; err != nil || next == nil && round == 0 {
				return total, err
			}
			if p.After = next; next == nil {
				round = 0
			}
		}
	})
}

// read compares everything that can be read of a task.
func (r *randomRun) read(k store.Key) {
	opts, after, limit := r.options(), int64(r.pick("after", 4)), r.pick("limit", 5)
	reads(r, "Task()", func(s store.Store) (*store.Task, error) { return s.Task(r.ctx, k, opts) })
	reads(r, "Events()", func(s store.Store) ([]store.Event, error) { return s.Events(r.ctx, k, after, limit) })
	reads(r, "Versions()", func(s store.Store) (map[store.Key]store.TaskVersion, error) {
		return s.Versions(r.ctx, []store.Key{k, {Owner: "a", ID: "1"}})
	})
}

// compareAll compares all that the two stores hold.
func (r *randomRun) compareAll() {
	owners := []string{"a", "b", "B"}
	for _, o := range owners {
		for i := range 4 {
			k := store.Key{Owner: o, ID: fmt.Sprint(i + 1)}
			reads(r, "Task()", func(s store.Store) (*store.Task, error) { return s.Task(r.ctx, k, store.TaskOptions{}) })
			reads(r, "Events()", func(s store.Store) ([]store.Event, error) { return s.Events(r.ctx, k, 0, 1000) })
			for turn := range 2 {
				reads(r, "Steps()", func(s store.Store) ([]store.Step, error) { return s.Steps(r.ctx, k, turn) })
			}
			reads(r, "Idempotency()", func(s store.Store) (store.IdempotencyRecord, error) {
				return s.Idempotency(r.ctx, o, fmt.Sprint("k", i))
			})
			reads(r, "Context()", func(s store.Store) (store.Context, error) { return s.Context(r.ctx, o, fmt.Sprint("c", i), 3) })
		}
		reads(r, "Tasks()", func(s store.Store) (store.Page, error) {
			return s.Tasks(r.ctx, store.Query{Owner: o, Limit: 10, Total: true})
		})
		reads(r, "Queued()", func(s store.Store) (int, error) { return s.Queued(r.ctx, o, 1000) })
	}
	r.compareContexts(owners)
	r.comparePush()
	reads(r, "Backlog()", func(s store.Store) (store.Backlog, error) { return s.Backlog(r.ctx) })
}

// reads compares a read of both stores.
func reads[V any](r *randomRun, what string, read func(store.Store) (V, error)) {
	r.t.Helper()
	got, err := read(r.got)
	want, wantErr := read(r.want)
	if !errors.Is(err, wantErr) {
		r.t.Fatalf("%s = %v, want %v", what, err, wantErr)
	}
	if wantErr == nil {
		r.same(what, got, want)
	}
}

func (r *randomRun) same(what string, got, want any) {
	r.t.Helper()
	if d := diff(got, want); d != "" {
		r.t.Fatalf("%s is not as the model's (-got +want):\n%s", what, d)
	}
}
