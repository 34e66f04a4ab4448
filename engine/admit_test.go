package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
)

// textsOf returns the texts of messages.
func textsOf(messages []a2a.Message) (all []string) {
	for _, m := range messages {
		all = append(all, m.Text())
	}
	return all
}

func TestAdmitPausesTasksThatTheNextMessageResumes(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		turns := make(chan string, 9)
		admit := func(_ context.Context, p engine.AdmitParams) (a engine.Admission, err error) {
			if !strings.Contains(p.Message.Text(), "proof") {
				a = engine.Admission{Pause: a2a.StateTrustVerificationRequired, Explanation: []a2a.Part{a2a.TextPart{Text: "prove it"}}}
			}
			return a, nil
		}
		e := start(t, engine.Config{Store: s, Turns: engine.Turns{Admit: admit}, Handler: func(_ context.Context, turn *engine.Turn) error {
			turns <- fmt.Sprint(turn.Number(), turn.Attempt(), textsOf(turn.Messages()), textsOf(turn.TaskHistory()))
			return turn.RequireInput(a2a.TextPart{Text: "more?"})
		}})
		task := sendWait(t, e, message("first"))
		if task.Status.State != a2a.StateTrustVerificationRequired || task.Status.Message.Text() != "prove it" || task.Queue.Phase != store.PhaseIdle {
			t.Fatalf("Send() = %+v %+v, want trust-verification-required and idle", task.Status, task.Queue)
		}
		if m := task.Status.Message; m.TaskID != task.Key.ID || m.ContextID != task.ContextID || m.Role != a2a.RoleAgent || m.ID == "" {
			t.Errorf("the explanation is %+v, want the agent's message of the task", m)
		}
		if again := sendWait(t, e, messageTo(task.Key.ID, "second")); again.Status.State != a2a.StateTrustVerificationRequired {
			t.Fatalf("a message without proof left the task %s", again.Status.State)
		}
		resumed := sendWait(t, e, messageTo(task.Key.ID, "third, with proof"))
		if resumed.Status.State != a2a.StateInputRequired {
			t.Errorf("a message with proof left the task %s, want input-required", resumed.Status.State)
		}
		if got, want := <-turns, "1 1 [first second third, with proof] [prove it prove it]"; got != want {
			t.Errorf("the turn has number, attempt, messages and history %s, want %s", got, want)
		}
		if again := sendWait(t, e, messageTo(task.Key.ID, "fourth")); again.Status.State != a2a.StateTrustVerificationRequired {
			t.Errorf("a follow-up without proof left the task %s", again.Status.State)
		}
		sendWait(t, e, messageTo(task.Key.ID, "proof again"))
		if got, want := <-turns, "2 1 [fourth proof again] [first prove it second prove it third, with proof more? prove it]"; got != want {
			t.Errorf("the turn has number, attempt, messages and history %s, want %s", got, want)
		}
		if task, err := e.Cancel(t.Context(), alice, sendWait(t, e, message("paused")).Key.ID, engine.SendOptions{}); err != nil || task.Status.State != a2a.StateCanceled {
			t.Errorf("Cancel() of a paused task = %+v, %v", task, err)
		}
	})
}

func TestAdmitCannotPauseATaskThatRuns(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	e := start(t, engine.Config{Handler: func(context.Context, *engine.Turn) error { <-release; return nil }, Turns: engine.Turns{
		Admit: func(_ context.Context, p engine.AdmitParams) (a engine.Admission, err error) {
			if p.Message.Text() == "terminal" {
				a.Pause = a2a.StateCompleted
			} else if p.Task != nil {
				a.Pause = a2a.StateAuthRequired
			}
			return a, nil
		},
	}})
	task := send(t, e, message("runs"))
	_, err := e.Send(t.Context(), alice, messageTo(task.Key.ID, "needs proof"), engine.SendOptions{})
	if a2a.CodeOf(err) != a2a.CodeUnsupported || !strings.Contains(err.Error(), "auth-required") {
		t.Errorf("Send() = %v, want unsupported, because the task runs", err)
	}
	close(release)
	if got := waitFinal(t, e, task.Key.ID); len(got.History) != 1 {
		t.Errorf("the task has the messages %q, want the first one only", textsOf(got.Unread(0)))
	}
	if _, err := e.Send(t.Context(), alice, message("terminal"), engine.SendOptions{}); a2a.CodeOf(err) != a2a.CodeInternal {
		t.Errorf("Send() with an invalid Admission = %v, want an internal error", err)
	}
}

