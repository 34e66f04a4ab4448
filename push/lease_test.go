package push

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

// Invariant 9.
func TestFencingOfAReplicaPausedPastItsLease(t *testing.T) {
	inBubble(t, plan{replicas: 2}, func(w *world) {
		first := make(chan int, 1)
		w.answers(func(_ string, p *post, _ int) (safehttp.Response, error) {
			if p.sequence == 1 {
				select {
				case first <- p.by:
					time.Sleep(time.Second)
				default:
				}
			}
			return status(200)
		})
		id := w.story("alice", "t", 0, 3)
		by := <-first
		w.replicas[by-1].store.breakMethod("RenewLanes") // it has only the time to go by
		w.pause(by-1, 20*time.Second)
		w.drain(time.Minute)
		l := w.laneOf(id)
		time.Sleep(time.Minute)
		if again := w.laneOf(id); again.Cursor != l.Cursor || again.Fence != l.Fence || again.Delivered != 4 {
			w.t.Errorf("lane = %+v after the paused replica went on, want it as the other left it: %+v", again, l)
		}
		w.equal("requests", w.sequences(id), []int64{1, 1, 2, 3, 4})
		for _, p := range w.postsOf(id)[1:] {
			if p.by == by {
				w.t.Errorf("the paused replica sent sequence %d after its lease had ended", p.sequence)
			}
		}
	})
}

func TestLeasesAreRenewedWhileLanesAreWorkedAndWait(t *testing.T) {
	inBubble(t, plan{replicas: 2, config: func(c *Config) { c.PerEndpoint = 1 }}, func(w *world) {
		w.answers(func(string, *post, int) (safehttp.Response, error) {
			time.Sleep(time.Second)
			return status(200)
		})
		var ids []laneID
		for n := range 3 {
			ids = append(ids, w.story("alice", fmt.Sprint("t", n), 0, 14))
		}
		time.Sleep(500 * time.Millisecond)
		fence := w.laneOf(ids[0]).Fence
		time.Sleep(14 * time.Second)
		if l := w.laneOf(ids[0]); l.Fence != fence || l.Cursor.Sequence < 14 {
			w.t.Errorf("lane = %+v, want it held for more than two leases, by fence %d", l, fence)
		}
		w.drain(5 * time.Minute)
		w.checkAll()
		for _, id := range ids {
			w.equal("requests", len(w.postsOf(id)), 15)
		}
	})
}

func TestAReplacedWebhookIsNotCalledTwiceAtATime(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		w.answers(func(string, *post, int) (safehttp.Response, error) {
			time.Sleep(time.Second)
			return status(200)
		})
		id := w.story("alice", "t", 0, 2)
		for range 5 {
			time.Sleep(300 * time.Millisecond)
			if _, err := w.store.SavePush(w.t.Context(), w.laneOf(id).Config, store.PushCursor{}, w.replicas[0].s.now()); err != nil {
				w.t.Fatal(err)
			}
			w.tell(id.task, w.laneOf(id).Tail, chunk("more"))
		}
		w.drain(time.Minute)
		w.checkAll()
	})
}

