package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// ForgetParams are the params of [Forget].
type ForgetParams struct {
	// Store has the tasks. Required.
	Store store.Store
	// Contracts are the contracts of [Config]. Default: the contracts of Engine.
	Contracts Contracts
	// Engine is the engine of this process that uses the store, nil if there is none.
	Engine *Engine
	// Owner is the principal. Required.
	Owner string
	// Cancel cancels tasks that are queued or run. If it is not set, Forget returns conflict for
	// them.
	Cancel bool
	// Now is the clock. Default: the clock of the store, else time.Now.
	Now func() time.Time
}

// ForgetReport is the result of a call of [Forget].
type ForgetReport struct {
	// Removed counts what was removed: contexts, tasks, feedback, webhooks, records, and the counts of
	// each contract, such as facts. Tasks include their messages, artifacts, steps and idempotency
	// records, webhooks their dead letters and delivery attempts. Records include session states and
	// boards of the store.
	Removed contract.Counts `json:"removed"`
	// Canceled is the number of tasks that were canceled first.
	Canceled int64 `json:"canceled"`
	// Notes are about data that could not be removed or is removed later.
	Notes []string `json:"notes,omitempty"`
}

// Names of counts of a [ForgetReport], besides the names of contracts.
const (
	RemovedContexts = "contexts"
	RemovedTasks    = "tasks"
	RemovedFeedback = "feedback"
	RemovedWebhooks = "webhooks"
	RemovedRecords  = "records"
)

const (
	// forgetPasses is the number of times that Forget removes what was written meanwhile.
	forgetPasses = 5
	forgetPage   = 100
)

// Forget removes all data of a principal: contexts with their tasks, feedback, webhooks and
// idempotency records, records such as session states and boards, transcripts, facts, documents,
// graphs and blobs. Unless params.Cancel is set, it removes nothing and returns conflict while a
// task is queued or runs. Revoke the access of the principal first: Forget also removes what is
// written while it runs, and returns conflict if that does not end.
//
// If it fails, the report counts what has been removed, and another call removes the rest.
// Servers may use the store at the same time. They remove the contents of the blobs after the
// grace period.
func Forget(ctx context.Context, params ForgetParams) (ForgetReport, error) {
	if params.Store == nil || params.Owner == "" || strings.ContainsRune(params.Owner, 0) {
		return ForgetReport{}, a2a.Errorf(a2a.CodeInvalid, "forget: store and owner are required")
	}
	if r, _ := utf8.DecodeRuneInString(params.Owner); unicode.IsControl(r) { // an owner of records of the server itself
		return ForgetReport{}, a2a.Errorf(a2a.CodeInvalid, "forget: owner must not start with a control character")
	}
	if params.Now == nil {
		params.Now = time.Now
		if shared, ok := params.Store.(store.Clock); ok {
			params.Now = shared.Now
		}
	}
	f := &forgetting{ForgetParams: params, cleared: make(map[*contract.Kind]bool)}
	if f.Engine != nil && reflect.ValueOf(f.Contracts).IsZero() {
		f.Contracts = f.Engine.cfg.Contracts
	}
	f.Contracts = f.Contracts.WithParts(f.Store, f.Now)
	err := f.run(ctx)
	return f.report, err
}

// forgetting is a call of Forget.
type forgetting struct {
	ForgetParams
	report   ForgetReport
	feedback int                     // number of items before
	cleared  map[*contract.Kind]bool // the contracts of which all data have been removed
}

func (f *forgetting) run(ctx context.Context) error {
	if err := f.checkActive(ctx); err != nil {
		return err
	}
	feedback, err := f.Store.FeedbackSummary(ctx, f.Owner)
	if err != nil {
		return err
	}
	f.feedback = feedback.Count()
	for pass := range forgetPasses {
		before := f.report.Removed.Total()
		for _, remove := range []func(context.Context) error{f.contexts, f.endpoints, f.contracts, f.records} {
			if err := remove(ctx); err != nil {
				return err
			}
		}
		if pass > 0 && f.report.Removed.Total() == before {
			return f.finish(ctx)
		}
	}
	return a2a.Errorf(a2a.CodeConflict, "principal %s still writes data; revoke its access and try again", a2a.Quote(f.Owner))
}

// finish removes content of removed tasks and completes the report.
func (f *forgetting) finish(ctx context.Context) error {
	left, err := f.Store.FeedbackSummary(ctx, f.Owner)
	if err != nil {
		return err
	}
	f.report.Removed.Add(RemovedFeedback, int64(max(f.feedback-left.Count(), 0)))
	for more := true; more; {
		var err error
		if more, err = f.Store.PurgeDeleted(ctx); err != nil {
			return err
		}
	}
	if f.removesContent() {
		if err := f.removals(ctx); err != nil {
			return err
		}
	}
	for _, kind := range f.Contracts.kinds() {
		if kind.Later != "" && slices.ContainsFunc(kind.Counts, func(name string) bool { return f.report.Removed[name] > 0 }) {
			f.note(kind.Later)
		}
	}
	return nil
}

