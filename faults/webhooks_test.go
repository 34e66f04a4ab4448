//go:build faults

package faults_test

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

func TestWebhooksDeliverOnceWithoutFaults(t *testing.T) {
	parallel(t)
	onBoth(t, func(f *fleet) {
		f.r.readLimit = await.Limit
		f.load(f.t.Context(), 4, 15*long(f.t), hooked...)
		wantNoneDead(f.t, f.finish(f.ids(), await.Limit))
		if requests, accepted, again := f.r.count(); again > 0 || requests != accepted {
			f.t.Errorf("%d requests delivered %d events, %d of them again; want each once", requests, accepted, again)
		}
		if f.r.tasksChecked == 0 {
			f.t.Error("no task was read when an event of it arrived")
		}
	}, "-webhook-timeout", "5m", "-webhook-lease", "10m", "-lease", "10m")
}

// The receiver reads the task of an event from the server while it handles the request.
func TestWebhooksLoseNoEventAcrossKills(t *testing.T) {
	parallel(t)
	t.Run("sqlite", func(t *testing.T) {
		parallel(t)
		// Leases of a killed process are void at once.
		onSQLite(t, "-webhook-lease", "10m").killAgainAndAgain()
	})
	t.Run("postgres", func(t *testing.T) {
		parallel(t)
		onPostgres(t, pgtest.URL(t)).killAgainAndAgain()
	})
}

func (f *fleet) killAgainAndAgain() {
	f.t.Helper()
	random := seed(f.t)
	f.r.policy = func(*delivery) answer { return answer{pause: 5 * time.Millisecond} }
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	f.pace = 100 * time.Millisecond
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		f.load(ctx, 4, 1<<20, hooked...)
	}()
	for round := range 5 * long(f.t) {
		time.Sleep(300*time.Millisecond + time.Duration(random.Int64N(int64(500*time.Millisecond))))
		i := round % len(f.replicas)
		f.kill(i)
		f.start(i)
	}
	cancel()
	<-loaded
	wantNoneDead(f.t, f.finish(f.ids(), await.Limit))
	_, accepted, again := f.r.count()
	// Requests that were in progress or not yet acknowledged when a process died are sent again.
	if again*4 > accepted {
		f.t.Errorf("%d of %d events came again", again, accepted)
	}
}

func TestSuspendedReplicaSendsNoStaleWebhookRequests(t *testing.T) {
	parallel(t)
	f := &fleet{t: t, r: newReceiver(t), cluster: newEmptyCluster(t, pgtest.URL(t), 3)}
	f.cluster.args = webhookArgs()
	f.site, f.replicas, f.any = f.cluster.site, f.cluster.replicas, f.cluster.any
	var slow atomic.Int64
	f.r.policy = func(*delivery) answer { return answer{pause: time.Duration(slow.Load())} }
	f.r.zombies = true
	for round := range long(t) {
		f.start(0)
		f.cluster.lb.leaveOut(f.cluster.addrs[1:]...)
		slow.Store(int64(700 * time.Millisecond))
		before, _, _ := f.r.count()
		f.load(t.Context(), 2, 8, "chunks 10 20ms", "steps 4 50ms")
		await.Success(t, func() error { return f.underWay(before + 4) })
		// Its attempts are in progress. They will get responses while it is suspended.
		f.replicas[0].signal(syscall.SIGSTOP)
		f.cluster.lb.leaveOut(f.cluster.addrs[0])
		if round == 0 {
			f.start(1)
			f.start(2)
		}
		slow.Store(int64(10 * time.Millisecond))
		ids := f.ids()
		took := f.drained(ids, await.Limit)
		all, _, again := f.r.count()
		f.replicas[0].signal(syscall.SIGCONT)
		time.Sleep(1500 * time.Millisecond)
		if after, _, late := f.r.count(); after != all {
			t.Errorf("the process that woke made %d requests, %d of them again", after-all, late-again)
		}
		t.Logf("drained %s after the tasks; %d events delivered again", took, again)
		f.kill(0)
	}
	f.cluster.lb.leaveOut()
	f.start(0)
	wantNoneDead(t, f.finish(f.ids(), await.Limit))
}

// underWay returns an error until the receiver has had a number of requests.
func (f *fleet) underWay(most int) error {
	if n, _, _ := f.r.count(); n < most {
		return a2a.Errorf(a2a.CodeUnavailable, "%d requests have come, want %d", n, most)
	}
	return nil
}

