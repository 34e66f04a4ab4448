package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// answerStore calls f when a message that answers in place of a task is about to be committed. If
// f returns an error, the commit is done and its response is lost.
type answerStore struct {
	store.Store
	f func(c store.Change) error
}

func (s *answerStore) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	for _, c := range changes {
		if n := len(c.Events); n == 0 || c.Events[n-1].Answer() == nil {
			continue
		}
		f := s.f
		s.f = func(store.Change) error { return nil }
		if err := f(c); err != nil {
			_, _ = s.Store.Commit(ctx, changes...)
			return nil, err
		}
	}
	return s.Store.Commit(ctx, changes...)
}

func sayTurn(_ context.Context, t *engine.Turn) error {
	return t.Say(a2a.TextPart{Text: fmt.Sprint("turn ", t.Number())})
}

// A message of the client that is committed before the answer belongs to the task, so that the
// answer must belong to it too.
func TestMessageBeforeTheAnswerKeepsTheTask(t *testing.T) {
	t.Parallel()
	s := &answerStore{Store: inmem.New()}
	s.f = func(c store.Change) error { // as another process would
		received := store.Event{Time: time.Now(), State: a2a.StateWorking, Received: &a2a.Message{ID: "late", Role: a2a.RoleUser, TaskID: c.Key.ID, Parts: []a2a.Part{a2a.TextPart{Text: "late"}}}}
		results, err := s.Store.Commit(t.Context(), store.Change{Key: c.Key, Version: 2, Events: []store.Event{received}})
		if err != nil || results[0].Err != nil {
			t.Errorf("Commit() = %v, %v", results, err)
		}
		return nil
	}
	e := start(t, engine.Config{Store: s, Handler: sayTurn})
	task := sendWait(t, e, message("a"))
	if task.Answer() != nil || len(task.History) != 4 {
		t.Errorf("task = %+v, want it to be completed by a message of the second turn", task)
	}
	for _, entry := range task.History {
		if !entry.Received && entry.Message.TaskID != task.Key.ID {
			t.Errorf("message %q names task %q, want %s", entry.Message.Text(), entry.Message.TaskID, task.Key.ID)
		}
	}
}

// If the response to the commit of an answer is lost, the answer is committed once.
func TestAnswerIsCommittedOnceIfTheResponseIsLost(t *testing.T) {
	t.Parallel()
	s := &answerStore{Store: inmem.New(), f: func(store.Change) error { return a2a.Wrap(a2a.CodeUnavailable, errors.New("lost"), "lost") }}
	e := start(t, engine.Config{Store: s, Handler: sayTurn})
	task := sendWait(t, e, message("a"))
	if answer := task.Answer(); answer == nil || answer.Text() != "turn 1" || task.Seq != 3 {
		t.Errorf("task = %+v, want one answer", task)
	}
	got, seq := e.Answer(t.Context(), alice, task.Key.ID)
	if got == nil || got.ID != task.Answer().ID || seq != 3 {
		t.Errorf("Answer() = %+v at %d, want the answer", got, seq)
	}
}

func TestAnswerWaitsUntilTheContextIsDone(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	e := start(t, engine.Config{Handler: func(ctx context.Context, _ *engine.Turn) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	}})
	task := send(t, e, message("a"))
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if answer, _ := e.Answer(ctx, alice, task.Key.ID); answer != nil || ctx.Err() == nil {
		t.Errorf("Answer() = %+v before the context was done (%v), want none after it", answer, ctx.Err())
	}
	if answer, _ := e.Answer(t.Context(), alice, "none"); answer != nil {
		t.Errorf("Answer() of no task = %+v", answer)
	}
}
