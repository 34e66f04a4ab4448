package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

func ptr[V any](v V) *V { return &v }

// messageIn returns a message that starts a task in a context.
func messageIn(contextID, s string) a2a.MessageSendParams {
	p := message(s)
	p.Message.ContextID = contextID
	return p
}

// commandHandler ends its turn as the message says: "ask" waits for the client, "run" runs
// until it is canceled, anything else completes.
func commandHandler(ctx context.Context, turn *engine.Turn) error {
	switch turn.Messages()[0].Text() {
	case "ask":
		return turn.RequireInput(a2a.TextPart{Text: "what?"})
	case "run":
		<-ctx.Done()
		return ctx.Err()
	}
	return turn.Reply(a2a.TextPart{Text: "done"})
}

func newContext(t *testing.T, e *engine.Engine, params a2a.CreateContextParams) store.Context {
	t.Helper()
	c, err := e.CreateContext(t.Context(), alice, params, engine.SendOptions{})
	if err != nil {
		t.Fatalf("CreateContext(%+v) = %v", params, err)
	}
	return c
}

func setStatus(ctx context.Context, e *engine.Engine, id string, status a2a.ContextStatus, force bool) error {
	_, err := e.UpdateContext(ctx, alice, a2a.UpdateContextParams{ContextID: id, Status: &status, Force: force}, engine.SendOptions{})
	return err
}

func wantStatus(t *testing.T, e *engine.Engine, id string, want a2a.ContextStatus) {
	t.Helper()
	c, err := e.Context(t.Context(), alice, id, ptr(0))
	if err != nil || c.Status != want {
		t.Errorf("Context(%s) = %s, %v; want %s", id, c.Status, err, want)
	}
}

// wantError checks the code of an error, or that there is none, and that its text contains the
// given texts.
func wantError(t *testing.T, what string, err error, code a2a.Code, holds ...string) {
	t.Helper()
	if code == "" {
		if err != nil {
			t.Errorf("%s = %v, want no error", what, err)
		}
		return
	}
	if err == nil || a2a.CodeOf(err) != code {
		t.Errorf("%s = %v, want code %s", what, err, code)
		return
	}
	for _, text := range holds {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s = %q, want it to contain %q", what, err, text)
		}
	}
}

const notCancelable = a2a.CodeContextNotCancelable

