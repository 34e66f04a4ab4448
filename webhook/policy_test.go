package webhook

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

func TestClassifyStatus(t *testing.T) {
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
			wants[status] = want{verdictDelivered, "delivered", false}
		case status >= 300 && status < 500:
			wants[status] = want{verdictReject, "rejected", false}
		case status >= 500 && status < 600:
			wants[status] = want{verdictRetry, "unavailable", false}
		default:
			wants[status] = want{verdictRetry, "protocol", false}
		}
	}
	for _, status := range []int{408, 425} {
		wants[status] = want{verdictRetry, "unavailable", false}
	}
	for _, status := range []int{429, 502, 504} {
		wants[status] = want{verdictRetry, "unavailable", true}
	}
	wants[410] = want{verdictGone, "gone", false}
	for status, w := range wants {
		r := classify(safehttp.Response{Status: status}, nil, false)
		if got := (want{r.verdict, r.outcome, r.throttle}); got != w {
			t.Errorf("classify(%d) = %+v, want %+v", status, got, w)
		}
		if r.unanswered != (w.outcome == "protocol") {
			t.Errorf("classify(%d).unanswered = %t", status, r.unanswered)
		}
	}
}

func TestClassifyErrors(t *testing.T) {
	t.Parallel()
	address := netip.MustParseAddrPort("203.0.113.7:443")
	for _, test := range []struct {
		outcome    string
		aborted    bool
		want       verdict
		unanswered bool
	}{
		{safehttp.OutcomeConnect, false, verdictRetry, true},
		{safehttp.OutcomeConnect, true, verdictRetry, true},
		{safehttp.OutcomeDNS, false, verdictRetry, true},
		{safehttp.OutcomeTLS, false, verdictRetry, true},
		{safehttp.OutcomeTimeout, false, verdictRetry, true},
		{safehttp.OutcomeProtocol, false, verdictRetry, true},
		{safehttp.OutcomeCanceled, false, verdictRetry, true},
		{safehttp.OutcomeCanceled, true, verdictAborted, false},
		{safehttp.OutcomeRefused, false, verdictRefused, false},
		{safehttp.OutcomeRefused, true, verdictRefused, false},
	} {
		r := classify(safehttp.Response{}, &safehttp.Error{Outcome: test.outcome, Address: address, Err: errors.New("detail")}, test.aborted)
		if r.verdict != test.want || r.unanswered != test.unanswered || r.outcome != test.outcome || r.address != address.String() {
			t.Errorf("classify(%s, aborted: %t) = %+v, want verdict %d", test.outcome, test.aborted, r, test.want)
		}
		if test.want == verdictRetry && r.reason != reasonNoAnswer {
			t.Errorf("classify(%s).reason = %q, want %q", test.outcome, r.reason, reasonNoAnswer)
		}
	}
	refusal := &safehttp.Refusal{Rule: "address", Text: "leads to an address that is not public", Detail: "10.0.0.1"}
	r := classify(safehttp.Response{}, &safehttp.Error{Outcome: safehttp.OutcomeRefused, Err: refusal}, false)
	if r.reason != refusal.Text || r.detail != refusal.Detail {
		t.Errorf("classify(refusal) = %+v, want its text and detail", r)
	}
}

func TestRetryAfterIsHonouredUpToAnHour(t *testing.T) {
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
		r := classify(safehttp.Response{Status: 503, RetryAfter: test.asked}, nil, false)
		due, parked := new(lane).scheduleRetry(r, []time.Duration{time.Second}, now, 0.5)
		if got := due.Sub(now); got != test.want || parked {
			t.Errorf("Retry-After %s: due in %s, parked %t, want %s", test.asked, got, parked, test.want)
		}
	}
}

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
			now = now.Add(time.Duration(r.IntN(2000)) * time.Millisecond) // duration of the attempt
			due, parked := l.scheduleRetry(result{}, defaultSchedule, now, chance)
			if parked {
				break
			}
			pauses = append(pauses, due.Sub(now))
			now = due
		}
		if len(pauses) != len(defaultSchedule) || l.Attempt != 20 {
			t.Fatalf("seed %d: parked after %d attempts, %d pauses, want 20, %d", seed, l.Attempt, len(pauses), len(defaultSchedule))
		}
		for i, p := range pauses {
			if low, high := defaultSchedule[i]*4/5-time.Millisecond, defaultSchedule[i]*6/5; p < low || p > high {
				t.Errorf("seed %d: pause %d is %s, want %s to %s", seed, i, p, low, high)
			}
		}
		if total := now.Sub(started); total < 58*time.Hour {
			t.Errorf("seed %d: parked after %s, want at least 58h", seed, total)
		}
	}
	total := time.Duration(0)
	for _, p := range defaultSchedule {
		total += p
	}
	if !slices.IsSorted(defaultSchedule) || total < 72*time.Hour {
		t.Errorf("schedule = %v, %s in total, want it ascending and at least 72h", defaultSchedule, total)
	}
	if got := fmt.Sprint(defaultSchedule[:4]); got != "[500ms 1s 2s 5s]" {
		t.Errorf("schedule starts with %s", got)
	}
}

func TestEarlyAttemptsDoNotExhaustTheSchedule(t *testing.T) {
	t.Parallel()
	l, now := new(lane), time.Unix(1e9, 0)
	for n := range 1000 {
		due, parked := l.scheduleRetry(result{}, defaultSchedule, now, 0.5)
		if parked {
			t.Fatalf("parked after %d attempts within %s", n+1, now.Sub(l.FailedAt))
		}
		if wait := due.Sub(now); wait > 2*time.Minute {
			t.Fatalf("attempt %d, %s after the first: next in %s, want at most 2m", n, now.Sub(l.FailedAt), wait)
		}
		now = now.Add(100 * time.Millisecond) // woken
	}
}

func TestScheduleRestartsWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	l := &lane{ClaimedLane: store.ClaimedLane{Lane: store.Lane{Attempt: 3, FailedAt: time.Unix(2e9, 0)}}}
	now := time.Unix(1e9, 0)
	if due, parked := l.scheduleRetry(result{}, defaultSchedule, now, 0.5); parked || due.Sub(now) != defaultSchedule[0] || !l.FailedAt.Equal(now) {
		t.Errorf("scheduleRetry() = %s, %t, FailedAt %s, want the schedule to restart", due.Sub(now), parked, l.FailedAt)
	}
}

func TestErrorDetailIsTruncated(t *testing.T) {
	t.Parallel()
	long := &safehttp.Error{Outcome: safehttp.OutcomeTLS, Err: errors.New(strings.Repeat("ä", maxDetailBytes))}
	got := classify(safehttp.Response{}, long, false).detail
	if !strings.HasPrefix(got, "tls: ää") || len(got) > maxDetailBytes || !utf8.ValidString(got) {
		t.Errorf("detail of a long error = %q, want a valid prefix", got)
	}
}
