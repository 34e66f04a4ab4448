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

// outageTest has engines with the default lease share a store in a bubble of synctest.
// Each is cut off from the store while its switch is on, and its clock of leases is ahead
// of the others by its offset.
type outageTest struct {
	t       *testing.T
	shared  store.Store
	engines []*engine.Engine
	cut     []*atomic.Bool
	ahead   []*atomic.Int64
	work    time.Duration // how long a handler works

	mu      sync.Mutex
	running map[string]int // handlers by task
	began   []begun
	stopped []stopped
}

type begun struct {
	engine, attempt int
	at              time.Time
}

type stopped struct {
	engine int
	cause  error
	at     time.Time
}

// view is one replica's view of the store.
type view struct {
	replicas
	ahead *atomic.Int64
}

func (v view) Now() time.Time {
	return time.Now().Add(time.Duration(v.ahead.Load())).Round(0)
}

func newOutageTest(t *testing.T, replicaCount int, work time.Duration) *outageTest {
	o := &outageTest{t: t, shared: inmem.New(), work: work, running: make(map[string]int)}
	for i := range replicaCount {
		cut, ahead := new(atomic.Bool), new(atomic.Int64)
		s := storetest.Faulty(o.shared, func(storetest.Call) storetest.Fault {
			if cut.Load() {
				return storetest.FailBefore
			}
			return storetest.Pass
		})
		o.cut, o.ahead = append(o.cut, cut), append(o.ahead, ahead)
		o.engines = append(o.engines, start(t, engine.Config{Store: view{replicas{s}, ahead}, Handler: o.handler(i)}))
	}
	return o
}

func (o *outageTest) handler(i int) engine.Handler {
	return func(ctx context.Context, turn *engine.Turn) error {
		o.mu.Lock()
		o.began = append(o.began, begun{i, turn.Attempt(), time.Now()})
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
		case <-time.After(o.work):
			return turn.Reply(a2a.TextPart{Text: "done"})
		case <-ctx.Done():
			o.mu.Lock()
			o.stopped = append(o.stopped, stopped{i, context.Cause(ctx), time.Now()})
			o.mu.Unlock()
			return ctx.Err()
		}
	}
}

func (o *outageTest) send(each int) (ids []string) {
	o.t.Helper()
	for _, e := range o.engines {
		for range each {
			ids = append(ids, send(o.t, e, text("x")).Key.ID)
		}
	}
	return ids
}

func (o *outageTest) setAll(down bool) {
	for _, cut := range o.cut {
		cut.Store(down)
	}
}

// settle checks after a time that all tasks have ended well.
func (o *outageTest) settle(after time.Duration, ids ...string) {
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

// wantFirstAttempts checks how many handlers began, all of them with their first attempt.
func (o *outageTest) wantFirstAttempts(n int) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.began) != n {
		o.t.Errorf("%d handlers began, want %d", len(o.began), n)
	}
	for _, b := range o.began {
		if b.attempt != 1 {
			o.t.Errorf("a handler of replica %d began with attempt %d: an attempt was charged", b.engine, b.attempt)
		}
	}
}

const lease = 15 * time.Second // the default

// An outage that is longer than a lease stops the handlers of all replicas, whose tasks
// are handed back and run again with the same attempt.
func TestOutageChargesNoAttempt(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{5 * time.Second, 9 * time.Second, 20 * time.Second, 30 * time.Second, 2 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newOutageTest(t, 3, 40*time.Second)
				ids := o.send(5)
				time.Sleep(12 * time.Second)
				begun := time.Now()
				o.setAll(true)
				time.Sleep(away)
				o.setAll(false)
				o.settle(2*time.Minute, ids...)
				if away < lease*2/3 {
					o.wantFirstAttempts(len(ids))
					return
				}
				o.wantFirstAttempts(2 * len(ids))
				for _, s := range o.stopped {
					if took := s.at.Sub(begun); !errors.Is(s.cause, engine.ErrLeaseLost) || took < lease*2/3-time.Second || took > lease {
						t.Errorf("a handler of replica %d was stopped %s after the outage began, cause %v", s.engine, took, s.cause)
					}
				}
			})
		})
	}
}

// A replica that is cut off stops its handlers before another may run their tasks.
func TestCutOffHandlerIsStoppedWhenItsLeaseEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutageTest(t, 2, 40*time.Second)
		id := send(t, o.engines[0], text("x")).Key.ID
		time.Sleep(12 * time.Second)
		cutAt := time.Now()
		o.cut[0].Store(true)
		o.settle(2*time.Minute, id)
		if len(o.stopped) != 1 || !errors.Is(o.stopped[0].cause, engine.ErrLeaseLost) {
			t.Fatalf("stopped handlers = %+v, want one that lost its lease", o.stopped)
		}
		if took := o.stopped[0].at.Sub(cutAt); took > lease {
			t.Errorf("the handler was stopped after %s, want within its lease", took)
		}
		if len(o.began) != 2 || o.began[1].engine != 1 || o.began[1].attempt != 2 {
			t.Fatalf("handlers began as %+v, want the second at the other replica, with attempt 2", o.began)
		}
		if took := o.began[1].at.Sub(cutAt); took > lease+2*time.Second || o.began[1].at.Before(o.stopped[0].at) {
			t.Errorf("the other replica ran the task after %s, want within a lease and 2 s, and not before the first had stopped", took)
		}
		o.cut[0].Store(false)
		o.settle(time.Minute, id)
	})
}

// A replica that dies during an outage does not keep its tasks.
func TestTasksOfAReplicaThatDiedInAnOutageAreClaimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutageTest(t, 2, time.Second)
		o.work = time.Minute
		id := send(t, o.engines[0], text("x")).Key.ID
		time.Sleep(time.Second)
		o.setAll(true)
		time.Sleep(30 * time.Second)
		o.cut[1].Store(false)
		answers := time.Now()
		o.settle(2*time.Minute, id)
		if len(o.began) != 2 || o.began[1].engine != 1 {
			t.Fatalf("handlers began as %+v, want the second at the other replica", o.began)
		}
		if took := o.began[1].at.Sub(answers); took < lease-2*time.Second || took > lease+2*time.Second {
			t.Errorf("the task was claimed %s after the outage, want one lease", took)
		}
	})
}

// stuck is a store of which some renewals are not answered.
type stuck struct {
	replicas
	n atomic.Int64
}

func (s *stuck) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	if s.n.Add(1)%2 == 0 {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return s.replicas.Renew(ctx, until, leases)
}

func TestRenewalWithoutAnAnswerStopsNoHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutageTest(t, 1, 2*time.Minute)
		e := start(t, engine.Config{Store: &stuck{replicas: replicas{o.shared}}, Handler: o.handler(9)})
		id := send(t, e, text("x")).Key.ID
		o.settle(3*time.Minute, id)
		o.wantFirstAttempts(1)
		if len(o.stopped) > 0 {
			t.Errorf("stopped handlers = %+v, want none", o.stopped)
		}
	})
}

// The clock of the store is set, as by a new primary. The replicas notice it at once, or
// one after the other if it was set by less than the horizon of claims.
func TestSettingTheClockOfTheStoreVoidsNoLease(t *testing.T) {
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
				for _, ahead := range o.ahead {
					ahead.Store(int64(test.by))
					time.Sleep(test.apart)
				}
				o.settle(2*time.Minute, ids...)
				o.wantFirstAttempts(len(ids))
				if len(o.stopped) > 0 {
					t.Errorf("stopped handlers = %+v, want none", o.stopped)
				}
			})
		})
	}
}
