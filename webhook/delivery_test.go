package webhook

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// inBubble runs a test in a world inside a synctest bubble.
func inBubble(t *testing.T, p plan, test func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, p)
		test(w)
		for i := range w.replicas {
			w.stop(i, time.Minute)
		}
	})
}

// setAnswer sets the function that answers all requests.
func (w *world) setAnswer(f func(endpoint string, p *post, nth int) (safehttp.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = f
}

func status(n int) (safehttp.Response, error) { return safehttp.Response{Status: n}, nil }

func failing(outcome string) (safehttp.Response, error) {
	return safehttp.Response{}, &safehttp.Error{Outcome: outcome, Err: errors.New("scripted")}
}

// newTask creates a task with one webhook and n artifact chunks after "working".
func (w *world) newTask(owner, id string, endpoint, n int) laneID {
	task := store.Key{Owner: owner, ID: id}
	hook := w.newHook(task, endpoint)
	w.create(task, hook)
	for i := range n {
		w.appendEvent(task, int64(2+i), chunk(fmt.Sprint(i)))
	}
	return laneID{task, hook.ID}
}

// sequences returns the sequence numbers of the requests to a webhook, in order.
func (w *world) sequences(id laneID) (s []int64) {
	for _, p := range w.postsOf(id) {
		s = append(s, p.sequence)
	}
	return s
}

func (w *world) equal(what string, got, want any) {
	w.t.Helper()
	if g, want := fmt.Sprint(got), fmt.Sprint(want); g != want {
		w.t.Errorf("%s = %s, want %s", what, g, want)
	}
}

func (w *world) outcomes(id laneID) (words []string) {
	page, err := w.store.DeliveryAttempts(w.t.Context(), store.WebhookQuery{Owner: id.task.Owner, TaskID: id.task.ID, ID: id.id, Limit: 100})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, a := range page.Attempts {
		words = append(words, fmt.Sprintf("%d/%d %s", a.Sequence, a.Attempt, a.Outcome))
	}
	slices.Sort(words)
	return words
}

func TestDeliveryAcknowledgesAndRetries(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		w.setAnswer(func(_ string, p *post, nth int) (safehttp.Response, error) {
			if p.sequence == 2 && nth <= 2 {
				return status(503)
			}
			return status(204)
		})
		id := w.newTask("alice", "t", 0, 2)
		w.drain(time.Minute)
		w.checkAll()
		w.equal("requests", w.sequences(id), []int64{1, 2, 2, 2, 3})
		w.equal("attempts", w.outcomes(id), []string{"1/1 delivered", "2/1 unavailable", "2/2 unavailable", "2/3 delivered", "3/1 delivered"})
		l := w.laneOf(id)
		w.equal("lane", []any{l.State, l.Delivered, l.Attempt, l.FailedAt.IsZero()}, []any{store.LaneActive, 3, 0, true})
		posts := w.postsOf(id)
		for i, want := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond} {
			if got := posts[i+2].started.Sub(posts[i+1].ended); got < want*4/5 || got > want*6/5+dueStep+time.Millisecond {
				w.t.Errorf("backoff %d = %s, want %s plus or minus 20 %%", i, got, want)
			}
		}
	})
}

// While an address has too many requests no attempt is made, and none is counted.
func TestBusyAddressCountsNoAttempts(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		const busy = 40 // far more than the attempts of the schedule
		w.setAnswer(func(_ string, p *post, nth int) (safehttp.Response, error) {
			if p.sequence == 2 && nth <= busy {
				return failing(safehttp.OutcomeBusy)
			}
			return status(204)
		})
		id := w.newTask("alice", "t", 0, 2)
		w.drain(5 * time.Minute)
		w.checkAll()
		w.equal("attempts", w.outcomes(id), []string{"1/1 delivered", "2/1 delivered", "3/1 delivered"})
		l := w.laneOf(id)
		w.equal("lane", []any{l.State, l.Delivered, l.Attempt, l.FailedAt.IsZero()}, []any{store.LaneActive, 3, 0, true})
		posts := w.postsOf(id)
		if got := posts[busy+1].started.Sub(posts[1].started); got < busy*busyBackoff*4/5 {
			w.t.Errorf("%d waits took %s, want about %s each", busy, got, busyBackoff)
		}
	})
}

