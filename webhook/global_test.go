package webhook

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// newGlobalTask creates a task of alice with the global webhook.
func (w *world) newGlobalTask() laneID {
	task := store.Key{Owner: "alice", ID: "t"}
	w.create(task, w.replicas[0].s.newGlobal()...)
	w.mu.Lock()
	defer w.mu.Unlock()
	id := laneID{task, GlobalID}
	w.lanes = append(w.lanes, id)
	return id
}

// sequencesAt returns the sequence numbers of events that a host accepted.
func (w *world) sequencesAt(host string) (s []int64) {
	for _, p := range w.allPosts() {
		if p.host == host && p.delivered() {
			s = append(s, p.sequence)
		}
	}
	return s
}

func withGlobal(c *Config) { c.Global = Global{URL: "https://global.example.com/"} }

func TestGlobalWebhookReceivesEventsBeforeTheOwnersWebhook(t *testing.T) {
	for name, join := range map[string]func(w *world, task store.Key){
		"by set": func(w *world, task store.Key) {
			_, err := w.replicas[0].s.Set(w.t.Context(), alice, a2a.TaskPushNotificationConfig{
				TaskID: task.ID, Config: a2a.PushNotificationConfig{ID: "own", URL: "https://own.example.com/"},
			})
			if err != nil {
				w.t.Fatal(err)
			}
			w.appendEvent(task, 3, chunk("two"))
		},
		"by a message": func(w *world, task store.Key) {
			in, err := w.replicas[0].s.Prepare(w.t.Context(), alice, &a2a.MessageSendConfiguration{
				PushNotificationConfig: &a2a.PushNotificationConfig{ID: "own", URL: "https://own.example.com/"},
			})
			if err != nil {
				w.t.Fatal(err)
			}
			newHooks, err := in.Webhooks(w.t.Context(), task, 3)
			if err != nil {
				w.t.Fatal(err)
			}
			e := chunk("two")
			e.Time = w.now()
			w.commit(store.Change{Key: task, Version: 3, Events: []store.Event{e}, Webhooks: newHooks})
			in.AfterCommit(w.t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, plan{config: withGlobal}, func(w *world) {
				w.setDown("global.example.com", true)
				id := w.newGlobalTask()
				w.appendEvent(id.task, 2, chunk("one"))
				time.Sleep(time.Minute)
				join(w, id.task)
				w.appendEvent(id.task, 4, store.Event{State: a2a.StateCompleted})
				time.Sleep(time.Minute)
				w.equal("events of the owner's webhook while the global one is down", w.sequencesAt("own.example.com"), []int64{3, 4})
				w.setDown("global.example.com", false)
				w.drain(time.Hour)
				w.equal("events of the global webhook", w.sequencesAt("global.example.com"), []int64{1, 2})
				w.equal("events of the owner's webhook", w.sequencesAt("own.example.com"), []int64{3, 4})
				lane := w.laneOf(id)
				w.equal("the global one is pending", lane.Pending(), false)
				w.equal("dead letters of the global one", len(w.deadOf(id)), 0)
			})
		})
	}
}

