package push

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// globalStory makes a task of alice's that the global webhook is told of.
func (w *world) globalStory() laneID {
	task := store.Key{Owner: "alice", ID: "t"}
	w.create(task, w.replicas[0].s.newGlobal()...)
	w.mu.Lock()
	defer w.mu.Unlock()
	id := laneID{task, GlobalID}
	w.lanes = append(w.lanes, id)
	return id
}

// sent returns the sequences that arrived at a host.
func (w *world) sent(host string) (s []int64) {
	for _, p := range w.allPosts() {
		if p.host == host && p.delivered() {
			s = append(s, p.sequence)
		}
	}
	return s
}

func withGlobal(c *Config) { c.Global = Global{URL: "https://global.example.com/"} }

func TestGlobalWebhookIsToldWhatCameBeforeAnOwnersAll(t *testing.T) {
	for name, join := range map[string]func(w *world, task store.Key){
		"by set": func(w *world, task store.Key) {
			_, err := w.replicas[0].s.Set(w.t.Context(), alice, a2a.TaskPushNotificationConfig{
				TaskID: task.ID, Config: a2a.PushNotificationConfig{ID: "own", URL: "https://own.example.com/"},
			})
			if err != nil {
				w.t.Fatal(err)
			}
			w.tell(task, 3, chunk("two"))
		},
		"by a message": func(w *world, task store.Key) {
			in, err := w.replicas[0].s.Prepare(w.t.Context(), alice, &a2a.MessageSendConfiguration{
				PushNotificationConfig: &a2a.PushNotificationConfig{ID: "own", URL: "https://own.example.com/"},
			})
			if err != nil {
				w.t.Fatal(err)
			}
			brought, err := in.Push(w.t.Context(), task, 3)
			if err != nil {
				w.t.Fatal(err)
			}
			e := chunk("two")
			e.Time = w.now()
			w.commit(store.Change{Key: task, Version: 3, Events: []store.Event{e}, Push: brought})
			in.Stored(w.t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, plan{config: withGlobal}, func(w *world) {
				w.setDown("global.example.com", true)
				id := w.globalStory()
				w.tell(id.task, 2, chunk("one"))
				time.Sleep(time.Minute)
				join(w, id.task)
				w.tell(id.task, 4, store.Event{State: a2a.StateCompleted})
				time.Sleep(time.Minute)
				w.equal("told the owner's while the global one is down", w.sent("own.example.com"), []int64{3, 4})
				w.setDown("global.example.com", false)
				w.drain(time.Hour)
				w.equal("told the global one", w.sent("global.example.com"), []int64{1, 2})
				w.equal("told the owner's", w.sent("own.example.com"), []int64{3, 4})
				lane := w.laneOf(id)
				w.equal("the global one is pending", lane.Pending(), false)
				w.equal("dead letters of the global one", len(w.deadOf(id)), 0)
			})
		})
	}
}