func TestRejectedEventsBecomeDeadLetters(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		codes := map[int64]int{2: 404, 3: 302, 4: 401}
		w.setAnswer(func(_ string, p *post, _ int) (safehttp.Response, error) {
			if code := codes[p.sequence]; code != 0 {
				return status(code)
			}
			return status(200)
		})
		id := w.newTask("alice", "t", 0, 4)
		w.drain(time.Minute)
		w.checkAll()
		w.equal("requests", w.sequences(id), []int64{1, 2, 3, 4, 5})
		dead := w.deadOf(id)
		for sequence, code := range codes {
			d := dead[sequence]
			w.equal("dead letter", []any{d.Status, d.Attempts, d.Reason}, []any{code, 1, fmt.Sprintf("the receiver answered %d", code)})
		}
		w.equal("dead letters", len(dead), 3)
		w.equal("lane", w.laneOf(id).State, store.LaneActive)
	})
}

func TestStatus410DisablesTheWebhook(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		w.setAnswer(func(_ string, p *post, _ int) (safehttp.Response, error) {
			if p.sequence == 2 {
				return status(410)
			}
			return status(200)
		})
		id := w.newTask("alice", "t", 0, 40)
		w.drain(time.Minute)
		w.appendEvent(id.task, 42, store.Event{State: a2a.StateCompleted})
		w.drain(time.Minute)
		w.checkAll()
		w.equal("requests", w.sequences(id), []int64{1, 2})
		w.equal("dead letters", len(w.deadOf(id)), 41)
		l := w.laneOf(id)
		w.equal("lane", []any{l.State, l.Reason}, []any{store.LaneDisabled, "the receiver answered 410"})
	})
}

func TestThreeRefusalsDisableTheWebhook(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		refusedFrom := int64(3)
		w.setAnswer(func(_ string, p *post, _ int) (safehttp.Response, error) {
			if p.sequence == 1 || p.sequence >= refusedFrom {
				return failing(safehttp.OutcomeRefused)
			}
			return status(200)
		})
		id := w.newTask("alice", "t", 0, 0)
		for version := int64(2); version < 7; version++ { // one claim each
			w.drain(time.Minute)
			w.appendEvent(id.task, version, chunk("x"))
		}
		w.drain(time.Minute)
		w.checkAll()
		w.equal("attempts", w.outcomes(id), []string{"1/1 refused", "2/1 delivered", "3/1 refused", "4/1 refused", "5/1 refused"})
		w.equal("dead letters", len(w.deadOf(id)), 5)
		w.equal("lane", w.laneOf(id).State, store.LaneDisabled)
	})
}

// Refusals before the owner saved or replayed the webhook do not count.
func TestRefusalCountRestartsWhenAWebhookIsSavedOrReplayed(t *testing.T) {
	for name, again := range map[string]func(w *world, id laneID) error{
		"by set": func(w *world, id laneID) error {
			l, s := w.laneOf(id), w.replicas[0].s
			set, err := s.seal.decode(&l.Webhook)
			if err == nil {
				_, err = s.Set(w.t.Context(), alice, a2a.TaskPushNotificationConfig{
					TaskID: id.task.ID, Config: a2a.PushNotificationConfig{ID: id.id, URL: set.URL},
				})
			}
			return err
		},
		"by replay": func(w *world, id laneID) error {
			_, err := w.replicas[0].s.Replay(w.t.Context(), alice, a2a.ReplayParams{TaskID: id.task.ID, ConfigID: id.id, FromSequence: 3})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, plan{}, func(w *world) {
				w.setAnswer(func(_ string, p *post, nth int) (safehttp.Response, error) {
					if nth == 1 && p.sequence <= 4 {
						return failing(safehttp.OutcomeRefused)
					}
					return status(200)
				})
				id := w.newTask("alice", "t", 0, 2)
				w.drain(time.Minute)
				w.equal("lane", w.laneOf(id).State, store.LaneDisabled)
				if err := again(w, id); err != nil {
					w.t.Fatal(err)
				}
				w.drain(time.Minute)
				w.appendEvent(id.task, 4, chunk("x")) // the policy refuses it
				w.drain(time.Minute)
				w.equal("lane after one more", w.laneOf(id).State, store.LaneActive)
			})
		})
	}
}