// Each operation is tried in each context status. The context has a finished task.
func TestContextStatusAllowsOperations(t *testing.T) {
	t.Parallel()
	statuses := []a2a.ContextStatus{a2a.ContextActive, a2a.ContextPaused, a2a.ContextCompleted, a2a.ContextArchived}
	type fixture struct {
		e    *engine.Engine
		id   string
		task string
	}
	update := func(change func(*a2a.UpdateContextParams)) func(*testing.T, fixture) error {
		return func(t *testing.T, s fixture) error {
			params := a2a.UpdateContextParams{ContextID: s.id}
			change(&params)
			_, err := s.e.UpdateContext(t.Context(), alice, params, engine.SendOptions{})
			return err
		}
	}
	status := func(to a2a.ContextStatus) func(*testing.T, fixture) error {
		return update(func(p *a2a.UpdateContextParams) { p.Status = &to })
	}
	const none a2a.Code = ""
	for name, op := range map[string]struct {
		do   func(*testing.T, fixture) error
		want [4]a2a.Code // by status
	}{
		"new task": {func(t *testing.T, s fixture) error {
			_, err := s.e.Send(t.Context(), alice, messageIn(s.id, "x"), engine.SendOptions{})
			return err
		}, [4]a2a.Code{none, notCancelable, notCancelable, notCancelable}},
		"message to a finished task": {func(t *testing.T, s fixture) error {
			_, err := s.e.Send(t.Context(), alice, messageTo(s.task, "x"), engine.SendOptions{})
			return err
		}, [4]a2a.Code{a2a.CodeUnsupported, a2a.CodeUnsupported, a2a.CodeUnsupported, a2a.CodeUnsupported}},
		"cancel of a finished task": {func(t *testing.T, s fixture) error {
			_, err := s.e.Cancel(t.Context(), alice, s.task, engine.SendOptions{})
			return err
		}, [4]a2a.Code{a2a.CodeTaskNotCancelable, a2a.CodeTaskNotCancelable, a2a.CodeTaskNotCancelable, a2a.CodeTaskNotCancelable}},
		"name": {update(func(p *a2a.UpdateContextParams) { p.Name = ptr("n") }), [4]a2a.Code{none, none, none, notCancelable}},
		"name and unchanged status": {func(t *testing.T, s fixture) error {
			c, _ := s.e.Context(t.Context(), alice, s.id, ptr(0))
			return update(func(p *a2a.UpdateContextParams) { p.Name, p.Status = ptr("n"), &c.Status })(t, s)
		}, [4]a2a.Code{none, none, none, notCancelable}},
		"to active":    {status(a2a.ContextActive), [4]a2a.Code{none, none, notCancelable, notCancelable}},
		"to paused":    {status(a2a.ContextPaused), [4]a2a.Code{none, none, notCancelable, notCancelable}},
		"to completed": {status(a2a.ContextCompleted), [4]a2a.Code{none, none, none, notCancelable}},
		"to archived":  {status(a2a.ContextArchived), [4]a2a.Code{none, none, none, none}},
		"to active by force": {update(func(p *a2a.UpdateContextParams) {
			p.Status, p.Force = ptr(a2a.ContextActive), true
		}), [4]a2a.Code{none, none, notCancelable, notCancelable}},
		"to unknown status": {status("gone"), [4]a2a.Code{a2a.CodeInvalid, a2a.CodeInvalid, a2a.CodeInvalid, notCancelable}},
		"feedback": {func(t *testing.T, s fixture) error {
			_, err := s.e.AddFeedback(t.Context(), alice, a2a.TaskFeedbackParams{TaskID: s.task, Feedback: "good"}, engine.SendOptions{})
			return err
		}, [4]a2a.Code{none, none, none, none}},
		"clear": {func(t *testing.T, s fixture) error {
			_, err := s.e.ClearContext(t.Context(), alice, a2a.ClearContextParams{ContextID: s.id}, engine.SendOptions{})
			return err
		}, [4]a2a.Code{none, none, none, notCancelable}},
		"clear by force": {func(t *testing.T, s fixture) error {
			_, err := s.e.ClearContext(t.Context(), alice, a2a.ClearContextParams{ContextID: s.id, Metadata: map[string]any{"force": true}}, engine.SendOptions{})
			return err
		}, [4]a2a.Code{none, none, none, none}},
		"read": {func(t *testing.T, s fixture) error {
			_, err := s.e.Context(t.Context(), alice, s.id, nil)
			return err
		}, [4]a2a.Code{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t, engine.Config{Handler: commandHandler})
			for i, from := range statuses {
				task := sendWait(t, e, message("x"))
				if err := setStatus(t.Context(), e, task.ContextID, from, false); err != nil {
					t.Fatalf("move to %s = %v", from, err)
				}
				err := op.do(t, fixture{e, task.ContextID, task.Key.ID})
				holds := []string{task.ContextID, string(from)}
				if op.want[i] != notCancelable {
					holds = nil
				}
				wantError(t, fmt.Sprintf("%s when %s", name, from), err, op.want[i], holds...)
			}
		})
	}
}

// Unfinished tasks prevent completing, archiving and clearing, except with force.
func TestUnfinishedTasksKeepContextOpen(t *testing.T) {
	t.Parallel()
	type ops map[string]func(ctx context.Context, e *engine.Engine, id string, force bool) error
	all := ops{
		"complete": func(ctx context.Context, e *engine.Engine, id string, force bool) error {
			return setStatus(ctx, e, id, a2a.ContextCompleted, force)
		},
		"archive": func(ctx context.Context, e *engine.Engine, id string, force bool) error {
			return setStatus(ctx, e, id, a2a.ContextArchived, force)
		},
		"clear": func(ctx context.Context, e *engine.Engine, id string, force bool) error {
			_, err := e.ClearContext(ctx, alice, a2a.ClearContextParams{ContextID: id, Force: force}, engine.SendOptions{})
			return err
		},
	}
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Handler: commandHandler, Store: s, Turns: engine.Turns{Concurrency: 2}})
		for name, op := range all {
			for _, kind := range []string{"ask", "run"} {
				task := send(t, e, message(kind))
				if kind == "ask" {
					waitFinal(t, e, task.Key.ID)
				}
				more := send(t, e, messageIn(task.ContextID, kind))
				if kind == "ask" {
					waitFinal(t, e, more.Key.ID)
				}
				if name != "clear" || kind != "ask" {
					err := op(t.Context(), e, task.ContextID, false)
					wantError(t, name+" with tasks that "+kind, err, notCancelable, task.ContextID, "2 unfinished tasks")
					var coded *a2a.Error
					if errors.As(err, &coded) {
						got := slices.Sorted(slices.Values(coded.Data["tasks"].([]string)))
						want := slices.Sorted(slices.Values([]string{task.Key.ID, more.Key.ID}))
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("%s names other tasks (-want +got):\n%s", name, diff)
						}
					}
					wantStatus(t, e, task.ContextID, a2a.ContextActive)
				}
				wantError(t, "force "+name+" with tasks that "+kind, op(t.Context(), e, task.ContextID, true), "")
				if name == "clear" {
					_, err := e.Context(t.Context(), alice, task.ContextID, nil)
					wantError(t, "Context after clear", err, a2a.CodeContextNotFound)
					continue
				}
				for _, id := range []string{task.Key.ID, more.Key.ID} {
					wantState(t, waitFinal(t, e, id), a2a.StateCanceled)
				}
			}
		}
	})
}

