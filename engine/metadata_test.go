package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

func TestMetadataChangesAreMergePatches(t *testing.T) {
	t.Parallel()
	nested := func(name string, value any) map[string]any { return map[string]any{"a": map[string]any{name: value}} }
	e := start(t, engine.Config{Handler: func(_ context.Context, turn *engine.Turn) error {
		if turn.Number() == 1 {
			patch := nested("y", 2.0)
			if err := turn.SetMetadata(patch); err != nil {
				return err
			}
			patch["a"] = "changed by the handler afterwards"
			return turn.RequireInput()
		}
		return turn.SetMetadata(nested("x", nil))
	}})
	send := func(taskID string, metadata map[string]any) *store.Task {
		t.Helper()
		params := messageTo(taskID, "a")
		params.Metadata = metadata
		return sendWait(t, e, params)
	}
	first := send("", map[string]any{"a": map[string]any{"x": 1.0}, "b": 1.0, "none": nil})
	if diff := cmp.Diff(map[string]any{"a": map[string]any{"x": 1.0, "y": 2.0}, "b": 1.0}, first.Metadata); diff != "" {
		t.Errorf("after the first turn (-want +got):\n%s", diff)
	}
	second := send(first.Key.ID, map[string]any{"a": map[string]any{"z": 3.0}, "b": nil})
	if diff := cmp.Diff(map[string]any{"a": map[string]any{"y": 2.0, "z": 3.0}}, second.Metadata); diff != "" {
		t.Errorf("after the second turn (-want +got):\n%s", diff)
	}
}

func TestContextMetadataIsPatched(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: echoHandler})
	c, err := e.CreateContext(t.Context(), alice, a2a.CreateContextParams{Metadata: map[string]any{"a": map[string]any{"x": 1.0}, "b": 1.0}}, engine.SendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ patch, want map[string]any }{
		{map[string]any{}, map[string]any{"a": map[string]any{"x": 1.0}, "b": 1.0}},
		{map[string]any{"a": map[string]any{"y": 2.0}, "b": nil}, map[string]any{"a": map[string]any{"x": 1.0, "y": 2.0}}},
		{map[string]any{"a": nil}, nil},
	} {
		got, err := e.UpdateContext(t.Context(), alice, a2a.UpdateContextParams{ContextID: c.Key.ID, Metadata: &test.patch}, engine.SendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got.Metadata); diff != "" {
			t.Errorf("UpdateContext(%v) (-want +got):\n%s", test.patch, diff)
		}
	}
}

func TestTaskMetadataIsLimited(t *testing.T) {
	t.Parallel()
	half := strings.Repeat("x", 600)
	var failed error
	e := start(t, engine.Config{Limits: engine.Limits{MetadataBytes: 1000}, Handler: func(_ context.Context, turn *engine.Turn) error {
		if err := turn.SetMetadata(map[string]any{"one": half}); err != nil {
			return err
		}
		failed = turn.SetMetadata(map[string]any{"two": half})
		if err := turn.SetMetadata(map[string]any{"one": nil, "two": half}); err != nil {
			return err
		}
		return turn.RequireInput()
	}})
	task := sendWait(t, e, message("a"))
	const want = "metadata has 1219 bytes of JSON, want at most 1000"
	if failed == nil || failed.Error() != want || task.Status.State != a2a.StateInputRequired || task.Metadata["two"] != half {
		t.Errorf("SetMetadata() = %v with %s and %v, want %q and the last change", failed, task.Status.State, task.Metadata, want)
	}
	for _, params := range []a2a.MessageSendParams{message("b"), messageTo(task.Key.ID, "c")} {
		params.Metadata = map[string]any{"one": half}
		if params.Message.TaskID == "" {
			params.Metadata["two"] = half
		}
		if _, err := e.Send(t.Context(), alice, params, engine.SendOptions{}); a2a.CodeOf(err) != a2a.CodeInvalid {
			t.Errorf("Send() to %q with large metadata = %v, want invalid_params", params.Message.TaskID, err)
		}
	}
}

func TestMetadataThatContainsItselfIsRejected(t *testing.T) {
	t.Parallel()
	var got error
	e := start(t, engine.Config{Handler: func(_ context.Context, turn *engine.Turn) error {
		self := map[string]any{}
		self["self"] = self
		got = turn.SetMetadata(self)
		return nil
	}})
	sendWait(t, e, message("x"))
	wantError(t, "SetMetadata()", got, a2a.CodeInvalid, "nested deeper than 128 levels")
}

// A later attempt of a turn does not see what an interrupted attempt changed, so that it changes the same.
func TestMetadataIsTheSameInEveryAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := map[string][]map[string]any{} // by turn
		e := start(t, engine.Config{Turns: engine.Turns{RetryDelay: time.Millisecond}, Handler: func(_ context.Context, turn *engine.Turn) error {
			m := turn.Metadata()
			id := fmt.Sprint("turn ", turn.Number())
			seen[id] = append(seen[id], m)
			n, _ := m["n"].(float64)
			patch := map[string]any{"n": n + 1, "made": "here", "sent": nil}
			if err := errors.Join(turn.SetMetadata(patch), turn.Flush()); err != nil {
				return err
			}
			if turn.Attempt() < 3 {
				return engine.Retry(errors.New("again"))
			}
			return turn.RequireInput()
		}})
		params := message("a")
		params.Metadata = map[string]any{"n": 10.0, "sent": "a", "client": 1.0}
		task := sendWait(t, e, params)
		params = messageTo(task.Key.ID, "b")
		params.Metadata = map[string]any{"sent": "b", "client": 2.0}
		task = sendWait(t, e, params)
		first := map[string]any{"n": 10.0, "sent": "a", "client": 1.0}
		second := map[string]any{"n": 11.0, "sent": "b", "client": 2.0, "made": "here"}
		want := map[string][]map[string]any{"turn 1": {first, first, first}, "turn 2": {second, second, second}}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("metadata of attempts (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]any{"n": 12.0, "client": 2.0, "made": "here"}, task.Metadata); diff != "" {
			t.Errorf("metadata of the task (-want +got):\n%s", diff)
		}
	})
}