func TestExhaustedScheduleParksTheLane(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		w.setAnswer(func(string, *post, int) (safehttp.Response, error) { return status(500) })
		id := w.newTask("alice", "t", 0, 3)
		w.drain(time.Hour)
		w.equal("attempts", len(w.outcomes(id)), 10)
		l := w.laneOf(id)
		w.equal("lane", []any{l.State, l.Reason}, []any{store.LaneParked, "attempts exhausted, last error: the receiver answered 500"})
		w.appendEvent(id.task, 5, store.Event{State: a2a.StateCompleted})
		w.drain(time.Minute)
		w.checkAll()
		w.equal("attempts", len(w.outcomes(id)), 10)
		dead := w.deadOf(id)
		w.equal("attempts of dead letters", []int{dead[1].Attempts, dead[2].Attempts, dead[5].Attempts}, []int{10, 0, 0})

		w.setAnswer(nil)
		if _, err := w.store.ReplayWebhook(w.t.Context(), id.task, id.id, dead[1].Cursor, w.replicas[0].s.now()); err != nil {
			w.t.Fatal(err)
		}
		w.drain(time.Minute)
		w.equal("dead letters after a replay", len(w.deadOf(id)), 0)
		w.equal("delivered by a replay", w.laneOf(id).Delivered, 5)
	})
}

// The outages end at different times relative to the attempts.
func TestBacklogDrainsSoonAfterAnOutage(t *testing.T) {
	for _, lanes := range testSizes(1, 3, 100, 600) {
		for _, outage := range []time.Duration{9 * time.Second, 16 * time.Second, 19 * time.Second, 24 * time.Second, 30 * time.Second} {
			if lanes == 1 && outage < 30*time.Second {
				continue // a single lane is retried by its schedule only
			}
			t.Run(fmt.Sprint(lanes, " ", outage), func(t *testing.T) {
				inBubble(t, plan{config: func(c *Config) { c.Schedule = nil }}, func(w *world) { w.runOutage(lanes, outage) })
			})
		}
	}
}

// runOutage makes an endpoint fail for a while, and checks that its backlog drains soon after.
func (w *world) runOutage(lanes int, length time.Duration) {
	up := time.Now().Add(length)
	w.setDown("endpoint-0.example.com", true)
	owners := min(max(lanes/10, 1), 10) // more than one lane each: a single lane is retried by its schedule only
	for n := range lanes {
		w.newTask(fmt.Sprint("owner-", n%owners), fmt.Sprint("t", n), 0, 3)
	}
	time.Sleep(time.Until(up))
	posts := len(w.allPosts())
	w.setDown("endpoint-0.example.com", false)
	w.drain(time.Minute)
	if took := time.Since(up); took > 15*time.Second {
		w.t.Errorf("%d lanes drained %s after the outage, want at most 15s", lanes, took)
	}
	w.checkAll()
	if posts > lanes && posts > 20*owners {
		w.t.Errorf("%d requests during the outage, want few", posts)
	}
	w.t.Logf("%d lanes: %d requests during the outage, drained %s after it; %d claims", lanes, posts, time.Since(up), w.replicas[0].store.count("ClaimLanes"))
}

