package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var lifecycleTests = []test{
	{"an open store answers Ping and Info", openStore},
	{"a closed store returns ErrClosed from every call", closedStore},
	{"closing again has no effect", closedTwice},
	{"a call with a canceled context has no effect", canceledContext},
	{"Close waits for the calls in progress", closeWaits},
}

// calls returns a call of every method that can fail, by name.
func calls(ctx context.Context, s store.Store) map[string]func() error {
	k := key("t1")
	all := map[string]func() error{
		"Commit":            func() error { _, err := s.Commit(ctx, newTask(key("new"), "new", at(1))); return err },
		"Task":              func() error { _, err := s.Task(ctx, k, store.TaskOptions{}); return err },
		"Tasks":             func() error { _, err := s.Tasks(ctx, store.Query{Owner: owner, Limit: 1}); return err },
		"Events":            func() error { _, err := s.Events(ctx, k, 0, 1); return err },
		"LogRows":           func() error { _, err := s.LogRows(ctx, k, 0, 1); return err },
		"Versions":          func() error { _, err := s.Versions(ctx, []store.Key{k}); return err },
		"Claim":             func() error { _, err := s.Claim(ctx, claimAt(worker, at(1), 1)); return err },
		"Renew":             func() error { _, err := s.Renew(ctx, at(1), []store.HeldLease{heldLease(k, worker, 1)}); return err },
		"Steps":             func() error { _, err := s.Steps(ctx, k, 1); return err },
		"Idempotency":       func() error { _, err := s.Idempotency(ctx, owner, "key"); return err },
		"ExpireIdempotency": func() error { _, err := s.ExpireIdempotency(ctx, at(999), 9); return err },
		"Context":           func() error { _, err := s.Context(ctx, owner, "c1", 1); return err },
		"Contexts":          func() error { _, err := s.Contexts(ctx, newestContexts(owner, 1)); return err },
		"SaveContext": func() error {
			_, err := s.SaveContext(ctx, store.ContextChange{Context: fullContext(owner, "new", 1), Create: true})
			return err
		},
		"DeleteContext":    func() error { _, err := s.DeleteContext(ctx, owner, "c1", 1); return err },
		"FinishDelete":     func() error { _, err := s.FinishDelete(ctx, owner, "c1", 1); return err },
		"PendingDeletions": func() error { _, err := s.PendingDeletions(ctx, 1); return err },
		"DeleteTask":       func() error { _, err := s.DeleteTask(ctx, key("over"), false); return err },
		"ExpireTasks": func() error {
			_, _, err := s.ExpireTasks(ctx, store.TaskExpiry{State: a2a.StateCompleted, Before: at(999), Limit: 9})
			return err
		},
		"ExpireContexts": func() error {
			_, _, err := s.ExpireContexts(ctx, store.ContextExpiry{Before: at(999), Limit: 9})
			return err
		},
		"PurgeDeleted":    func() error { _, err := s.PurgeDeleted(ctx); return err },
		"Removals":        func() error { _, err := s.Removals(ctx, store.Removal{}, 9); return err },
		"ForgetRemovals":  func() error { return s.ForgetRemovals(ctx, []store.Removal{{Key: key("over"), CreatedAt: at(1)}}) },
		"AddFeedback":     func() error { return s.AddFeedback(ctx, store.Feedback{Key: k, ID: "f", CreatedAt: at(1)}) },
		"Feedback":        func() error { _, err := s.Feedback(ctx, store.FeedbackQuery{Owner: owner, Limit: 1}); return err },
		"FeedbackSummary": func() error { _, err := s.FeedbackSummary(ctx, owner); return err },
		"Record": func() error {
			_, err := s.Record(ctx, store.RecordKey{Owner: owner, Namespace: "n", Key: "k"})
			return err
		},
		"Records":       func() error { _, err := s.Records(ctx, store.RecordQuery{Owner: owner, Limit: 1}); return err },
		"SaveRecords":   func() error { return s.SaveRecords(ctx, owner, valueChange("n", "k", 0, "")) },
		"ExpireRecords": func() error { _, err := s.ExpireRecords(ctx, at(999), 9); return err },
		"Queued":        func() error { _, err := s.Queued(ctx, owner, 1); return err },
		"Backlog":       func() error { _, err := s.Backlog(ctx); return err },
		"Ping":          func() error { return s.Ping(ctx) },
	}
	maps.Copy(all, webhookCalls(ctx, s))
	return all
}

