package webhook

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

func TestFencingOfAReplicaPausedPastItsLease(t *testing.T) {
	inBubble(t, plan{replicas: 2}, func(w *world) {
		first := make(chan int, 1)
		w.setAnswer(func(_ string, p *post, _ int) (safehttp.Response, error) {
			if p.sequence == 1 {
				select {
				case first <- p.replica:
					time.Sleep(time.Second)
				default:
				}
			}
			return status(200)
		})
		id := w.newTask("alice", "t", 0, 3)
		by := <-first
		w.replicas[by-1].store.failMethod("RenewLanes") // it only has the clock to notice the expiry
		w.pause(by-1, 20*time.Second)
		w.drain(time.Minute)
		l := w.laneOf(id)
		time.Sleep(time.Minute)
		if again := w.laneOf(id); again.Cursor != l.Cursor || again.Fence != l.Fence || again.Delivered != 4 {
			w.t.Errorf("lane after the paused replica continued = %+v, want it unchanged: %+v", again, l)
		}
		w.equal("requests", w.sequences(id), []int64{1, 1, 2, 3, 4})
		for _, p := range w.postsOf(id)[1:] {
			if p.replica == by {
				w.t.Errorf("the paused replica sent sequence %d after its lease expired", p.sequence)
			}
		}
	})
}

func TestLeasesAreRenewedWhileLanesAreWorkedAndWait(t *testing.T) {
	inBubble(t, plan{replicas: 2, config: func(c *Config) { c.Limits.PerEndpoint = 1 }}, func(w *world) {
		w.setAnswer(func(string, *post, int) (safehttp.Response, error) {
			time.Sleep(time.Second)
			return status(200)
		})
		// A lane that is claimed before its log is complete is claimed again for the rest.
		for i := range w.replicas {
			w.stop(i, time.Minute)
		}
		var ids []laneID
		for n := range 3 {
			ids = append(ids, w.newTask("alice", fmt.Sprint("t", n), 0, 14))
		}
		for i := range w.replicas {
			w.replicas[i] = w.start()
		}
		time.Sleep(500 * time.Millisecond)
		fence := w.laneOf(ids[0]).Fence
		time.Sleep(14 * time.Second)
		if l := w.laneOf(ids[0]); l.Fence != fence || l.Cursor.Sequence < 14 {
			w.t.Errorf("lane = %+v, want fence %d held for more than two lease durations", l, fence)
		}
		w.drain(5 * time.Minute)
		w.checkAll()
		for _, id := range ids {
			w.equal("requests", len(w.postsOf(id)), 15)
		}
	})
}

func TestReplacedWebhookHasOneRequestAtATime(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		w.setAnswer(func(string, *post, int) (safehttp.Response, error) {
			time.Sleep(time.Second)
			return status(200)
		})
		id := w.newTask("alice", "t", 0, 2)
		for range 5 {
			time.Sleep(300 * time.Millisecond)
			if _, err := w.store.SaveWebhook(w.t.Context(), w.laneOf(id).Webhook, store.WebhookCursor{}, w.replicas[0].s.now()); err != nil {
				w.t.Fatal(err)
			}
			w.appendEvent(id.task, w.laneOf(id).Tail, chunk("more"))
		}
		w.drain(time.Minute)
		w.checkAll()
	})
}

// A changed webhook is not called until the replica that holds its lease has released it.
func TestWebhookChangedByAnotherReplicaHasOneRequestAtATime(t *testing.T) {
	for name, change := range map[string]func(w *world, s *Service, l store.Lane) error{
		"by set": func(w *world, s *Service, l store.Lane) error {
			set, err := s.seal.decode(&l.Webhook)
			if err == nil {
				_, err = s.Set(w.t.Context(), alice, a2a.TaskPushNotificationConfig{
					TaskID: l.Webhook.Task.ID, Config: a2a.PushNotificationConfig{ID: l.Webhook.ID, URL: set.URL, Token: "new"},
				})
			}
			return err
		},
		"by replay": func(w *world, s *Service, l store.Lane) error {
			_, err := s.Replay(w.t.Context(), alice, a2a.ReplayParams{TaskID: l.Webhook.Task.ID, ConfigID: l.Webhook.ID, FromSequence: 1})
			return err
		},
		"by a message": func(w *world, _ *Service, l store.Lane) error {
			brings := store.NewWebhook{ID: l.Webhook.ID, Endpoint: l.Webhook.Endpoint, Data: l.Webhook.Data}
			w.commit(store.Change{Key: l.Webhook.Task, Version: l.Tail, Events: []store.Event{{Time: w.now(), State: a2a.StateWorking}}, Webhooks: []store.NewWebhook{brings}})
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, plan{replicas: 2}, func(w *world) {
				w.setAnswer(func(string, *post, int) (safehttp.Response, error) {
					time.Sleep(time.Second)
					return status(200)
				})
				for n := range 12 {
					id := w.newTask("alice", fmt.Sprint("t", n), 0, 6)
					time.Sleep(time.Duration(1100+50*n) * time.Millisecond)
					l := w.laneOf(id)
					other := w.replicas[0]
					if l.Worker == other.s.claims.worker {
						other = w.replicas[1]
					}
					if err := change(w, other.s, l); err != nil {
						w.t.Fatal(err)
					}
					w.drain(time.Minute)
					w.checkOverlap(id)
					w.checkNoLoss(id)
				}
			})
		})
	}
}

