package postgres

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// behind opens two stores on one schema: one through a proxy, one without.
func behind(t *testing.T, cfg Config) (*proxy, *Store, *Store) {
	t.Helper()
	direct := fresh(storetest.Wrap(t), cfg)
	s := open(storetest.Wrap(t), direct)
	p, proxied := newProxy(t, direct.URL)
	through := direct
	through.URL, through.CommandTimeout, through.Logger = proxied, 10*time.Second, testLogger(t)
	return p, open(storetest.Wrap(t), through), s
}

// Every kind of change is cut off from its answer at every byte of it.
func TestNoChangeIsLostOrMadeTwiceWhenItsAnswerIsCutOff(t *testing.T) {
	t.Parallel()
	p, s, direct := behind(t, Config{})
	worker := func(k store.Key) *store.HeldLease { return &store.HeldLease{Key: k, Worker: testWorker, Fence: 1} }
	at := began.Add(time.Hour)
	said := func(text string) store.Event {
		return store.Event{Time: at, State: a2a.StateWorking, Message: message("m", "agent", text)}
	}
	n := 0
	for _, kind := range []struct {
		name   string
		events int
		change func(k store.Key) store.Change
	}{
		{"lease", 1, func(k store.Key) store.Change {
			return store.Change{Lease: worker(k), Events: []store.Event{said("a")}}
		}},
		{"version", 1, func(store.Key) store.Change { return store.Change{Version: 2, Events: []store.Event{said("a")}} }},
		{"quiet", 0, func(k store.Key) store.Change {
			return store.Change{Lease: worker(k), Steps: []store.Step{{Turn: 1, Name: "s", Result: []byte("r")}}}
		}},
		{"message", 1, func(k store.Key) store.Change {
			c := store.Change{Version: 2, Events: []store.Event{{Time: at, State: a2a.StateWorking, Received: message("m9", "user", "more")}}}
			c.Idempotency = &store.IdempotencyRecord{Owner: k.Owner, Key: "message " + k.ID, TaskID: k.ID, CreatedAt: at}
			return c
		}},
	} {
		cuts := 0
		for bytes := 0; bytes < 400; bytes += 9 {
			n++
			must(t, commitOne(s, submitted(n)))
			k := taskKey(n)
			c := kind.change(k)
			c.Key = k
			before := p.cuts
			p.cutAfter(bytes)
			results, err := s.Commit(bg, c)
			p.disarm()
			cuts += p.cuts - before
			if err != nil || results[0].Err != nil || results[0].Seq != int64(2+kind.events) {
				t.Fatalf("%s cut after %d bytes: Commit() = %+v, %v, want it applied at version %d", kind.name, bytes, results, err, 2+kind.events)
			}
			log, err := direct.Events(bg, k, 0, 100)
			if err != nil || len(log) != 2+kind.events {
				t.Fatalf("%s cut after %d bytes: %d events, %v, want %d", kind.name, bytes, len(log), err, 2+kind.events)
			}
		}
		if cuts < 5 {
			t.Errorf("%s: %d cuts, want more: the proxy lets everything pass", kind.name, cuts)
		}
	}
}

// disarm lets everything pass again.
func (p *proxy) disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
}

// A transaction that the server reads only after its sender has given up must not
// be made a second time, nor after it was ruled out.
func TestAChangeThatReachesTheServerLateIsNotMadeTwice(t *testing.T) {
	t.Parallel()
	p, s, direct := behind(t, Config{})
	once := store.Change{Key: taskKey(1), Lease: &store.HeldLease{Key: taskKey(1), Worker: testWorker, Fence: 1}, Events: []store.Event{
		{Time: began, State: a2a.StateWorking, Message: message("m", "agent", "once")},
	}}
	must(t, commitOne(s, submitted(1)))
	must(t, commitOne(s, once)) // its statement is prepared now
	p.hold()
	done := make(chan error, 1)
	go func() { done <- commitOne(s, once) }()
	time.Sleep(200 * time.Millisecond) // the commit is on its way now
	old := p.detach()
	p.cutAll()
	select {
	case err := <-done:
		must(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("the change was not made on another connection")
	}
	close(old) // now the server reads what was sent first
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if log, err := direct.Events(bg, taskKey(1), 0, 100); err != nil || len(log) != 4 {
			t.Fatalf("Events() = %d events, %v, want 4", len(log), err)
		}
	}
}

// detach lets new connections pass, and returns what holds those there are.
func (p *proxy) detach() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	lag := p.lag
	p.lag, p.parted = nil, false
	return lag
}