func TestTasksOfPausedContextContinue(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: commandHandler})
	task := sendWait(t, e, message("ask"))
	wantError(t, "pause", setStatus(t.Context(), e, task.ContextID, a2a.ContextPaused, false), "")
	wantState(t, sendWait(t, e, messageTo(task.Key.ID, "continue")), a2a.StateCompleted)
	_, err := e.Send(t.Context(), alice, messageIn(task.ContextID, "x"), engine.SendOptions{})
	wantError(t, "Send(new task)", err, notCancelable, "is paused and accepts no new tasks", "active")
	wantError(t, "resume", setStatus(t.Context(), e, task.ContextID, a2a.ContextActive, false), "")
	wantState(t, sendWait(t, e, messageIn(task.ContextID, "x")), a2a.StateCompleted)
}

// A rejected update cancels no task, whatever the reason.
func TestRejectedForcedUpdateCancelsNothing(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: commandHandler})
	task := sendWait(t, e, message("ask"))
	for _, params := range []a2a.UpdateContextParams{
		{ParentID: ptr("nobody")},
		{ParentID: &task.ContextID},
		{ReferenceIDs: ptr([]string{"nobody"})},
		{Name: ptr("\x00")},
	} {
		params.ContextID, params.Status, params.Force = task.ContextID, ptr(a2a.ContextArchived), true
		if _, err := e.UpdateContext(t.Context(), alice, params, engine.SendOptions{}); err == nil {
			t.Errorf("UpdateContext(%+v) = nil, want an error", params)
		}
		wantStatus(t, e, task.ContextID, a2a.ContextActive)
	}
	got, err := e.Task(t.Context(), alice, task.Key.ID, nil)
	if err != nil || got.Status.State != a2a.StateInputRequired {
		t.Errorf("task is %v, %v; want input-required", got.Status.State, err)
	}
}

