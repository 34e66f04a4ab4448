package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
)

// startAgent starts a real agent and returns a client of it. The agent requires
// input if the message is "ask"; otherwise it completes with a reply.
func startAgent(t *testing.T) *client.Client {
	t.Helper()
	return startAgentWith(t, inmem.New(), func(*server.Config) {})
}

// startAgentWith is like startAgent, with a store and a changed server configuration.
func startAgentWith(t *testing.T, st store.Store, change func(*server.Config)) *client.Client {
	t.Helper()
	return newClient(t, client.Config{URL: startServer(t, st, change, behave)})
}

// startServer starts a real server and returns its URL.
func startServer(t *testing.T, st store.Store, change func(*server.Config), handler engine.Handler) string {
	t.Helper()
	var last atomic.Int64
	newID := func() string { return fmt.Sprintf("00000000-0000-7000-8000-%012x", last.Add(1)) }
	e, err := engine.New(engine.Config{Store: st, NewID: newID, Handler: handler})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	cfg := server.Config{Engine: e, Card: a2a.AgentCard{Name: "tester"}}
	change(&cfg)
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(s)
	t.Cleanup(ts.Close)
	return ts.URL
}

// sendText sends a message to a context and waits for its task.
func sendText(t *testing.T, c *client.Client, contextID, text string) *a2a.Task {
	t.Helper()
	m := client.Text(text)
	m.ContextID = contextID
	got, err := c.Send(t.Context(), client.SendParams{Message: m, Configuration: &a2a.MessageSendConfiguration{Blocking: true}})
	task, ok := got.(*a2a.Task)
	if err != nil || !ok {
		t.Fatalf("Send() = %v, %v, want a task", got, err)
	}
	return task
}

func ptr[T any](v T) *T { return &v }

func TestContextsOfARealAgent(t *testing.T) {
	t.Parallel()
	c, ctx := startAgent(t), t.Context()
	made, err := c.CreateContext(ctx, a2a.CreateContextParams{ContextID: "c", Name: "n", Tags: []string{"b", "a"}, Metadata: map[string]any{"snake_case": 1.0}})
	if err != nil {
		t.Fatalf("CreateContext() = %v", err)
	}
	want := &a2a.Context{
		ID: "c", Name: "n", Role: "assistant", Status: a2a.ContextActive, Tags: []string{"a", "b"},
		Tasks: []string{}, Metadata: map[string]any{"snake_case": 1.0}, CreatedAt: made.CreatedAt, UpdatedAt: made.CreatedAt,
	}
	if diff := cmp.Diff(want, made, cmpopts.IgnoreUnexported(a2a.Context{})); diff != "" || made.CreatedAt.IsZero() {
		t.Errorf("CreateContext() (-want +got):\n%s", diff)
	}
	if _, err := c.CreateContext(ctx, a2a.CreateContextParams{ContextID: "c"}); !errors.Is(err, a2a.ErrConflict) {
		t.Errorf("CreateContext() again = %v, want a conflict", err)
	}

	first, second := sendText(t, c, "c", "hello"), sendText(t, c, "c", "ask")
	got, err := c.GetContext(ctx, a2a.ContextQueryParams{ContextID: "c", HistoryLength: ptr(1)})
	if err != nil || !slices.Equal(got.Tasks, []string{first.ID, second.ID}) || got.TaskCount != 2 {
		t.Errorf("GetContext() = %+v, %v, want both tasks", got, err)
	}
	if len(got.History) != 2 || got.History[0].Text() != "thanks" || got.History[1].Text() != "which one?" {
		t.Errorf("history = %+v, want the newest message of each task", got.History)
	}

	var rejected *a2a.Error
	if _, err := c.UpdateContext(ctx, a2a.UpdateContextParams{ContextID: "c", Status: ptr(a2a.ContextCompleted)}); !errors.As(err, &rejected) || rejected.Code != a2a.CodeContextNotCancelable || rejected.Data["tasks"] == nil {
		t.Errorf("UpdateContext() with an open task = %v, want an error that names it", err)
	}
	changed, err := c.UpdateContext(ctx, a2a.UpdateContextParams{
		ContextID: "c", Name: ptr(""), Tags: ptr([]string(nil)), Metadata: ptr(map[string]any{"snake_case": nil}), Status: ptr(a2a.ContextCompleted), Force: true,
	})
	if err != nil || changed.Name != "" || changed.Tags != nil || changed.Metadata != nil || changed.Status != a2a.ContextCompleted {
		t.Errorf("UpdateContext() = %+v, %v, want it cleared and completed", changed, err)
	}
	if task, err := c.Task(ctx, a2a.TaskQueryParams{ID: second.ID}); err != nil || task.Status.State != a2a.StateCanceled {
		t.Errorf("the open task = %+v, %v, want it canceled", task, err)
	}

	if err := c.DeleteTask(ctx, a2a.DeleteTaskParams{ID: second.ID}); err != nil {
		t.Errorf("DeleteTask() = %v, want nil", err)
	}
	if err := c.DeleteTask(ctx, a2a.DeleteTaskParams{ID: second.ID}); a2a.CodeOf(err) != a2a.CodeTaskNotFound {
		t.Errorf("DeleteTask() again = %v, want %s", err, a2a.CodeTaskNotFound)
	}
	if n, err := c.ClearContext(ctx, a2a.ClearContextParams{ContextID: "c"}); n != 1 || err != nil {
		t.Errorf("ClearContext() = %d, %v, want 1 task", n, err)
	}
	if _, err := c.GetContext(ctx, a2a.ContextQueryParams{ContextID: "c"}); a2a.CodeOf(err) != a2a.CodeContextNotFound {
		t.Errorf("GetContext() of a deleted context = %v, want %s", err, a2a.CodeContextNotFound)
	}
	if _, err := c.ClearContext(ctx, a2a.ClearContextParams{ContextID: "c"}); a2a.CodeOf(err) != a2a.CodeContextNotFound {
		t.Errorf("ClearContext() again = %v, want %s", err, a2a.CodeContextNotFound)
	}
}

