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
	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store"
)

// runRandom makes random calls on a store and on the model, and compares the results. A failure
// prints the seed and the shortest series of calls that reproduces it.
func runRandom(t T, h Harness) {
	testseed.Rapid(t)
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

// seriesT is the T of one series of random calls. Its cleanup functions run when the series
// ends.
type seriesT struct {
	T
	series *rapid.T
}

func (t seriesT) Cleanup(f func()) { t.series.Cleanup(f) }
func (t seriesT) Failed() bool     { return t.series.Failed() || t.T.Failed() }

// rapidTB adds the methods that rapid needs to a T.
type rapidTB struct{ T }

func (t rapidTB) Log(args ...any)   { t.Logf("%s", fmt.Sprint(args...)) }
func (t rapidTB) Error(args ...any) { t.Errorf("%s", fmt.Sprint(args...)) }
func (t rapidTB) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }
func (t rapidTB) Skip(args ...any)  { t.Skipf("%s", fmt.Sprint(args...)) }
func (t rapidTB) SkipNow()          { t.Skipf("skipped") }
func (t rapidTB) FailNow()          { t.Fatalf("failed") }
func (t rapidTB) Fail()             { t.Errorf("failed") }

// randomRun is one series of random calls. It has many methods because each makes one kind of call
// of the store, with random arguments.
type randomRun struct {
	t         *rapid.T
	ctx       context.Context
	got, want store.Store
	reopen    func(store.Store) store.Store // nil if the store is not durable
	counter   int                           // makes ids of messages unique
	claimed   []store.ClaimedLane           // in this series
}

func (r *randomRun) call() {
	switch r.pick("call", 37) {
	case 0, 1, 2, 3, 4, 5:
		r.commit()
	case 6, 7:
		r.claim()
	case 8:
		r.renew()
	case 9:
		r.list()
	case 10:
		r.expireIdempotency()
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
		r.callWebhooks()
	case 31:
		k, force := r.key(), r.oneIn("force", 2)
		compareCalls(r, fmt.Sprintf("DeleteTask(%v, %t)", k, force), func(s store.Store) (struct{}, error) {
			_, err := s.DeleteTask(r.ctx, k, force) // more depends on the store
			return struct{}{}, err
		})
	case 32:
		r.expireTasks()
	case 33:
		r.expireContexts()
	case 34, 35:
		r.callRecords()
	default:
		if r.reopen != nil && r.oneIn("reopen", 3) {
			r.got = r.reopen(r.got)
		}
	}
}

func (r *randomRun) pick(label string, n int) int { return rapid.IntRange(0, n-1).Draw(r.t, label) }

func (r *randomRun) oneIn(label string, n int) bool { return r.pick(label, n) == n-1 }

// maybe draws a value once in n times.
func maybe[V any](r *randomRun, label string, n int, v *V, draw func() V) {
	if r.oneIn(label, n) {
		*v = draw()
	}
}

func (r *randomRun) key() store.Key {
	return store.Key{
		Owner: rapid.SampledFrom([]string{"a", "b", "B"}).Draw(r.t, "owner"),
		ID:    rapid.SampledFrom([]string{"1", "2", "3", "4"}).Draw(r.t, "id"),
	}
}

// time returns one of few times, so that equal times are frequent.
func (r *randomRun) time() time.Time { return at(r.pick("ms", 8) * 10) }

func (r *randomRun) worker() string {
	return rapid.SampledFrom([]string{worker, otherWorker}).Draw(r.t, "worker")
}

func (r *randomRun) commit() {
	changes := make([]store.Change, 1+r.pick("more changes", 3))
	for i := range changes {
		changes[i] = r.change()
	}
	got, err := r.got.Commit(r.ctx, changes...)
	want, wantErr := r.want.Commit(r.ctx, changes...)
	r.wantSame("error of Commit()", fmt.Sprint(err), fmt.Sprint(wantErr))
	r.wantSame("number of Commit() results", len(got), len(want))
	for i := range want {
		if !errors.Is(got[i].Err, want[i].Err) {
			r.t.Fatalf("Commit() of change %d = %v, want %v", i, got[i].Err, want[i].Err)
		}
		r.wantSame(fmt.Sprintf("version %d of Commit()", i), got[i].Seq, want[i].Seq)
		r.wantSame(fmt.Sprintf("record %d of Commit()", i), got[i].Record, want[i].Record)
	}
}