// The process that holds the lease does not wait: it cancels its own attempt.
func TestSavedWebhookIsCalledImmediately(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		r := w.replicas[0]
		r.setHanging(true)
		id := w.newTask("alice", "t", 0, 0)
		time.Sleep(time.Second)
		r.setHanging(false)
		l := w.laneOf(id)
		set, err := r.s.seal.decode(&l.Webhook)
		if err != nil {
			w.t.Fatal(err)
		}
		started := time.Now()
		if _, err := r.s.Set(w.t.Context(), alice, a2a.TaskPushNotificationConfig{
			TaskID: "t", Config: a2a.PushNotificationConfig{ID: id.id, URL: set.URL, Token: "new"},
		}); err != nil {
			w.t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		posts := w.postsOf(id)
		if len(posts) != 1 || posts[0].started.Sub(started) > 50*time.Millisecond {
			w.t.Errorf("requests 100ms after Set() = %+v, want one within 50ms", posts)
		}
		w.drain(time.Minute)
	})
}

func TestAttemptsEndWhenTheirWebhookIsDeletedOrReplaced(t *testing.T) {
	for name, change := range map[string]func(w *world, s *Service, id laneID){
		"context deleted": func(w *world, s *Service, id laneID) {
			w.appendEvent(id.task, 2, store.Event{State: a2a.StateCompleted})
			for more := true; more; {
				var err error
				if more, err = w.store.DeleteContext(w.t.Context(), id.task.Owner, "context", 10); err != nil {
					w.t.Fatal(err)
				}
			}
			s.CancelStale(w.t.Context(), id.task.Owner, "context")
		},
		"replaced by a message": func(w *world, s *Service, id laneID) {
			in, err := s.Prepare(w.t.Context(), alice, &a2a.MessageSendConfiguration{
				PushNotificationConfig: &a2a.PushNotificationConfig{ID: id.id, URL: "https://elsewhere.example.com/"},
			})
			if err != nil {
				w.t.Fatal(err)
			}
			newHooks, err := in.Webhooks(w.t.Context(), id.task, 2)
			if err != nil {
				w.t.Fatal(err)
			}
			w.commit(store.Change{Key: id.task, Version: 2, Webhooks: newHooks})
			in.AfterCommit(w.t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, plan{}, func(w *world) {
				r := w.replicas[0]
				r.setHanging(true)
				id := w.newTask("alice", "t", 0, 0)
				other := w.newTask("bob", "other", 1, 0)
				time.Sleep(100 * time.Millisecond)
				w.equal("attempts in progress", r.s.Stats().InFlight, 2)
				r.setHanging(false)
				change(w, r.s, id)
				time.Sleep(100 * time.Millisecond) // before the next heartbeat
				for _, p := range w.postsOf(other) {
					w.t.Errorf("request %+v, want the other attempt to continue", p)
				}
				if got := r.s.Stats().InFlight; got > 1 {
					w.t.Errorf("%d attempts are in progress, want the attempt of the webhook canceled", got)
				}
			})
		})
	}
}

func TestStopWaitsForAttempts(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		w.setAnswer(func(string, *post, int) (safehttp.Response, error) {
			time.Sleep(time.Second)
			return status(200)
		})
		id := w.newTask("alice", "t", 0, 5)
		time.Sleep(1500 * time.Millisecond) // during the second attempt
		started := time.Now()
		w.stop(0, time.Minute)
		if took := time.Since(started); took > time.Second {
			w.t.Errorf("Stop() took %s, want less than one attempt", took)
		}
		l := w.laneOf(id)
		w.equal("lane", []any{l.Cursor.Sequence, l.Delivered, l.Worker, l.Attempt}, []any{2, 2, "", 0})
		w.replicas[0] = w.start()
		w.drain(time.Minute)
		w.checkAll()
		w.equal("requests", w.sequences(id), []int64{1, 2, 3, 4, 5, 6})
	})
}