func TestContextsReadsAllPages(t *testing.T) {
	t.Parallel()
	c, ctx := startAgent(t), t.Context()
	for i := range 5 {
		if _, err := c.CreateContext(ctx, a2a.CreateContextParams{ContextID: fmt.Sprint("c", i), Name: fmt.Sprint("n", i)}); err != nil {
			t.Fatal(err)
		}
	}
	filters := map[string]any{"sortBy": "name", "limit": 2, "offset": 1}
	page, err := c.ListContexts(ctx, a2a.ListContextsParams{Metadata: filters})
	if err != nil || page.Total != 5 || page.PageSize != 2 || len(page.Contexts) != 2 || page.NextPageToken == "" {
		t.Errorf("ListContexts() = %+v, %v, want the first page of 5", page, err)
	}
	var got []string
	for each, err := range c.Contexts(ctx, a2a.ListContextsParams{Metadata: filters}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, each.ID)
	}
	if strings.Join(got, " ") != "c1 c2 c3 c4" || len(filters) != 3 {
		t.Errorf("Contexts() yields %v with filters %v, want all from the second on and unchanged filters", got, filters)
	}
	for _, err := range c.Contexts(ctx, a2a.ListContextsParams{Metadata: map[string]any{"sortBy": "size"}}) {
		var rejected *a2a.Error
		if !errors.As(err, &rejected) || rejected.Data["field"] != "metadata.sortBy" {
			t.Errorf("Contexts() by size = %v, want the filter rejected", err)
		}
	}
}

func TestListsContinueAfterAnOffset(t *testing.T) {
	t.Parallel()
	c, ctx := startAgent(t), t.Context()
	for i := range 5 {
		if _, err := c.CreateContext(ctx, a2a.CreateContextParams{ContextID: fmt.Sprint("c", i)}); err != nil {
			t.Fatal(err)
		}
		sendText(t, c, fmt.Sprint("c", i), "hello")
	}
	size, offset := 2, 1
	inMetadata := map[string]any{"limit": 2, "offset": 1}
	contexts := map[string]iter.Seq2[a2a.Context, error]{
		"params":   c.Contexts(ctx, a2a.ListContextsParams{PageSize: &size, Offset: &offset}),
		"metadata": c.Contexts(ctx, a2a.ListContextsParams{Metadata: inMetadata}),
	}
	tasks := map[string]iter.Seq2[a2a.Task, error]{
		"params":   c.Tasks(ctx, a2a.ListTasksParams{PageSize: &size, Offset: &offset}),
		"metadata": c.Tasks(ctx, a2a.ListTasksParams{Metadata: inMetadata}),
	}
	for place := range contexts {
		for range 2 { // a sequence can be used again
			if n, err := countItems(contexts[place]); n != 4 || err != nil {
				t.Errorf("Contexts() with an offset of 1 in the %s = %d items, %v, want 4", place, n, err)
			}
			if n, err := countItems(tasks[place]); n != 4 || err != nil {
				t.Errorf("Tasks() with an offset of 1 in the %s = %d items, %v, want 4", place, n, err)
			}
		}
	}
}

