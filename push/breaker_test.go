package push

import (
	"testing"
	"time"
)

func TestBreakerOpensAfterFiveAttemptsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	var b breaker
	for n := 1; n <= 5; n++ {
		want := stays
		if n == 5 {
			want = opens
		}
		if got := b.failedOnce(now, true, false); got != want {
			t.Errorf("failure %d: transition %d, want %d", n, got, want)
		}
	}
	var answered breaker
	for n := range 100 {
		if answered.failedOnce(now.Add(time.Duration(n)*2*time.Second), n%5 != 4, false) != stays {
			t.Errorf("opened by attempt %d, though every fifth was answered", n)
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
				b.succeeded(at)
			} else {
				opened = b.failedOnce(at, false, false) == opens || opened
			}
		}
		if opened != test.want {
			t.Errorf("%d of %d failed within %s: opened %t, want %t", test.failed, test.attempts, test.span, opened, test.want)
		}
	}
}

func TestBreakerTriesWithOneLaneAndLengthensItsPause(t *testing.T) {
	t.Parallel()
	started := time.Unix(1e9, 0)
	now := started
	var b breaker
	for range 5 {
		b.failedOnce(now, true, false)
	}
	tries := 0
	for ; tries < 20; tries++ {
		want := min(max(now.Sub(started)/3, 5*time.Second), 5*time.Minute)
		if got := b.openUntil.Sub(now).Round(time.Second); got != want.Round(time.Second) {
			t.Fatalf("open for %s after %s, want %s", got, now.Sub(started), want)
		}
		first, trial, ok := b.admit(now, 0)
		if ok || trial || !first.Equal(b.openUntil) {
			t.Errorf("admit() of an open one = %s, %t, %t, want to come back at %s", first, trial, ok, b.openUntil)
		}
		if second, _, ok := b.admit(now, 0.5); ok || !second.After(b.openUntil) || second.Sub(b.openUntil) > longestOpen {
			t.Errorf("admit() of the second = %s, %t, want later than %s", second, ok, b.openUntil)
		}
		now = b.openUntil
		if _, trial, ok := b.admit(now, 0); !ok || !trial {
			t.Errorf("admit() when it may be tried = %t, %t, want a trial", trial, ok)
		}
		if retry, _, ok := b.admit(now, 0); ok || !retry.After(now) {
			t.Errorf("admit() during a trial = %s, %t, want later", retry, ok)
		}
		b.failedOnce(now, true, false)
		if !b.trial {
			t.Errorf("a failure of an earlier attempt ended the trial")
		}
		if got := b.failedOnce(now, true, true); got != stays || !b.open {
			t.Errorf("a failed trial: transition %d, open %t, want it open", got, b.open)
		}
	}
	now = b.openUntil
	if open := now.Sub(started); open < 15*time.Minute || open > time.Hour {
		t.Errorf("%d tries took %s, want few within the first hour", tries, open)
	}
	b.admit(now, 0)
	if got := b.succeeded(now); got != closes || b.open || b.failures != 0 {
		t.Errorf("a trial that succeeds: transition %d, %+v, want it closed", got, b)
	}
	for range 5 {
		b.failedOnce(now, true, false)
	}
	if got := b.openUntil.Sub(now); got != 5*time.Second {
		t.Errorf("opened again for %s, want 5s", got)
	}
}

func TestBreakerDisablesAfterFiveDaysWithoutASuccess(t *testing.T) {
	t.Parallel()
	started := time.Unix(1e9, 0)
	var b breaker
	for n := 0; ; n++ {
		now := started.Add(time.Duration(n) * time.Hour)
		got := b.failedOnce(now, true, false)
		if now.Sub(started) < 5*24*time.Hour {
			if got == disables {
				t.Fatalf("disabled after %s", now.Sub(started))
			}
			continue
		}
		if got != disables || !b.disabled || b.reason == "" {
			t.Errorf("after %s: transition %d, %+v, want it disabled", now.Sub(started), got, b)
		}
		break
	}
	var rare breaker
	for n := range 40 {
		if rare.failedOnce(started.Add(time.Duration(n)*(forgetAfter+time.Hour)), true, false) == disables {
			t.Fatalf("disabled by failure %d of an endpoint that is hardly ever called", n)
		}
	}
}

