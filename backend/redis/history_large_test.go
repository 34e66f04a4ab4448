//go:build services

package redis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/history"
)

// Lua's own format of numbers has 14 digits.
func TestLargeNumbers(t *testing.T) {
	t.Parallel()
	srv, clock := startServer(t), newTestClock()
	h := open(t, Config{URL: srv.url(), Now: clock.now}).history
	const first = 1<<52 - 1
	year := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	message := func(seq int64) history.Message {
		return history.Message{Seq: seq, Role: "user", Run: "r", CreatedAt: clock.now(), Body: []byte(`"a"`)}
	}
	s := history.Session{Key: testKey, CreatedAt: clock.now(), UpdatedAt: clock.now(), ExpiresAt: year}
	for _, seq := range []int64{1<<52 + 1, 1 << 53, 1 << 62} {
		if err := h.Restore(bg, s, []history.Message{message(seq)}); a2a.CodeOf(err) != a2a.CodeInvalid {
			t.Errorf("Restore() of sequence %d = %v, want invalid_params", seq, err)
		}
	}
	late := s
	late.ExpiresAt = year.AddDate(1, 0, 0)
	if err := h.Restore(bg, late, []history.Message{message(1)}); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("Restore() with expiry in the year 10000 = %v, want invalid_params", err)
	}
	must(t, h.Restore(bg, s, []history.Message{message(first), message(first + 1)}))
	if got, err := h.Session(bg, testKey); err != nil || !got.ExpiresAt.Equal(year) || got.Newest != first+1 {
		t.Fatalf("Session() = %+v, %v, want expiry at %v", got, err, year)
	}
	for i := range int64(3) {
		r, err := h.Append(bg, testKey, history.AppendParams{Messages: text("b"), Run: "r", IdempotencyKey: fmt.Sprint(i)})
		if err != nil || r.First != first+2+i || r.Last != r.First {
			t.Fatalf("Append() = %+v, %v, want sequence %d", r, err, first+2+i)
		}
	}
	if removed, err := h.Rewind(bg, testKey, first+1); err != nil || removed != 3 {
		t.Fatalf("Rewind() = %d, %v, want 3", removed, err)
	}
	fork := testKey
	fork.Session = "fork"
	if n, err := h.Fork(bg, history.ForkParams{From: testKey, To: fork}); err != nil || n != 2 {
		t.Fatalf("Fork() = %d, %v, want 2", n, err)
	}
	if r, err := h.Append(bg, fork, history.AppendParams{Messages: text("c")}); err != nil || r.First != first+2 && r.First != first+5 {
		t.Errorf("Append() to the fork = %+v, %v", r, err)
	}
	messages, err := h.Messages(bg, testKey, 0, 0)
	if err != nil || len(messages) != 2 || messages[1].Seq != first+1 {
		t.Errorf("Messages() = %v, %v, want 2", messages, err)
	}
}

// A damaged session is listed, so that it can be cleared, and the other ones remain readable.
func TestDamagedSession(t *testing.T) {
	t.Parallel()
	srv, clock := startServer(t), newTestClock()
	h := open(t, Config{URL: srv.url(), Now: clock.now}).history
	for _, name := range []string{"damaged", "other"} {
		k := testKey
		k.Session = name
		_, err := h.Append(bg, k, history.AppendParams{Messages: text("a")})
		must(t, err)
		clock.advance(time.Second)
	}
	damaged := testKey
	damaged.Session = "damaged"
	must(t, srv.client(t).HSet(bg, h.sessionKeys(damaged)[0], "totals", "1 1 1 1 1e+14 0 0 0").Err())
	clock.advance(time.Hour)
	if got := list(t, h, 1); !slices.Equal(got, []string{"other", "damaged"}) {
		t.Errorf("Sessions() = %v, want both", got)
	}
	if _, err := h.Session(bg, damaged); a2a.CodeOf(err) != a2a.CodeInternal {
		t.Errorf("Session() of the damaged one = %v, want an error", err)
	}
	must(t, h.Clear(bg, damaged))
	if got := list(t, h, 1); !slices.Equal(got, []string{"other"}) {
		t.Errorf("Sessions() = %v, want the other one only", got)
	}
}

// Batches are limited by their bytes, so that sessions with large messages do not exceed the timeout.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	h := open(t, Config{URL: srv.url()}).history
	const count = 100
	body := fmt.Appendf(nil, `"%s"`, strings.Repeat("x", 1<<20-2))
	for range count {
		_, err := h.Append(bg, testKey, history.AppendParams{Messages: []history.Message{{Role: "user", Body: body}}, Run: "r"})
		must(t, err)
	}
	if messages, err := h.Messages(bg, testKey, 0, 0); err != nil || len(messages) != count || messages[count-1].Seq != count {
		t.Errorf("Messages() = %d messages, %v, want %d", len(messages), err, count)
	}
	// A batch of 16 messages, then 21 of 4, then none.
	if got := srv.client(t).Info(bg, "commandstats").Val(); !strings.Contains(got, "cmdstat_xrange:calls=23,") {
		t.Errorf("statistics are %s, want 23 calls of xrange", got)
	}
	if messages, err := h.Messages(bg, testKey, 30, 50); err != nil || len(messages) != 30 || messages[0].Seq != 51 {
		t.Errorf("Messages() with an offset = %d messages, %v, want 30", len(messages), err)
	}
	if page, err := h.Page(bg, testKey, history.Tail(history.MaxPage)); err != nil || len(page.Messages) != 8 || !page.More || page.Messages[7].Seq != count {
		t.Errorf("Page() = %d messages, more %t, %v, want 8 and more", len(page.Messages), page.More, err)
	}
	// One batch of 16 messages.
	if got := srv.client(t).Info(bg, "commandstats").Val(); !strings.Contains(got, "cmdstat_xrevrange:calls=1,") {
		t.Errorf("statistics are %s, want 1 call of xrevrange", got)
	}
	if page, err := h.Search(bg, history.SearchQuery{Owner: testKey.Owner, Agent: testKey.Agent, Session: testKey.Session, Text: "absent"}); err != nil || len(page.Hits) != 0 || page.Next != nil {
		t.Errorf("Search() = %d hits, %v, want none", len(page.Hits), err)
	}
	fork := testKey
	fork.Session = "fork"
	if n, err := h.Fork(bg, history.ForkParams{From: testKey, To: fork}); err != nil || n != count {
		t.Errorf("Fork() = %d, %v, want %d", n, err, count)
	}
	if got, err := h.Prune(bg, testKey, history.Policy{MaxMessages: 10}); err != nil || got.Messages != count-10 || got.Bytes != (count-10)<<20 {
		t.Errorf("Prune() = %+v, %v, want %d messages", got, err, count-10)
	}
	if n, err := h.ClearRun(bg, fork, "r", 0); err != nil || n != count {
		t.Errorf("ClearRun() = %d, %v, want %d", n, err, count)
	}
	must(t, h.Clear(bg, testKey))
}
