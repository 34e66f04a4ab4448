package grpc_test

import (
	"errors"
	"iter"
	"slices"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	grpcv0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	grpcv1 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
)

// official are the official clients of both versions, which share an interface.
func (e *env) official() map[string]a2aclient.Transport {
	return map[string]a2aclient.Transport{"1.0": grpcv1.NewGRPCTransport(e.conn), "0.3": grpcv0.NewGRPCTransport(e.conn)}
}

// eachVersion runs a test with the official client of each version.
func eachVersion(t *testing.T, e *env, f func(t *testing.T, version string, c a2aclient.Transport)) {
	for version, c := range e.official() {
		t.Run(version, func(t *testing.T) { f(t, version, c) })
	}
}

func text(words string) *sdk.SendMessageRequest {
	return &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(words)), Config: &sdk.SendMessageConfig{}}
}

// send sends a message and waits for the task.
func send(t *testing.T, c a2aclient.Transport, r *sdk.SendMessageRequest) *sdk.Task {
	t.Helper()
	result, err := c.SendMessage(t.Context(), nil, r)
	if err != nil {
		t.Fatal(err)
	}
	task, ok := result.(*sdk.Task)
	if !ok {
		t.Fatalf("SendMessage = %T, want a task", result)
	}
	return task
}

// collect returns the events of a stream until n have arrived; n < 0 means all.
func collect(t *testing.T, events iter.Seq2[sdk.Event, error], n int) (all []sdk.Event) {
	t.Helper()
	for event, err := range events {
		if err != nil {
			t.Fatalf("event %d: %v", len(all), err)
		}
		if all = append(all, event); len(all) == n {
			break
		}
	}
	return all
}

func TestOfficialClientsCallEveryMethod(t *testing.T) {
	e := start(t, nil)
	eachVersion(t, e, func(t *testing.T, version string, c a2aclient.Transport) {
		ctx := t.Context()
		task := send(t, c, text("hello over gRPC"))
		if task.Status.State != sdk.TaskStateCompleted || len(task.Artifacts) != 1 || task.Artifacts[0].Parts[0].Text() != "hello over gRPC" {
			t.Fatalf("SendMessage = %+v, want the completed task with its artifact", task)
		}
		got, err := c.GetTask(ctx, nil, &sdk.GetTaskRequest{ID: task.ID})
		if err != nil || got.ID != task.ID || len(got.History) == 0 {
			t.Errorf("GetTask = %+v, %v", got, err)
		}
		list, err := c.ListTasks(ctx, nil, &sdk.ListTasksRequest{ContextID: task.ContextID, IncludeArtifacts: true})
		if err != nil || len(list.Tasks) != 1 || list.Tasks[0].ID != task.ID || len(list.Tasks[0].Artifacts) != 1 || list.TotalSize != 1 {
			t.Errorf("ListTasks = %+v, %v", list, err)
		}
		asked := send(t, c, text("ask"))
		if asked.Status.State != sdk.TaskStateInputRequired || asked.Status.Message.Parts[0].Text() != "which?" {
			t.Errorf("SendMessage = %+v, want the question", asked.Status)
		}
		canceled, err := c.CancelTask(ctx, nil, &sdk.CancelTaskRequest{ID: asked.ID})
		if err != nil || canceled.Status.State != sdk.TaskStateCanceled {
			t.Errorf("CancelTask = %+v, %v", canceled, err)
		}
		events := collect(t, c.SendStreamingMessage(ctx, nil, text("chunks")), -1)
		first, isTask := events[0].(*sdk.Task)
		last, isStatus := events[len(events)-1].(*sdk.TaskStatusUpdateEvent)
		if !isTask || !isStatus || last.Status.State != sdk.TaskStateCompleted || len(events) < 4 {
			t.Fatalf("SendStreamingMessage = %d events from %T to %T, want a task, the chunks and the final status", len(events), events[0], events[len(events)-1])
		}
		var content string
		for _, event := range events {
			if a, ok := event.(*sdk.TaskArtifactUpdateEvent); ok && len(a.Artifact.Parts) > 0 {
				content += a.Artifact.Parts[0].Text()
			}
		}
		if content != "one two three" {
			t.Errorf("chunks of the stream = %q, want %q", content, "one two three")
		}
		if again := collect(t, c.SubscribeToTask(ctx, a2aclient.ServiceParams{"last-event-id": {"1"}}, &sdk.SubscribeToTaskRequest{ID: first.ID}), -1); len(again) != len(events)-1 {
			t.Errorf("SubscribeToTask after event 1 = %d events, want %d", len(again), len(events)-1)
		}
		if _, err := c.GetExtendedAgentCard(ctx, nil, &sdk.GetExtendedAgentCardRequest{}); err == nil {
			t.Error("GetExtendedAgentCard = nil error, want that there is none")
		}
	})
}