// What it was not told stays listed, and what comes later is not added to it.
func TestDeadLettersOfTheGlobalWebhookOutliveAnOwners(t *testing.T) {
	inBubble(t, plan{config: withGlobal}, func(w *world) {
		w.answers(func(host string, _ *post, _ int) (safehttp.Response, error) {
			if host == "global.example.com" {
				return status(410)
			}
			return status(200)
		})
		id := w.globalStory()
		w.tell(id.task, 2, chunk("one"))
		w.drain(time.Minute)
		_, err := w.replicas[0].s.Set(w.t.Context(), alice, a2a.TaskPushNotificationConfig{
			TaskID: "t", Config: a2a.PushNotificationConfig{ID: "own", URL: "https://own.example.com/"},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		w.tell(id.task, 3, chunk("two"))
		w.drain(time.Minute)
		w.equal("dead letters", len(w.deadOf(id)), 2)
		w.equal("told the owner's", w.sent("own.example.com"), []int64{3})
	})
}

// Where it went when a task began does not matter.
func TestANewGlobalURLHoldsForWhatWaits(t *testing.T) {
	const gone = "https://old.example.com:443"
	inBubble(t, plan{config: withGlobal}, func(w *world) {
		w.stop(0, time.Minute)
		task := store.Key{Owner: "alice", ID: "t"}
		w.create(task, store.NewPush{ID: GlobalID, Endpoint: gone, Data: globalData})
		time.Sleep(time.Hour)
		if err := w.store.SaveEndpoint(w.t.Context(), store.Endpoint{
			Name: gone, Failures: 99, FailedAt: w.started, Disabled: true, Reason: "scripted", UpdatedAt: store.Time(time.Now()),
		}); err != nil {
			w.t.Fatal(err)
		}
		w.replicas[0] = w.start()
		w.drain(time.Minute)
		w.equal("told the global one", w.sent("global.example.com"), []int64{1})
		w.equal("dead letters", len(w.deadOf(laneID{task, GlobalID})), 0)
		w.answers(func(string, *post, int) (safehttp.Response, error) { return failing(safehttp.OutcomeConnect) })
		w.tell(task, 2, chunk("one"))
		time.Sleep(time.Minute)
		s := w.replicas[0].s
		s.mu.Lock()
		defer s.mu.Unlock()
		if e := s.limits.endpoints[endpointName{address: "https://global.example.com:443"}]; e == nil || e.failures == 0 {
			w.t.Errorf("where it goes now = %+v, want that it has failed", e)
		}
	})
}

// A task may have started when there was no global webhook, have lost its own then, or have
// been given up by it.
func TestTheGlobalWebhookJoinsATaskThatGoesOn(t *testing.T) {
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
		started     func(with *Service) []store.NewPush
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
				var started []store.NewPush
				if c.started != nil {
					started = c.started(with)
				}
				w.create(task, started...)
				w.drain(time.Minute)
				if c.then != nil {
					c.then(w, with, without)
				}
				w.goOn(with, task, 2)
				w.goOn(with, task, 3)
				w.tell(task, 4, store.Event{State: a2a.StateCompleted})
				w.drain(time.Minute)
				w.equal("told the global one", w.sent(global), c.global)
				w.equal("told the task's own", w.sent(own), c.own)
			})
		})
	}
}

// What it cannot be told while there is none becomes dead letters; it is told again once
// there is one and the task goes on.
func TestTheGlobalWebhookComesBack(t *testing.T) {
	inBubble(t, plan{config: withGlobal}, func(w *world) {
		task := store.Key{Owner: "alice", ID: "t"}
		w.create(task, w.replicas[0].s.newGlobal()...)
		w.drain(time.Minute)
		w.stop(0, time.Minute)
		w.plan.config = func(c *Config) { c.Global = Global{} }
		w.replicas[0] = w.start()
		for version := range int64(4) {
			w.tell(task, 2+version, chunk("while there is none"))
		}
		id := laneID{task, GlobalID}
		w.drain(time.Minute)
		w.equal("state", w.laneOf(id).State, store.LaneDisabled)
		w.stop(0, time.Minute)
		w.plan.config = withGlobal
		w.replicas[0] = w.start()
		w.goOn(w.replicas[0].s, task, 6)
		w.drain(time.Minute)
		w.equal("told the global one", w.sent("global.example.com"), []int64{1, 6})
		w.equal("dead letters", len(w.deadOf(id)), 4)
	})
}

// goOn has a task of that version go on with a message, and an artifact in its answer.
func (w *world) goOn(s *Service, task store.Key, version int64) {
	in, err := s.Prepare(w.t.Context(), alice, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	brought, err := in.Push(w.t.Context(), task, version)
	if err != nil {
		w.t.Fatal(err)
	}
	e := chunk("on")
	e.Time = w.now()
	w.commit(store.Change{Key: task, Version: version, Events: []store.Event{e}, Push: brought})
}
