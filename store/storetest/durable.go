package storetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// durableTests are those of stores that survive: each is run twice, with a
// clean close and, where the harness can, with a crash.
func durableTests() []test {
	var tests []test
	for _, t := range []struct {
		name string
		run  func(f *fixture, reopen func())
	}{
		{"everything is there", durableEverything},
		{"leases and the queue are there", durableQueue},
		{"large content is there", durableContent},
		{"a streamed text goes on", durableStream},
		{"a task goes on through many", durableAgain},
		{"contexts and feedback are there", durableContexts},
		{"a deletion goes on", durableDelete},
		{"webhooks and what was noted of them are there", durablePush},
	} {
		tests = append(tests,
			test{t.name + " after a reopen", func(f *fixture) { f.durable(f.h.Reopen, true, t.run) }},
			test{t.name + " after a crash", func(f *fixture) { f.durable(f.h.Crash, false, t.run) }})
	}
	// A store that has crashed is not used any more, so this is for a close alone;
	// KillLoop is its other half.
	return append(tests, test{
		"what was acknowledged under load is there after a reopen",
		func(f *fixture) { f.durable(f.h.Reopen, true, durableLoad) },
	})
}

// durable runs a test of a durable store with one way to open it again.
func (f *fixture) durable(again func(T, store.Store) store.Store, needed bool, run func(*fixture, func())) {
	f.Helper()
	if !f.s.Info().Durable {
		f.Skipf("the store is not durable")
	}
	if again == nil {
		if needed {
			f.Fatalf("the store is durable, but its harness cannot reopen it")
		}
		f.Skipf("the harness has no way to do so")
	}
	run(f, func() {
		f.Helper()
		if f.s = again(f, f.s); f.s == nil {
			f.Fatalf("the harness returned no store")
		}
	})
}

func durableEverything(f *fixture, reopen func()) {
	k, twin := key("t1"), store.Key{Owner: other, ID: "t1"}
	c := idempotent(store.Change{Key: k, Create: &store.Create{ContextID: "c1"}, Events: story(), Run: leased(worker, at(100))}, "key", at(3))
	c.Steps = []store.Step{step(1, "b", "1"), step(1, "a", "\x00\xff")}
	f.commit(c, newTask(twin, "c1", at(7)))
	tasks := f.crowd(50)
	feedback := []store.Feedback{{Key: k, ID: "f", Rating: 5, Text: "good", Metadata: map[string]any{"a": 1.5}, CreatedAt: at(9)}}
	f.feedback(feedback...)
	context := f.context(owner, "c1")
	first := f.list(store.Query{Owner: owner, Limit: 20, Total: true})
	backlog := f.backlog()

	reopen()
	want := fold(k, "c1", *leased(worker, at(100)), story()...)
	f.equal("Task()", f.task(k), want)
	f.equal("Events()", f.events(k), numbered(story()))
	f.equal("Steps()", f.steps(k, 1), c.Steps)
	f.equal("Context()", f.context(owner, "c1"), context)
	f.equal("Feedback()", f.feedbackOn(k), feedback)
	f.equal("Backlog()", f.backlog(), backlog)
	f.equal("Tasks()", f.list(store.Query{Owner: owner, Limit: 20, Total: true}), first)
	all := selected(append(tasks, want), store.Query{Owner: owner})
	f.equal("Tasks() after a cursor made before", ids(f.list(store.Query{Owner: owner, Limit: 100, Cursor: first.Next}).Tasks), ids(all[20:]))
	if r := f.refused(store.ErrDuplicate, c).Record; r != nil && (r.Seq != want.Seq || r.TaskID != "t1" || !r.CreatedAt.Equal(at(3))) {
		f.Errorf("Result.Record = %+v, want that of the task at version %d", r, want.Seq)
	}
	f.commit(under(k, worker, 1, said(at(50), a2a.StateCompleted, "m9")))
	f.equal("Task()", f.task(twin), fold(twin, "c1", *queued(), received(at(7), "m1")))
}

func durableQueue(f *fixture, reopen func()) {
	for i := range 4 {
		f.create(key(fmt.Sprint("t", i)), at(i))
	}
	f.claim(claimAt(worker, at(10), 2))
	reopen()
	f.equal("Backlog()", f.backlog(), store.Backlog{Queued: 2, Leased: 2})
	f.equal("Claim()", ids(f.claim(claimAt(rival, at(20), 10))), []string{"t2", "t3"})
	f.equal("Renew()", f.renew(at(90_000), held(key("t0"), worker, 1)), []store.Key{})
	reopen()
	f.equal("Claim() after a lease has ended", ids(f.claim(claimAt(rival, at(80_000), 10))), []string{"t1"})
	f.refused(store.ErrLeaseLost, under(key("t1"), worker, 1))
	f.commit(under(key("t0"), worker, 1), under(key("t1"), rival, 2), under(key("t2"), rival, 1))
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
		e := chunk(at(i+1), "a", fmt.Sprint(i, " "), i > 0)
		f.commit(next(k, int64(i+1), e))
		log = append(log, e)
		if i%3 == 1 {
			reopen()
		}
	}
	f.equal("Task()", f.task(k), fold(k, "c1", *queued(), log...))
	f.equal("Events()", f.events(k), numbered(log))
}

func durableAgain(f *fixture, reopen func()) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	f.commit(c)
	log := c.Events
	for i := range 5 {
		reopen()
		f.equal("Task()", f.task(k), fold(k, "c1", *queued(), log...))
		e := said(at(i), a2a.StateWorking, fmt.Sprint("m", i))
		f.commit(next(k, int64(len(log)), e))
		log = append(log, e)
		f.refused(store.ErrConflict, next(k, 1, e))
	}
	f.equal("Events()", f.events(k), numbered(log))
}

// durableLoad opens the store again while many commit.
func durableLoad(f *fixture, reopen func()) {
	var mu sync.Mutex
	acked := make(map[store.Key]int64)
	var wg sync.WaitGroup
	s := f.s
	going := make(chan struct{}, 16)
	for i := range 16 {
		wg.Go(func() {
			k := key(fmt.Sprint("t", i))
			c := newTask(k, "c1", at(0))
			for {
				results, err := s.Commit(f.ctx, c)
				if err != nil {
					if !errors.Is(err, store.ErrClosed) {
						f.Errorf("Commit() = %v, want it applied or ErrClosed", err)
					}
					return
				}
				seq := results[0].Seq
				mu.Lock()
				acked[k] = seq
				mu.Unlock()
				if seq == 3 {
					going <- struct{}{}
				}
				c = next(k, seq, said(at(int(seq)), a2a.StateWorking, fmt.Sprint("m", seq)))
			}
		})
	}
	for range 16 {
		<-going
	}
	reopen()
	wg.Wait()
	for k, seq := range acked {
		if t := f.task(k); t.Seq != seq {
			f.Errorf("Task(%s) is at version %d, acknowledged was %d", name(k), t.Seq, seq)
		}
		if log := f.events(k); int64(len(log)) != seq {
			f.Errorf("Events(%s) = %d events, acknowledged were %d", name(k), len(log), seq)
		}
	}
}
