package webhook

import (
	"testing"
	"time"
)

func TestBreakerOpensAfterFiveAttemptsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	var b breaker
	for n := 1; n <= 5; n++ {
		want := unchanged
		if n == 5 {
			want = opens
		}
		if got := b.recordFailure(now, true, false); got != want {
			t.Errorf("failure %d: transition %d, want %d", n, got, want)
		}
	}
	var answered breaker
	for n := range 100 {
		if answered.recordFailure(now.Add(time.Duration(n)*2*time.Second), n%5 != 4, false) != unchanged {
			t.Errorf("attempt %d opened the breaker, want closed: every fifth had a response", n)
		}
	}
}

func TestBreakerOpensWhenHalfOfTwentyFail(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	for _, test := range []struct {
		attempts, failed int
		span             time.Duration
		want             bool
	}{
		{20, 10, time.Second, true},
		{20, 9, time.Second, false},
		{19, 18, time.Second, false},
		{40, 20, 5 * time.Minute, false},
	} {
		var b breaker
		var opened bool
		for n := range test.attempts {
			at := now.Add(test.span * time.Duration(n) / time.Duration(test.attempts))
			if n < test.attempts-test.failed {
				b.recordSuccess(at)
			} else {
				opened = b.recordFailure(at, false, false) == opens || opened
			}
		}
		if opened != test.want {
			t.Errorf("%d of %d failed within %s: opened %t, want %t", test.failed, test.attempts, test.span, opened, test.want)
		}
	}
}

func TestBreakerAllowsOneTrialAndBacksOff(t *testing.T) {
	t.Parallel()
	started := time.Unix(1e9, 0)
	now := started
	var b breaker
	for range 5 {
		b.recordFailure(now, true, false)
	}
	tries := 0
	for ; tries < 20; tries++ {
		want := min(max(now.Sub(started)/3, 5*time.Second), 5*time.Minute)
		if got := b.openUntil.Sub(now).Round(time.Second); got != want.Round(time.Second) {
			t.Fatalf("open for %s after %s, want %s", got, now.Sub(started), want)
		}
		first, trial, ok := b.allow(now, 0)
		if ok || trial || !first.Equal(b.openUntil) {
			t.Errorf("allow() of an open breaker = %s, %t, %t, want a retry at %s", first, trial, ok, b.openUntil)
		}
		if second, _, ok := b.allow(now, 0.5); ok || !second.After(b.openUntil) || second.Sub(b.openUntil) > maxOpen {
			t.Errorf("allow() of the second lane = %s, %t, want later than %s", second, ok, b.openUntil)
		}
		now = b.openUntil
		if _, trial, ok := b.allow(now, 0); !ok || !trial {
			t.Errorf("allow() after the open period = %t, %t, want a trial", trial, ok)
		}
		if retry, _, ok := b.allow(now, 0); ok || !retry.After(now) {
			t.Errorf("allow() during a trial = %s, %t, want later", retry, ok)
		}
		b.recordFailure(now, true, false)
		if !b.trial {
			t.Errorf("the failure of an earlier attempt ended the trial")
		}
		if got := b.recordFailure(now, true, true); got != unchanged || !b.open {
			t.Errorf("failed trial: transition %d, open %t, want open", got, b.open)
		}
	}
	now = b.openUntil
	if open := now.Sub(started); open < 15*time.Minute || open > time.Hour {
		t.Errorf("%d trials took %s, want 15 minutes to an hour", tries, open)
	}
	b.allow(now, 0)
	if got := b.recordSuccess(now); got != closes || b.open || b.failures != 0 {
		t.Errorf("successful trial: transition %d, %+v, want closed", got, b)
	}
	for range 5 {
		b.recordFailure(now, true, false)
	}
	if got := b.openUntil.Sub(now); got != 5*time.Second {
		t.Errorf("reopened for %s, want 5s", got)
	}
}

func TestBreakerDisablesAfterFiveDaysWithoutASuccess(t *testing.T) {
	t.Parallel()
	started := time.Unix(1e9, 0)
	var b breaker
	for n := 0; ; n++ {
		now := started.Add(time.Duration(n) * time.Hour)
		got := b.recordFailure(now, true, false)
		if now.Sub(started) < 5*24*time.Hour {
			if got == disables {
				t.Fatalf("disabled after %s", now.Sub(started))
			}
			continue
		}
		if got != disables || !b.disabled || b.reason == "" {
			t.Errorf("after %s: transition %d, %+v, want disabled", now.Sub(started), got, b)
		}
		break
	}
	var rare breaker
	for n := range 40 {
		if rare.recordFailure(started.Add(time.Duration(n)*(forgetAfter+time.Hour)), true, false) == disables {
			t.Fatalf("failure %d disabled an endpoint that is rarely called", n)
		}
	}
}