// countItems returns the number of items before the end of a list or its first error.
func countItems[T any](list iter.Seq2[T, error]) (n int, err error) {
	for _, err := range list {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func TestFeedbackOfARealAgent(t *testing.T) {
	t.Parallel()
	c, ctx := startAgent(t), t.Context()
	task := sendText(t, c, "", "hello")
	var ids []string
	for _, p := range []a2a.TaskFeedbackParams{
		{TaskID: task.ID, Feedback: "good", Rating: ptr(4), Metadata: map[string]any{"k": "v"}},
		{TaskID: task.ID, Feedback: "hm"},
	} {
		id, err := c.Feedback(ctx, p)
		if err != nil || id == "" {
			t.Fatalf("Feedback(%+v) = %q, %v, want an id", p, id, err)
		}
		ids = append(ids, id)
	}
	list, err := c.ListFeedback(ctx, a2a.ListTaskFeedbackParams{TaskID: task.ID})
	if err != nil || len(list.Feedback) != 2 || list.NextPageToken != "" {
		t.Fatalf("ListFeedback() = %+v, %v, want both", list, err)
	}
	for _, f := range list.Feedback {
		if !slices.Contains(ids, f.ID) || f.TaskID != task.ID || f.CreatedAt.IsZero() || (f.Rating == nil) != (f.Feedback == "hm") {
			t.Errorf("feedback = %+v, want it as submitted", f)
		}
	}
	want := a2a.FeedbackSummary{Count: 2, Rated: 1, Average: ptr(4.0), Ratings: map[string]int{"1": 0, "2": 0, "3": 0, "4": 1, "5": 0}}
	if diff := cmp.Diff(want, list.Summary); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if _, err := c.Feedback(ctx, a2a.TaskFeedbackParams{TaskID: "none", Feedback: "x"}); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("Feedback() on a missing task = %v, want task_not_found", err)
	}
	if _, err := c.Feedback(ctx, a2a.TaskFeedbackParams{TaskID: task.ID, Feedback: "x", Rating: ptr(9)}); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("Feedback() with a rating of 9 = %v, want invalid_params", err)
	}
}

// Other agents return fewer members, or other types.
func TestResponsesOfOtherAgents(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		result string
		tasks  int
		code   a2a.Code
	}{
		{`{"message":"Context c and all associated tasks cleared successfully"}`, 0, ""},
		{`{"message":"done","tasks":12}`, 12, ""},
		{`{"message":"done","tasks":"many"}`, 0, a2a.CodeInvalidAgentResponse},
		{`{"message":5}`, 0, a2a.CodeInvalidAgentResponse},
		{`[]`, 0, a2a.CodeInvalidAgentResponse},
	} {
		url := serve(t, func(w http.ResponseWriter, _ call) { answer(w, test.result) })
		n, err := newClient(t, client.Config{URL: url}).ClearContext(t.Context(), a2a.ClearContextParams{ContextID: "c"})
		if n != test.tasks || (err != nil) != (test.code != "") || err != nil && a2a.CodeOf(err) != test.code {
			t.Errorf("ClearContext() with the result %s = %d, %v, want %d, code %q", test.result, n, err, test.tasks, test.code)
		}
	}
	url := serve(t, func(w http.ResponseWriter, _ call) {
		answer(w, `{"message":"Feedback submitted successfully","task_id":"t"}`)
	})
	if id, err := newClient(t, client.Config{URL: url}).Feedback(t.Context(), a2a.TaskFeedbackParams{TaskID: "t", Feedback: "x"}); id != "" || err != nil {
		t.Errorf("Feedback() without an id in the result = %q, %v, want none and no error", id, err)
	}
}