func TestWebhooksAreDeliveredAfterReceiverFailures(t *testing.T) {
	parallel(t)
	onBoth(t, func(f *fleet) {
		var mode, parallel atomic.Int32
		modes := []answer{
			{}, {status: 500}, {}, {status: 429, retryAfter: "1"}, {}, {pause: 2500 * time.Millisecond}, {}, {cut: true}, {},
		}
		f.r.policy = func(d *delivery) answer {
			m := modes[mode.Load()]
			if int(mode.Load()) == len(modes)-1 { // the outage and the time after it
				parallel.Store(max(parallel.Load(), int32(f.r.inProgress())))
				return answer{pause: 5 * time.Millisecond}
			}
			if m != (answer{}) && d.Sequence%2 == 0 {
				return answer{} // half of the requests succeed, so that the circuit breaker stays closed
			}
			return m
		}
		ctx, cancel := context.WithCancel(f.t.Context())
		defer cancel()
		f.pace = 100 * time.Millisecond
		loaded := make(chan struct{})
		go func() {
			defer close(loaded)
			f.load(ctx, 2, 1<<20, hooked...)
		}()
		for i := range modes {
			mode.Store(int32(i))
			time.Sleep(400 * time.Millisecond)
			if i%2 == 0 {
				f.r.close()
				time.Sleep(50 * time.Millisecond)
				f.r.open()
			}
		}
		f.r.close()
		outage := min(4*time.Second*time.Duration(long(f.t)), 30*time.Second)
		time.Sleep(outage)
		cancel()
		<-loaded
		parallel.Store(0)
		f.r.open()
		started := time.Now()
		ids := f.ids()
		f.drained(ids, await.Limit)
		took := f.r.last().Sub(started)
		f.t.Logf("an outage of %s was drained %s after it", outage, took)
		// The breaker needs about ten seconds to half-open, then the backlog is sent, and not one request at a time as
		// after an unlimited throttling.
		if parallel.Load() < 2 {
			f.t.Error("the backlog was sent one request at a time")
		}
		wantNoneDead(f.t, f.finish(ids, await.Limit))
	}, "-webhook-timeout", "2s")
}

func TestDeadLettersSurviveKillAndReplayInOrder(t *testing.T) {
	parallel(t)
	onBoth(t, func(f *fleet) {
		var answers [4]atomic.Pointer[answer]
		var kinds sync.Map // kind of the response, by webhook
		f.r.policy = func(d *delivery) answer {
			i, _ := kinds.Load(d.hook)
			return *answers[i.(int)].Load()
		}
		first := []answer{{status: 404}, {status: 410}, {status: 503, retryAfter: "8"}, {}}
		ids := make(map[string]bool)
		var tasks []string
		for i := range first {
			answers[i].Store(&first[i])
			s := sentTask{message: withIDs("chunks 2 1ms"), config: f.r.inline()}
			kinds.Store(s.config.PushNotificationConfig.ID, i)
			if err := s.send(f.any); err != nil {
				f.t.Fatal(err)
			}
			f.sends.add(s)
			ids[s.id], tasks = true, append(tasks, s.id)
		}
		f.ids()
		state := func(i int) *a2a.PushDelivery {
			got, err := f.any.client.GetWebhook(f.t.Context(), a2a.GetTaskPushNotificationConfigParams{TaskID: tasks[i]})
			if err != nil {
				f.t.Fatal(err)
			}
			return got.Config.Delivery
		}
		var retryAt time.Time // of the third webhook; zero until known
		wanted := func() error {
			for i, want := range []a2a.PushDelivery{{State: "active"}, {State: "disabled"}, {State: "active", Pending: true, Attempts: 1}, {State: "active"}} {
				got := state(i)
				if i == 2 && !retryAt.IsZero() && time.Now().After(retryAt) {
					f.t.Logf("the retry at %s was due before its state was read", retryAt)
					continue
				}
				if i == 2 && !retryAt.IsZero() && (got.NextAttemptAt == nil || !got.NextAttemptAt.Equal(retryAt)) {
					return a2a.Errorf(a2a.CodeConflict, "the next attempt is at %v, was at %s", got.NextAttemptAt, retryAt)
				}
				if got.State != want.State || got.Pending != want.Pending || got.Attempts != want.Attempts {
					return a2a.Errorf(a2a.CodeConflict, "webhook %d is %+v, want %+v", i, *got, want)
				}
			}
			return nil
		}
		await.Success(f.t, wanted)
		retryAt = *state(2).NextAttemptAt
		for i := range f.replicas {
			f.kill(i)
			f.start(i)
		}
		if err := wanted(); err != nil {
			f.t.Errorf("after a kill: %v", err)
		}
		good := answer{}
		for i := range answers {
			answers[i].Store(&good)
		}
		requests, _, _ := f.r.count()
		events := f.replay(tasks[0]) + f.replay(tasks[1])
		await.Success(f.t, func() error { return f.underWay(requests + events) })
		f.drained(ids, await.Limit)
		if early := time.Until(retryAt); early > 0 {
			f.t.Errorf("a retry was made %s before its time", early)
		}
		wantNoneDead(f.t, f.finish(ids, await.Limit))
		if _, _, again := f.r.count(); again > 0 {
			f.t.Errorf("%d accepted events were delivered again", again)
		}
	})
}