func TestInvalidContextFieldsAreNamed(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: commandHandler, Limits: engine.Limits{MetadataBytes: 100, References: 2}})
	for _, id := range []string{"a", "b", "c"} {
		newContext(t, e, a2a.CreateContextParams{ContextID: id})
	}
	if _, err := e.CreateContext(t.Context(), a2a.Principal{ID: "bob"}, a2a.CreateContextParams{ContextID: "bobs"}, engine.SendOptions{}); err != nil {
		t.Fatal(err)
	}
	var tags []string
	for i := range 65 {
		tags = append(tags, fmt.Sprint("t", i))
	}
	big := map[string]any{"k": strings.Repeat("x", 100)}
	for name, c := range map[string]struct {
		change a2a.UpdateContextParams
		code   a2a.Code
		field  string
	}{
		"name too long":        {a2a.UpdateContextParams{Name: ptr(strings.Repeat("n", 257))}, a2a.CodeInvalid, "name"},
		"name of two lines":    {a2a.UpdateContextParams{Name: ptr("a\nb")}, a2a.CodeInvalid, "name"},
		"name not UTF-8":       {a2a.UpdateContextParams{Name: ptr("\xff")}, a2a.CodeInvalid, "name"},
		"description too long": {a2a.UpdateContextParams{Description: ptr(strings.Repeat("n", 4097))}, a2a.CodeInvalid, "description"},
		"description with NUL": {a2a.UpdateContextParams{Description: ptr("\x00")}, a2a.CodeInvalid, "description"},
		"role too long":        {a2a.UpdateContextParams{Role: ptr(strings.Repeat("n", 65))}, a2a.CodeInvalid, "role"},
		"too many tags":        {a2a.UpdateContextParams{Tags: &tags}, a2a.CodeInvalid, "tags"},
		"empty tag":            {a2a.UpdateContextParams{Tags: ptr([]string{"a", ""})}, a2a.CodeInvalid, "tags[1]"},
		"tag with space":       {a2a.UpdateContextParams{Tags: ptr([]string{" a"})}, a2a.CodeInvalid, "tags[0]"},
		"tag too long":         {a2a.UpdateContextParams{Tags: ptr([]string{strings.Repeat("t", 129)})}, a2a.CodeInvalid, "tags[0]"},
		"tag not printable":    {a2a.UpdateContextParams{Tags: ptr([]string{"a\tb"})}, a2a.CodeInvalid, "tags[0]"},
		"metadata too big":     {a2a.UpdateContextParams{Metadata: &big}, a2a.CodeInvalid, "metadata"},
		"extensions too big":   {a2a.UpdateContextParams{Extensions: &big}, a2a.CodeInvalid, "extensions"},
		"metadata not JSON":    {a2a.UpdateContextParams{Metadata: &map[string]any{"k": make(chan int)}}, a2a.CodeInvalid, "metadata"},
		"unknown parent":       {a2a.UpdateContextParams{ParentID: ptr("x")}, a2a.CodeContextNotFound, "parentContextId"},
		"parent of another":    {a2a.UpdateContextParams{ParentID: ptr("bobs")}, a2a.CodeContextNotFound, "parentContextId"},
		"parent malformed":     {a2a.UpdateContextParams{ParentID: ptr("a\nb")}, a2a.CodeContextNotFound, "parentContextId"},
		"parent itself":        {a2a.UpdateContextParams{ParentID: ptr("a")}, a2a.CodeInvalid, "parentContextId"},
		"too many references":  {a2a.UpdateContextParams{ReferenceIDs: ptr([]string{"b", "c", "d"})}, a2a.CodeInvalid, "referenceContextIds"},
		"reference twice":      {a2a.UpdateContextParams{ReferenceIDs: ptr([]string{"b", "b"})}, a2a.CodeInvalid, "referenceContextIds[1]"},
		"reference to itself":  {a2a.UpdateContextParams{ReferenceIDs: ptr([]string{"a"})}, a2a.CodeInvalid, "referenceContextIds[0]"},
		"unknown reference":    {a2a.UpdateContextParams{ReferenceIDs: ptr([]string{"b", "x"})}, a2a.CodeContextNotFound, "referenceContextIds[1]"},
		"reference to another": {a2a.UpdateContextParams{ReferenceIDs: ptr([]string{"bobs"})}, a2a.CodeContextNotFound, "referenceContextIds[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, _ := e.Context(t.Context(), alice, "a", nil)
			c.change.ContextID = "a"
			_, err := e.UpdateContext(t.Context(), alice, c.change, engine.SendOptions{})
			wantError(t, "UpdateContext()", err, c.code, c.field)
			var coded *a2a.Error
			if errors.As(err, &coded) && coded.Data["field"] != c.field {
				t.Errorf("UpdateContext() names the field %v, want %s", coded.Data["field"], c.field)
			}
			if after, _ := e.Context(t.Context(), alice, "a", nil); after.Version != before.Version {
				t.Errorf("a rejected change changed the version from %d to %d", before.Version, after.Version)
			}
		})
	}
}

func TestParentCyclesAndDepthAreRejected(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Handler: commandHandler, Store: s})
		top := newContext(t, e, a2a.CreateContextParams{})
		last := top
		for range store.MaxContextDepth {
			last = newContext(t, e, a2a.CreateContextParams{ParentID: last.Key.ID})
		}
		_, err := e.CreateContext(t.Context(), alice, a2a.CreateContextParams{ParentID: last.Key.ID}, engine.SendOptions{})
		wantError(t, "a context too deep", err, a2a.CodeInvalid, "parentContextId", "64")
		_, err = e.UpdateContext(t.Context(), alice, a2a.UpdateContextParams{ContextID: top.Key.ID, ParentID: &last.Key.ID}, engine.SendOptions{})
		wantError(t, "a cycle", err, a2a.CodeInvalid, "parentContextId", "ancestor")
	})
}