func TestWebhooksAreManagedOverGRPC(t *testing.T) {
	e := start(t, nil)
	eachVersion(t, e, func(t *testing.T, version string, c a2aclient.Transport) {
		ctx := t.Context()
		task := send(t, c, text("ask"))
		created, err := c.CreateTaskPushConfig(ctx, nil, &sdk.PushConfig{
			TaskID: task.ID, ID: "hook", URL: "https://example.com/hook", Token: "t", Auth: &sdk.PushAuthInfo{Scheme: "Bearer", Credentials: "c"},
		})
		if err != nil || created.ID != "hook" || created.TaskID != task.ID || created.URL != "https://example.com/hook" {
			t.Fatalf("CreateTaskPushConfig = %+v, %v", created, err)
		}
		got, err := c.GetTaskPushConfig(ctx, nil, &sdk.GetTaskPushConfigRequest{TaskID: task.ID, ID: "hook"})
		if err != nil || got.URL != created.URL || got.Auth == nil || got.Auth.Scheme != "Bearer" {
			t.Errorf("GetTaskPushConfig = %+v, %v", got, err)
		}
		list, err := c.ListTaskPushConfigs(ctx, nil, &sdk.ListTaskPushConfigRequest{TaskID: task.ID})
		if err != nil || len(list) != 1 || list[0].ID != "hook" {
			t.Errorf("ListTaskPushConfigs = %+v, %v", list, err)
		}
		if err := c.DeleteTaskPushConfig(ctx, nil, &sdk.DeleteTaskPushConfigRequest{TaskID: task.ID, ID: "hook"}); err != nil {
			t.Errorf("DeleteTaskPushConfig = %v", err)
		}
		if _, err := c.GetTaskPushConfig(ctx, nil, &sdk.GetTaskPushConfigRequest{TaskID: task.ID, ID: "hook"}); !errors.Is(err, sdk.ErrTaskNotFound) {
			t.Errorf("GetTaskPushConfig after deletion = %v, want not found", err)
		}
	})
}

func TestPartsOfAllKindsKeepTheirValues(t *testing.T) {
	e := start(t, nil)
	eachVersion(t, e, func(t *testing.T, version string, c a2aclient.Transport) {
		data := map[string]any{"n": 1.5, "list": []any{true, nil, "x"}, "object": map[string]any{"k": "v"}}
		parts := []*sdk.Part{
			sdk.NewTextPart("parts ünïcödé"), sdk.NewRawPart([]byte{0, 1, 254, 255}), sdk.NewFileURLPart("https://example.com/a.txt", "text/plain"), sdk.NewDataPart(data),
		}
		parts[1].Filename, parts[1].MediaType = "raw.bin", "application/octet-stream"
		parts[0].Metadata = map[string]any{"lang": "de"}
		task := send(t, c, &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, parts...), Config: &sdk.SendMessageConfig{}})
		if len(task.Artifacts) != 1 {
			t.Fatalf("task = %+v, want one artifact", task)
		}
		got := task.Artifacts[0].Parts
		if len(got) != 4 || got[0].Text() != "parts ünïcödé" || got[0].Metadata["lang"] != "de" || string(got[1].Raw()) != "\x00\x01\xfe\xff" ||
			got[1].Filename != "raw.bin" || got[1].MediaType != "application/octet-stream" || got[2].URL() != "https://example.com/a.txt" {
			t.Errorf("parts = %+v", got)
		}
		back, _ := got[3].Data().(map[string]any)
		if list, _ := back["list"].([]any); back["n"] != 1.5 || !slices.Equal(list, []any{true, nil, "x"}) {
			t.Errorf("data = %v, want %v", back, data)
		}
	})
}

func TestErrorsHaveTheirReason(t *testing.T) {
	e := start(t, nil)
	eachVersion(t, e, func(t *testing.T, version string, c a2aclient.Transport) {
		ctx := t.Context()
		done := send(t, c, text("done"))
		follow := text("again")
		follow.Message.TaskID = done.ID
		announced := a2aclient.ServiceParams{"A2A-Version": {version}} // as a client made from a card does
		for name, test := range map[string]struct {
			call func() error
			want error
		}{
			"unknown task":          {func() error { _, err := c.GetTask(ctx, nil, &sdk.GetTaskRequest{ID: "no-such-task"}); return err }, sdk.ErrTaskNotFound},
			"cancel a finished one": {func() error { _, err := c.CancelTask(ctx, nil, &sdk.CancelTaskRequest{ID: done.ID}); return err }, sdk.ErrTaskNotCancelable},
			"message to it":         {func() error { _, err := c.SendMessage(ctx, announced, follow); return err }, sdk.ErrUnsupportedOperation},
			"empty message": {func() error {
				_, err := c.SendMessage(ctx, nil, &sdk.SendMessageRequest{Message: &sdk.Message{ID: "m", Role: sdk.MessageRoleUser}})
				return err
			}, sdk.ErrInvalidParams},
			"unknown stream": {func() error {
				for _, err := range c.SubscribeToTask(ctx, nil, &sdk.SubscribeToTaskRequest{ID: "no-such-task"}) {
					return err
				}
				return nil
			}, sdk.ErrTaskNotFound},
		} {
			if err := test.call(); !errors.Is(err, test.want) {
				t.Errorf("%s: %v, want %v", name, err, test.want)
			}
		}
	})
}
