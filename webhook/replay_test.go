package webhook

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// deadLetterNext dead-letters the next event of a lane and disables the lane.
func (f *fixture) deadLetterNext(id, reason string) {
	f.t.Helper()
	ctx, now := f.t.Context(), store.Time(f.now())
	claimed, err := f.cfg.Store.ClaimLanes(ctx, store.LaneClaim{Worker: "x", Now: now, Until: now.Add(time.Minute), Limit: 1, Events: 1})
	if err != nil || len(claimed) != 1 {
		f.t.Fatalf("ClaimLanes = %d, %v, want one", len(claimed), err)
	}
	c := claimed[0]
	next, _ := c.Cursor.Next(&c.Events[0])
	lost, err := f.cfg.Store.AckLanes(ctx, store.LaneAck{
		Lease: store.LaneLease{Task: c.Webhook.Task, ID: id, Worker: "x", Fence: c.Fence}, At: now,
		Cursor: next, State: store.LaneDisabled, Reason: reason, DueAt: now.Add(time.Hour),
		Attempts: []store.DeliveryAttempt{{Task: c.Webhook.Task, WebhookID: id, Seq: next.Seq, Sequence: next.Sequence, Attempt: 1, At: now, Status: 410, Outcome: "gone"}},
		Dead:     []store.DeadLetter{{Task: c.Webhook.Task, WebhookID: id, Cursor: c.Cursor, Seq: next.Seq, Sequence: next.Sequence, Attempts: 1, Status: 410, Reason: reason, At: now}},
	})
	if err != nil || len(lost) > 0 {
		f.t.Fatalf("AckLanes = %v, %v", lost, err)
	}
}

func TestDeadLettersAndReplay(t *testing.T) {
	t.Parallel()
	f, ctx := newFixture(t, nil), t.Context()
	f.set(a2a.PushNotificationConfig{ID: "w", URL: hookURL})
	replay := func(from int64) (*a2a.ReplayResult, error) {
		return f.Replay(ctx, alice, a2a.ReplayParams{TaskID: "t", FromSequence: from})
	}
	if got, err := replay(0); err != nil || got.FromSequence != 0 || f.lane("w").Pending() {
		t.Errorf("Replay without dead letters = %+v, %v, want no replay", got, err)
	}
	if _, err := replay(7); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("Replay from an event that does not exist = %v, want invalid_params", err)
	}
	if got, err := replay(2); err != nil || got.FromSequence != 2 || got.ConfigID != "w" {
		t.Errorf("Replay(2) = %+v, %v", got, err)
	}
	if got, err := replay(4); err != nil || got.FromSequence != 2 {
		t.Errorf("Replay from an event after the next one = %+v, %v, want it from the next one, 2", got, err)
	}
	want := store.WebhookCursor{Seq: 2, Sequence: 1, State: a2a.StateWorking}
	if lane := f.lane("w"); lane.Cursor != want || !lane.Pending() {
		t.Errorf("lane after Replay(2) = %+v, want %+v", lane.Cursor, want)
	}
	f.deadLetterNext("w", "first")
	f.at.Add(int64(2 * time.Hour))
	f.deadLetterNext("w", "second")
	letters, err := f.DeadLetters(ctx, alice, a2a.ListDeadLettersParams{PageSize: 1})
	if err != nil || len(letters.DeadLetters) != 1 || letters.NextPageToken == "" || letters.PageSize != 1 {
		t.Fatalf("DeadLetters = %+v, %v, want the first page of two", letters, err)
	}
	d := letters.DeadLetters[0]
	if d.Sequence != 3 || d.EventID != EventID(store.Key{Owner: "alice", ID: "t"}, taskCreated, 4) || d.Reason != "second" || d.Status != 410 {
		t.Errorf("newest dead letter = %+v, want the second", d)
	}
	rest, err := f.DeadLetters(ctx, alice, a2a.ListDeadLettersParams{PageSize: 1, PageToken: letters.NextPageToken})
	if err != nil || len(rest.DeadLetters) != 1 || rest.DeadLetters[0].Sequence != 2 {
		t.Errorf("second page = %+v, %v, want the first dead letter", rest, err)
	}
	if _, err := f.DeadLetters(ctx, alice, a2a.ListDeadLettersParams{TaskID: "t", PageToken: letters.NextPageToken}); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("DeadLetters with a token of another list = %v, want invalid_params", err)
	}
	if _, err := f.DeadLetters(ctx, alice, a2a.ListDeadLettersParams{PageToken: newTokenScope("dead", store.WebhookQuery{Owner: "alice"}).token("forged")}); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("DeadLetters with a forged token = %v, want invalid_params", err)
	}
	attempts, err := f.Attempts(ctx, alice, a2a.ListAttemptsParams{TaskID: "t", ConfigID: "default"})
	if err != nil || len(attempts.Attempts) != 2 || attempts.Attempts[0].EventID != d.EventID || attempts.PageSize != 50 {
		t.Errorf("Attempts = %+v, %v, want two, newest first", attempts, err)
	}
	if got, err := f.DeadLetters(ctx, bob, a2a.ListDeadLettersParams{}); err != nil || len(got.DeadLetters) != 0 {
		t.Errorf("DeadLetters of another owner = %+v, %v, want none", got, err)
	}
	if got, err := replay(0); err != nil || got.FromSequence != 2 {
		t.Errorf("Replay = %+v, %v, want it from the first dead letter", got, err)
	}
	if lane := f.lane("w"); lane.Cursor != want || lane.State != store.LaneActive {
		t.Errorf("lane after Replay = %+v, want active at %+v", lane, want)
	}
}

func TestOwnersSeeOneOutcomeForAllUnansweredAttempts(t *testing.T) {
	t.Parallel()
	attempt := store.DeliveryAttempt{WebhookID: "w", Sequence: 2, Attempt: 3, At: taskCreated, Duration: 15 * time.Second, Address: "10.0.0.1:80", Detail: "i/o timeout"}
	want := a2a.PushAttempt{ConfigID: "w", EventID: "e", Sequence: 2, Attempt: 3, At: taskCreated, Outcome: "no-answer"}
	for _, outcome := range []string{
		safehttp.OutcomeDNS, safehttp.OutcomeConnect, safehttp.OutcomeTLS, safehttp.OutcomeTimeout, safehttp.OutcomeProtocol, safehttp.OutcomeCanceled,
	} {
		attempt.Outcome = outcome
		if got := ownerAttempt(&attempt, "e"); got != want {
			t.Errorf("ownerAttempt(%s) = %+v, want %+v", outcome, got, want)
		}
		if got := operatorAttempt(&attempt, "e"); got.Outcome != outcome || got.Millis != 15000 {
			t.Errorf("operatorAttempt(%s) = %+v, want the outcome and 15000 ms", outcome, got)
		}
	}
	attempt.Outcome, attempt.Status = outcomeUnavailable, 503
	want.Outcome, want.Status, want.Millis = "unavailable", 503, 15000
	if got := ownerAttempt(&attempt, "e"); got != want {
		t.Errorf("ownerAttempt(503) = %+v, want %+v", got, want)
	}
}
