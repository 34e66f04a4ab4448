package interop_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
)

// notice is the body of a webhook request.
type notice struct {
	header   http.Header
	Sequence int    `json:"sequence"`
	Kind     string `json:"kind"`
	TaskID   string `json:"task_id"`
	Status   struct {
		State string `json:"state"`
	} `json:"status"`
	Final bool `json:"final"`
}

// webhook is a receiver on this machine.
func webhook(t *testing.T) (url string, notices chan notice) {
	t.Helper()
	notices = make(chan notice, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n := notice{header: r.Header}
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
			t.Errorf("body: %v", err)
		}
		notices <- n
	}))
	t.Cleanup(s.Close)
	return s.URL + "/hook", notices
}

// await returns the requests up to the task's final state.
func await(t *testing.T, notices chan notice) []notice {
	t.Helper()
	var all []notice
	for {
		select {
		case n := <-notices:
			if all = append(all, n); n.Final {
				return all
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("after %d notices nothing more comes", len(all))
		}
	}
}

// The client registers webhooks with a message and separately, and each receives the events.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	c := start(t, "--agent", "conformance", "--webhook-allow-nets", "127.0.0.0/8").client()
	url, notices := webhook(t)
	p := params(message("tck-artifact-text"), false)
	p.Config.PushConfig = &a2a.PushConfig{ID: "mine", URL: url, Token: "s3cret"}
	task := sendTask(t.Context(), t, c, p)
	all := await(t, notices)
	for i, n := range all {
		if n.Sequence != i+1 || n.TaskID != string(task.ID) || n.header.Get("X-A2A-Notification-Token") != "s3cret" || n.header.Get("Authorization") != "Bearer s3cret" {
			t.Errorf("notice %d = %+v, want sequence %d of task %s with the token", i+1, n, i+1, task.ID)
		}
	}
	if all[0].Status.State != "working" || all[len(all)-1].Status.State != "completed" ||
		!slices.ContainsFunc(all, func(n notice) bool { return n.Kind == "artifact-update" }) {
		t.Errorf("notices = %+v, want working, an artifact, completed", all)
	}

	paused := sendTask(t.Context(), t, c, params(message("tck-input-required"), true))
	set, err := c.SetTaskPushConfig(t.Context(), &a2a.TaskPushConfig{TaskID: paused.ID, Config: a2a.PushConfig{
		URL: url, Auth: &a2a.PushAuthInfo{Schemes: []string{"Bearer"}, Credentials: "credentials"},
	}})
	if err != nil || set.Config.ID == "" || set.TaskID != paused.ID {
		t.Fatalf("SetTaskPushConfig() = %+v, %v, want one with an id", set, err)
	}
	got, err := c.GetTaskPushConfig(t.Context(), &a2a.GetTaskPushConfigParams{TaskID: paused.ID, ConfigID: set.Config.ID})
	if err != nil || got.Config.URL != url || got.Config.Auth == nil || got.Config.Auth.Credentials == "credentials" {
		t.Errorf("GetTaskPushConfig() = %+v, %v, want its URL and no credentials", got, err)
	}
	list, err := c.ListTaskPushConfig(t.Context(), &a2a.ListTaskPushConfigParams{TaskID: paused.ID})
	if err != nil || len(list) != 1 || list[0].Config.ID != set.Config.ID {
		t.Errorf("ListTaskPushConfig() = %+v, %v, want the one that was set", list, err)
	}
	if _, err := c.CancelTask(t.Context(), &a2a.TaskIDParams{ID: paused.ID}); err != nil {
		t.Fatal(err)
	}
	all = await(t, notices)
	if last := all[len(all)-1]; last.Status.State != "canceled" || last.header.Get("Authorization") != "Bearer credentials" {
		t.Errorf("last notice = %+v, want canceled, with the credentials", last)
	}

	if err := c.DeleteTaskPushConfig(t.Context(), &a2a.DeleteTaskPushConfigParams{TaskID: paused.ID, ConfigID: set.Config.ID}); err != nil {
		t.Errorf("DeleteTaskPushConfig() = %v", err)
	}
	if list, err := c.ListTaskPushConfig(t.Context(), &a2a.ListTaskPushConfigParams{TaskID: paused.ID}); err != nil || len(list) != 0 {
		t.Errorf("ListTaskPushConfig() = %+v, %v, want none", list, err)
	}
	_, err = c.SetTaskPushConfig(t.Context(), &a2a.TaskPushConfig{TaskID: a2a.NewTaskID(), Config: a2a.PushConfig{URL: url}})
	if !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("SetTaskPushConfig() of an absent task = %v, want %v", err, a2a.ErrTaskNotFound)
	}
	_, err = c.SetTaskPushConfig(t.Context(), &a2a.TaskPushConfig{TaskID: paused.ID, Config: a2a.PushConfig{URL: "http://10.0.0.1/"}})
	if !errors.Is(err, a2a.ErrInvalidParams) {
		t.Errorf("SetTaskPushConfig() of a private address = %v, want %v", err, a2a.ErrInvalidParams)
	}
}