// leastEvents is the minimum number of events of a task: it starts, writes an artifact in two
// chunks with a status each, and ends.
const leastEvents = 5

// replay asserts that every event of a task is a dead letter, replays them, and returns their
// number.
func (f *fleet) replay(task string) (events int) {
	f.t.Helper()
	last := int64(0)
	var hook string
	for d, err := range f.any.client.DeadLetters(f.t.Context(), a2a.ListDeadLettersParams{TaskID: task, PageSize: 2}) {
		if err != nil {
			f.t.Fatal(err)
		}
		hook = d.ConfigID
		if e := f.r.events[eventName{task, d.Sequence}]; e != nil && e.id != d.EventID {
			f.t.Errorf("dead letter %d has id %s, was delivered as %s", d.Sequence, d.EventID, e.id)
		}
		events, last = events+1, max(last, d.Sequence)
	}
	if events < leastEvents || int64(events) != last {
		f.t.Errorf("task %s has %d dead letters up to event %d, want all", task, events, last)
	}
	f.r.replayed(task, hook, 1)
	got, err := f.any.client.Replay(f.t.Context(), a2a.ReplayParams{TaskID: task, ConfigID: hook})
	if err != nil || got.FromSequence != 1 {
		f.t.Errorf("webhooks/replay = %+v, %v, want from 1", got, err)
	}
	return events
}

func TestDeletedWebhookReceivesNoRequests(t *testing.T) {
	parallel(t)
	onBoth(t, func(f *fleet) {
		f.r.policy = func(*delivery) answer { return answer{pause: 10 * time.Millisecond} }
		ctx, cancel := context.WithCancel(f.t.Context())
		defer cancel()
		f.pace = 100 * time.Millisecond
		loaded := make(chan struct{})
		go func() {
			defer close(loaded)
			f.load(ctx, 2, 1<<20, "chunks 30 5ms", "steps 8 20ms")
		}()
		slowest, n := time.Duration(0), 0
		for range 20 * long(f.t) {
			s := sentTask{message: withIDs("chunks 40 5ms"), config: f.r.inline()}
			if err := s.send(f.any); err != nil {
				f.t.Fatal(err)
			}
			f.sends.add(s)
			time.Sleep(time.Duration(20+10*(n%10)) * time.Millisecond)
			id, started := s.config.PushNotificationConfig.ID, time.Now()
			if err := f.any.client.DeleteWebhook(f.t.Context(), s.id, id); err != nil {
				f.t.Fatalf("delete: %v", err)
			}
			f.r.note(id, func(h *hook) { h.deleted = time.Now() })
			slowest = max(slowest, time.Since(started))
			n++
			if n%7 == 0 {
				f.kill(n % len(f.replicas))
				f.start(n % len(f.replicas))
			}
		}
		f.t.Logf("%d webhooks deleted, the slowest took %s", n, slowest)
		cancel()
		<-loaded
		wantNoneDead(f.t, f.finish(f.ids(), await.Limit))
	})
}

func TestShutdownPassesWebhooksToOtherReplicas(t *testing.T) {
	parallel(t)
	onBoth(t, func(f *fleet) {
		f.r.policy = func(*delivery) answer { return answer{pause: 20 * time.Millisecond} }
		ctx, cancel := context.WithCancel(f.t.Context())
		defer cancel()
		f.pace = 100 * time.Millisecond
		loaded := make(chan struct{})
		go func() {
			defer close(loaded)
			f.load(ctx, 2, 1<<20, "chunks 10 10ms", "steps 3 20ms", "work 50ms")
		}()
		var slowest time.Duration
		for round := range 3 * long(f.t) {
			time.Sleep(500 * time.Millisecond)
			p, started := f.replicas[round%len(f.replicas)], time.Now()
			p.signal(syscall.SIGTERM)
			if code := p.exit(await.Limit); code != 0 {
				f.t.Errorf("exit code = %d, want 0\n%s", code, p.log.tail(2000))
			}
			slowest = max(slowest, time.Since(started))
			f.start(round % len(f.replicas))
		}
		cancel()
		<-loaded
		f.t.Logf("the slowest server ended after %s", slowest)
		// With these long leases no webhook is claimed after its lease: the stopped server
		// releases it.
		wantNoneDead(f.t, f.finish(f.ids(), await.Limit))
		if _, _, again := f.r.count(); again > 0 {
			f.t.Errorf("%d events came again, want none: attempts under way have time to end", again)
		}
	}, "-webhook-timeout", "20s", "-webhook-lease", "10m", "-lease", "10m", "-stop-grace", "20s")
}

