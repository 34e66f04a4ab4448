package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
)

// Call describes a call of an intercepted store before it is made.
type Call struct {
	Method string // name in store.Store: "Commit", "Task", ...
	N      int    // number of calls of this method, including this one
	// Changes are the changes of a Commit.
	Changes []store.Change
}

// Intercept returns a store that makes its calls of s through around. do makes the call once,
// and around returns the error of do or one of its own; in the second case, the result of the
// call is lost. A claim of several tasks then returns the first one with a *store.ClaimError.
// WatchLanes, Info and Close are not intercepted, nor are the transcripts, facts and blobs of s.
func Intercept(s store.Store, around func(ctx context.Context, c Call, do func(context.Context) error) error) store.Store {
	return &intercepted{inner: s, around: around, made: make(map[string]int)}
}

// intercepted implements store.Store. It has many methods because it wraps each method of that
// interface.
type intercepted struct {
	inner  store.Store
	around func(ctx context.Context, c Call, do func(context.Context) error) error
	mu     sync.Mutex
	made   map[string]int
}

func call[V any](ctx context.Context, f *intercepted, c Call, do func(context.Context) (V, error)) (V, error) {
	f.mu.Lock()
	f.made[c.Method]++
	c.N = f.made[c.Method]
	f.mu.Unlock()
	var v, none V
	var own error
	err := f.around(ctx, c, func(ctx context.Context) error {
		v, own = do(ctx)
		return own
	})
	if err != nil && !errors.Is(err, own) {
		return none, err
	}
	return v, err
}

func (f *intercepted) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	return call(ctx, f, Call{Method: "Commit", Changes: changes}, func(ctx context.Context) ([]store.Result, error) { return f.inner.Commit(ctx, changes...) })
}

func (f *intercepted) Task(ctx context.Context, k store.Key, opts store.TaskOptions) (*store.Task, error) {
	return call(ctx, f, Call{Method: "Task"}, func(ctx context.Context) (*store.Task, error) { return f.inner.Task(ctx, k, opts) })
}

func (f *intercepted) Tasks(ctx context.Context, q store.Query) (store.Page, error) {
	return call(ctx, f, Call{Method: "Tasks"}, func(ctx context.Context) (store.Page, error) { return f.inner.Tasks(ctx, q) })
}

func (f *intercepted) LogRows(ctx context.Context, k store.Key, after int64, limit int) ([]store.LogRow, error) {
	return call(ctx, f, Call{Method: "LogRows"}, func(ctx context.Context) ([]store.LogRow, error) { return f.inner.LogRows(ctx, k, after, limit) })
}

func (f *intercepted) Events(ctx context.Context, k store.Key, after int64, limit int) ([]store.Event, error) {
	return call(ctx, f, Call{Method: "Events"}, func(ctx context.Context) ([]store.Event, error) { return f.inner.Events(ctx, k, after, limit) })
}

func (f *intercepted) Versions(ctx context.Context, keys []store.Key) (map[store.Key]store.TaskVersion, error) {
	return call(ctx, f, Call{Method: "Versions"}, func(ctx context.Context) (map[store.Key]store.TaskVersion, error) { return f.inner.Versions(ctx, keys) })
}

func (f *intercepted) Claim(ctx context.Context, p store.ClaimParams) ([]*store.Task, error) {
	var leased []*store.Task
	tasks, err := call(ctx, f, Call{Method: "Claim"}, func(ctx context.Context) (_ []*store.Task, err error) {
		leased, err = f.inner.Claim(ctx, p)
		return leased, err
	})
	if tasks == nil && err != nil && len(leased) > 1 {
		return leased[:1], &store.ClaimError{Indeterminate: err}
	}
	return tasks, err
}

func (f *intercepted) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	return call(ctx, f, Call{Method: "Renew"}, func(ctx context.Context) ([]store.Key, error) { return f.inner.Renew(ctx, until, leases) })
}