// Records of an admission are part of the commit. A conflict admits the message again.
func TestAdmitChangesRecordsWithTheMessage(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		balance := store.RecordKey{Owner: alice.ID, Namespace: "test", Key: "balance"}
		audit := store.RecordKey{Owner: store.System, Namespace: "test", Key: "audit"}
		version := func(k store.RecordKey) int64 {
			r, err := s.Record(t.Context(), k)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Error(err)
			}
			return r.Version
		}
		var calls atomic.Int64
		e := start(t, engine.Config{Store: s, Handler: func(_ context.Context, turn *engine.Turn) error { return turn.RequireInput() }, Turns: engine.Turns{
			Admit: func(ctx context.Context, p engine.AdmitParams) (a engine.Admission, err error) {
				if p.Message.TaskID == "" || p.Message.ContextID == "" {
					t.Errorf("Admit() gets the message %+v, want it with ids", p.Message)
				}
				a.Records = []store.RecordChange{
					{Namespace: "test", Key: "balance", Version: version(balance), Value: []byte(p.Message.Text())},
					{Namespace: "test", Key: "audit", Version: version(audit), Value: []byte(p.Message.Text()), System: true},
				}
				if calls.Add(1)%2 == 1 { // another process changes the record in between
					return a, s.SaveRecords(ctx, alice.ID, a.Records[0])
				}
				return a, nil
			},
		}})
		first := message("first")
		task := sendWait(t, e, first)
		sendWait(t, e, messageTo(task.Key.ID, "second"))
		if version(balance) != 4 || version(audit) != 2 || calls.Load() != 4 {
			t.Errorf("the records have the versions %d and %d after %d calls, want 4, 2, 4", version(balance), version(audit), calls.Load())
		}
		if again := sendWait(t, e, first); again.Key != task.Key || calls.Load() != 4 {
			t.Errorf("a repeated message = task %s after %d calls of Admit, want task %s and no further call", again.Key.ID, calls.Load(), task.Key.ID)
		}
	})
}

func TestTheSenderIsStoredWithTheMessage(t *testing.T) {
	t.Parallel()
	first := a2a.Principal{ID: "alice", Roles: []string{"analyst"}, Scopes: []a2a.Scope{}, Level: a2a.TrustAnalyst, Credential: "c1", Expires: time.UnixMilli(1_900_000_000_000).UTC()}
	second := a2a.Principal{ID: "alice", Actor: "operator"}
	onStores(t, func(t *testing.T, s store.Store) {
		seen := make(chan a2a.Principal, 9)
		started := make(chan struct{})
		handler := func(ctx context.Context, turn *engine.Turn) error {
			seen <- turn.Principal()
			if turn.Number() == 2 {
				close(started)
				if _, err := turn.Receive(ctx); err != nil {
					return err
				}
				seen <- turn.Principal()
				return nil
			}
			return turn.RequireInput()
		}
		e := start(t, engine.Config{Store: s, Handler: handler})
		sendAs := func(p a2a.Principal, params a2a.MessageSendParams, wait bool) *store.Task {
			ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
			defer cancel()
			sent, err := e.Send(ctx, p, params, engine.SendOptions{Wait: wait})
			if err != nil {
				t.Fatal(err)
			}
			return sent.Task
		}
		task := sendAs(first, message("1"), true)
		sendAs(second, messageTo(task.Key.ID, "2"), false)
		<-started
		sendAs(alice, messageTo(task.Key.ID, "3"), true)
		for _, want := range []a2a.Principal{first, second, alice} {
			if diff := cmp.Diff(want, <-seen); diff != "" {
				t.Errorf("Principal() (-want +got):\n%s", diff)
			}
		}
		events, err := s.Events(t.Context(), task.Key, 0, 99)
		if err != nil {
			t.Fatal(err)
		}
		var senders []*a2a.Principal
		for _, event := range events {
			if event.Received != nil {
				senders = append(senders, event.Sender)
			}
		}
		if diff := cmp.Diff([]*a2a.Principal{&first, &second, nil}, senders); diff != "" {
			t.Errorf("stored senders (-want +got):\n%s", diff)
		}
	})
}

// A later attempt in another process sees the same principal.
func TestTheSenderSurvivesTheProcess(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	analyst := a2a.Principal{ID: "alice", Level: a2a.TrustAnalyst}
	running := make(chan struct{})
	first := start(t, engine.Config{Store: s, Handler: func(ctx context.Context, _ *engine.Turn) error {
		close(running)
		<-ctx.Done()
		return ctx.Err()
	}})
	sent, err := first.Send(t.Context(), analyst, message("a"), engine.SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	<-running
	at, cancel := context.WithCancel(t.Context())
	cancel() // the handler does not end by itself
	if err := first.Stop(at); err != nil {
		t.Fatal(err)
	}
	seen := make(chan a2a.Principal, 1)
	second := start(t, engine.Config{Store: s, Handler: func(_ context.Context, turn *engine.Turn) error { seen <- turn.Principal(); return nil }})
	waitFinal(t, second, sent.Task.Key.ID)
	if diff := cmp.Diff(analyst, <-seen); diff != "" {
		t.Errorf("Principal() (-want +got):\n%s", diff)
	}
}
