package push

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// Invariant 12: the table.
func TestPolicyOfAnswers(t *testing.T) {
	t.Parallel()
	type want struct {
		verdict  verdict
		outcome  string
		throttle bool
	}
	wants := make(map[int]want)
	for status := range 700 {
		switch {
		case status >= 200 && status < 300:
			wants[status] = want{deliver, "delivered", false}
		case status >= 300 && status < 500:
			wants[status] = want{reject, "rejected", false}
		case status >= 500 && status < 600:
			wants[status] = want{retry, "unavailable", false}
		default:
			wants[status] = want{retry, "protocol", false}
		}
	}
	for _, status := range []int{408, 425} {
		wants[status] = want{retry, "unavailable", false}
	}
	for _, status := range []int{429, 502, 504} {
		wants[status] = want{retry, "unavailable", true}
	}
	wants[410] = want{gone, "gone", false}
	for status, w := range wants {
		r := judge(safehttp.Response{Status: status}, nil, false)
		if got := (want{r.verdict, r.outcome, r.throttle}); got != w {
			t.Errorf("judge(%d) = %+v, want %+v", status, got, w)
		}
		if r.silent != (w.outcome == "protocol") {
			t.Errorf("judge(%d).silent = %t", status, r.silent)
		}
	}
}

func TestPolicyOfErrors(t *testing.T) {
	t.Parallel()
	address := netip.MustParseAddrPort("203.0.113.7:443")
	for _, test := range []struct {
		outcome string
		given   bool
		want    verdict
		silent  bool
	}{
		{safehttp.OutcomeConnect, false, retry, true},
		{safehttp.OutcomeConnect, true, retry, true},
		{safehttp.OutcomeDNS, false, retry, true},
		{safehttp.OutcomeTLS, false, retry, true},
		{safehttp.OutcomeTimeout, false, retry, true},
		{safehttp.OutcomeProtocol, false, retry, true},
		{safehttp.OutcomeCanceled, false, retry, true},
		{safehttp.OutcomeCanceled, true, abort, false},
		{safehttp.OutcomeRefused, false, refuse, false},
		{safehttp.OutcomeRefused, true, refuse, false},
	} {
		r := judge(safehttp.Response{}, &safehttp.Error{Outcome: test.outcome, Address: address, Err: errors.New("detail")}, test.given)
		if r.verdict != test.want || r.silent != test.silent || r.outcome != test.outcome || r.address != address.String() {
			t.Errorf("judge(%s, given up: %t) = %+v, want verdict %d", test.outcome, test.given, r, test.want)
		}
		if test.want == retry && r.reason != noAnswer {
			t.Errorf("judge(%s) tells the owner %q, want %q", test.outcome, r.reason, noAnswer)
		}
	}
	refusal := &safehttp.Refusal{Rule: "address", Text: "leads to an address that is not public", Detail: "10.0.0.1"}
	r := judge(safehttp.Response{}, &safehttp.Error{Outcome: safehttp.OutcomeRefused, Err: refusal}, false)
	if r.reason != refusal.Text || r.detail != refusal.Detail {
		t.Errorf("judge(refusal) = %+v, want its text and detail", r)
	}
}

func TestPolicyHonoursRetryAfterUpToAnHour(t *testing.T) {
	t.Parallel()
	now := store.Time(time.Now())
	for _, test := range []struct{ asked, want time.Duration }{
		{0, time.Second},
		{500 * time.Millisecond, time.Second},
		{time.Minute, time.Minute},
		{time.Hour, time.Hour},
		{48 * time.Hour, time.Hour},
		{-time.Minute, time.Second},
	} {
		r := judge(safehttp.Response{Status: 503, RetryAfter: test.asked}, nil, false)
		due, parked := new(lane).failed(r, []time.Duration{time.Second}, now, 0.5)
		if got := due.Sub(now); got != test.want || parked {
			t.Errorf("after Retry-After %s due in %s, parked %t, want %s", test.asked, got, parked, test.want)
		}
	}
}

// Invariant 12: the schedule.
func TestScheduleTriesTwentyTimesOverThreeDays(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		l, now := new(lane), time.Unix(1e9, 0)
		started := now
		var pauses []time.Duration
		for {
			chance := r.Float64()
			switch seed {
			case 0:
				chance = 0
			case 1:
				chance = 0.999999
			}
			now = now.Add(time.Duration(r.IntN(2000)) * time.Millisecond) // the attempt
			due, parked := l.failed(result{}, schedule, now, chance)
			if parked {
				break
			}
			pauses = append(pauses, due.Sub(now))
			now = due
		}
		if len(pauses) != len(schedule) || l.Attempt != 20 {
			t.Fatalf("seed %d: parked after %d attempts, %d pauses, want 20, %d", seed, l.Attempt, len(pauses), len(schedule))
		}
		for i, p := range pauses {
			if low, high := schedule[i]*4/5-time.Millisecond, schedule[i]*6/5; p < low || p > high {
				t.Errorf("seed %d: pause %d is %s, want %s to %s", seed, i, p, low, high)
			}
		}
		if total := now.Sub(started); total < 58*time.Hour {
			t.Errorf("seed %d: gave up after %s", seed, total)
		}
	}
	total := time.Duration(0)
	for _, p := range schedule {
		total += p
	}
	if !slices.IsSorted(schedule) || total < 72*time.Hour {
		t.Errorf("schedule = %v, %s in all, want it ascending and at least 72h", schedule, total)
	}
	if got := fmt.Sprint(schedule[:4]); got != "[500ms 1s 2s 5s]" {
		t.Errorf("schedule begins with %s", got)
	}
}

func TestScheduleIsNotUsedUpByAttemptsBeforeTheirTime(t *testing.T) {
	t.Parallel()
	l, now := new(lane), time.Unix(1e9, 0)
	for n := range 1000 {
		due, parked := l.failed(result{}, schedule, now, 0.5)
		if parked {
			t.Fatalf("parked after %d attempts within %s", n+1, now.Sub(l.FailedAt))
		}
		if wait := due.Sub(now); wait > 2*time.Minute {
			t.Fatalf("attempt %d, %s after the first: next in %s, want what the time since then asks for", n, now.Sub(l.FailedAt), wait)
		}
		now = now.Add(100 * time.Millisecond) // woken
	}
}

func TestScheduleTakesAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	l := &lane{ClaimedLane: store.ClaimedLane{Lane: store.Lane{Attempt: 3, FailedAt: time.Unix(2e9, 0)}}}
	now := time.Unix(1e9, 0)
	if due, parked := l.failed(result{}, schedule, now, 0.5); parked || due.Sub(now) != schedule[0] || !l.FailedAt.Equal(now) {
		t.Errorf("failed() = %s, %t, FailedAt %s, want a new beginning", due.Sub(now), parked, l.FailedAt)
	}
}

func TestPolicyKeepsLittleOfAnError(t *testing.T) {
	t.Parallel()
	long := &safehttp.Error{Outcome: safehttp.OutcomeTLS, Err: errors.New(strings.Repeat("ä", longestDetail))}
	got := judge(safehttp.Response{}, long, false).detail
	if !strings.HasPrefix(got, "tls: ää") || len(got) > longestDetail || !utf8.ValidString(got) {
		t.Errorf("detail of a long error = %q, want its beginning", got)
	}
}
