package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

func TestConfigReportsAllProblems(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), "Store is required") || !strings.Contains(err.Error(), "NewID is required") {
		t.Errorf("New(Config{}) = %v, want both required fields", err)
	}
	s := inmem.New()
	defer s.Close()
	id := func() string { return "id" }
	_, err := New(Config{
		Store: s, NewID: id, Settings: Settings{
			Limits:  Limits{PerTask: -1, PerMinute: -1, InFlight: -1, PerEndpoint: -1, PerOwner: -1},
			Timeout: 30 * time.Second, Lease: 30 * time.Second, Poll: -1, Schedule: []time.Duration{time.Minute, time.Second, -1},
		},
	})
	for _, want := range []string{
		"PerTask is -1", "PerMinute is -1", "InFlight is -1", "PerEndpoint is -1", "PerOwner is -1",
		"Lease is 30s, want 55s or more", "Poll is -1ns", "Schedule[1] is 1s", "Schedule[2] is -1ns",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New() = %v, want it to say %q", err, want)
		}
	}
	for field, cfg := range map[string]Config{
		"Timeout":  {Settings: Settings{Timeout: time.Microsecond}},
		"Lease":    {Settings: Settings{Timeout: time.Millisecond, Lease: 99 * time.Millisecond}},
		"Schedule": {Settings: Settings{Schedule: []time.Duration{}}},
		"Keys[0]":  {Settings: Settings{Keys: [][]byte{{1}}}},
	} {
		cfg.Store, cfg.NewID = s, id
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("New() with an invalid %s = %v, want an error that names it", field, err)
		}
	}
	if _, err := New(Config{Store: s, NewID: id}); err != nil {
		t.Errorf("New() with defaults = %v, want nil", err)
	}
}

func TestServiceStartsAndStopsOnce(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		s := w.replicas[0].s
		if err := s.Start(w.t.Context()); !errors.Is(err, ErrStarted) {
			w.t.Errorf("Start() again = %v, want ErrStarted", err)
		}
		w.equal("problems", len(s.Health()), 0)
		var stops sync.WaitGroup
		for range 3 {
			stops.Go(func() { w.stop(0, time.Minute) })
		}
		stops.Wait()
		w.equal("problems after Stop()", s.Health(), []string{"webhooks: not running"})
		if err := s.Start(w.t.Context()); !errors.Is(err, ErrStarted) {
			w.t.Errorf("Start() after Stop() = %v, want ErrStarted", err)
		}
		fresh, err := New(Config{Store: w.store, NewID: func() string { return "x" }})
		if err != nil {
			w.t.Fatal(err)
		}
		w.equal("Stop() without Start()", fresh.Stop(w.t.Context()), nil)
	})
}

func TestStartFailsWhenEndpointsCannotBeRead(t *testing.T) {
	t.Parallel()
	inner := inmem.New()
	defer inner.Close()
	broken := (&flaky{dice: newDice(1), faultRate: 2}).over(inner)
	s, err := New(Config{Store: broken, NewID: func() string { return "x" }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); !errors.Is(err, errFault) {
		t.Errorf("Start() = %v, want the store's error", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("Stop() = %v, want nil", err)
	}
}

func TestHealthReportsASilentLoop(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		r := w.replicas[0]
		r.store.pause()
		w.newTask("alice", "t", 0, 0)
		time.Sleep(time.Hour)
		problems := r.s.Health()
		if len(problems) == 0 || !strings.Contains(fmt.Sprint(problems), "webhooks: dispatch loop: silent for") {
			w.t.Errorf("Health() = %q, want the dispatcher", problems)
		}
		r.store.resume()
		time.Sleep(time.Minute)
		w.equal("problems afterwards", len(r.s.Health()), 0)
	})
}

