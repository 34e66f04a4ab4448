package webhook

import (
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// injectFaults pauses, kills and restarts replicas.
func (w *world) injectFaults() {
	for _, kind := range []struct {
		times int
		do    func(i int)
	}{
		{w.plan.pauses, func(i int) { w.pause(i, 4*time.Second+w.dice.upTo(10*time.Second)) }},
		{w.plan.kills, func(i int) { w.kill(i); w.replicas[i] = w.start() }},
		{w.plan.deletes, w.remove},
		{w.plan.replays, w.replay},
		{w.plan.sets, w.set},
		{w.plan.jumps, func(i int) { w.clock.jump(time.Duration(2*i-1) * time.Hour) }},
		{w.plan.restarts, func(i int) { w.stop(i, w.dice.upTo(time.Second)); w.replicas[i] = w.start() }},
	} {
		for range kind.times {
			time.Sleep(w.dice.upTo(2 * time.Second))
			kind.do(w.dice.below(len(w.replicas)))
		}
	}
}

// remove deletes a random webhook on replica i.
func (w *world) remove(i int) {
	w.mu.Lock()
	id := w.lanes[w.dice.below(len(w.lanes))]
	w.mu.Unlock()
	if err := w.replicas[i].s.deleteWebhook(w.t.Context(), id.task, id.id); err != nil {
		w.t.Errorf("seed %d: remove(%v) = %v, want nil", w.seed, id, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, twice := w.deleted[id]; !twice {
		w.deleted[id] = time.Now()
	}
}

// replay replays a random webhook on replica i: from any event, also from a pending one, or
// from its first dead letter.
func (w *world) replay(i int) {
	w.mu.Lock()
	id := w.lanes[w.dice.below(len(w.lanes))]
	w.mu.Unlock()
	from := int64(w.dice.below(w.plan.events + 3))
	page, err := w.store.Lanes(w.t.Context(), store.LaneQuery{Owner: id.task.Owner, TaskID: id.task.ID, ID: id.id, Limit: 1})
	if err != nil || len(page.Lanes) == 0 {
		return // the task does not exist yet
	}
	got, err := w.replicas[i].s.replay(w.t.Context(), &page.Lanes[0], from)
	switch {
	case a2a.CodeOf(err) == a2a.CodeInvalid: // the event does not exist yet
	case err != nil:
		w.t.Errorf("seed %d: replay(%v, %d) = %v, want nil", w.seed, id, from, err)
	case from > 0 && (got.FromSequence < 1 || got.FromSequence > from):
		w.t.Errorf("seed %d: replay(%v, %d) starts at %d, want that or earlier", w.seed, id, from, got.FromSequence)
	}
}

// recordDeadLetters records stored dead letters.
func (w *world) recordDeadLetters(letters []store.DeadLetter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range letters {
		id := laneID{d.Task, d.WebhookID}
		w.deadLetters[id] = append(w.deadLetters[id], d)
	}
}

// set saves a random webhook again on replica i. It may fail.
func (w *world) set(i int) {
	w.mu.Lock()
	id := w.lanes[w.dice.below(len(w.lanes))]
	w.mu.Unlock()
	page, err := w.store.Lanes(w.t.Context(), store.LaneQuery{Owner: id.task.Owner, TaskID: id.task.ID, ID: id.id, Limit: 1})
	if err != nil || len(page.Lanes) == 0 {
		return // the task does not exist yet
	}
	s := w.replicas[i].s
	set, err := s.seal.decode(&page.Lanes[0].Webhook)
	if err != nil {
		w.t.Fatal(err)
	}
	_, _ = s.Set(w.t.Context(), a2a.Principal{ID: id.task.Owner}, a2a.TaskPushNotificationConfig{
		TaskID: id.task.ID, Config: a2a.PushNotificationConfig{ID: id.id, URL: set.URL, Token: "new"},
	})
}