// contracts removes the data of the owner in stores of contracts.
func (f *forgetting) contracts(ctx context.Context) error {
	for _, s := range f.Contracts.Stores {
		kind := s.Kind()
		err := s.Forget(ctx, f.Owner, f.report.Removed.Add)
		var reason contract.Unlisted
		switch {
		case errors.As(err, &reason):
			f.note(kind.Name + " were not removed: " + string(reason))
		case err != nil:
			return err
		default:
			f.cleared[kind] = true
		}
	}
	return nil
}

// removesContent reports whether Forget removes all data that removed tasks leave in stores of
// contracts. Otherwise the removals of tasks remain for a server that has these stores.
func (f *forgetting) removesContent() bool {
	for _, kind := range f.Contracts.kinds() {
		if kind.LeftByTasks && !f.cleared[kind] {
			return false
		}
	}
	return true
}

// removals forgets the removals of the owner's tasks, which left nothing in any store.
func (f *forgetting) removals(ctx context.Context) error {
	for {
		found, err := f.Store.Removals(ctx, store.Removal{Key: store.Key{Owner: f.Owner}}, forgetPage)
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(found, func(r store.Removal) bool { return r.Key.Owner != f.Owner })
		if len(found) == 0 {
			return nil
		}
		if err := f.Store.ForgetRemovals(ctx, found); err != nil {
			return err
		}
	}
}

// checkActive returns an error if a task is queued or runs and Cancel is not set.
func (f *forgetting) checkActive(ctx context.Context) error {
	if f.Cancel {
		return nil
	}
	page, err := f.Store.Tasks(ctx, store.Query{
		Owner: f.Owner, States: active, Limit: namedTasks, Total: true, TotalLimit: 1000, Options: store.TaskOptions{Outline: true},
	})
	if err != nil || len(page.Tasks) == 0 {
		return err
	}
	ids := make([]string, len(page.Tasks))
	for i, t := range page.Tasks {
		ids[i] = t.Key.ID
	}
	out := a2a.Errorf(a2a.CodeConflict, "principal %s has unfinished tasks (%d), such as %s; cancel them first", a2a.Quote(f.Owner), page.Total, a2a.Quote(ids[0]))
	out.Data = map[string]any{"tasks": ids}
	return out
}

// contexts removes contexts with their tasks, and completes pending deletions.
func (f *forgetting) contexts(ctx context.Context) error {
	if err := f.pendingDeletions(ctx); err != nil {
		return err
	}
	for {
		page, err := f.Store.Contexts(ctx, store.ContextQuery{Owner: f.Owner, Sort: store.ContextsByCreated, Limit: forgetPage})
		if err != nil || len(page.Contexts) == 0 {
			return err
		}
		for i := range page.Contexts {
			if err := f.context(ctx, page.Contexts[i]); err != nil {
				return fmt.Errorf("context %s: %w", page.Contexts[i].Key.ID, err)
			}
		}
	}
}

// pendingDeletions completes the pending deletions of the owner. The store lists them among the
// deletions of all owners.
func (f *forgetting) pendingDeletions(ctx context.Context) error {
	for limit := 10 * forgetPage; ; limit *= 2 {
		keys, err := f.Store.PendingDeletions(ctx, limit)
		for _, key := range keys {
			for more := err == nil && key.Owner == f.Owner; more && err == nil; {
				more, err = f.Store.FinishDelete(ctx, key.Owner, key.ID, deleteBatch)
				if errors.Is(err, store.ErrNotFound) {
					more, err = false, nil // a server has finished it
				}
			}
		}
		if err != nil || len(keys) < limit {
			return err
		}
	}
}

// context cancels the active tasks of a context and removes it.
func (f *forgetting) context(ctx context.Context, c store.Context) error {
	webhooks, err := f.webhooks(ctx, c)
	if err != nil {
		return err
	}
	for range maxConflicts {
		err := f.deleteContext(ctx, c.Key)
		switch {
		case errors.Is(err, store.ErrBusy):
			if err := f.cancelActive(ctx, c); err != nil {
				return err
			}
		case errors.Is(err, store.ErrNotFound):
			return nil // a server has removed it
		case err != nil:
			return err
		default:
			f.report.Removed.Add(RemovedContexts, 1)
			f.report.Removed.Add(RemovedTasks, int64(c.TaskCount))
			f.report.Removed.Add(RemovedWebhooks, webhooks)
			return nil
		}
	}
	return errConflicts("context", c.Key.ID)
}