// webhookCalls returns a call of every method of store.Webhooks that can fail, by name.
func webhookCalls(ctx context.Context, s store.Store) map[string]func() error {
	k := key("t1")
	lease := store.LaneLease{Task: k, ID: "p", Worker: worker, Fence: 1}
	return map[string]func() error{
		"SaveWebhook":   func() error { _, err := s.SaveWebhook(ctx, testWebhook(k, "p"), cursorAt(0), at(1)); return err },
		"Lanes":         func() error { _, err := s.Lanes(ctx, store.LaneQuery{Limit: 1}); return err },
		"DeleteWebhook": func() error { _, err := s.DeleteWebhook(ctx, k, "p", at(1)); return err },
		"ClaimLanes":    func() error { _, err := s.ClaimLanes(ctx, laneClaim(worker, 1000, 9)); return err },
		"RenewLanes":    func() error { _, err := s.RenewLanes(ctx, at(1), []store.LaneLease{lease}); return err },
		"AckLanes": func() error {
			_, err := s.AckLanes(ctx, store.LaneAck{Lease: lease, State: store.LaneActive})
			return err
		},
		"ReplayWebhook":    func() error { _, err := s.ReplayWebhook(ctx, k, "p", cursorAt(0), at(1)); return err },
		"WakeLanes":        func() error { _, err := s.WakeLanes(ctx, endpoint, at(-1), 9); return err },
		"DeadLetters":      func() error { _, err := s.DeadLetters(ctx, store.WebhookQuery{Limit: 1}); return err },
		"DeliveryAttempts": func() error { _, err := s.DeliveryAttempts(ctx, store.WebhookQuery{Limit: 1}); return err },
		"Endpoints":        func() error { _, err := s.Endpoints(ctx); return err },
		"SaveEndpoint":     func() error { return s.SaveEndpoint(ctx, store.Endpoint{Name: endpoint, Failures: 1}) },
		"ExpireWebhooks":   func() error { _, err := s.ExpireWebhooks(ctx, store.WebhookExpiry{Attempts: at(9)}, 9); return err },
		"WebhookBacklog":   func() error { _, err := s.WebhookBacklog(ctx); return err },
	}
}

func openStore(f *fixture) {
	suite.Do(f.s.Ping(f.ctx)).Check(f, "Ping()")
	info := f.s.Info()
	if info.Name == "" {
		f.Errorf("Info() = %+v, want a name", info)
	}
	if again := f.s.Info(); again != info {
		f.Errorf("Info() = %+v, then %+v, want the same", info, again)
	}
	if info.Durable != (f.h.Reopen != nil) {
		f.Errorf("Info().Durable = %t, Harness.Reopen is set: %t, want both or neither", info.Durable, f.h.Reopen != nil)
	}
}

func closedStore(f *fixture) {
	f.commit(withKey(newTask(key("t1"), "c1", at(0)), "key", at(0)))
	info := f.s.Info()
	suite.Do(f.s.Close()).Must(f, "Close()")
	for method, call := range calls(f.ctx, f.s) {
		suite.Do(call()).Fails(f, store.ErrClosed, "%s() of a closed store", method)
	}
	suite.Equal(f, f.s.Info(), info, "Info() of a closed store")
}

func closedTwice(f *fixture) {
	for range 2 {
		suite.Do(f.s.Close()).Check(f, "Close()")
	}
}

func canceledContext(f *fixture) {
	idle := withKey(newTask(key("t1"), "c1", at(0)), "key", at(0))
	idle.Queue.Phase = store.PhaseIdle // so that the context can be deleted
	idle.Webhooks = testWebhooks("p")
	f.commit(idle)
	before, lanes := f.task(key("t1")), f.lanes(store.LaneQuery{})
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	for method, call := range calls(ctx, f.s) {
		suite.Do(call()).Fails(f, context.Canceled, "%s() with an ended context", method)
	}
	f.wantNoTask(key("new"))
	f.wantNoContext(owner, "new")
	f.equal("Task()", f.task(key("t1")), before)
	f.equal("Feedback()", f.feedbackOf(key("t1")), []store.Feedback{})
	f.equal("Lanes()", f.lanes(store.LaneQuery{}), lanes)
	f.equal("Endpoints()", f.endpoints(), []store.Endpoint{})
	f.equal("Context()", f.context(owner, "c1"), implicitContext(owner, "c1", 0, "t1"))
	f.record(owner, "key")
}

func closeWaits(f *fixture) {
	var wg sync.WaitGroup
	started := make(chan struct{}, 8)
	for i := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				_, err := f.s.Commit(f.ctx, newTask(key(fmt.Sprint(i, "-", n)), "c1", at(n)))
				if n == 0 {
					started <- struct{}{}
				}
				if errors.Is(err, store.ErrClosed) {
					return
				}
				if err != nil {
					f.Errorf("Commit() during Close() = %v, want nil or ErrClosed", err)
					return
				}
			}
		})
	}
	for range 8 {
		<-started
	}
	suite.Do(f.s.Close()).Check(f, "Close()")
	wg.Wait()
}