// Many callers count up tasks while connections are cut over and over.
func TestCountsStayRightWhileConnectionsAreCut(t *testing.T) {
	t.Parallel()
	p, s, direct := behind(t, Config{MaxRetries: 10})
	const callers = 16
	stop := make(chan struct{})
	var cutter, wg sync.WaitGroup
	cutter.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(60 * time.Millisecond):
				p.cutAfter(i * 37 % 900)
			}
		}
	})
	counts := make([]int, callers)
	deadline := time.Now().Add(4 * time.Second)
	for g := range callers {
		wg.Go(func() {
			if err := commitOne(s, submitted(g)); err != nil {
				t.Errorf("create = %v", err)
				return
			}
			for time.Now().Before(deadline) {
				err := commitOne(s, store.Change{Key: taskKey(g), Version: int64(2 + counts[g]), Events: []store.Event{
					{Time: began, State: a2a.StateWorking, Message: message(fmt.Sprint("m", counts[g]), "agent", "x")},
				}})
				if errors.Is(err, errOpen) { // so it is up to the caller to look
					task, e := direct.Task(bg, taskKey(g), store.TaskOptions{})
					must(t, e)
					counts[g] = int(task.Seq) - 2
					continue
				}
				if err != nil {
					t.Errorf("count of %d = %v", counts[g], err)
					return
				}
				counts[g]++
			}
		})
	}
	wg.Wait()
	close(stop)
	cutter.Wait()
	p.disarm()
	total := 0
	for g := range callers {
		task, err := direct.Task(bg, taskKey(g), store.TaskOptions{})
		must(t, err)
		if len(task.History) != counts[g]+1 || task.Seq != int64(counts[g]+2) {
			t.Errorf("task %d has %d messages at version %d, acknowledged were %d", g, len(task.History)-1, task.Seq, counts[g])
		}
		total += counts[g]
	}
	t.Logf("%d changes, %d cuts", total, p.cuts)
	if p.cuts < 10 {
		t.Errorf("%d cuts, want more", p.cuts)
	}
}

// Feedback has no version to recognise itself by.
func TestFeedbackIsAddedOnceWhenItsAnswerIsCutOff(t *testing.T) {
	t.Parallel()
	p, s, direct := behind(t, Config{})
	must(t, commitOne(s, submitted(1)))
	for bytes := range 120 {
		p.cutAfter(bytes * 2)
		err := s.AddFeedback(bg, store.Feedback{Key: taskKey(1), ID: fmt.Sprint("f", bytes), Rating: 4, CreatedAt: began})
		p.disarm()
		if err != nil {
			t.Fatalf("AddFeedback() cut after %d bytes = %v", bytes*2, err)
		}
	}
	sum, err := direct.FeedbackSummary(bg, taskKey(1).Owner)
	must(t, err)
	if want := (store.FeedbackSummary{Ratings: [6]int{4: 120}}); sum != want {
		t.Errorf("FeedbackSummary() = %v, want %v", sum, want)
	}
}

func TestAnImmediateStopLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start(pgtest.Config{Fsync: true})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	s, err := Open(bg, Config{URL: server.URL(), Migrate: true, RetryDelay: 50 * time.Millisecond, MaxRetries: 8})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	var mu sync.Mutex
	acked := make(map[int]bool)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for n := g; ; n += 8 {
				select {
				case <-stop:
					return
				default:
				}
				if err := runTask(s, n); err != nil {
					t.Errorf("task %d: %v", n, err)
					return
				}
				mu.Lock()
				acked[n] = true
				mu.Unlock()
			}
		})
	}
	const each = 25 // tasks before each stop, and after the last
	for stops := range 3 {
		for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			mu.Lock()
			n := len(acked)
			mu.Unlock()
			if n >= (stops+1)*each {
				break
			}
			if time.Now().After(end) {
				t.Errorf("%d tasks after %d stops, want %d within a minute", n, stops, (stops+1)*each)
				break
			}
		}
		if stops < 2 {
			must(t, server.Stop())
			must(t, server.Start())
		}
	}
	close(stop)
	wg.Wait()
	for n := range acked {
		got, err := s.Task(bg, taskKey(n), store.TaskOptions{})
		if err != nil || got.Status.State != a2a.StateCompleted || got.Seq != 4 {
			t.Fatalf("Task(%d) = %+v, %v, want it completed as acknowledged", n, got, err)
		}
	}
	t.Logf("%d tasks over two stops", len(acked))
}

// A server that hangs makes calls fail in time, and they are found out later.
func TestAServerThatHangsFailsCallsInTime(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start(pgtest.Config{Fsync: true})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	s, err := Open(bg, Config{
		URL: server.URL(), Migrate: true, CommandTimeout: 300 * time.Millisecond, Timeout: 300 * time.Millisecond,
		MaxRetries: -1,
	})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	must(t, runTask(s, 1))
	must(t, server.Pause())
	for name, call := range map[string]func() error{
		"Commit": func() error { return commitOne(s, submitted(2)) },
		"Task":   func() error { _, err := s.Task(bg, taskKey(1), store.TaskOptions{}); return err },
		"Ping":   func() error { return s.Ping(bg) },
	} {
		began := time.Now()
		err := call()
		var coded *a2a.Error
		if !errors.As(err, &coded) || coded.Code != a2a.CodeUnavailable {
			t.Errorf("%s() = %v, want code unavailable", name, err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s() took %s", name, took)
		}
	}
	must(t, server.Resume())
	for deadline := time.Now().Add(10 * time.Second); s.Ping(bg) != nil && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	must(t, runTask(s, 3))
	if d := cmp.Diff(store.Info{Name: "postgres", Location: s.location, Durable: true}, s.Info()); d != "" {
		t.Error(d)
	}
}