// Invariant 11: breaker state survives a restart.
func TestBreakerIsRestored(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0).UTC()
	var b breaker
	for range 5 {
		b.failedOnce(now, true, false)
	}
	var again breaker
	again.restore(b.record("e", now), now.Add(time.Second))
	if !again.open || !again.openUntil.Equal(b.openUntil) || again.failures != 5 || !again.failedAt.Equal(b.failedAt) || again.backoff != 5*time.Second {
		t.Errorf("restored %+v, want %+v", again, b)
	}
	if _, trial, ok := again.admit(now.Add(5*time.Second), 0); !ok || !trial {
		t.Errorf("admit() of a restored one = %t, %t, want a trial", trial, ok)
	}
	b.succeeded(now)
	if r := b.record("e", now); r.Failures != 0 || r.Disabled {
		t.Errorf("record of one that answers = %+v, want one that is removed", r)
	}
}

func TestLimitsHalveTheConcurrencyForAWhile(t *testing.T) {
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

// An endpoint that answers 429 to one request in 200 accepts all others: it must not be left
// with a single request at once.
func TestLimitsGrowWithWhatIsTaken(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	e := &endpoint{limit: 8}
	const latency = 4 * time.Millisecond
	requests, least := 0, 8
	for end := now.Add(time.Minute); now.Before(end); now = now.Add(latency) {
		for range e.slots(now, 8) { // at once
			if requests++; requests%200 == 0 {
				e.shrink(now, 8)
			} else {
				e.grow()
			}
		}
		least = min(least, e.slots(now, 8))
	}
	if want := int(time.Minute/latency) * 4; requests < want {
		t.Errorf("the endpoint was sent %d requests in a minute, want %d: half of what it takes", requests, want)
	}
	if least > 4 {
		t.Errorf("the endpoint was sent no fewer than %d at once, want half after each 429", least)
	}
	for range 10 { // one that accepts every second request only
		now = now.Add(2 * time.Second)
		e.shrink(now, 8)
		e.grow()
	}
	if got := e.slots(now, 8); got != 1 {
		t.Errorf("slots() of one that refuses every other request = %d, want 1", got)
	}
}

func TestQueueTellsWhenTheTurnComes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	q := queue{latency: 800 * time.Millisecond}
	for n := 1; n <= 200; n++ {
		got := q.place(now, 0, 8, 0).Sub(now)
		want := min(max(time.Duration(n)*100*time.Millisecond, shortestWait), longestWait)
		if early := want - got; early < 0 || early > 0 && want <= gatherFrom || early >= gatherStep {
			t.Fatalf("place() of lane %d = %s, want %s", n, got, want)
		}
	}
	if got := q.place(now.Add(time.Minute), 4, 8, 0).Sub(now.Add(time.Minute)); got != 500*time.Millisecond {
		t.Errorf("place() behind 4 of an idle one = %s, want 500ms", got)
	}
}

func TestClockFollowsTheWallClockAhead(t *testing.T) {
	t.Parallel()
	wall := newSetClock()
	c := newClock(wall.now)
	before := c.now()
	wall.jump(time.Hour)
	if got := c.now().Sub(before); got < time.Hour || got > time.Hour+time.Minute {
		t.Errorf("the wall clock set ahead an hour moved the clock by %s", got)
	}
	if !c.jumped() || c.jumped() {
		t.Errorf("jumped() is not true once")
	}
	due := before.Add(time.Minute)
	if got := c.shifted(due, before.Add(-time.Second)).Sub(due); got < time.Hour-time.Second || got > time.Hour+time.Second {
		t.Errorf("shifted() of what was due in a minute moved it by %s, want an hour", got)
	}
	for name, got := range map[string]time.Duration{
		"what had been due":         c.shifted(before.Add(-time.Minute), before.Add(-time.Hour)).Sub(before.Add(-time.Minute)),
		"what was noted afterwards": c.shifted(c.now().Add(time.Minute), c.now()).Sub(c.now().Add(time.Minute)).Round(time.Second),
	} {
		if got != 0 {
			t.Errorf("shifted() of %s moved it by %s, want 0", name, got)
		}
	}
	ahead := c.now()
	wall.jump(-3 * time.Hour)
	if got := c.now().Sub(ahead); got < 0 || got > time.Minute {
		t.Errorf("the wall clock set back moved the clock by %s", got)
	}
	if c.jumped() {
		t.Errorf("jumped() after the wall clock was set back")
	}
}