func (f *intercepted) Steps(ctx context.Context, k store.Key, turn int) ([]store.Step, error) {
	return call(ctx, f, Call{Method: "Steps"}, func(ctx context.Context) ([]store.Step, error) { return f.inner.Steps(ctx, k, turn) })
}

func (f *intercepted) Idempotency(ctx context.Context, owner, key string) (store.IdempotencyRecord, error) {
	return call(ctx, f, Call{Method: "Idempotency"}, func(ctx context.Context) (store.IdempotencyRecord, error) {
		return f.inner.Idempotency(ctx, owner, key)
	})
}

func (f *intercepted) ExpireIdempotency(ctx context.Context, before time.Time, limit int) (int, error) {
	return call(ctx, f, Call{Method: "ExpireIdempotency"}, func(ctx context.Context) (int, error) { return f.inner.ExpireIdempotency(ctx, before, limit) })
}

func (f *intercepted) ExpireRecords(ctx context.Context, before time.Time, limit int) (int, error) {
	return call(ctx, f, Call{Method: "ExpireRecords"}, func(ctx context.Context) (int, error) { return f.inner.ExpireRecords(ctx, before, limit) })
}

func (f *intercepted) Context(ctx context.Context, owner, id string, tasks int) (store.Context, error) {
	return call(ctx, f, Call{Method: "Context"}, func(ctx context.Context) (store.Context, error) { return f.inner.Context(ctx, owner, id, tasks) })
}

func (f *intercepted) Contexts(ctx context.Context, q store.ContextQuery) (store.ContextPage, error) {
	return call(ctx, f, Call{Method: "Contexts"}, func(ctx context.Context) (store.ContextPage, error) { return f.inner.Contexts(ctx, q) })
}

func (f *intercepted) SaveContext(ctx context.Context, c store.ContextChange) (store.Context, error) {
	return call(ctx, f, Call{Method: "SaveContext"}, func(ctx context.Context) (store.Context, error) { return f.inner.SaveContext(ctx, c) })
}

func (f *intercepted) DeleteContext(ctx context.Context, owner, id string, limit int) (bool, error) {
	return call(ctx, f, Call{Method: "DeleteContext"}, func(ctx context.Context) (bool, error) { return f.inner.DeleteContext(ctx, owner, id, limit) })
}

func (f *intercepted) FinishDelete(ctx context.Context, owner, id string, limit int) (bool, error) {
	return call(ctx, f, Call{Method: "FinishDelete"}, func(ctx context.Context) (bool, error) { return f.inner.FinishDelete(ctx, owner, id, limit) })
}

func (f *intercepted) PendingDeletions(ctx context.Context, limit int) ([]store.ContextKey, error) {
	return call(ctx, f, Call{Method: "PendingDeletions"}, func(ctx context.Context) ([]store.ContextKey, error) { return f.inner.PendingDeletions(ctx, limit) })
}

func (f *intercepted) DeleteTask(ctx context.Context, k store.Key, force bool) (bool, error) {
	return call(ctx, f, Call{Method: "DeleteTask"}, func(ctx context.Context) (bool, error) { return f.inner.DeleteTask(ctx, k, force) })
}

func (f *intercepted) ExpireTasks(ctx context.Context, p store.TaskExpiry) (removed int, next *store.ExpiryCursor, err error) {
	next, err = call(ctx, f, Call{Method: "ExpireTasks"}, func(ctx context.Context) (next *store.ExpiryCursor, err error) {
		removed, next, err = f.inner.ExpireTasks(ctx, p)
		return next, err
	})
	return removed, next, err
}

func (f *intercepted) ExpireContexts(ctx context.Context, p store.ContextExpiry) (removed int, next *store.ExpiryCursor, err error) {
	next, err = call(ctx, f, Call{Method: "ExpireContexts"}, func(ctx context.Context) (next *store.ExpiryCursor, err error) {
		removed, next, err = f.inner.ExpireContexts(ctx, p)
		return next, err
	})
	return removed, next, err
}

func (f *intercepted) PurgeDeleted(ctx context.Context) (bool, error) {
	return call(ctx, f, Call{Method: "PurgeDeleted"}, func(ctx context.Context) (bool, error) { return f.inner.PurgeDeleted(ctx) })
}