// What one replica changes waits until the other, which calls the webhook, has let it go.
func TestAWebhookThatAnotherReplicaChangesIsNotCalledTwiceAtATime(t *testing.T) {
	for name, change := range map[string]func(w *world, s *Service, l store.Lane) error{
		"by set": func(w *world, s *Service, l store.Lane) error {
			set, err := s.seal.decode(&l.Config)
			if err == nil {
				_, err = s.Set(w.t.Context(), alice, a2a.TaskPushNotificationConfig{
					TaskID: l.Config.Task.ID, Config: a2a.PushNotificationConfig{ID: l.Config.ID, URL: set.URL, Token: "new"},
				})
			}
			return err
		},
		"by replay": func(w *world, s *Service, l store.Lane) error {
			_, err := s.Replay(w.t.Context(), alice, a2a.ReplayParams{TaskID: l.Config.Task.ID, ConfigID: l.Config.ID, FromSequence: 1})
			return err
		},
		"by a message": func(w *world, _ *Service, l store.Lane) error {
			brings := store.NewPush{ID: l.Config.ID, Endpoint: l.Config.Endpoint, Data: l.Config.Data}
			w.commit(store.Change{Key: l.Config.Task, Version: l.Tail, Events: []store.Event{{Time: w.now(), State: a2a.StateWorking}}, Push: []store.NewPush{brings}})
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, plan{replicas: 2}, func(w *world) {
				w.answers(func(string, *post, int) (safehttp.Response, error) {
					time.Sleep(time.Second)
					return status(200)
				})
				for n := range 12 {
					id := w.story("alice", fmt.Sprint("t", n), 0, 6)
					time.Sleep(time.Duration(1100+50*n) * time.Millisecond)
					l := w.laneOf(id)
					other := w.replicas[0]
					if l.Worker == other.s.worker {
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

// The process that calls it itself need not wait: it knows.
func TestAWebhookThatIsSetIsCalledAnewAtOnce(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		r := w.replicas[0]
		r.setHanging(true)
		id := w.story("alice", "t", 0, 0)
		time.Sleep(time.Second)
		r.setHanging(false)
		l := w.laneOf(id)
		set, err := r.s.seal.decode(&l.Config)
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
			w.t.Errorf("requests 100ms after Set() = %+v, want one within half of that", posts)
		}
		w.drain(time.Minute)
	})
}

func TestAttemptsEndWhenTheirWebhookIsGone(t *testing.T) {
	for name, change := range map[string]func(w *world, s *Service, id laneID){
		"cleared": func(w *world, s *Service, id laneID) {
			w.tell(id.task, 2, store.Event{State: a2a.StateCompleted})
			for more := true; more; {
				var err error
				if more, err = w.store.DeleteContext(w.t.Context(), id.task.Owner, "context", 10); err != nil {
					w.t.Fatal(err)
				}
			}
			s.Recheck(w.t.Context(), id.task.Owner, "context")
		},
		"brought anew": func(w *world, s *Service, id laneID) {
			in, err := s.Prepare(w.t.Context(), alice, &a2a.MessageSendConfiguration{
				PushNotificationConfig: &a2a.PushNotificationConfig{ID: id.id, URL: "https://elsewhere.example.com/"},
			})
			if err != nil {
				w.t.Fatal(err)
			}
			brought, err := in.Push(w.t.Context(), id.task, 2)
			if err != nil {
				w.t.Fatal(err)
			}
			w.commit(store.Change{Key: id.task, Version: 2, Push: brought})
			in.Stored(w.t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, plan{}, func(w *world) {
				r := w.replicas[0]
				r.setHanging(true)
				id := w.story("alice", "t", 0, 0)
				other := w.story("bob", "other", 1, 0)
				time.Sleep(100 * time.Millisecond)
				w.equal("under way", r.s.Stats().InFlight, 2)
				r.setHanging(false)
				change(w, r.s, id)
				time.Sleep(100 * time.Millisecond) // less than until the next heartbeat
				for _, p := range w.postsOf(other) {
					w.t.Errorf("request %+v, want the other attempt left alone", p)
				}
				if got := r.s.Stats().InFlight; got > 1 {
					w.t.Errorf("%d attempts are under way, want the one of the webhook ended", got)
				}
			})
		})
	}
}

// Invariant 16.
func TestShutdownLetsAttemptsEnd(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		w.answers(func(string, *post, int) (safehttp.Response, error) {
			time.Sleep(time.Second)
			return status(200)
		})
		id := w.story("alice", "t", 0, 5)
		time.Sleep(1500 * time.Millisecond) // in the second attempt
		started := time.Now()
		w.stop(0, time.Minute)
		if took := time.Since(started); took > time.Second {
			w.t.Errorf("Stop() took %s, want what was left of one attempt", took)
		}
		l := w.laneOf(id)
		w.equal("lane", []any{l.Cursor.Sequence, l.Delivered, l.Worker, l.Attempt}, []any{2, 2, "", 0})
		w.replicas[0] = w.start()
		w.drain(time.Minute)
		w.checkAll()
		w.equal("requests", w.sequences(id), []int64{1, 2, 3, 4, 5, 6})
	})
}

func TestShutdownGivesUpAttemptsThatTakeTooLong(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		w.replicas[0].setHanging(true)
		id := w.story("alice", "t", 0, 1)
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

// Invariant 19.
func TestDeleteEndsAttempts(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		r := w.replicas[0]
		r.setHanging(true)
		id := w.story("alice", "t", 0, 5)
		time.Sleep(time.Second)
		busy, err := w.store.DeletePush(w.t.Context(), id.task, id.id, r.s.now())
		if err != nil || !busy {
			w.t.Fatalf("DeletePush() = %t, %v, want busy", busy, err)
		}
		r.s.cancelLane(id.task, id.id, anyFence)
		r.setHanging(false)
		time.Sleep(time.Minute)
		w.equal("requests", w.sequences(id), []int64(nil))
		if busy, err := w.store.DeletePush(w.t.Context(), id.task, id.id, r.s.now()); busy || !errors.Is(err, store.ErrNotFound) {
			w.t.Errorf("DeletePush() again = %t, %v, want not found", busy, err)
		}
		w.equal("lanes here", r.s.Stats().Claimed, 0)
	})
}

func TestDeleteWhileLanesAreBeingClaimed(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		r := w.replicas[0]
		time.Sleep(5 * time.Second)
		r.store.answerLate(200 * time.Millisecond)
		id := w.story("alice", "t", 0, 5)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		r.s.mu.Lock()
		claiming := r.s.claiming
		r.s.mu.Unlock()
		if !claiming {
			w.t.Fatal("no claim is under way")
		}
		if busy, err := w.store.DeletePush(w.t.Context(), id.task, id.id, r.s.now()); err != nil || !busy {
			w.t.Fatalf("DeletePush() = %t, %v, want busy: the lane has been claimed", busy, err)
		}
		r.s.cancelLane(id.task, id.id, anyFence)
		time.Sleep(time.Minute)
		w.equal("requests", w.sequences(id), []int64(nil))
	})
}