func TestStopCancelsLongAttempts(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		w.replicas[0].setHanging(true)
		id := w.newTask("alice", "t", 0, 1)
		time.Sleep(time.Second)
		w.stop(0, 200*time.Millisecond)
		l := w.laneOf(id)
		w.equal("lane", []any{l.Cursor.Sequence, l.Attempt, l.Worker, l.DueAt.After(time.Now())}, []any{0, 0, "", false})
		w.equal("attempts", w.outcomes(id), []string{"1/1 canceled"})
		w.replicas[0] = w.start()
		w.drain(time.Minute)
		w.equal("requests", w.sequences(id), []int64{1, 2})
	})
}

func TestDeleteEndsAttempts(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		r := w.replicas[0]
		r.setHanging(true)
		id := w.newTask("alice", "t", 0, 5)
		time.Sleep(time.Second)
		busy, err := w.store.DeleteWebhook(w.t.Context(), id.task, id.id, r.s.now())
		if err != nil || !busy {
			w.t.Fatalf("DeleteWebhook() = %t, %v, want busy", busy, err)
		}
		r.s.claims.cancelLane(id.task, id.id, maxFence)
		r.setHanging(false)
		time.Sleep(time.Minute)
		w.equal("requests", w.sequences(id), []int64(nil))
		if busy, err := w.store.DeleteWebhook(w.t.Context(), id.task, id.id, r.s.now()); busy || !errors.Is(err, store.ErrNotFound) {
			w.t.Errorf("DeleteWebhook() again = %t, %v, want not found", busy, err)
		}
		w.equal("claimed lanes", r.s.Stats().Claimed, 0)
	})
}

// slowReplays is a store in which a replay takes effect late.
type slowReplays struct{ store.Store }

func (s slowReplays) ReplayWebhook(ctx context.Context, task store.Key, id string, at store.WebhookCursor, now time.Time) (store.WebhookCursor, error) {
	time.Sleep(500 * time.Millisecond)
	return s.Store.ReplayWebhook(ctx, task, id, at, now)
}

// The event of an attempt that a replay cancels is not sent once more before the first event of the replay.
func TestReplayDuringAnAttempt(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		r := w.replicas[0]
		r.store.Store = slowReplays{r.store.Store}
		id := w.newTask("alice", "t", 0, 2)
		w.setAnswer(func(_ string, p *post, nth int) (safehttp.Response, error) {
			if p.sequence == 3 && nth == 1 {
				return safehttp.Response{}, errNoAnswer
			}
			return status(200)
		})
		time.Sleep(time.Second) // during the attempt of the last event
		lane := w.laneOf(id)
		if _, err := r.s.replay(w.t.Context(), &lane, 1); err != nil {
			w.t.Fatal(err)
		}
		w.drain(time.Hour)
		w.equal("requests", w.sequences(id), []int64{1, 2, 3, 1, 2, 3})
	})
}

func TestDeleteWhileLanesAreBeingClaimed(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		r := w.replicas[0]
		time.Sleep(5 * time.Second)
		r.store.delayResponses(200 * time.Millisecond)
		id := w.newTask("alice", "t", 0, 5)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		r.s.claims.mu.Lock()
		claiming := r.s.claims.claiming
		r.s.claims.mu.Unlock()
		if !claiming {
			w.t.Fatal("no claim is in progress")
		}
		if busy, err := w.store.DeleteWebhook(w.t.Context(), id.task, id.id, r.s.now()); err != nil || !busy {
			w.t.Fatalf("DeleteWebhook() = %t, %v, want busy: the lane is claimed", busy, err)
		}
		r.s.claims.cancelLane(id.task, id.id, maxFence)
		time.Sleep(time.Minute)
		w.equal("requests", w.sequences(id), []int64(nil))
	})
}

func TestClockJumpsCauseNoLossAndNoEarlyRetries(t *testing.T) {
	for name, newClock := range map[string]func() (now func() time.Time, jump func(time.Duration)){
		"wall clock":  func() (func() time.Time, func(time.Duration)) { c := newSetClock(); return c.now, c.jump },
		"store clock": func() (func() time.Time, func(time.Duration)) { c := new(storeClock); return c.now, c.jump },
	} {
		t.Run(name, func(t *testing.T) {
			var now func() time.Time
			var jump func(time.Duration)
			inBubble(t, plan{config: func(c *Config) {
				now, jump = newClock()
				c.clock, c.Schedule = now, []time.Duration{10 * time.Minute, time.Hour}
			}}, func(w *world) {
				w.setAnswer(func(_ string, p *post, nth int) (safehttp.Response, error) {
					if p.lane.task.ID == "failing" && nth == 1 {
						return status(503)
					}
					time.Sleep(time.Second)
					return status(200)
				})
				failing := w.newTaskAt(now, "failing", 0)
				for n, d := range []time.Duration{time.Hour, -time.Hour, time.Hour, -2 * time.Hour, time.Hour} {
					time.Sleep(500 * time.Millisecond) // during an attempt
					jump(d)
					id := w.newTaskAt(now, fmt.Sprint("t", n), 3)
					time.Sleep(10 * time.Second)
					w.equal(fmt.Sprintf("requests after jump %d by %s", n, d), w.sequences(id), []int64{1, 2, 3, 4})
					w.equal("requests of the failing one", w.sequences(failing), []int64{1})
				}
				w.drain(3 * time.Hour)
				w.checkAll()
			})
		})
	}
}