func TestBreakerStateSurvivesRestart(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0).UTC()
	var b breaker
	for range 5 {
		b.recordFailure(now, true, false)
	}
	var restored breaker
	restored.restore(b.record("e", now), now.Add(time.Second))
	if !restored.open || !restored.openUntil.Equal(b.openUntil) || restored.failures != 5 || !restored.failedAt.Equal(b.failedAt) || restored.backoff != 5*time.Second {
		t.Errorf("restored %+v, want %+v", restored, b)
	}
	if _, trial, ok := restored.allow(now.Add(5*time.Second), 0); !ok || !trial {
		t.Errorf("allow() of a restored breaker = %t, %t, want a trial", trial, ok)
	}
	b.recordSuccess(now)
	if r := b.record("e", now); r.Failures != 0 || r.Disabled {
		t.Errorf("record of a closed breaker = %+v, want an empty one", r)
	}
}

func TestThrottlingHalvesTheConcurrencyLimit(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	e := &endpoint{limit: 8}
	steps := []struct {
		after  time.Duration
		shrink bool
		want   int
	}{
		{0, false, 8},
		{0, true, 4},
		{100 * time.Millisecond, true, 4}, // of the same burst
		{2 * time.Second, true, 2},
		{2 * time.Second, true, 1},
		{2 * time.Second, true, 1},
		{9 * time.Second, false, 1},
		{time.Second, false, 2},
		{10 * time.Second, false, 4},
		{10 * time.Second, false, 8},
		{time.Second, false, 8},
	}
	for i, step := range steps {
		now = now.Add(step.after)
		if step.shrink {
			e.shrink(now, 8)
		}
		if got := e.slots(now, 8); got != step.want {
			t.Errorf("step %d: slots() = %d, want %d", i, got, step.want)
		}
	}
}

// An endpoint that responds with 429 to one request in 200 accepts all others. Its limit must
// not stay at one request.
func TestConcurrencyLimitGrowsWithSuccesses(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	e := &endpoint{limit: 8}
	const latency = 4 * time.Millisecond
	requests, least := 0, 8
	for end := now.Add(time.Minute); now.Before(end); now = now.Add(latency) {
		for range e.slots(now, 8) { // concurrent requests
			if requests++; requests%200 == 0 {
				e.shrink(now, 8)
			} else {
				e.grow()
			}
		}
		least = min(least, e.slots(now, 8))
	}
	if want := int(time.Minute/latency) * 4; requests < want {
		t.Errorf("%d requests in a minute, want at least %d: half of the capacity", requests, want)
	}
	if least > 4 {
		t.Errorf("minimum limit = %d, want half after each 429", least)
	}
	for range 10 { // every second request is throttled
		now = now.Add(2 * time.Second)
		e.shrink(now, 8)
		e.grow()
	}
	if got := e.slots(now, 8); got != 1 {
		t.Errorf("slots() with every second request throttled = %d, want 1", got)
	}
}

func TestDeferQueueSpacesLanesByLatency(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	q := deferQueue{latency: 800 * time.Millisecond}
	for n := 1; n <= 200; n++ {
		got := q.deferUntil(now, 0, 8, 0).Sub(now)
		want := min(max(time.Duration(n)*100*time.Millisecond, minDeferral), maxDeferral)
		if early := want - got; early < 0 || early > 0 && want <= coalesceFrom || early >= coalesceStep {
			t.Fatalf("deferUntil() of lane %d = %s, want %s", n, got, want)
		}
	}
	if got := q.deferUntil(now.Add(time.Minute), 4, 8, 0).Sub(now.Add(time.Minute)); got != 500*time.Millisecond {
		t.Errorf("deferUntil() behind 4 others of an idle queue = %s, want 500ms", got)
	}
}

func TestClockFollowsTheWallClockForwardOnly(t *testing.T) {
	t.Parallel()
	wall := newSetClock()
	c := newClock(wall.now)
	before := c.now()
	wall.jump(time.Hour)
	if got := c.now().Sub(before); got < time.Hour || got > time.Hour+time.Minute {
		t.Errorf("setting the wall clock forward by 1h moved the clock by %s", got)
	}
	if !c.detectJump() || c.detectJump() {
		t.Errorf("detectJump() is not true exactly once")
	}
	due := before.Add(time.Minute)
	if got := c.adjust(due, before.Add(-time.Second)).Sub(due); got < time.Hour-time.Second || got > time.Hour+time.Second {
		t.Errorf("adjust() of a due time in a minute moved it by %s, want 1h", got)
	}
	for name, got := range map[string]time.Duration{
		"a past due time":               c.adjust(before.Add(-time.Minute), before.Add(-time.Hour)).Sub(before.Add(-time.Minute)),
		"a due time set after the jump": c.adjust(c.now().Add(time.Minute), c.now()).Sub(c.now().Add(time.Minute)).Round(time.Second),
	} {
		if got != 0 {
			t.Errorf("adjust() of %s moved it by %s, want 0", name, got)
		}
	}
	ahead := c.now()
	wall.jump(-3 * time.Hour)
	if got := c.now().Sub(ahead); got < 0 || got > time.Minute {
		t.Errorf("setting the wall clock back moved the clock by %s", got)
	}
	if c.detectJump() {
		t.Errorf("detectJump() after the wall clock was set back = true, want false")
	}
}