// change returns a change that the model often accepts.
func (r *randomRun) change() store.Change {
	k := r.key()
	c := store.Change{Key: k, Events: make([]store.Event, r.pick("events", 4))}
	for i := range c.Events {
		c.Events[i] = r.event()
	}
	maybe(r, "run", 2, &c.Queue, r.queueEntry)
	for range r.pick("steps", 3) {
		s := step(r.pick("turn", 2), fmt.Sprint("s", r.pick("step", 3)), fmt.Sprint(r.counter))
		if r.oneIn("artifacts", 2) {
			s.Artifacts = fmt.Append(nil, "artifacts ", r.counter)
		}
		c.Steps = append(c.Steps, s)
	}
	if r.oneIn("idempotent", 4) {
		made := r.time()
		if len(c.Events) > 0 && r.oneIn("created with the event", 2) {
			made = c.Events[0].Time
		}
		c = withKey(c, fmt.Sprint("k", r.pick("key", 4)), made)
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
		c.Queue = cmp.Or(c.Queue, queued())
	case guard < 5:
		c.Version = max(1, task.Seq)
	case guard == 5:
		c.Version = task.Seq + 1
	case guard == 6:
		c.Lease = &store.HeldLease{Key: k, Worker: task.Queue.Lease.Worker, Fence: task.Queue.Lease.Fence}
	default:
		c.Lease = &store.HeldLease{Key: k, Worker: r.worker(), Fence: int64(r.pick("fence", 4))}
	}
	if r.oneIn("seen", 4) {
		c.Seen = max(0, task.ReceivedSeq-int64(r.pick("missed", 2)))
	}
	if r.oneIn("with records", 3) {
		c.Records = r.recordChanges(k.Owner)
	}
	if r.oneIn("webhook", 3) {
		c.Webhooks = r.newWebhooks(k)
	}
	switch r.pick("snapshot", 4) {
	case 0:
		c = withSnapshot(c, task)
	case 1:
		c.Snapshot = wrongSnapshot(k, -1)
	}
	return c
}

