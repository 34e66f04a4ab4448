package storetest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Fault is the outcome of a call of a faulty store.
type Fault int

// Faults.
const (
	// Pass makes the call.
	Pass Fault = iota
	// FailBefore fails the call without making it.
	FailBefore
	// FailAfter makes the call and fails it: its effects remain, but its result is lost.
	// A claim of several tasks returns the first one with a *store.ClaimError.
	FailAfter
)

// Call describes a call of a faulty store before it is made.
type Call struct {
	Method string // name in store.Store: "Commit", "Task", ...
	N      int    // number of calls of this method, including this one
	// Changes are the changes of a Commit.
	Changes []store.Change
}

// Plan returns the fault of each call. Faulty never calls it concurrently.
type Plan func(Call) Fault

// FailCall returns the plan that fails the nth call of a method.
func FailCall(method string, n int, fault Fault) Plan {
	return func(c Call) Fault {
		if c.Method == method && c.N == n {
			return fault
		}
		return Pass
	}
}

// FailRandomly returns the plan that fails a share of all calls, between 0 and 1, half of them
// before and half after the call. The seed determines which.
func FailRandomly(seed uint64, share float64) Plan {
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // faults need no secrecy
	return func(Call) Fault {
		switch x := r.Float64(); {
		case x < share/2:
			return FailBefore
		case x < share:
			return FailAfter
		}
		return Pass
	}
}

// Faulty returns a store that forwards its calls to s and fails those that the plan selects
// with an error of code unavailable. WatchLanes, Info and Close never fail.
func Faulty(s store.Store, plan Plan) store.Store {
	return &faulty{inner: s, plan: plan, made: make(map[string]int)}
}

type faulty struct {
	inner store.Store
	mu    sync.Mutex
	plan  Plan
	made  map[string]int
}

// call makes a call with the fault that the plan returns.
func call[V any](f *faulty, method string, changes []store.Change, do func() (V, error)) (V, error) {
	f.mu.Lock()
	f.made[method]++
	fault := f.plan(Call{Method: method, N: f.made[method], Changes: changes})
	f.mu.Unlock()
	var none V
	switch fault {
	case FailBefore:
		return none, a2a.Errorf(a2a.CodeUnavailable, "injected fault before %s", method)
	case FailAfter:
		if _, err := do(); err != nil {
			return none, err
		}
		return none, a2a.Errorf(a2a.CodeUnavailable, "injected fault after %s", method)
	case Pass:
	}
	return do()
}

func (f *faulty) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	return call(f, "Commit", changes, func() ([]store.Result, error) { return f.inner.Commit(ctx, changes...) })
}

func (f *faulty) Task(ctx context.Context, k store.Key, opts store.TaskOptions) (*store.Task, error) {
	return call(f, "Task", nil, func() (*store.Task, error) { return f.inner.Task(ctx, k, opts) })
}

func (f *faulty) Tasks(ctx context.Context, q store.Query) (store.Page, error) {
	return call(f, "Tasks", nil, func() (store.Page, error) { return f.inner.Tasks(ctx, q) })
}

func (f *faulty) LogRows(ctx context.Context, k store.Key, after int64, limit int) ([]store.LogRow, error) {
	return call(f, "LogRows", nil, func() ([]store.LogRow, error) { return f.inner.LogRows(ctx, k, after, limit) })
}

func (f *faulty) Events(ctx context.Context, k store.Key, after int64, limit int) ([]store.Event, error) {
	return call(f, "Events", nil, func() ([]store.Event, error) { return f.inner.Events(ctx, k, after, limit) })
}

func (f *faulty) Versions(ctx context.Context, keys []store.Key) (map[store.Key]store.TaskVersion, error) {
	return call(f, "Versions", nil, func() (map[store.Key]store.TaskVersion, error) { return f.inner.Versions(ctx, keys) })
}

func (f *faulty) Claim(ctx context.Context, p store.ClaimParams) ([]*store.Task, error) {
	var leased []*store.Task
	tasks, err := call(f, "Claim", nil, func() (_ []*store.Task, err error) {
		leased, err = f.inner.Claim(ctx, p)
		return leased, err
	})
	if tasks == nil && err != nil && len(leased) > 1 {
		return leased[:1], &store.ClaimError{Lost: err}
	}
	return tasks, err
}

func (f *faulty) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	return call(f, "Renew", nil, func() ([]store.Key, error) { return f.inner.Renew(ctx, until, leases) })
}

func (f *faulty) Steps(ctx context.Context, k store.Key, turn int) ([]store.Step, error) {
	return call(f, "Steps", nil, func() ([]store.Step, error) { return f.inner.Steps(ctx, k, turn) })
}

