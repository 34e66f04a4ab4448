package grpc_test

import (
	"errors"
	"testing"

	sdk "github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
)

func TestOfficialClientOf03(t *testing.T) {
	e := start(t, nil)
	c, ctx := a2aclient.NewGRPCTransport(e.conn), t.Context()
	blocking := true
	params := func(words string) *sdk.MessageSendParams {
		return &sdk.MessageSendParams{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.TextPart{Text: words}), Config: &sdk.MessageSendConfig{Blocking: &blocking}}
	}
	result, err := c.SendMessage(ctx, params("hello"))
	task, ok := result.(*sdk.Task)
	if err != nil || !ok || task.Status.State != sdk.TaskStateCompleted || len(task.Artifacts) != 1 {
		t.Fatalf("SendMessage = %+v, %v, want the completed task", result, err)
	}
	if got, err := c.GetTask(ctx, &sdk.TaskQueryParams{ID: task.ID}); err != nil || len(got.History) != 1 {
		t.Errorf("GetTask = %+v, %v, want the task with its history", got, err)
	}
	var states []sdk.TaskState
	for event, err := range c.SendStreamingMessage(ctx, params("chunks")) {
		if err != nil {
			t.Fatal(err)
		}
		switch event := event.(type) {
		case *sdk.Task:
			states = append(states, event.Status.State)
		case *sdk.TaskStatusUpdateEvent:
			if states = append(states, event.Status.State); event.Final != event.Status.State.Terminal() {
				t.Errorf("status %s has final %t", event.Status.State, event.Final)
			}
		}
	}
	if len(states) < 2 || states[len(states)-1] != sdk.TaskStateCompleted {
		t.Errorf("states of the stream = %v, want them to end with completed", states)
	}
	result, err = c.SendMessage(ctx, params("ask"))
	asked, ok := result.(*sdk.Task)
	if err != nil || !ok || asked.Status.State != sdk.TaskStateInputRequired {
		t.Fatalf("SendMessage = %+v, %v, want the question", result, err)
	}
	for event, err := range c.ResubscribeToTask(ctx, &sdk.TaskIDParams{ID: asked.ID}) {
		if first, ok := event.(*sdk.Task); err != nil || !ok || first.ID != asked.ID {
			t.Errorf("ResubscribeToTask = %T, %v, want the task", event, err)
		}
	}
	canceled, err := c.CancelTask(ctx, &sdk.TaskIDParams{ID: asked.ID})
	if err != nil || canceled.Status.State != sdk.TaskStateCanceled {
		t.Errorf("CancelTask = %+v, %v", canceled, err)
	}
	if _, err := c.CancelTask(ctx, &sdk.TaskIDParams{ID: asked.ID}); !errors.Is(err, sdk.ErrTaskNotCancelable) {
		t.Errorf("second CancelTask = %v, want %v", err, sdk.ErrTaskNotCancelable)
	}
	again := params("more")
	again.Message.TaskID = asked.ID
	if _, err := c.SendMessage(ctx, again); !errors.Is(err, sdk.ErrUnsupportedOperation) {
		t.Errorf("message to a finished task = %v, want %v", err, sdk.ErrUnsupportedOperation)
	}
	set, err := c.SetTaskPushConfig(ctx, &sdk.TaskPushConfig{TaskID: task.ID, Config: sdk.PushConfig{ID: "hook", URL: "https://example.com/hook"}})
	if err != nil || set.Config.ID != "hook" || set.TaskID != task.ID {
		t.Errorf("SetTaskPushConfig = %+v, %v", set, err)
	}
	if list, err := c.ListTaskPushConfig(ctx, &sdk.ListTaskPushConfigParams{TaskID: task.ID}); err != nil || len(list) != 1 {
		t.Errorf("ListTaskPushConfig = %+v, %v", list, err)
	}
	if err := c.DeleteTaskPushConfig(ctx, &sdk.DeleteTaskPushConfigParams{TaskID: task.ID, ConfigID: "hook"}); err != nil {
		t.Errorf("DeleteTaskPushConfig = %v", err)
	}
}