func (r *randomRun) event() store.Event {
	r.counter++
	id := fmt.Sprint("m", r.counter)
	var e store.Event
	switch r.pick("event", 6) {
	case 0:
		e = clientMessage(r.time(), id)
		if r.oneIn("sender", 2) {
			e.Sender = sender(id)
		}
	case 1:
		e = agentMessage(r.time(), r.state(), id)
	case 2:
		e = agentMessage(r.time(), r.state(), id)
		e.Progress = true
	case 3:
		e = statusEvent(r.time(), r.state())
	case 4:
		e = chunkEvent(r.time(), fmt.Sprint("a", r.pick("artifact", 2)), id+" ", r.oneIn("append", 2))
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

func (r *randomRun) queueEntry() *store.QueueEntry {
	run := &store.QueueEntry{
		Phase:    rapid.SampledFrom([]store.Phase{store.PhaseIdle, store.PhaseQueued, store.PhaseQueued, store.PhaseLeased}).Draw(r.t, "phase"),
		Turn:     r.pick("turn", 3),
		Attempt:  r.pick("attempt", 3),
		SeenSeq:  int64(r.pick("seen", 3)),
		StartSeq: int64(r.pick("start", 3)),
		Lease:    store.Lease{Worker: r.worker(), Fence: int64(r.pick("fence", 3))},
	}
	switch run.Phase {
	case store.PhaseQueued:
		maybe(r, "due", 2, &run.DueAt, r.time)
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
	compareCalls(r, fmt.Sprintf("Claim(%+v)", p), func(s store.Store) ([]*store.Task, error) { return s.Claim(r.ctx, p) })
}

func (r *randomRun) renew() {
	leases := make([]store.HeldLease, 1+r.pick("leases", 3))
	for i := range leases {
		k := r.key()
		leases[i] = heldLease(k, r.worker(), int64(r.pick("fence", 4)))
		if t, err := r.want.Task(r.ctx, k, store.TaskOptions{}); err == nil && r.oneIn("right", 2) {
			leases[i] = heldLease(k, t.Queue.Lease.Worker, t.Queue.Lease.Fence)
		}
	}
	leases = slices.CompactFunc(leases, func(a, b store.HeldLease) bool { return a.Key == b.Key })
	until := r.time()
	compareCalls(r, "Renew()", func(s store.Store) ([]store.Key, error) {
		lost, err := s.Renew(r.ctx, until, leases)
		slices.SortFunc(lost, compareKeys)
		return lost, err
	})
}

// list reads all pages of a random list.
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
	maybe(r, "total limit", 2, &q.TotalLimit, func() int { return 1 + r.pick("count", 4) })
	for range r.pick("states", 3) {
		q.States = append(q.States, r.state())
	}
	maybe(r, "after", 3, &q.After, r.time)
	maybe(r, "before", 3, &q.Before, r.time)
	maybe(r, "created after", 3, &q.CreatedAfter, r.time)
	maybe(r, "created before", 3, &q.CreatedBefore, r.time)
	maybe(r, "skip", 3, &q.Offset, func() int { return r.pick("offset", 4) })
	for {
		want := compareCalls(r, fmt.Sprintf("Tasks(%+v)", q), func(s store.Store) (store.Page, error) { return s.Tasks(r.ctx, q) })
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

// expireIdempotency removes all old records, since the contract does not define which ones a
// limit selects.
func (r *randomRun) expireIdempotency() {
	before := r.time()
	compareCalls(r, "ExpireIdempotency()", func(s store.Store) (int, error) { return s.ExpireIdempotency(r.ctx, before, 100) })
}

// expireTasks removes old tasks in batches until all are checked.
func (r *randomRun) expireTasks() {
	p := store.TaskExpiry{State: a2a.StateCompleted, Before: r.time(), Limit: 1 + r.pick("limit", 3)}
	compareCalls(r, fmt.Sprintf("ExpireTasks(%+v)", p), func(s store.Store) (total int, err error) {
		for p := p; ; {
			n, next, err := s.ExpireTasks(r.ctx, p)
			if total += n; err != nil || next == nil {
				return total, err
			}
			p.After = next
		}
	})
}

// expireContexts repeats the removal until it removes nothing, since the contract does not
// define whether a parent is checked before its child.
func (r *randomRun) expireContexts() {
	p := store.ContextExpiry{Saved: r.oneIn("saved", 2), Before: r.time(), Limit: 1 + r.pick("limit", 3)}
	compareCalls(r, fmt.Sprintf("ExpireContexts(%+v)", p), func(s store.Store) (total int, err error) {
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

// read compares all reads of a task.
func (r *randomRun) read(k store.Key) {
	opts, after, limit := r.options(), int64(r.pick("after", 4)), r.pick("limit", 5)
	compareCalls(r, "Task()", func(s store.Store) (*store.Task, error) { return s.Task(r.ctx, k, opts) })
	compareCalls(r, "Events()", func(s store.Store) ([]store.Event, error) { return s.Events(r.ctx, k, after, limit) })
	compareCalls(r, "Versions()", func(s store.Store) (map[store.Key]store.TaskVersion, error) {
		return s.Versions(r.ctx, []store.Key{k, {Owner: "a", ID: "1"}})
	})
}

// compareAll compares everything in the two stores.
func (r *randomRun) compareAll() {
	owners := []string{"a", "b", "B"}
	for _, o := range owners {
		for i := range 4 {
			k := store.Key{Owner: o, ID: fmt.Sprint(i + 1)}
			compareCalls(r, "Task()", func(s store.Store) (*store.Task, error) { return s.Task(r.ctx, k, store.TaskOptions{}) })
			compareCalls(r, "Events()", func(s store.Store) ([]store.Event, error) { return s.Events(r.ctx, k, 0, 1000) })
			for turn := range 2 {
				compareCalls(r, "Steps()", func(s store.Store) ([]store.Step, error) { return s.Steps(r.ctx, k, turn) })
			}
			compareCalls(r, "Idempotency()", func(s store.Store) (store.IdempotencyRecord, error) {
				return s.Idempotency(r.ctx, o, fmt.Sprint("k", i))
			})
			compareCalls(r, "Context()", func(s store.Store) (store.Context, error) { return s.Context(r.ctx, o, fmt.Sprint("c", i), 3) })
		}
		compareCalls(r, "Tasks()", func(s store.Store) (store.Page, error) {
			return s.Tasks(r.ctx, store.Query{Owner: o, Limit: 10, Total: true})
		})
		compareCalls(r, "Queued()", func(s store.Store) (int, error) { return s.Queued(r.ctx, o, 1000) })
	}
	r.compareContexts(owners)
	r.compareWebhooks()
	compareCalls(r, "Backlog()", func(s store.Store) (store.Backlog, error) { return s.Backlog(r.ctx) })
}

// compareCalls compares the results of a call on both stores and returns the model's.
func compareCalls[V any](r *randomRun, label string, call func(store.Store) (V, error)) V {
	r.t.Helper()
	got, err := call(r.got)
	want, wantErr := call(r.want)
	if !errors.Is(err, wantErr) {
		r.t.Fatalf("%s = %v, want %v", label, err, wantErr)
	}
	if wantErr == nil {
		r.wantSame(label, got, want)
	}
	return want
}

func (r *randomRun) wantSame(label string, got, want any) {
	r.t.Helper()
	if d := diff(got, want); d != "" {
		r.t.Fatalf("%s differs from the model (-got +want):\n%s", label, d)
	}
}
