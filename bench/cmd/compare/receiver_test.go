package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func deliverAll(t *testing.T, r *receiver, sequence int, signed, final bool) {
	t.Helper()
	body := fmt.Sprintf(`{"event_id":"e","sequence":%d,"timestamp":"2026-05-18T08:00:00.123000+00:00","task_id":"t","final":%t}`, sequence, final)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if signed {
		req.Header.Set("Webhook-Signature", "v1,x")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

func TestReceiverCountsEventsInOrder(t *testing.T) {
	t.Parallel()
	r, err := newReceiver(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.close() }()
	r.times(true)
	deliverAll(t, r, 1, true, false)
	deliverAll(t, r, 1, true, false) // a duplicate
	deliverAll(t, r, 2, true, false)
	if events, wrong := r.events.Load(), r.wrong.Load(); events != 2 || wrong != 0 {
		t.Errorf("after 1, 1, 2: %d events, %d wrong, want 2 and 0", events, wrong)
	}
	if took := r.times(false); took.P50 <= 0 {
		t.Errorf("times() = %+v, want how long ago the event's time is", took)
	}
	if err := r.await(t.Context(), []string{"t"}, time.Millisecond); err == nil {
		t.Error("await() = nil before the last event")
	}
	deliverAll(t, r, 4, true, false) // event 3 is missing
	deliverAll(t, r, 5, false, true)
	if events, wrong := r.events.Load(), r.wrong.Load(); events != 4 || wrong != 2 {
		t.Errorf("after a gap and one without a signature: %d events, %d wrong, want 4 and 2", events, wrong)
	}
	if err := r.await(t.Context(), []string{"t"}, time.Minute); err != nil {
		t.Errorf("await() = %v after the last event", err)
	}
}

func TestReceiverHoldsRequests(t *testing.T) {
	t.Parallel()
	r, err := newReceiver(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.close() }()
	release := r.hold()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		deliverAll(t, r, 1, true, true)
	}()
	if err := r.await(t.Context(), []string{"t"}, 20*time.Millisecond); err == nil {
		t.Error("an event was taken while requests are held")
	}
	release()
	if err := r.await(t.Context(), []string{"t"}, time.Minute); err != nil {
		t.Errorf("await() = %v after the release", err)
	}
	<-answered
}

func TestHookGoals(t *testing.T) {
	t.Parallel()
	sample := func(rate float64, p99, took time.Duration, peak int64) []hookSample {
		s := hookSample{PerSecond: rate, Elapsed: took, Peak: peak}
		s.Latency.P99 = p99
		return []hookSample{s}
	}
	o := outcome{Hooks: []hookRow{
		{Load: hookBare, Samples: sample(1000, 0, 0, 0)},
		{Load: hookAlone, Storage: "memory", Samples: sample(1000, 0, 0, 0)},
	}}
	tests := []struct {
		load hookLoad
		got  []hookSample
		want string
	}{
		{hookBacklog, sample(500, 0, 0, 0), ">= 50% of bare: met"},
		{hookLive, sample(499, 0, 0, 0), ">= 50% of bare: NOT MET"},
		{hookPaced, sample(1, 24*time.Millisecond, 0, 0), "p99 < 25ms: met"},
		{hookPaced, sample(1, 25*time.Millisecond, 0, 0), "p99 < 25ms: NOT MET"},
		{hookDead, sample(800, 0, 0, 0), ">= 80% of alone, is 80%: met"},
		{hookDead, sample(799, 0, 0, 0), ">= 80% of alone, is 80%: NOT MET"},
		{hookOutage, sample(1, 0, 15*time.Second, 0), "drained <= 15s after its return, is 15s: met"},
		{hookOutage, sample(1, 0, 16*time.Second, 0), "drained <= 15s after its return, is 16s: NOT MET"},
		{hookMemory, sample(1, 0, 0, 512<<20), "peak <= 512 MB, is 512 MB, now 0 MB: met"},
		{hookMemory, sample(1, 0, 0, 513<<20), "peak <= 512 MB, is 513 MB, now 0 MB: NOT MET"},
	}
	for _, tc := range tests {
		r := hookRow{Load: tc.load, Storage: "memory", Samples: tc.got}
		if got := o.hookGoal(r); got != tc.want {
			t.Errorf("hookGoal(%s) = %q, want %q", tc.load, got, tc.want)
		}
	}
}

// The agents and the receiver are real. With memory and SQLite this takes seconds.
func TestWebhooksAreMeasured(t *testing.T) {
	var progress strings.Builder
	o, err := parse([]string{"-short", "-scenarios", "webhooks-backlog,webhooks-live,webhooks-dead,webhooks-memory", "-servers", "holdfast-memory,holdfast-sqlite"}, &progress)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{options: o, dir: t.TempDir(), progress: &progress, programs: map[program]string{}}
	out, err := b.all(context.WithoutCancel(t.Context()))
	if err == nil {
		err = out.verdict(o)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	var text strings.Builder
	if err := out.write(&text, o); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"bare client", "backlog  ", "live  ", "live, with dead endpoints", "pending events"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("table lacks %q:\n%s", want, text.String())
		}
	}
	for _, r := range out.Hooks {
		if len(r.Samples) != 1 || hookMedian(r, hookRate) <= 0 {
			t.Errorf("%s %s = %+v, want a sample with events", r.Load, r.Storage, r)
		}
	}
}