// Receivers compare the signed timestamp with their clocks.
func TestRequestTimestampsAreWallClockTime(t *testing.T) {
	var clock *setClock
	var sender timestampSender
	inBubble(t, plan{config: func(c *Config) {
		clock = newSetClock()
		sender.now = clock.now
		c.clock, c.Sender, c.Poll = clock.now, &sender, time.Minute
	}}, func(w *world) {
		for n, d := range []time.Duration{0, time.Hour, -time.Hour, -time.Hour, 3 * time.Hour, -2 * time.Hour} {
			clock.jump(d)
			time.Sleep(5 * time.Second)
			w.newTaskAt(clock.now, fmt.Sprint("t", n), 0)
			time.Sleep(2 * time.Hour)
			w.equal(fmt.Sprintf("skew of request %d in seconds after the clock was set by %s", n, d), sender.skew.Load(), 0)
			w.equal("requests", sender.sent.Load(), n+1)
		}
		w.drain(time.Minute)
	})
}

// timestampSender is a Sender that records the clock skew of request timestamps.
type timestampSender struct {
	now        func() time.Time
	sent, skew atomic.Int64
}

func (*timestampSender) Check(context.Context, string) error { return nil }

func (s *timestampSender) Post(_ context.Context, r safehttp.Request) (safehttp.Response, error) {
	at, err := strconv.ParseInt(r.Header.Get("Webhook-Timestamp"), 10, 64)
	s.sent.Add(1)
	s.skew.Store(at - s.now().Unix())
	return safehttp.Response{Status: 200}, err
}

// newTaskAt is like newTask, with event times from a clock.
func (w *world) newTaskAt(now func() time.Time, id string, n int) laneID {
	task := store.Key{Owner: "alice", ID: id}
	hook := w.newHook(task, 0)
	events := []store.Event{{State: a2a.StateSubmitted}, {State: a2a.StateWorking}}
	for i := range n {
		events = append(events, chunk(fmt.Sprint(i)))
	}
	for i := range events {
		events[i].Time = now()
	}
	w.commit(store.Change{
		Key: task, Create: &store.Create{ContextID: "context"}, Queue: &store.QueueEntry{Phase: store.PhaseIdle},
		Webhooks: []store.NewWebhook{hook}, Events: events,
	})
	return laneID{task, hook.ID}
}

// Leases in an exclusive store are stale after a restart.
func TestRestartTakesOverLeases(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		w.setAnswer(func(string, *post, int) (safehttp.Response, error) {
			time.Sleep(time.Second)
			return status(200)
		})
		id := w.newTask("alice", "t", 0, 1)
		time.Sleep(500 * time.Millisecond)
		w.kill(0)
		w.replicas[0] = w.start()
		time.Sleep(time.Millisecond)
		if posts := w.postsOf(id); len(posts) != 2 || posts[1].replica == posts[0].replica {
			w.t.Errorf("%d requests, want a second by the new process", len(posts))
		}
		w.drain(time.Minute)
		w.checkAll()
	})
}

// This also holds for lanes that are skipped at first because their owner is at its limit.
func TestRestartTakesOverLeasesOfABusyOwner(t *testing.T) {
	inBubble(t, plan{config: func(c *Config) { c.Lease = time.Hour }}, func(w *world) {
		w.setAnswer(func(string, *post, int) (safehttp.Response, error) {
			time.Sleep(time.Second)
			return status(200)
		})
		for i := range 4 {
			w.newTask("alice", fmt.Sprint(i), i, 0)
		}
		time.Sleep(500 * time.Millisecond)
		w.kill(0)
		w.plan.config = func(c *Config) { c.Lease, c.Limits.PerOwner, c.Limits.InFlight = time.Hour, 1, 2 }
		w.replicas[0] = w.start()
		w.drain(time.Minute)
		w.checkAll()
	})
}