// Its dead letters stay, and later events are not added.
func TestGlobalDeadLettersStayWhenAnOwnerAddsAWebhook(t *testing.T) {
	inBubble(t, plan{config: withGlobal}, func(w *world) {
		w.setAnswer(func(host string, _ *post, _ int) (safehttp.Response, error) {
			if host == "global.example.com" {
				return status(410)
			}
			return status(200)
		})
		id := w.newGlobalTask()
		w.appendEvent(id.task, 2, chunk("one"))
		w.drain(time.Minute)
		_, err := w.replicas[0].s.Set(w.t.Context(), alice, a2a.TaskPushNotificationConfig{
			TaskID: "t", Config: a2a.PushNotificationConfig{ID: "own", URL: "https://own.example.com/"},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		w.appendEvent(id.task, 3, chunk("two"))
		w.drain(time.Minute)
		w.equal("dead letters", len(w.deadOf(id)), 2)
		w.equal("events of the owner's webhook", w.sequencesAt("own.example.com"), []int64{3})
	})
}

// The URL at the start of the task does not matter.
func TestChangedGlobalURLAppliesToPendingEvents(t *testing.T) {
	const oldEndpoint = "https://old.example.com:443"
	inBubble(t, plan{config: withGlobal}, func(w *world) {
		w.stop(0, time.Minute)
		task := store.Key{Owner: "alice", ID: "t"}
		w.create(task, store.NewWebhook{ID: GlobalID, Endpoint: oldEndpoint, Data: globalData})
		time.Sleep(time.Hour)
		if err := w.store.SaveEndpoint(w.t.Context(), store.Endpoint{
			Name: oldEndpoint, Failures: 99, FailedAt: w.started, Disabled: true, Reason: "scripted", UpdatedAt: store.Time(time.Now()),
		}); err != nil {
			w.t.Fatal(err)
		}
		w.replicas[0] = w.start()
		w.drain(time.Minute)
		w.equal("events of the global webhook", w.sequencesAt("global.example.com"), []int64{1})
		w.equal("dead letters", len(w.deadOf(laneID{task, GlobalID})), 0)
		w.setAnswer(func(string, *post, int) (safehttp.Response, error) { return failing(safehttp.OutcomeConnect) })
		w.appendEvent(task, 2, chunk("one"))
		time.Sleep(time.Minute)
		s := w.replicas[0].s
		s.endpoints.mu.Lock()
		defer s.endpoints.mu.Unlock()
		if e := s.endpoints.limits.endpoints[endpointName{address: "https://global.example.com:443"}]; e == nil || e.failures == 0 {
			w.t.Errorf("current endpoint = %+v, want failures", e)
		}
	})
}

// No global webhook may have been configured when the task started or when its own webhook
// was deleted.
func TestGlobalWebhookJoinsAContinuedTask(t *testing.T) {
	task := store.Key{Owner: "alice", ID: "t"}
	const global, own = "global.example.com", "own.example.com"
	set := func(w *world, s *Service) {
		_, err := s.Set(w.t.Context(), alice, a2a.TaskPushNotificationConfig{
			TaskID: task.ID, Config: a2a.PushNotificationConfig{ID: "own", URL: "https://" + own + "/"},
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		started     func(with *Service) []store.NewWebhook
		then        func(w *world, with, without *Service)
		global, own []int64
	}{
		"started without": {global: []int64{2, 3, 4}},
		"one of its own":  {then: func(w *world, _, without *Service) { set(w, without) }, own: []int64{2, 3, 4}},
		"its own was deleted without": {
			started: (*Service).newGlobal,
			then: func(w *world, with, without *Service) {
				set(w, with)
				if err := without.Delete(w.t.Context(), alice, a2a.DeleteTaskPushNotificationConfigParams{TaskID: task.ID, ConfigID: "own"}); err != nil {
					w.t.Fatal(err)
				}
			},
			global: []int64{1, 2, 3, 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, plan{config: withGlobal}, func(w *world) {
				with := w.replicas[0].s
				config := with.cfg
				config.Global = Global{}
				without, err := New(config)
				if err != nil {
					w.t.Fatal(err)
				}
				var started []store.NewWebhook
				if c.started != nil {
					started = c.started(with)
				}
				w.create(task, started...)
				w.drain(time.Minute)
				if c.then != nil {
					c.then(w, with, without)
				}
				w.continueTask(with, task, 2)
				w.continueTask(with, task, 3)
				w.appendEvent(task, 4, store.Event{State: a2a.StateCompleted})
				w.drain(time.Minute)
				w.equal("events of the global webhook", w.sequencesAt(global), c.global)
				w.equal("events of the task's webhook", w.sequencesAt(own), c.own)
			})
		})
	}
}

// Events while no global webhook is configured become dead letters. Delivery resumes when one
// is configured and the task continues.
func TestGlobalWebhookResumesWhenConfiguredAgain(t *testing.T) {
	inBubble(t, plan{config: withGlobal}, func(w *world) {
		task := store.Key{Owner: "alice", ID: "t"}
		w.create(task, w.replicas[0].s.newGlobal()...)
		w.drain(time.Minute)
		w.stop(0, time.Minute)
		w.plan.config = func(c *Config) { c.Global = Global{} }
		w.replicas[0] = w.start()
		for version := range int64(4) {
			w.appendEvent(task, 2+version, chunk("while there is none"))
		}
		id := laneID{task, GlobalID}
		w.drain(time.Minute)
		w.equal("state", w.laneOf(id).State, store.LaneDisabled)
		w.stop(0, time.Minute)
		w.plan.config = withGlobal
		w.replicas[0] = w.start()
		w.continueTask(w.replicas[0].s, task, 6)
		w.drain(time.Minute)
		w.equal("events of the global webhook", w.sequencesAt("global.example.com"), []int64{1, 6})
		w.equal("dead letters", len(w.deadOf(id)), 4)
	})
}

// continueTask sends a message to a task of that version; the answer is an artifact.
func (w *world) continueTask(s *Service, task store.Key, version int64) {
	in, err := s.Prepare(w.t.Context(), alice, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	newHooks, err := in.Webhooks(w.t.Context(), task, version)
	if err != nil {
		w.t.Fatal(err)
	}
	e := chunk("on")
	e.Time = w.now()
	w.commit(store.Change{Key: task, Version: version, Events: []store.Event{e}, Webhooks: newHooks})
}
