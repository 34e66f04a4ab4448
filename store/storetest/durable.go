package storetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// durableTests returns the tests of durable stores. Each runs twice: with a clean close and, if
// the harness supports it, with a crash.
func durableTests() []test {
	var tests []test
	for _, t := range []struct {
		name string
		run  func(f *fixture, reopen func())
	}{
		{"everything is preserved", durableEverything},
		{"leases and the queue are preserved", durableQueue},
		{"large content is preserved", largeContent},
		{"a streamed text continues", durableStream},
		{"a task continues repeatedly", durableManyReopens},
		{"contexts and feedback are preserved", durableContexts},
		{"a deletion continues", durableDelete},
		{"webhooks and their deliveries are preserved", durableWebhook},
		{"effects are preserved with their changes", durableEffects},
	} {
		tests = append(tests,
			test{t.name + " after a reopen", func(f *fixture) { f.runDurable(f.h.Reopen, true, t.run) }},
			test{t.name + " after a crash", func(f *fixture) { f.runDurable(f.h.Crash, false, t.run) }})
	}
	// This test uses the store while it is reopened, so it has no variant with a crash. See
	// KillLoop for that.
	return append(tests, test{
		"changes acknowledged under load are preserved after a reopen",
		func(f *fixture) { f.runDurable(f.h.Reopen, true, durableLoad) },
	})
}

// runDurable runs a test of a durable store that opens it again in the given way.
func (f *fixture) runDurable(again func(T, store.Store) store.Store, needed bool, run func(*fixture, func())) {
	f.Helper()
	if !f.s.Info().Durable {
		f.Skipf("store is not durable")
	}
	if again == nil {
		if needed {
			f.Fatalf("Info().Durable = true, but Harness.Reopen is nil")
		}
		f.Skipf("Harness.Crash is nil")
	}
	run(f, func() {
		f.Helper()
		if f.s = again(f, f.s); f.s == nil {
			f.Fatalf("Harness.Reopen or Crash returned no store")
		}
	})
}

func durableEverything(f *fixture, reopen func()) {
	k, second := key("t1"), store.Key{Owner: otherOwner, ID: "t1"}
	c := withKey(store.Change{Key: k, Create: &store.Create{ContextID: "c1"}, Events: sampleLog(), Queue: leased(worker, at(100))}, "key", at(3))
	c.Steps = []store.Step{step(1, "b", "1"), step(1, "a", "\x00\xff")}
	f.commit(c, newTask(second, "c1", at(7)))
	tasks := f.createTasks(50)
	feedback := []store.Feedback{{Key: k, ID: "f", Rating: 5, Text: "good", Metadata: map[string]any{"a": 1.5}, CreatedAt: at(9)}}
	f.addFeedback(feedback...)
	context := f.context(owner, "c1")
	first := f.list(store.Query{Owner: owner, Limit: 20, Total: true})
	backlog := f.backlog()

	reopen()
	want := fold(k, "c1", *leased(worker, at(100)), sampleLog()...)
	f.equal("Task()", f.task(k), want)
	f.equal("Events()", f.events(k), withSeqs(sampleLog()))
	f.equal("Steps()", f.steps(k, 1), c.Steps)
	f.equal("Context()", f.context(owner, "c1"), context)
	f.equal("Feedback()", f.feedbackOf(k), feedback)
	f.equal("Backlog()", f.backlog(), backlog)
	f.equal("Tasks()", f.list(store.Query{Owner: owner, Limit: 20, Total: true}), first)
	all := filterTasks(append(tasks, want), store.Query{Owner: owner})
	f.equal("Tasks() after a cursor from before the reopen", ids(f.list(store.Query{Owner: owner, Limit: 100, Cursor: first.Next}).Tasks), ids(all[20:]))
	if r := f.wantRejected(store.ErrDuplicate, c).Record; r != nil && (r.Seq != want.Seq || r.TaskID != "t1" || !r.CreatedAt.Equal(at(3))) {
		f.Errorf("Result.Record = %+v, want the record of the task at version %d", r, want.Seq)
	}
	f.commit(changeUnder(k, worker, 1, agentMessage(at(50), a2a.StateCompleted, "m9")))
	f.equal("Task()", f.task(second), fold(second, "c1", *queued(), clientMessage(at(7), "m1")))
}