func TestUpdateContextReplacesAndClearsFields(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Handler: commandHandler, Store: s})
		parent := newContext(t, e, a2a.CreateContextParams{})
		c := newContext(t, e, a2a.CreateContextParams{
			Name: "n", Description: "two\nlines", Role: "analyst", Tags: []string{"b", "a", "b"}, Status: a2a.ContextPaused,
			Metadata: map[string]any{"k": "v"}, ParentID: parent.Key.ID, ReferenceIDs: []string{parent.Key.ID}, Extensions: map[string]any{"x": "y"},
		})
		if diff := cmp.Diff([]string{"a", "b"}, c.Tags); diff != "" {
			t.Errorf("tags (-want +got):\n%s", diff)
		}
		got, err := e.UpdateContext(t.Context(), alice, a2a.UpdateContextParams{ContextID: c.Key.ID, Name: ptr("m")}, engine.SendOptions{})
		want := c
		want.Name, want.Version, want.UpdatedAt = "m", 2, got.UpdatedAt
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("UpdateContext(name) = %v (-want +got):\n%s", err, diff)
		}
		got, err = e.UpdateContext(t.Context(), alice, a2a.UpdateContextParams{
			ContextID: c.Key.ID, Name: ptr(""), Description: ptr(""), Role: ptr(""), Tags: &[]string{}, Metadata: &map[string]any{"k": nil},
			ParentID: ptr(""), ReferenceIDs: &[]string{}, Extensions: &map[string]any{},
		}, engine.SendOptions{})
		if err != nil || got.Name+got.Description+got.ParentID != "" || got.Role != store.DefaultContextRole || got.Status != a2a.ContextPaused ||
			len(got.Tags)+len(got.Metadata)+len(got.ReferenceIDs)+len(got.Extensions) != 0 {
			t.Errorf("UpdateContext(all empty) = %+v, %v; want all fields empty", got, err)
		}
	})
}

func TestCreateContextTwice(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Handler: commandHandler, Store: s})
		key := engine.SendOptions{IdempotencyKey: "k", RequestHash: [32]byte{1}}
		first, err := e.CreateContext(t.Context(), alice, a2a.CreateContextParams{Name: "a"}, key)
		wantError(t, "CreateContext()", err, "")
		_, err = e.UpdateContext(t.Context(), alice, a2a.UpdateContextParams{ContextID: first.Key.ID, Name: ptr("b")}, engine.SendOptions{})
		wantError(t, "UpdateContext()", err, "")
		again, err := e.CreateContext(t.Context(), alice, a2a.CreateContextParams{Name: "a"}, key)
		if err != nil || again.Key != first.Key || again.Name != "b" {
			t.Errorf("CreateContext(again) = %v %q, %v; want %v with the current name b", again.Key, again.Name, err, first.Key)
		}
		key.RequestHash[0]++
		_, err = e.CreateContext(t.Context(), alice, a2a.CreateContextParams{Name: "c"}, key)
		wantError(t, "CreateContext(other request, same key)", err, a2a.CodeConflict, "Idempotency-Key")
		_, err = e.CreateContext(t.Context(), alice, a2a.CreateContextParams{ContextID: first.Key.ID}, engine.SendOptions{})
		wantError(t, "CreateContext(same id)", err, a2a.CodeConflict, first.Key.ID)
		_, err = e.CreateContext(t.Context(), a2a.Principal{ID: "bob"}, a2a.CreateContextParams{ContextID: first.Key.ID}, engine.SendOptions{})
		wantError(t, "CreateContext(same id, other owner)", err, "")
		for _, id := range []string{"a\nb", strings.Repeat("x", 200)} {
			_, err = e.CreateContext(t.Context(), alice, a2a.CreateContextParams{ContextID: id}, engine.SendOptions{})
			wantError(t, "CreateContext(malformed id)", err, a2a.CodeInvalid, "contextId")
		}
		for _, status := range []a2a.ContextStatus{a2a.ContextCompleted, a2a.ContextArchived, "x"} {
			_, err = e.CreateContext(t.Context(), alice, a2a.CreateContextParams{Status: status}, engine.SendOptions{})
			wantError(t, "CreateContext(status)", err, a2a.CodeInvalid, "status", "active or paused")
		}
	})
}

