package engine_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// outageTest runs engines with the default lease that share a store, in a synctest bubble. Each
// engine can be disconnected from the store, and its clock of leases has its own offset.
type outageTest struct {
	t            *testing.T
	shared       store.Store
	engines      []*engine.Engine
	disconnected []*atomic.Bool
	clockOffsets []*atomic.Int64
	workTime     time.Duration // duration of a handler

	mu      sync.Mutex
	running map[string]int // handlers by task
	starts  []handlerStart
	stops   []handlerStop
}

type handlerStart struct {
	engine, attempt int
	at              time.Time
}

type handlerStop struct {
	engine int
	cause  error
	at     time.Time
}

// replicaView is one replica's view of the store.
type replicaView struct {
	sharedStore
	clockOffset *atomic.Int64
}

func (v replicaView) Now() time.Time {
	return time.Now().Add(time.Duration(v.clockOffset.Load())).Round(0)
}

func newOutageTest(t *testing.T, replicaCount int, workTime time.Duration) *outageTest {
	o := &outageTest{t: t, shared: inmem.New(), workTime: workTime, running: make(map[string]int)}
	for i := range replicaCount {
		disconnected, clockOffset := new(atomic.Bool), new(atomic.Int64)
		s := storetest.Faulty(o.shared, func(storetest.Call) storetest.Fault {
			if disconnected.Load() {
				return storetest.FailBefore
			}
			return storetest.Pass
		})
		o.disconnected, o.clockOffsets = append(o.disconnected, disconnected), append(o.clockOffsets, clockOffset)
		o.engines = append(o.engines, start(t, engine.Config{Store: replicaView{sharedStore{s}, clockOffset}, Handler: o.handler(i)}))
	}
	return o
}

func (o *outageTest) handler(i int) engine.Handler {
	return func(ctx context.Context, turn *engine.Turn) error {
		o.mu.Lock()
		o.starts = append(o.starts, handlerStart{i, turn.Attempt(), time.Now()})
		if o.running[turn.TaskID()]++; o.running[turn.TaskID()] > 1 {
			o.t.Errorf("task %s runs twice at the same time", turn.TaskID())
		}
		o.mu.Unlock()
		defer func() {
			o.mu.Lock()
			o.running[turn.TaskID()]--
			o.mu.Unlock()
		}()
		select {
		case <-time.After(o.workTime):
			return turn.Reply(a2a.TextPart{Text: "done"})
		case <-ctx.Done():
			o.mu.Lock()
			o.stops = append(o.stops, handlerStop{i, context.Cause(ctx), time.Now()})
			o.mu.Unlock()
			return ctx.Err()
		}
	}
}

func (o *outageTest) send(each int) (ids []string) {
	o.t.Helper()
	for _, e := range o.engines {
		for range each {
			ids = append(ids, send(o.t, e, message("x")).Key.ID)
		}
	}
	return ids
}

func (o *outageTest) setAll(disconnected bool) {
	for _, flag := range o.disconnected {
		flag.Store(disconnected)
	}
}

// wantCompleted checks after a delay that all tasks have completed.
func (o *outageTest) wantCompleted(after time.Duration, ids ...string) {
	o.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	for _, id := range ids {
		task, err := o.shared.Task(o.t.Context(), store.Key{Owner: alice.ID, ID: id}, store.TaskOptions{})
		if err != nil {
			o.t.Fatalf("Task() = %v", err)
		}
		wantState(o.t, task, a2a.StateCompleted)
	}
}

// wantFirstAttempts checks the number of handler starts and that all were first attempts.
func (o *outageTest) wantFirstAttempts(n int) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.starts) != n {
		o.t.Errorf("%d handlers started, want %d", len(o.starts), n)
	}
	for _, b := range o.starts {
		if b.attempt != 1 {
			o.t.Errorf("a handler of replica %d started with attempt %d: an attempt was charged", b.engine, b.attempt)
		}
	}
}

const lease = 15 * time.Second // the default

// An outage longer than a lease stops the handlers of all replicas. Their tasks are requeued
// and run again as the same attempt.
func TestOutageChargesNoAttempt(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{5 * time.Second, 9 * time.Second, 20 * time.Second, 30 * time.Second, 2 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newOutageTest(t, 3, 40*time.Second)
				ids := o.send(5)
				time.Sleep(12 * time.Second)
				started := time.Now()
				o.setAll(true)
				time.Sleep(away)
				o.setAll(false)
				o.wantCompleted(2*time.Minute, ids...)
				if away < lease*2/3 {
					o.wantFirstAttempts(len(ids))
					return
				}
				o.wantFirstAttempts(2 * len(ids))
				for _, s := range o.stops {
					if took := s.at.Sub(started); !errors.Is(s.cause, engine.ErrLeaseLost) || took < lease*2/3-time.Second || took > lease {
						t.Errorf("a handler of replica %d was stopped %s after the outage started, cause %v", s.engine, took, s.cause)
					}
				}
			})
		})
	}
}