func (f *faulty) Idempotency(ctx context.Context, owner, key string) (store.IdempotencyRecord, error) {
	return call(f, "Idempotency", nil, func() (store.IdempotencyRecord, error) { return f.inner.Idempotency(ctx, owner, key) })
}

func (f *faulty) ExpireIdempotency(ctx context.Context, before time.Time, limit int) (int, error) {
	return call(f, "ExpireIdempotency", nil, func() (int, error) { return f.inner.ExpireIdempotency(ctx, before, limit) })
}

func (f *faulty) Context(ctx context.Context, owner, id string, tasks int) (store.Context, error) {
	return call(f, "Context", nil, func() (store.Context, error) { return f.inner.Context(ctx, owner, id, tasks) })
}

func (f *faulty) Contexts(ctx context.Context, q store.ContextQuery) (store.ContextPage, error) {
	return call(f, "Contexts", nil, func() (store.ContextPage, error) { return f.inner.Contexts(ctx, q) })
}

func (f *faulty) SaveContext(ctx context.Context, c store.ContextChange) (store.Context, error) {
	return call(f, "SaveContext", nil, func() (store.Context, error) { return f.inner.SaveContext(ctx, c) })
}

func (f *faulty) DeleteContext(ctx context.Context, owner, id string, limit int) (bool, error) {
	return call(f, "DeleteContext", nil, func() (bool, error) { return f.inner.DeleteContext(ctx, owner, id, limit) })
}

func (f *faulty) FinishDelete(ctx context.Context, owner, id string, limit int) (bool, error) {
	return call(f, "FinishDelete", nil, func() (bool, error) { return f.inner.FinishDelete(ctx, owner, id, limit) })
}

func (f *faulty) PendingDeletions(ctx context.Context, limit int) ([]store.ContextKey, error) {
	return call(f, "PendingDeletions", nil, func() ([]store.ContextKey, error) { return f.inner.PendingDeletions(ctx, limit) })
}

func (f *faulty) DeleteTask(ctx context.Context, k store.Key, force bool) (bool, error) {
	return call(f, "DeleteTask", nil, func() (bool, error) { return f.inner.DeleteTask(ctx, k, force) })
}

func (f *faulty) ExpireTasks(ctx context.Context, p store.TaskExpiry) (removed int, next *store.ExpiryCursor, err error) {
	next, err = call(f, "ExpireTasks", nil, func() (next *store.ExpiryCursor, err error) {
		removed, next, err = f.inner.ExpireTasks(ctx, p)
		return next, err
	})
	return removed, next, err
}

func (f *faulty) ExpireContexts(ctx context.Context, p store.ContextExpiry) (removed int, next *store.ExpiryCursor, err error) {
	next, err = call(f, "ExpireContexts", nil, func() (next *store.ExpiryCursor, err error) {
		removed, next, err = f.inner.ExpireContexts(ctx, p)
		return next, err
	})
	return removed, next, err
}

func (f *faulty) PurgeDeleted(ctx context.Context) (bool, error) {
	return call(f, "PurgeDeleted", nil, func() (bool, error) { return f.inner.PurgeDeleted(ctx) })
}

func (f *faulty) AddFeedback(ctx context.Context, b store.Feedback) error {
	_, err := call(f, "AddFeedback", nil, func() (struct{}, error) { return struct{}{}, f.inner.AddFeedback(ctx, b) })
	return err
}

func (f *faulty) Feedback(ctx context.Context, q store.FeedbackQuery) (store.FeedbackPage, error) {
	return call(f, "Feedback", nil, func() (store.FeedbackPage, error) { return f.inner.Feedback(ctx, q) })
}

func (f *faulty) FeedbackSummary(ctx context.Context, owner string) (store.FeedbackSummary, error) {
	return call(f, "FeedbackSummary", nil, func() (store.FeedbackSummary, error) { return f.inner.FeedbackSummary(ctx, owner) })
}

func (f *faulty) Backlog(ctx context.Context) (store.Backlog, error) {
	return call(f, "Backlog", nil, func() (store.Backlog, error) { return f.inner.Backlog(ctx) })
}

func (f *faulty) Queued(ctx context.Context, owner string, limit int) (int, error) {
	return call(f, "Queued", nil, func() (int, error) { return f.inner.Queued(ctx, owner, limit) })
}

func (f *faulty) Ping(ctx context.Context) error {
	_, err := call(f, "Ping", nil, func() (struct{}, error) { return struct{}{}, f.inner.Ping(ctx) })
	return err
}

func (f *faulty) Info() store.Info { return f.inner.Info() }

func (f *faulty) Close() error { return f.inner.Close() }