// deleteContext removes a context with its tasks.
func (f *forgetting) deleteContext(ctx context.Context, key store.ContextKey) error {
	if f.Engine != nil {
		return f.Engine.deletions.delete(ctx, key)
	}
	more, err := f.Store.DeleteContext(ctx, key.Owner, key.ID, deleteBatch)
	for more && err == nil {
		if more, err = f.Store.FinishDelete(ctx, key.Owner, key.ID, deleteBatch); errors.Is(err, store.ErrNotFound) {
			return nil // a server has finished it
		}
	}
	return err
}

// webhooks returns the number of webhooks of the tasks of a context.
func (f *forgetting) webhooks(ctx context.Context, c store.Context) (n int64, err error) {
	q := store.Query{Owner: f.Owner, ContextID: c.Key.ID, ByCreated: true, Limit: forgetPage, Options: store.TaskOptions{Outline: true}}
	for {
		page, err := f.Store.Tasks(ctx, q)
		if err != nil {
			return n, err
		}
		for _, t := range page.Tasks {
			lanes, err := f.Store.Lanes(ctx, store.LaneQuery{Owner: f.Owner, TaskID: t.Key.ID, Limit: forgetPage})
			if err != nil {
				return n, err
			}
			n += int64(len(lanes.Lanes))
		}
		if q.Cursor = page.Next; q.Cursor == nil {
			return n, nil
		}
	}
}

// cancelActive cancels the tasks of a context that are queued or leased. Their workers lose their
// leases.
func (f *forgetting) cancelActive(ctx context.Context, c store.Context) error {
	if !f.Cancel {
		return a2a.Errorf(a2a.CodeConflict, "has unfinished tasks; cancel them first")
	}
	page, err := f.Store.Tasks(ctx, store.Query{
		Owner: f.Owner, ContextID: c.Key.ID, States: unfinished, Limit: deleteBatch, Options: store.TaskOptions{Outline: true},
	})
	if err != nil {
		return err
	}
	for _, t := range page.Tasks {
		err := f.cancel(ctx, t)
		switch code := a2a.CodeOf(err); {
		case err == nil:
			f.report.Canceled++
		case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrNotFound), code == a2a.CodeTaskNotFound, code == a2a.CodeTaskNotCancelable:
		default:
			return err
		}
	}
	return nil
}

// cancel cancels a task.
func (f *forgetting) cancel(ctx context.Context, t *store.Task) error {
	if f.Engine != nil {
		_, err := f.Engine.Cancel(ctx, a2a.Principal{ID: f.Owner}, t.Key.ID, SendOptions{})
		return err
	}
	if !t.Status.State.CanMove(a2a.StateCanceled) {
		return store.ErrConflict
	}
	queue := t.Queue
	queue.Phase, queue.Lease.Worker = store.PhaseIdle, ""
	queue.Lease.Fence++
	at := store.Time(f.Now())
	if at.Before(t.Status.Timestamp) {
		at = t.Status.Timestamp
	}
	results, err := f.Store.Commit(ctx, store.Change{
		Key: t.Key, Version: t.Seq, Queue: &queue, Events: []store.Event{{Seq: t.Seq + 1, Time: at, State: a2a.StateCanceled}},
	})
	if err != nil {
		return err
	}
	return results[0].Err
}

// endpoints removes the failures of the endpoints of the owner's webhooks.
func (f *forgetting) endpoints(ctx context.Context) error {
	all, err := f.Store.Endpoints(ctx)
	for i := 0; err == nil && i < len(all); i++ {
		if name := all[i].Name; strings.HasSuffix(name, " "+f.Owner) {
			err = f.Store.SaveEndpoint(ctx, store.Endpoint{Name: name, UpdatedAt: store.Time(f.Now())})
		}
	}
	return err
}

func (f *forgetting) records(ctx context.Context) error {
	for conflicts := 0; conflicts < maxConflicts; {
		page, err := f.Store.Records(ctx, store.RecordQuery{Owner: f.Owner, Limit: 16}) // values may be large
		if err != nil || len(page.Records) == 0 {
			return err
		}
		changes := make([]store.RecordChange, len(page.Records))
		for i := range page.Records {
			r := &page.Records[i]
			changes[i] = store.RecordChange{Namespace: r.Key.Namespace, Key: r.Key.Key, Version: r.Version, Delete: true}
		}
		switch err := f.Store.SaveRecords(ctx, f.Owner, changes...); {
		case err == nil:
			f.report.Removed.Add(RemovedRecords, int64(len(changes)))
		case errors.Is(err, store.ErrRecordConflict):
			conflicts++
		default:
			return err
		}
	}
	return errConflicts("record", f.Owner)
}

// note adds a note to the report, once.
func (f *forgetting) note(text string) {
	if !slices.Contains(f.report.Notes, text) {
		f.report.Notes = append(f.report.Notes, text)
	}
}
