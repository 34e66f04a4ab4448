//go:build faults

package faults_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/faults/check"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/webhook"
)

// prove compares the deliveries with the stored data: each event of a webhook was delivered or is
// a dead letter, and nothing else was delivered.
func (r *receiver) prove(report *check.Report) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	found := make(map[laneName]bool)
	for _, l := range report.Lanes {
		name := laneName{l.Webhook.Task.ID, l.Webhook.ID}
		found[name] = true
		h := r.hooks[name.hook]
		switch {
		case h == nil:
			r.failf("there is a webhook %s", name.hook)
		case !h.deleted.IsZero():
			r.failf("webhook %s was deleted and still exists", name.hook)
		case l.Pending():
			r.failf("webhook %s of task %s has something to send: %+v", name.hook, name.task, l.Lane)
		default:
			if err := r.proveLane(h, &l, report.Logs[name.task]); err != nil {
				r.failf("webhook %s of task %s: %v", name.hook, name.task, err)
			}
		}
	}
	for name, l := range r.lanes {
		if h := r.hooks[name.hook]; !found[name] && h != nil && h.deleted.IsZero() {
			r.failf("webhook %s of task %s received %d events and does not exist", name.hook, name.task, len(l.seen))
		}
	}
}

func (r *receiver) proveLane(h *hook, l *check.Lane, log []store.Event) error {
	name := laneName{l.Webhook.Task.ID, h.id}
	seen := r.lanes[name]
	if seen == nil {
		seen = &deliveries{}
	}
	var errs []error
	var at store.WebhookCursor
	begin := h.begin
	events := 0
	for i := range log {
		e := &log[i]
		if h.after != "" && e.Received != nil && e.Received.ID == h.after {
			begin = at.Sequence
		}
		next, delivers := at.Next(e)
		at = next
		if begin < 0 && h.after == "" && seen.seen[next.Sequence] {
			begin = next.Sequence - 1 // the webhook was registered at this event
		}
		if !delivers || begin < 0 || next.Sequence <= begin {
			continue
		}
		events++
		_, dead := l.Dead[next.Sequence]
		if !seen.seen[next.Sequence] && !dead {
			errs = append(errs, fmt.Errorf("event %d was not delivered, and is no dead letter", next.Sequence))
			continue
		}
		if received := r.events[eventName{name.task, next.Sequence}]; received != nil {
			errs = append(errs, sameEvent(received, l.Webhook.Task, log[0].Time, e))
		}
	}
	extra := 0
	for sequence := range seen.seen {
		if sequence <= begin || sequence > at.Sequence {
			extra++
		}
	}
	if extra > 0 {
		errs = append(errs, fmt.Errorf("%d delivered events are not in the log, of %d", extra, events))
	}
	return errors.Join(errs...)
}

// sameEvent compares a delivered event with the log.
func sameEvent(received *deliveredEvent, task store.Key, created time.Time, e *store.Event) error {
	env := &received.envelope
	kind, final := "status-update", e.State.Terminal()
	if e.Artifact != nil {
		kind, final = "artifact-update", false
	}
	at, err := time.Parse(time.RFC3339Nano, env.Timestamp)
	if want := webhook.EventID(task, created, e.Seq); received.id != want || env.Kind != kind || env.Final != final || err != nil || !at.Equal(e.Time) ||
		kind == "status-update" && (env.Status == nil || env.Status.State != e.State) {
		return fmt.Errorf("event %d of the log, %s %s at %s, was delivered as %s, want id %s", e.Seq, kind, e.State, e.Time, received.body, want)
	}
	return nil
}

// latencies returns the sorted times from an event to its delivery.
func (r *receiver) latencies(hooks map[string]bool) (all []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, l := range r.lanes {
		if !hooks[name.hook] {
			continue
		}
		for i, at := range l.at {
			happened, err := time.Parse(time.RFC3339Nano, r.events[eventName{name.task, l.low + int64(i)}].envelope.Timestamp)
			if err == nil {
				all = append(all, at.Sub(happened))
			}
		}
	}
	slices.Sort(all)
	return all
}

// part returns the quantile p of sorted values.
func part(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}