// holder returns the replica that runs the only task, and the other one. A task may be claimed by a replica that did not receive
// it.
func (o *outageTest) holder() (holder, other int) {
	o.t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.starts) != 1 {
		o.t.Fatalf("handler starts = %+v, want one", o.starts)
	}
	return o.starts[0].engine, 1 - o.starts[0].engine
}

// A disconnected replica stops its handlers before another replica may run their tasks.
func TestDisconnectedHandlerStopsAtLeaseEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutageTest(t, 2, 40*time.Second)
		id := send(t, o.engines[0], message("x")).Key.ID
		time.Sleep(12 * time.Second)
		holder, other := o.holder()
		cutAt := time.Now()
		o.disconnected[holder].Store(true)
		o.wantCompleted(2*time.Minute, id)
		if len(o.stops) != 1 || !errors.Is(o.stops[0].cause, engine.ErrLeaseLost) {
			t.Fatalf("stopped handlers = %+v, want one that lost its lease", o.stops)
		}
		if took := o.stops[0].at.Sub(cutAt); took > lease {
			t.Errorf("the handler was stopped after %s, want within its lease", took)
		}
		if len(o.starts) != 2 || o.starts[1].engine != other || o.starts[1].attempt != 2 {
			t.Fatalf("handler starts = %+v, want the second at the other replica, with attempt 2", o.starts)
		}
		if took := o.starts[1].at.Sub(cutAt); took > lease+2*time.Second || o.starts[1].at.Before(o.stops[0].at) {
			t.Errorf("the other replica ran the task after %s, want within a lease and 2 s, and not before the first had stopped", took)
		}
		o.disconnected[holder].Store(false)
		o.wantCompleted(time.Minute, id)
	})
}

// A replica that dies during an outage does not keep its tasks.
func TestTasksOfReplicaThatDiedInOutageAreClaimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutageTest(t, 2, time.Second)
		o.workTime = time.Minute
		id := send(t, o.engines[0], message("x")).Key.ID
		time.Sleep(time.Second)
		_, other := o.holder()
		o.setAll(true)
		time.Sleep(30 * time.Second)
		o.disconnected[other].Store(false)
		answers := time.Now()
		o.wantCompleted(2*time.Minute, id)
		if len(o.starts) != 2 || o.starts[1].engine != other {
			t.Fatalf("handler starts = %+v, want the second at the other replica", o.starts)
		}
		if took := o.starts[1].at.Sub(answers); took < lease-2*time.Second || took > lease+2*time.Second {
			t.Errorf("the task was claimed %s after the outage, want one lease", took)
		}
	})
}

// hangingRenewStore is a store that does not answer every second renewal.
type hangingRenewStore struct {
	sharedStore
	calls atomic.Int64
}

func (s *hangingRenewStore) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	if s.calls.Add(1)%2 == 0 {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return s.sharedStore.Renew(ctx, until, leases)
}

func TestUnansweredRenewalStopsNoHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutageTest(t, 1, 2*time.Minute)
		e := start(t, engine.Config{Store: &hangingRenewStore{sharedStore: sharedStore{o.shared}}, Handler: o.handler(9)})
		id := send(t, e, message("x")).Key.ID
		o.wantCompleted(3*time.Minute, id)
		o.wantFirstAttempts(1)
		if len(o.stops) > 0 {
			t.Errorf("stopped handlers = %+v, want none", o.stops)
		}
	})
}

// The clock of the store changes, as after a failover. The replicas detect it at once, or one
// after the other if the change is less than the horizon of claims.
func TestStoreClockChangeVoidsNoLease(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ by, apart time.Duration }{
		{6 * time.Second, 0},
		{6 * time.Second, 4 * time.Second},
		{20 * time.Second, 0},
		{20 * time.Second, 4 * time.Second},
		{time.Hour, 0},
		{-6 * time.Second, 0},
		{-20 * time.Second, 0},
		{-time.Hour, 0},
	} {
		t.Run(test.by.String()+" "+test.apart.String()+" apart", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newOutageTest(t, 3, 40*time.Second)
				ids := o.send(5)
				time.Sleep(12 * time.Second)
				synctest.Wait() // no replica reads its clock while the other clocks change
				for _, ahead := range o.clockOffsets {
					ahead.Store(int64(test.by))
					time.Sleep(test.apart)
				}
				o.wantCompleted(2*time.Minute, ids...)
				o.wantFirstAttempts(len(ids))
				if len(o.stops) > 0 {
					t.Errorf("stopped handlers = %+v, want none", o.stops)
				}
			})
		})
	}
}