func (f *intercepted) Removals(ctx context.Context, after store.Removal, limit int) ([]store.Removal, error) {
	return call(ctx, f, Call{Method: "Removals"}, func(ctx context.Context) ([]store.Removal, error) { return f.inner.Removals(ctx, after, limit) })
}

func (f *intercepted) ForgetRemovals(ctx context.Context, removals []store.Removal) error {
	_, err := call(ctx, f, Call{Method: "ForgetRemovals"}, func(ctx context.Context) (struct{}, error) { return struct{}{}, f.inner.ForgetRemovals(ctx, removals) })
	return err
}

func (f *intercepted) AddFeedback(ctx context.Context, b store.Feedback) error {
	_, err := call(ctx, f, Call{Method: "AddFeedback"}, func(ctx context.Context) (struct{}, error) { return struct{}{}, f.inner.AddFeedback(ctx, b) })
	return err
}

func (f *intercepted) Feedback(ctx context.Context, q store.FeedbackQuery) (store.FeedbackPage, error) {
	return call(ctx, f, Call{Method: "Feedback"}, func(ctx context.Context) (store.FeedbackPage, error) { return f.inner.Feedback(ctx, q) })
}

func (f *intercepted) FeedbackSummary(ctx context.Context, owner string) (store.FeedbackSummary, error) {
	return call(ctx, f, Call{Method: "FeedbackSummary"}, func(ctx context.Context) (store.FeedbackSummary, error) { return f.inner.FeedbackSummary(ctx, owner) })
}

func (f *intercepted) Record(ctx context.Context, k store.RecordKey) (store.Record, error) {
	return call(ctx, f, Call{Method: "Record"}, func(ctx context.Context) (store.Record, error) { return f.inner.Record(ctx, k) })
}

func (f *intercepted) Records(ctx context.Context, q store.RecordQuery) (store.RecordPage, error) {
	return call(ctx, f, Call{Method: "Records"}, func(ctx context.Context) (store.RecordPage, error) { return f.inner.Records(ctx, q) })
}

func (f *intercepted) SaveRecords(ctx context.Context, owner string, changes ...store.RecordChange) error {
	_, err := call(ctx, f, Call{Method: "SaveRecords"}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, f.inner.SaveRecords(ctx, owner, changes...)
	})
	return err
}

func (f *intercepted) Backlog(ctx context.Context) (store.Backlog, error) {
	return call(ctx, f, Call{Method: "Backlog"}, func(ctx context.Context) (store.Backlog, error) { return f.inner.Backlog(ctx) })
}

func (f *intercepted) Queued(ctx context.Context, owner string, limit int) (int, error) {
	return call(ctx, f, Call{Method: "Queued"}, func(ctx context.Context) (int, error) { return f.inner.Queued(ctx, owner, limit) })
}

func (f *intercepted) Ping(ctx context.Context) error {
	_, err := call(ctx, f, Call{Method: "Ping"}, func(ctx context.Context) (struct{}, error) { return struct{}{}, f.inner.Ping(ctx) })
	return err
}

func (f *intercepted) Info() store.Info { return f.inner.Info() }

func (f *intercepted) Close() error { return f.inner.Close() }

func (f *intercepted) SaveWebhook(ctx context.Context, c store.Webhook, cursor store.WebhookCursor, now time.Time) (store.Lane, error) {
	return call(ctx, f, Call{Method: "SaveWebhook"}, func(ctx context.Context) (store.Lane, error) { return f.inner.SaveWebhook(ctx, c, cursor, now) })
}

func (f *intercepted) Lanes(ctx context.Context, q store.LaneQuery) (store.LanePage, error) {
	return call(ctx, f, Call{Method: "Lanes"}, func(ctx context.Context) (store.LanePage, error) { return f.inner.Lanes(ctx, q) })
}

