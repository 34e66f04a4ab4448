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
			Name: gone, Failures: 99, FailedAt: w.begun, Disabled: true, Reason: "scripted", UpdatedAt: store.Time(time.Now()),
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
		if e := s.limits.endpoints["https://global.example.com:443"]; e == nil || e.failures == 0 {
			w.t.Errorf("where it goes now = %+v, want that it has failed", e)
		}
	})
}