func TestDeadEndpointsDoNotDelayOthers(t *testing.T) {
	latencies := func(t *testing.T, owners int) (worst time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1, plan{config: func(c *Config) { c.Timeout, c.Lease, c.Schedule = 15*time.Second, 30*time.Second, nil }})
			w.setAnswer(func(endpoint string, _ *post, _ int) (safehttp.Response, error) {
				if strings.HasPrefix(endpoint, "endpoint-0.") {
					time.Sleep(20 * time.Millisecond)
					return status(200)
				}
				time.Sleep(15 * time.Second)
				return failing(safehttp.OutcomeTimeout)
			})
			w.newTask("alice", "first", 0, 0) // makes the endpoint proven: unproven ones wait during the flood
			time.Sleep(time.Second)
			for n := range min(owners, 1) * 2000 {
				w.newTask(fmt.Sprint("flood-", n%owners), fmt.Sprint("f", n), 1+n%1000, 1)
			}
			for n := range 200 {
				w.newTask("alice", fmt.Sprint("t", n), 0, 0)
				time.Sleep(50 * time.Millisecond)
			}
			time.Sleep(2 * time.Second)
			for n := range 200 {
				id := laneID{store.Key{Owner: "alice", ID: fmt.Sprint("t", n)}, fmt.Sprintf("t%d-hook-0", n)}
				posts := w.postsOf(id)
				if len(posts) != 1 {
					t.Fatalf("%v had %d requests, want 1", id, len(posts))
				}
				task, err := w.store.Events(t.Context(), id.task, 1, 1)
				if err != nil {
					t.Fatal(err)
				}
				worst = max(worst, posts[0].ended.Sub(task[0].Time))
			}
			w.stop(0, time.Minute)
		})
		return worst
	}
	t.Parallel()
	alone := latencies(t, 0)
	for _, owners := range testSizes(1, 500) {
		if disturbed := latencies(t, owners); disturbed > 2*alone {
			t.Errorf("worst latency with 2,000 lanes of dead endpoints of %d owners = %s, want at most twice that without: %s", owners, disturbed, alone)
		}
	}
}

func TestConcurrencyLimitsHold(t *testing.T) {
	t.Parallel()
	for _, caps := range []struct{ all, endpoint, owner int }{{20, 8, 100}, {200, 4, 100}, {200, 50, 3}} {
		t.Run(fmt.Sprint(caps), func(t *testing.T) {
			inBubble(t, plan{config: func(c *Config) {
				c.Limits.InFlight, c.Limits.PerEndpoint, c.Limits.PerOwner = caps.all, caps.endpoint, caps.owner
			}}, func(w *world) {
				w.setAnswer(func(string, *post, int) (safehttp.Response, error) {
					time.Sleep(100 * time.Millisecond)
					return status(200)
				})
				for n := range 200 {
					w.newTask(fmt.Sprint("owner-", n%8), fmt.Sprint("t", n), n%10, 2)
				}
				w.drain(time.Hour)
				w.checkAll()
				w.checkConcurrency("in all", caps.all, min(caps.all, 10*caps.endpoint, 8*caps.owner), func(*post) string { return "" })
				w.checkConcurrency("of an endpoint", caps.endpoint, min(caps.endpoint, 2), func(p *post) string { return p.lane.id[strings.LastIndex(p.lane.id, "-"):] })
				w.checkConcurrency("of an owner", caps.owner, min(caps.owner, 2), func(p *post) string { return p.lane.task.Owner })
			})
		})
	}
}

// checkConcurrency checks the maximum number of concurrent requests with the same key.
func (w *world) checkConcurrency(what string, limit, least int, key func(*post) string) {
	w.t.Helper()
	most, all := 0, w.allPosts()
	for _, p := range all {
		n := 0
		for _, q := range all {
			if key(p) == key(q) && !q.started.After(p.started) && q.ended.After(p.started) {
				n++
			}
		}
		most = max(most, n)
	}
	if most > limit || most < least/2 {
		w.t.Errorf("%d concurrent requests %s, want %d to %d", most, what, least/2, limit)
	}
}

func TestSaturatedEndpointCausesFewClaims(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		w.setAnswer(func(string, *post, int) (safehttp.Response, error) {
			time.Sleep(time.Second)
			return status(200)
		})
		all := testSizes(200, 1000)
		lanes := all[len(all)-1]
		for n := range lanes {
			w.newTask(fmt.Sprint("owner-", n%50), fmt.Sprint("t", n), 0, 0)
		}
		started := time.Now()
		w.drain(time.Hour)
		took := time.Since(started)
		if want := time.Duration(lanes) * time.Second / 8; took > want*6/5 {
			w.t.Errorf("%d lanes of 1 s, 8 at a time, took %s, want about %s", lanes, took, want)
		}
		if claims := w.replicas[0].store.count("ClaimLanes"); claims > 20*int(took/time.Second) {
			w.t.Errorf("%d claims in %s, want at most 20 a second", claims, took)
		}
	})
}
