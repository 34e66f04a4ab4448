package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/webhook"
)

func TestWebhooksOfARealAgent(t *testing.T) {
	t.Parallel()
	st := inmem.New()
	hooks, err := webhook.New(webhook.Config{Store: st, NewID: func() string { return "made" }})
	if err != nil {
		t.Fatal(err)
	}
	c, ctx := startAgentWith(t, st, func(cfg *server.Config) { cfg.Webhook = hooks }), t.Context()
	task := sendText(t, c, "", "ask")
	made, err := c.SetWebhook(ctx, a2a.TaskPushNotificationConfig{TaskID: task.ID, LongRunning: true, Config: a2a.PushNotificationConfig{URL: "https://203.0.114.1/hook", Token: "t"}})
	if err != nil || made.Config.ID != "made" || made.Config.SigningSecret == "" || !made.LongRunning {
		t.Fatalf("SetWebhook() = %+v, %v, want an id and the secret", made, err)
	}
	if got, err := c.GetWebhook(ctx, a2a.GetTaskPushNotificationConfigParams{TaskID: task.ID}); err != nil || got.Config.ID != "made" || got.Config.Token != webhook.Mask {
		t.Errorf("GetWebhook() = %+v, %v, want the only one with its token masked", got, err)
	}
	if list, err := c.ListWebhooks(ctx, task.ID); err != nil || len(list) != 1 {
		t.Errorf("ListWebhooks() = %+v, %v, want one", list, err)
	}
	if got, err := c.Replay(ctx, a2a.ReplayParams{TaskID: task.ID, FromSequence: 1}); err != nil || got.FromSequence != 1 {
		t.Errorf("Replay() = %+v, %v", got, err)
	}
	if got, err := c.ListAttempts(ctx, a2a.ListAttemptsParams{TaskID: task.ID}); err != nil || got.Attempts == nil || got.PageSize != 50 {
		t.Errorf("ListAttempts() = %+v, %v, want an empty page", got, err)
	}
	if got, err := c.ListDeadLetters(ctx, a2a.ListDeadLettersParams{}); err != nil || got.DeadLetters == nil || got.PageSize != 50 {
		t.Errorf("ListDeadLetters() = %+v, %v, want an empty page", got, err)
	}
	if err := c.DeleteWebhook(ctx, task.ID, "made"); err != nil {
		t.Errorf("DeleteWebhook() = %v", err)
	}
	if _, err := c.GetWebhook(ctx, a2a.GetTaskPushNotificationConfigParams{TaskID: task.ID, ConfigID: "made"}); a2a.CodeOf(err) != a2a.CodePushConfigNotFound {
		t.Errorf("GetWebhook() of a deleted webhook = %v, want %s", err, a2a.CodePushConfigNotFound)
	}
	if _, err := c.ListWebhooks(ctx, "none"); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("ListWebhooks() of a missing task = %v, want task_not_found", err)
	}
}

// Servers of A2A 0.3 over HTTP+JSON read one of two bodies. Other errors are not a reason to try
// the second.
func TestWebhooksAreSetInTheFormOfTheServer(t *testing.T) {
	t.Parallel()
	const registered = `{"name":"tasks/t/pushNotificationConfigs/w","pushNotificationConfig":{"id":"w","url":"https://example.com/w"}}`
	for _, tt := range []struct {
		accepted string // the start of the body
		rejected a2a.Code
		requests int
		want     a2a.Code
	}{
		{`{"parent":`, a2a.CodeInvalid, 1, ""},
		{`{"name":`, a2a.CodeInvalid, 2, ""},
		{"none", a2a.CodeInvalid, 2, a2a.CodeInvalid},
		{"none", a2a.CodeTaskNotFound, 1, a2a.CodeTaskNotFound},
	} {
		requests := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			if strings.HasPrefix(string(body), tt.accepted) {
				_, _ = io.WriteString(w, registered)
				return
			}
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"code":%d,"message":"not accepted"}`, tt.rejected.JSONRPC())
		}))
		card := `{"protocolVersion":"0.3.0","name":"n","description":"d","version":"1","url":"` + s.URL + `","preferredTransport":"HTTP+JSON",
			"capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[]}`
		c := newClient(t, client.Config{Card: []byte(card)})
		got, err := c.SetWebhook(t.Context(), a2a.TaskPushNotificationConfig{TaskID: "t", Config: a2a.PushNotificationConfig{ID: "w", URL: "https://example.com/w"}})
		s.Close()
		failed := err != nil
		if requests != tt.requests || failed != (tt.want != "") || failed && a2a.CodeOf(err) != tt.want || !failed && (got.TaskID != "t" || got.Config.ID != "w") {
			t.Errorf("SetWebhook() with %s and %s = %+v, %v after %d requests, want code %q after %d", tt.accepted, tt.rejected, got, err, requests, tt.want, tt.requests)
		}
	}
}

func TestDeadLettersReadsAllPages(t *testing.T) {
	t.Parallel()
	c := newClient(t, client.Config{URL: serve(t, func(w http.ResponseWriter, c call) {
		page := `{"deadLetters":[{"taskId":"t","pushNotificationConfigId":"w","eventId":"e1","sequence":1,"reason":"r","attempts":1,"at":"2026-01-01T00:00:00Z"}],"pageSize":1,"nextPageToken":"next"}`
		if strings.Contains(string(c.Params), `"pageToken":"next"`) {
			page = `{"deadLetters":[{"taskId":"t","pushNotificationConfigId":"w","eventId":"e2","sequence":2,"reason":"r","attempts":1,"at":"2026-01-01T00:00:00Z"}],"pageSize":1}`
		}
		answer(w, page)
	})})
	var ids []string
	for d, err := range c.DeadLetters(t.Context(), a2a.ListDeadLettersParams{PageSize: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, d.EventID)
	}
	if strings.Join(ids, " ") != "e1 e2" {
		t.Errorf("DeadLetters() = %v, want the dead letters of both pages", ids)
	}
}
