package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

func deleteTask(t *testing.T, e *engine.Engine, id string, force bool) error {
	t.Helper()
	return e.DeleteTask(t.Context(), alice, a2a.DeleteTaskParams{ID: id, Force: force})
}

func TestDeleteTaskRemovesTask(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Handler: commandHandler, Store: s})
		first, second := sendWait(t, e, messageIn("mine", "x")), sendWait(t, e, messageIn("mine", "y"))
		id := first.Key.ID
		wantError(t, "DeleteTask() by another", e.DeleteTask(t.Context(), a2a.Principal{ID: "bob"}, a2a.DeleteTaskParams{ID: id}), a2a.CodeTaskNotFound)
		wantError(t, "DeleteTask()", deleteTask(t, e, id, false), "")
		_, err := e.Task(t.Context(), alice, id, nil)
		wantError(t, "Task()", err, a2a.CodeTaskNotFound)
		_, err = e.Send(t.Context(), alice, messageTo(id, "x"), engine.SendOptions{})
		wantError(t, "Send(to task)", err, a2a.CodeTaskNotFound)
		for _, err := range e.Follow(t.Context(), alice, id, nil) {
			wantError(t, "Follow()", err, a2a.CodeTaskNotFound)
		}
		wantError(t, "DeleteTask() again", deleteTask(t, e, id, true), a2a.CodeTaskNotFound)
		c, err := e.Context(t.Context(), alice, "mine", nil)
		if err != nil || c.TaskCount != 1 || len(c.TaskIDs) != 1 || c.TaskIDs[0] != second.Key.ID {
			t.Errorf("Context() = %d tasks %v, %v, want the other task", c.TaskCount, c.TaskIDs, err)
		}
	})
}

func TestDeleteTaskRejectsUnfinishedTask(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		running := make(chan struct{})
		e := start(t, engine.Config{Store: s, Handler: func(ctx context.Context, _ *engine.Turn) error {
			close(running)
			<-ctx.Done()
			return context.Cause(ctx)
		}})
		sent, err := e.Send(t.Context(), alice, message("x"), engine.SendOptions{})
		wantError(t, "Send()", err, "")
		<-running
		id := sent.Task.Key.ID
		for _, force := range []bool{false, true} {
			err := deleteTask(t, e, id, force)
			wantError(t, "DeleteTask()", err, a2a.CodeConflict)
			if err == nil || !strings.Contains(err.Error(), "is working; only a finished task can be deleted") {
				t.Errorf("DeleteTask() of a running task = %v, want an error that names its state", err)
			}
		}
		if _, err := e.Cancel(t.Context(), alice, id, engine.SendOptions{}); err != nil {
			t.Fatalf("Cancel() = %v", err)
		}
		wantError(t, "DeleteTask()", deleteTask(t, e, id, false), "")
		_, err = e.Task(t.Context(), alice, id, nil)
		wantError(t, "Task()", err, a2a.CodeTaskNotFound)
	})
}

// A reader in the middle of a deleted log gets task_not_found.
func TestReadersOfDeletedTaskEnd(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Handler: commandHandler, Store: s})
		k := store.Key{Owner: alice.ID, ID: "long"}
		m := message("x").Message
		c := store.Change{
			Key: k, Create: &store.Create{ContextID: "c"}, Queue: &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1},
			Events: []store.Event{{Time: store.Time(time.Now()), State: a2a.StateSubmitted, Received: &m}},
		}
		changes := []store.Change{c}
		for n := range 600 { // more rows than one read returns
			changes = append(changes, store.Change{
				Key: k, Version: int64(n + 1), Events: []store.Event{{Time: store.Time(time.Now()), State: a2a.StateWorking}},
			})
		}
		changes[600].Events[0].State = a2a.StateCompleted
		results, err := s.Commit(t.Context(), changes...)
		if err != nil {
			t.Fatalf("Commit() = %v", err)
		}
		for _, r := range results {
			if r.Err != nil {
				t.Fatalf("Commit() = %v", r.Err)
			}
		}
		var last error
		n := 0
		for _, err := range e.Follow(t.Context(), alice, k.ID, new(int64)) {
			if last = err; n == 0 {
				wantError(t, "DeleteTask()", deleteTask(t, e, k.ID, false), "")
			}
			n++
		}
		wantError(t, "Follow() of a task deleted during the stream", last, a2a.CodeTaskNotFound)
		if n >= 600 {
			t.Errorf("Follow() yielded %d updates of a deleted task, want an early end", n)
		}
	})
}

func TestDeleteTaskDropsUndeliveredEventsOnlyByForce(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Handler: commandHandler, Store: s})
		id := sendWait(t, e, message("x")).Key.ID
		_, err := s.SaveWebhook(t.Context(), store.Webhook{
			Task: store.Key{Owner: alice.ID, ID: id}, ID: "p", Endpoint: "https://hooks.example:443", Data: []byte("{}"), CreatedAt: store.Time(time.Now()),
		}, store.WebhookCursor{}, store.Time(time.Now()))
		wantError(t, "SaveWebhook()", err, "")
		wantError(t, "DeleteTask()", deleteTask(t, e, id, false), a2a.CodeConflict)
		if _, err := e.Task(t.Context(), alice, id, nil); err != nil {
			t.Errorf("Task() after a rejected deletion = %v", err)
		}
		wantError(t, "DeleteTask() by force", deleteTask(t, e, id, true), "")
		b, err := s.WebhookBacklog(t.Context())
		if err != nil || b != (store.WebhookBacklog{}) {
			t.Errorf("WebhookBacklog() = %+v, %v, want none", b, err)
		}
	})
}