func (f *intercepted) DeleteWebhook(ctx context.Context, task store.Key, id string, now time.Time) (bool, error) {
	return call(ctx, f, Call{Method: "DeleteWebhook"}, func(ctx context.Context) (bool, error) { return f.inner.DeleteWebhook(ctx, task, id, now) })
}

func (f *intercepted) ClaimLanes(ctx context.Context, p store.LaneClaim) ([]store.ClaimedLane, error) {
	return call(ctx, f, Call{Method: "ClaimLanes"}, func(ctx context.Context) ([]store.ClaimedLane, error) { return f.inner.ClaimLanes(ctx, p) })
}

func (f *intercepted) RenewLanes(ctx context.Context, until time.Time, leases []store.LaneLease) ([]store.LaneLease, error) {
	return call(ctx, f, Call{Method: "RenewLanes"}, func(ctx context.Context) ([]store.LaneLease, error) { return f.inner.RenewLanes(ctx, until, leases) })
}

func (f *intercepted) AckLanes(ctx context.Context, acks ...store.LaneAck) ([]store.LaneLease, error) {
	return call(ctx, f, Call{Method: "AckLanes"}, func(ctx context.Context) ([]store.LaneLease, error) { return f.inner.AckLanes(ctx, acks...) })
}

func (f *intercepted) ReplayWebhook(ctx context.Context, task store.Key, id string, cursor store.WebhookCursor, now time.Time) (store.WebhookCursor, error) {
	return call(ctx, f, Call{Method: "ReplayWebhook"}, func(ctx context.Context) (store.WebhookCursor, error) {
		return f.inner.ReplayWebhook(ctx, task, id, cursor, now)
	})
}

func (f *intercepted) WakeLanes(ctx context.Context, endpoint string, now time.Time, limit int) (int, error) {
	return call(ctx, f, Call{Method: "WakeLanes"}, func(ctx context.Context) (int, error) { return f.inner.WakeLanes(ctx, endpoint, now, limit) })
}

func (f *intercepted) DeadLetters(ctx context.Context, q store.WebhookQuery) (store.DeadLetterPage, error) {
	return call(ctx, f, Call{Method: "DeadLetters"}, func(ctx context.Context) (store.DeadLetterPage, error) { return f.inner.DeadLetters(ctx, q) })
}

func (f *intercepted) DeliveryAttempts(ctx context.Context, q store.WebhookQuery) (store.DeliveryAttemptPage, error) {
	return call(ctx, f, Call{Method: "DeliveryAttempts"}, func(ctx context.Context) (store.DeliveryAttemptPage, error) { return f.inner.DeliveryAttempts(ctx, q) })
}

func (f *intercepted) Endpoints(ctx context.Context) ([]store.Endpoint, error) {
	return call(ctx, f, Call{Method: "Endpoints"}, func(ctx context.Context) ([]store.Endpoint, error) { return f.inner.Endpoints(ctx) })
}

func (f *intercepted) SaveEndpoint(ctx context.Context, e store.Endpoint) error {
	_, err := call(ctx, f, Call{Method: "SaveEndpoint"}, func(ctx context.Context) (struct{}, error) { return struct{}{}, f.inner.SaveEndpoint(ctx, e) })
	return err
}

func (f *intercepted) ExpireWebhooks(ctx context.Context, p store.WebhookExpiry, limit int) (int, error) {
	return call(ctx, f, Call{Method: "ExpireWebhooks"}, func(ctx context.Context) (int, error) { return f.inner.ExpireWebhooks(ctx, p, limit) })
}

func (f *intercepted) WebhookBacklog(ctx context.Context) (store.WebhookBacklog, error) {
	return call(ctx, f, Call{Method: "WebhookBacklog"}, func(ctx context.Context) (store.WebhookBacklog, error) { return f.inner.WebhookBacklog(ctx) })
}

func (f *intercepted) WatchLanes(g func()) (stop func()) { return f.inner.WatchLanes(g) }

// SQL implements sqlkit.Source with the database of the inner store.
func (f *intercepted) SQL() sqlkit.DB { return sqlkit.Of(f.inner) }