func durableQueue(f *fixture, reopen func()) {
	for i := range 4 {
		f.create(key(fmt.Sprint("t", i)), at(i))
	}
	f.claim(claimAt(worker, at(10), 2))
	reopen()
	f.equal("Backlog()", f.backlog(), store.Backlog{Queued: 2, Leased: 2})
	f.equal("Claim()", ids(f.claim(claimAt(otherWorker, at(20), 10))), []string{"t2", "t3"})
	f.equal("Renew()", f.renew(at(90_000), heldLease(key("t0"), worker, 1)), []store.Key{})
	reopen()
	f.equal("Claim() after a lease has ended", ids(f.claim(claimAt(otherWorker, at(80_000), 10))), []string{"t1"})
	f.wantRejected(store.ErrLeaseLost, changeUnder(key("t1"), worker, 1))
	f.commit(changeUnder(key("t0"), worker, 1), changeUnder(key("t1"), otherWorker, 2), changeUnder(key("t2"), otherWorker, 1))
	p := claimAt("worker-3", at(80_001), 10)
	p.Takeover = true
	f.equal("Claim() with Takeover", len(f.claim(p)), 4)
}

func durableStream(f *fixture, reopen func()) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	f.commit(c)
	log := c.Events
	for i := range 9 {
		e := chunkEvent(at(i+1), "a", fmt.Sprint(i, " "), i > 0)
		f.commit(changeAt(k, int64(i+1), e))
		log = append(log, e)
		if i%3 == 1 {
			reopen()
		}
	}
	f.equal("Task()", f.task(k), fold(k, "c1", *queued(), log...))
	f.equal("Events()", f.events(k), withSeqs(log))
}

func durableManyReopens(f *fixture, reopen func()) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	f.commit(c)
	log := c.Events
	for i := range 5 {
		reopen()
		f.equal("Task()", f.task(k), fold(k, "c1", *queued(), log...))
		e := agentMessage(at(i), a2a.StateWorking, fmt.Sprint("m", i))
		f.commit(changeAt(k, int64(len(log)), e))
		log = append(log, e)
		f.wantRejected(store.ErrConflict, changeAt(k, 1, e))
	}
	f.equal("Events()", f.events(k), withSeqs(log))
}

// durableLoad reopens the store while goroutines commit.
func durableLoad(f *fixture, reopen func()) {
	var mu sync.Mutex
	acked := make(map[store.Key]int64)
	var wg sync.WaitGroup
	s := f.s
	started := make(chan struct{}, 16)
	for i := range 16 {
		wg.Go(func() {
			k := key(fmt.Sprint("t", i))
			c := newTask(k, "c1", at(0))
			for {
				results, err := s.Commit(f.ctx, c)
				if err != nil {
					if !errors.Is(err, store.ErrClosed) {
						f.Errorf("Commit() = %v, want nil or ErrClosed", err)
					}
					return
				}
				seq := results[0].Seq
				mu.Lock()
				acked[k] = seq
				mu.Unlock()
				if seq == 3 {
					started <- struct{}{}
				}
				c = changeAt(k, seq, agentMessage(at(int(seq)), a2a.StateWorking, fmt.Sprint("m", seq)))
			}
		})
	}
	for range 16 {
		<-started
	}
	reopen()
	wg.Wait()
	for k, seq := range acked {
		if t := f.task(k); t.Seq != seq {
			f.Errorf("Task(%s) = version %d, want the acknowledged version %d", taskName(k), t.Seq, seq)
		}
		if log := f.events(k); int64(len(log)) != seq {
			f.Errorf("Events(%s) = %d events, want the %d acknowledged", taskName(k), len(log), seq)
		}
	}
}