func TestHangingReceiverDoesNotDelayShutdown(t *testing.T) {
	parallel(t)
	onBoth(t, func(f *fleet) {
		var hang atomic.Bool
		hang.Store(true)
		f.r.policy = func(*delivery) answer {
			if hang.Load() {
				return answer{pause: time.Hour}
			}
			return answer{}
		}
		f.load(f.t.Context(), 2, 2, "work 1ms")
		ids := f.ids()
		await.Success(f.t, func() error { return f.underWay(4) })
		started := time.Now()
		for i, p := range f.replicas {
			p.signal(syscall.SIGTERM)
			if code := p.exit(await.Limit); code != 0 { // an attempt may take longer
				f.t.Errorf("exit code = %d, want 0", code)
			}
			f.t.Logf("ended after %s", time.Since(started))
			started = time.Now()
			if i == len(f.replicas)-1 {
				hang.Store(false)
			}
		}
		for i := range f.replicas {
			f.start(i)
		}
		wantNoneDead(f.t, f.finish(ids, await.Limit))
	}, "-webhook-lease", "1h", "-webhook-timeout", "20m", "-lease", "10m", "-stop-grace", "500ms")
}

func TestClearedContextReceivesNoEvents(t *testing.T) {
	parallel(t)
	onBoth(t, func(f *fleet) {
		// Each webhook has more events than are delivered before its context is cleared.
		f.r.policy = func(*delivery) answer { return answer{pause: 200 * time.Millisecond} }
		f.load(f.t.Context(), 2, 5, "chunks 60 1ms")
		ids := f.ids()
		hooks := make(map[string][]string) // by task
		for _, name := range f.late {
			hooks[name.task] = append(hooks[name.task], name.hook)
		}
		for _, s := range f.sends.sent {
			if _, err := f.any.client.ClearContext(f.t.Context(), a2a.ClearContextParams{ContextID: s.message.ContextID}); err != nil {
				f.t.Fatalf("contexts/clear: %v", err)
			}
			for _, id := range append(hooks[s.id], s.config.PushNotificationConfig.ID) {
				f.r.note(id, func(h *hook) { h.cleared = true })
			}
		}
		_, err := f.any.client.ListWebhooks(f.t.Context(), keys(ids)[0])
		wantCode(f.t, err, a2a.CodeTaskNotFound)
		later := f.passClaims()
		late := f.r.deleteCleared()
		for id := range f.passClaims() {
			later[id] = true
		}
		f.t.Logf("%d requests after their contexts were cleared", late)
		for _, l := range f.prove(later).Lanes {
			if ids[l.Webhook.Task.ID] {
				f.t.Errorf("webhook %s of the deleted task %s is left", l.Webhook.ID, l.Webhook.Task.ID)
			}
		}
	})
}

// passClaims waits until no server has a claim that it made before the call: each server is idle, claims and
// delivers events of a new task, and is idle again. It returns the new tasks.
func (f *fleet) passClaims() map[string]bool {
	f.t.Helper()
	webhooks := func(p *process) (w struct{ Delivered, InFlight int64 }) {
		health := struct{ Webhooks any }{&w}
		p.getJSON("health", &health)
		return w
	}
	idle := func() {
		for _, p := range f.replicas {
			await.True(f.t, "the server sends no events", func() bool { return webhooks(p).InFlight == 0 })
		}
	}
	ids := make(map[string]bool)
	idle()
	for _, p := range f.replicas {
		for before := webhooks(p).Delivered; webhooks(p).Delivered == before; {
			s := sentTask{message: withIDs("work 1ms"), config: f.r.inline()}
			if err := s.send(p); err != nil {
				f.t.Fatal(err)
			}
			f.sends.add(s)
			p.awaitEnd(s.id)
			f.drained(map[string]bool{s.id: true}, await.Limit)
			ids[s.id] = true
		}
	}
	idle()
	return ids
}

// deleteCleared records that no more requests may arrive for webhooks of cleared contexts. It returns the number of
// requests since the contexts were cleared.
func (r *receiver) deleteCleared() (late int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.hooks {
		if h.cleared {
			h.deleted = time.Now()
			late += h.late
		}
	}
	return late
}