func TestStatsCount(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		r := w.replicas[0]
		w.setAnswer(func(_ string, p *post, nth int) (safehttp.Response, error) {
			switch {
			case p.sequence == 2 && nth == 1:
				return status(500)
			case p.sequence == 3:
				return status(404)
			case p.sequence == 4:
				time.Sleep(time.Second)
			}
			return status(200)
		})
		w.newTask("alice", "t", 0, 3)
		time.Sleep(500 * time.Millisecond)
		stats := r.s.Stats()
		if stats.Memory == 0 {
			w.t.Error("Memory = 0 during an attempt, want more")
		}
		stats.Memory = 0
		w.equal("stats during the last attempt", stats, Stats{Delivered: 2, Failed: 2, DeadLetters: 1, InFlight: 1, Claimed: 1})
		w.drain(time.Minute)
		w.equal("stats", r.s.Stats(), Stats{Delivered: 3, Failed: 2, DeadLetters: 1})
	})
}

func TestRestartKeepsRetriesAndBreakers(t *testing.T) {
	inBubble(t, plan{config: func(c *Config) {
		c.Schedule = []time.Duration{time.Second, time.Second, time.Second, time.Second, time.Minute}
	}}, func(w *world) {
		w.setDown("endpoint-0.example.com", true)
		id := w.newTask("alice", "t", 0, 0)
		time.Sleep(10 * time.Second) // the fifth attempt opens the breaker
		w.equal("open", w.replicas[0].s.Stats().Open, 1)
		l := w.laneOf(id)
		w.kill(0)
		w.replicas[0] = w.start()
		w.equal("open after a restart", w.replicas[0].s.Stats().Open, 1)
		if restarted := w.laneOf(id); !restarted.DueAt.Equal(l.DueAt) || restarted.Attempt != 5 {
			w.t.Errorf("lane after a restart = %+v, want it unchanged: %+v", restarted, l)
		}
		w.setDown("endpoint-0.example.com", false)
		w.drain(2 * time.Minute)
		w.checkAll()
		time.Sleep(time.Minute)
		records, err := w.store.Endpoints(w.t.Context())
		w.equal("endpoints", []any{len(records), err}, []any{0, nil})
	})
}

func TestEndpointIsDisabledAfterFiveDaysAndEnabledAgain(t *testing.T) {
	var logged await.Buffer
	inBubble(t, plan{config: func(c *Config) {
		c.Poll, c.Lease = time.Minute, time.Hour
		c.Schedule = []time.Duration{time.Hour, 12 * time.Hour, 12 * time.Hour, 12 * time.Hour, 12 * time.Hour, 12 * time.Hour, 12 * time.Hour, 12 * time.Hour, 12 * time.Hour, 12 * time.Hour, 12 * time.Hour, 12 * time.Hour, 12 * time.Hour, 12 * time.Hour}
		c.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	}}, func(w *world) {
		r := w.replicas[0]
		w.setDown("endpoint-0.example.com", true)
		id := w.newTask("alice", "t", 0, 2)
		w.drain(8 * 24 * time.Hour)
		w.checkAll()
		w.equal("disabled", r.s.Stats().Disabled, 1)
		l := w.laneOf(id)
		w.equal("lane", []any{l.State, l.Reason}, []any{store.LaneDisabled, "no attempt has succeeded for 5 days"})
		w.equal("dead letters", len(w.deadOf(id)), 3)
		if days := w.postsOf(id)[len(w.postsOf(id))-1].started.Sub(w.started) / (24 * time.Hour); days != 5 && days != 6 {
			w.t.Errorf("the last attempt was made after %d days, want 5", days)
		}
		if text := logged.String(); strings.Count(text, "webhook endpoint disabled") != 1 || strings.Count(text, "webhook disabled") != 1 {
			w.t.Errorf("log = %s, want one line for the endpoint and one for the webhook", text)
		}

		w.setDown("endpoint-0.example.com", false)
		if err := r.s.endpoints.enable(w.t.Context(), r.s.endpointOf(&l.Webhook)); err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.store.ReplayWebhook(w.t.Context(), id.task, id.id, store.WebhookCursor{}, r.s.now()); err != nil {
			w.t.Fatal(err)
		}
		w.drain(time.Hour)
		w.equal("delivered", w.laneOf(id).Delivered, 3)
		records, err := w.store.Endpoints(w.t.Context())
		w.equal("endpoints", []any{len(records), err}, []any{0, nil})
	})
}