// Invariant 20.
func TestClockJumpsCauseNoLossAndNoEarlyRetries(t *testing.T) {
	for name, newClock := range map[string]func() (now func() time.Time, jump func(time.Duration)){
		"of the wall":  func() (func() time.Time, func(time.Duration)) { c := newSetClock(); return c.now, c.jump },
		"of the store": func() (func() time.Time, func(time.Duration)) { c := new(storeClock); return c.now, c.jump },
	} {
		t.Run(name, func(t *testing.T) {
			var now func() time.Time
			var jump func(time.Duration)
			inBubble(t, plan{config: func(c *Config) {
				now, jump = newClock()
				c.clock, c.Schedule = now, []time.Duration{10 * time.Minute, time.Hour}
			}}, func(w *world) {
				w.answers(func(_ string, p *post, nth int) (safehttp.Response, error) {
					if p.lane.task.ID == "failing" && nth == 1 {
						return status(503)
					}
					time.Sleep(time.Second)
					return status(200)
				})
				failing := w.storyAt(now, "failing", 0)
				for n, d := range []time.Duration{time.Hour, -time.Hour, time.Hour, -2 * time.Hour, time.Hour} {
					time.Sleep(500 * time.Millisecond) // in an attempt
					jump(d)
					id := w.storyAt(now, fmt.Sprint("t", n), 3)
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

// Receivers compare the time of a signature with their clocks.
func TestRequestsHaveTheTimeOfTheWallClock(t *testing.T) {
	var clock *setClock
	var sender stamps
	inBubble(t, plan{config: func(c *Config) {
		clock = newSetClock()
		sender.now = clock.now
		c.clock, c.Sender, c.Poll = clock.now, &sender, time.Minute
	}}, func(w *world) {
		for n, d := range []time.Duration{0, time.Hour, -time.Hour, -time.Hour, 3 * time.Hour, -2 * time.Hour} {
			clock.jump(d)
			time.Sleep(5 * time.Second)
			w.storyAt(clock.now, fmt.Sprint("t", n), 0)
			time.Sleep(2 * time.Hour)
			w.equal(fmt.Sprintf("seconds that request %d is off after the clock was set by %s", n, d), sender.off.Load(), 0)
			w.equal("requests", sender.sent.Load(), n+1)
		}
		w.drain(time.Minute)
	})
}

// stamps is a Sender that notes how far the times of requests are off.
type stamps struct {
	now       func() time.Time
	sent, off atomic.Int64
}

func (*stamps) Check(context.Context, string) error { return nil }

func (s *stamps) Post(_ context.Context, r safehttp.Request) (safehttp.Response, error) {
	at, err := strconv.ParseInt(r.Header.Get("Webhook-Timestamp"), 10, 64)
	s.sent.Add(1)
	s.off.Store(at - s.now().Unix())
	return safehttp.Response{Status: 200}, err
}

// storyAt is story, its events at the times of a clock.
func (w *world) storyAt(now func() time.Time, id string, n int) laneID {
	task := store.Key{Owner: "alice", ID: id}
	hook := w.hook(task, 0)
	events := []store.Event{{State: a2a.StateSubmitted}, {State: a2a.StateWorking}}
	for i := range n {
		events = append(events, chunk(fmt.Sprint(i)))
	}
	for i := range events {
		events[i].Time = now()
	}
	w.commit(store.Change{
		Key: task, Create: &store.Create{ContextID: "context"}, Run: &store.Run{Phase: store.PhaseIdle},
		Push: []store.NewPush{hook}, Events: events,
	})
	return laneID{task, hook.ID}
}

// An exclusive store had one process: what it has leased is free.
func TestRestartTakesOverLeases(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		w.answers(func(string, *post, int) (safehttp.Response, error) {
			time.Sleep(time.Second)
			return status(200)
		})
		id := w.story("alice", "t", 0, 1)
		time.Sleep(500 * time.Millisecond)
		w.kill(0)
		w.replicas[0] = w.start()
		time.Sleep(time.Millisecond)
		if posts := w.postsOf(id); len(posts) != 2 || posts[1].by == posts[0].by {
			w.t.Errorf("%d requests, want a second by the new process", len(posts))
		}
		w.drain(time.Minute)
		w.checkAll()
	})
}

// Nor do they have to wait for their leases to end when their owner has enough under way.
func TestRestartTakesOverLeasesOfABusyOwner(t *testing.T) {
	inBubble(t, plan{config: func(c *Config) { c.Lease = time.Hour }}, func(w *world) {
		w.answers(func(string, *post, int) (safehttp.Response, error) {
			time.Sleep(time.Second)
			return status(200)
		})
		for i := range 4 {
			w.story("alice", fmt.Sprint(i), i, 0)
		}
		time.Sleep(500 * time.Millisecond)
		w.kill(0)
		w.plan.config = func(c *Config) { c.Lease, c.PerOwner, c.InFlight = time.Hour, 1, 2 }
		w.replicas[0] = w.start()
		w.drain(time.Minute)
		w.checkAll()
	})
}