// An update with an Idempotency-Key is applied once, whatever the status is now.
func TestRepeatedUpdateReturnsCurrentContext(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: commandHandler})
	c := newContext(t, e, a2a.CreateContextParams{})
	key := engine.SendOptions{IdempotencyKey: "k", RequestHash: [32]byte{1}}
	for range 2 {
		got, err := e.UpdateContext(t.Context(), alice, a2a.UpdateContextParams{ContextID: c.Key.ID, Name: ptr("a"), Status: ptr(a2a.ContextArchived)}, key)
		if err != nil || got.Version != 2 || got.Name != "a" {
			t.Errorf("UpdateContext() = version %d, %v; want 2", got.Version, err)
		}
	}
	key.RequestHash[0]++
	_, err := e.UpdateContext(t.Context(), alice, a2a.UpdateContextParams{ContextID: c.Key.ID, Name: ptr("b")}, key)
	wantError(t, "UpdateContext(other request, same key)", err, a2a.CodeConflict)
}

// No call reveals whether another owner has a context.
func TestContextsOfOthersAreNotFound(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: commandHandler})
	task := sendWait(t, e, message("x"))
	bob := a2a.Principal{ID: "bob"}
	for _, id := range []string{task.ContextID, "nobody", "", "a\nb", strings.Repeat("x", 1000)} {
		_, err := e.Context(t.Context(), bob, id, nil)
		wantError(t, "Context()", err, a2a.CodeContextNotFound, "not found")
		_, err = e.UpdateContext(t.Context(), bob, a2a.UpdateContextParams{ContextID: id, Name: ptr("x")}, engine.SendOptions{})
		wantError(t, "UpdateContext()", err, a2a.CodeContextNotFound, "not found")
		_, err = e.ClearContext(t.Context(), bob, a2a.ClearContextParams{ContextID: id, Force: true}, engine.SendOptions{})
		wantError(t, "ClearContext()", err, a2a.CodeContextNotFound, "not found")
	}
	_, err := e.AddFeedback(t.Context(), bob, a2a.TaskFeedbackParams{TaskID: task.Key.ID, Feedback: "x"}, engine.SendOptions{})
	wantError(t, "AddFeedback()", err, a2a.CodeTaskNotFound)
	list, err := e.Contexts(t.Context(), bob, a2a.ListContextsParams{})
	if err != nil || len(list.Contexts) != 0 || list.Total != 0 {
		t.Errorf("Contexts() of another owner = %d, total %d, %v; want none", len(list.Contexts), list.Total, err)
	}
}

// One process archives a context while another sends. In the end the context is archived and
// has no unfinished task.
func TestArchiveDuringConcurrentSends(t *testing.T) {
	t.Parallel()
	for _, force := range []bool{true, false} {
		t.Run(fmt.Sprint("force ", force), func(t *testing.T) {
			t.Parallel()
			shared := inmem.New()
			var engines []*engine.Engine
			for range 2 {
				engines = append(engines, start(t, engine.Config{Store: sharedStore{shared}, Handler: commandHandler, Turns: engine.Turns{Poll: 10 * time.Millisecond, Lease: time.Second}}))
			}
			for i := range 10 {
				id := newContext(t, engines[0], a2a.CreateContextParams{}).Key.ID
				var senders sync.WaitGroup
				for n := range 4 {
					senders.Go(func() {
						for k := range 20 {
							_, err := engines[n%2].Send(t.Context(), alice, messageIn(id, []string{"x", "ask", "run"}[(k+i)%3]), engine.SendOptions{})
							if err != nil {
								wantError(t, "Send()", err, notCancelable, "accepts no new tasks")
								return
							}
						}
					})
				}
				err := setStatus(t.Context(), engines[1], id, a2a.ContextArchived, force)
				senders.Wait()
				switch {
				case force:
					wantError(t, "archive by force", err, "")
				case err != nil:
					wantError(t, "archive", err, notCancelable, "unfinished")
					wantStatus(t, engines[0], id, a2a.ContextActive)
					wantError(t, "archive by force", setStatus(t.Context(), engines[0], id, a2a.ContextArchived, true), "")
				}
				wantStatus(t, engines[0], id, a2a.ContextArchived)
				page, err := shared.Tasks(t.Context(), store.Query{Owner: alice.ID, ContextID: id, Limit: 1000})
				if err != nil {
					t.Fatal(err)
				}
				for _, task := range page.Tasks {
					if !task.Status.State.Terminal() {
						t.Errorf("task %s of an archived context is %s", task.Key.ID, task.Status.State)
					}
					checkLog(t, shared, task.Key)
				}
			}
		})
	}
}