func TestReplicasLearnThatAnEndpointAnswersAgain(t *testing.T) {
	inBubble(t, plan{replicas: 2, config: func(c *Config) { c.Schedule = nil }}, func(w *world) {
		w.setDown("endpoint-0.example.com", true)
		for n := range 40 {
			w.newTask("alice", fmt.Sprint("t", n), 0, 1)
		}
		time.Sleep(10 * time.Minute)
		if w.replicas[0].s.Stats().Open+w.replicas[1].s.Stats().Open == 0 {
			w.t.Errorf("no breaker is open")
		}
		up := time.Now()
		w.setDown("endpoint-0.example.com", false)
		w.drain(time.Hour)
		if took := time.Since(up); took > 6*time.Minute {
			w.t.Errorf("drained %s after the endpoint recovered, want at most 6m", took)
		}
		w.checkAll()
	})
}

func TestEndpointEnabledByAnotherReplicaIsCalled(t *testing.T) {
	inBubble(t, plan{replicas: 2}, func(w *world) {
		name := endpointName{"alice", "https://endpoint-0.example.com:443"}
		for _, r := range w.replicas {
			r.s.endpoints.mu.Lock()
			e := r.s.endpoints.limits.endpoint(name)
			e.disabled, e.reason, e.lastAt, e.stored, e.savedAt = true, "scripted", r.s.now(), true, r.s.now()
			r.s.endpoints.mu.Unlock()
		}
		if err := w.store.SaveEndpoint(w.t.Context(), store.Endpoint{Name: name.record(), Disabled: true, Reason: "scripted", UpdatedAt: time.Now()}); err != nil {
			w.t.Fatal(err)
		}
		dead := w.newTask("alice", "before", 0, 0)
		w.drain(time.Minute)
		w.equal("state of the lane from before", w.laneOf(dead).State, store.LaneDisabled)
		if err := w.replicas[0].s.endpoints.enable(w.t.Context(), name); err != nil {
			w.t.Fatal(err)
		}
		w.stop(0, time.Minute) // the other one must read it from the store
		id := w.newTask("alice", "after", 0, 0)
		w.drain(time.Minute)
		w.equal("delivered", w.laneOf(id).Delivered, 1)
	})
}

func TestJanitorRemovesOldData(t *testing.T) {
	inBubble(t, plan{config: func(c *Config) { c.Poll, c.Lease, c.KeepAttempts = time.Minute, time.Hour, 4*24*time.Hour }}, func(w *world) {
		id := w.newTask("alice", "t", 0, 1)
		w.appendEvent(id.task, 3, store.Event{State: a2a.StateCompleted})
		open := w.newTask("alice", "open", 0, 1)
		w.drain(time.Minute)
		time.Sleep(23 * time.Hour)
		w.laneOf(id)
		time.Sleep(2 * time.Hour)
		page, err := w.store.Lanes(w.t.Context(), store.LaneQuery{Owner: "alice", Limit: 10})
		if err != nil || len(page.Lanes) != 1 || page.Lanes[0].Webhook.Task.ID != "open" {
			w.t.Errorf("lanes a day later = %+v, %v, want the lane of the open task", page.Lanes, err)
		}
		w.equal("attempts a day later", len(w.outcomes(open)), 2)
		time.Sleep(3 * 24 * time.Hour)
		w.equal("attempts four days later", len(w.outcomes(open)), 0)
		s := w.replicas[0].s
		s.endpoints.mu.Lock()
		defer s.endpoints.mu.Unlock()
		w.equal("endpoints in memory", len(s.endpoints.limits.endpoints), 0)
	})
}

// Owners that register many URLs must not fill the store with endpoints.
func TestJanitorRemovesUnusedEndpoints(t *testing.T) {
	inBubble(t, plan{config: func(c *Config) { c.Poll, c.Lease = time.Minute, time.Hour }}, func(w *world) {
		w.setAnswer(func(string, *post, int) (safehttp.Response, error) { return status(503) })
		w.newTask("alice", "t", 0, 0)
		old := store.Time(w.now().Add(-25 * 24 * time.Hour))
		err := w.store.SaveEndpoint(w.t.Context(), store.Endpoint{
			Name: "https://disabled.example.com:443", Failures: 12, FailedAt: old, Disabled: true, Reason: "down", UpdatedAt: old,
		})
		if err != nil {
			w.t.Fatal(err)
		}
		names := func() (names []string) {
			records, err := w.store.Endpoints(w.t.Context())
			if err != nil {
				w.t.Fatal(err)
			}
			for _, r := range records {
				names = append(names, r.Name)
			}
			slices.Sort(names)
			return names
		}
		w.drain(time.Hour) // until the lane is parked
		time.Sleep(2 * 24 * time.Hour)
		w.equal("endpoints two days later", names(), []string{"https://disabled.example.com:443", "https://endpoint-0.example.com:443 alice"})
		time.Sleep(2 * 24 * time.Hour)
		w.equal("endpoints four days later", names(), []string{"https://disabled.example.com:443"})
		time.Sleep(2 * 24 * time.Hour)
		w.equal("endpoints six days later", names(), []string{})
		s := w.replicas[0].s
		s.endpoints.mu.Lock()
		defer s.endpoints.mu.Unlock()
		w.equal("endpoints in memory", len(s.endpoints.limits.endpoints), 0)
	})
}

func TestPanicInALaneIsRetried(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		w.setAnswer(func(_ string, _ *post, nth int) (safehttp.Response, error) {
			if nth == 1 {
				panic("scripted")
			}
			return status(200)
		})
		id := w.newTask("alice", "t", 0, 0)
		w.drain(time.Minute)
		w.equal("delivered", w.laneOf(id).Delivered, 1)
		w.equal("requests", len(w.postsOf(id)), 2)
	})
}

// Another replica may have the key.
func TestUndecryptableWebhooksWait(t *testing.T) {
	var logged await.Buffer
	inBubble(t, plan{config: func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&logged, nil)) }}, func(w *world) {
		task := store.Key{Owner: "alice", ID: "t"}
		w.create(task, store.NewWebhook{ID: "bad", Endpoint: "https://x:443", Data: []byte(`{"url":"https://x","sealed":"c2VhbGVk"}`)})
		w.appendEvent(task, 2, chunk("one"))
		id := laneID{task, "bad"}
		time.Sleep(time.Minute)
		if l := w.laneOf(id); l.Worker != "" || l.DueAt.Sub(w.started) < undecryptableBackoff*4/5 || len(w.deadOf(id)) > 0 {
			w.t.Errorf("lane = %+v, want it due in about %s", l, undecryptableBackoff)
		}
		w.drain(time.Hour)
		w.equal("attempts", len(w.outcomes(id)), 0)
		w.equal("lane", w.laneOf(id).State, store.LaneParked)
		w.equal("dead letters", len(w.deadOf(id)), 2)
		if d := w.deadOf(id)[1]; !strings.Contains(d.Reason, "cannot be decrypted") {
			w.t.Errorf("reason = %q, want %q", d.Reason, "cannot be decrypted")
		}
		w.equal("log lines", strings.Count(logged.String(), "with the keys of this process"), 1)
		w.equal("open endpoints", w.replicas[0].s.Stats().Open, 0)
	})
}

// During a key change, replicas have different keys.
func TestWebhookIsDeliveredByTheReplicaWithTheKey(t *testing.T) {
	old, fresh := bytes.Repeat([]byte{1}, keyLen), bytes.Repeat([]byte{2}, keyLen)
	made := 0
	inBubble(t, plan{replicas: 2, config: func(c *Config) {
		c.Schedule = nil
		if c.Keys = [][]byte{old}; made == 1 {
			c.Keys = [][]byte{fresh, old}
		}
		made++
	}}, func(w *world) {
		for n := range 10 {
			task := store.Key{Owner: "alice", ID: fmt.Sprint("t", n)}
			hook := w.newHook(task, 0)
			set, err := sealer(nil).decode(&store.Webhook{Data: hook.Data})
			if err == nil {
				set.Secrets.Token = "hush"
				hook.Data, err = w.replicas[1].s.seal.encode(set, task, hook.ID)
			}
			if err != nil {
				w.t.Fatal(err)
			}
			w.create(task, hook)
		}
		w.drain(time.Hour)
		w.checkAll()
		for _, id := range w.lanes {
			w.equal("delivered", w.laneOf(id).Delivered, 1)
		}
	})
}

func TestInvalidSettingsMakeDeadLetters(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		task := store.Key{Owner: "alice", ID: "t"}
		w.create(task, store.NewWebhook{ID: "bad", Endpoint: "https://x:443", Data: []byte(`{"url":7}`)})
		w.appendEvent(task, 2, chunk("one"))
		w.drain(time.Minute)
		id := laneID{task, "bad"}
		w.equal("attempts", w.outcomes(id), []string{"1/1 refused", "2/1 refused"})
		w.equal("dead letters", len(w.deadOf(id)), 2)
	})
}

func TestStoreOutageLosesAndRepeatsNothing(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		r := w.replicas[0]
		w.setAnswer(func(string, *post, int) (safehttp.Response, error) {
			time.Sleep(100 * time.Millisecond)
			return status(200)
		})
		id := w.newTask("alice", "t", 0, 10)
		time.Sleep(500 * time.Millisecond)
		r.store.fail(2, 0) // all calls fail
		time.Sleep(time.Minute)
		r.store.stopFaults()
		w.drain(time.Minute)
		w.checkAll()
		got := w.sequences(id)
		for i := range got[1:] {
			if got[i+1] <= got[i] {
				w.t.Errorf("requests = %v, want one for each sequence", got)
			}
		}
	})
}

func TestStopIsBoundedWhenTheStoreFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, plan{})
		w.newTask("alice", "t", 0, 3)
		w.drain(time.Minute)
		w.replicas[0].store.fail(2, 0)
		started := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.replicas[0].s.Stop(ctx)
		if took := time.Since(started); took > 2*stopGrace {
			t.Errorf("Stop() took %s, want at most %s", took, 2*stopGrace)
		}
	})
}

func TestAttemptsAndDeadLettersExpire(t *testing.T) {
	testExpiry(t, 10*time.Hour)
}

func TestNegativeRetentionKeepsAttemptsAndDeadLetters(t *testing.T) {
	testExpiry(t, -1)
}

// testExpiry tests a retention of attempts, and of dead letters that is twice as long.
func testExpiry(t *testing.T, keep time.Duration) {
	t.Helper()
	config := func(c *Config) {
		c.Poll, c.Lease, c.Schedule = time.Minute, time.Hour, []time.Duration{time.Second}
		c.KeepAttempts, c.KeepDead = keep, 2*keep
	}
	inBubble(t, plan{config: config}, func(w *world) {
		w.setAnswer(func(string, *post, int) (safehttp.Response, error) { return status(503) })
		id := w.newTask("alice", "t", 0, 0)
		w.drain(time.Minute)
		attempts, dead := len(w.outcomes(id)), len(w.deadOf(id))
		if attempts == 0 || dead == 0 {
			w.t.Fatalf("%d attempts and %d dead letters, want some of both", attempts, dead)
		}
		want := Expired{}
		time.Sleep(9 * time.Hour)
		w.equal("attempts after 9 hours", len(w.outcomes(id)), attempts)
		time.Sleep(2 * time.Hour)
		w.equal("dead letters after 11 hours", len(w.deadOf(id)), dead)
		if keep > 0 {
			want = Expired{Attempts: int64(attempts), DeadLetters: int64(dead)}
			attempts, dead = 0, 0
		}
		w.equal("attempts after 11 hours", len(w.outcomes(id)), attempts)
		time.Sleep(10 * time.Hour)
		w.equal("dead letters after 21 hours", len(w.deadOf(id)), dead)
		got := w.replicas[0].s.Stats().Expired
		got.Webhooks = 0
		w.equal("expired", got, want)
	})
}
