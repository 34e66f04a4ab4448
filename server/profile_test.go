package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server"
)

func inBindu(c *server.Config) { c.Codecs = []rpc.Codec{v03.Codec{Bindu: true}} }

// memberNames adds the member names at every level to into, except the names in free-form
// values.
func memberNames(v any, into map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			memberNames(item, into)
		}
	case map[string]any:
		for name, value := range v {
			if into[name] = true; name != "metadata" && name != "data" {
				memberNames(value, into)
			}
		}
	}
}

func TestBinduProfile(t *testing.T) {
	t.Parallel()
	handler := func(_ context.Context, turn *engine.Turn) error {
		file := a2a.FilePart{File: a2a.FileWithBytes{Name: "a.txt", MimeType: "text/plain", Bytes: []byte("x")}}
		if err := turn.AddArtifact(a2a.Artifact{Name: "out", Parts: []a2a.Part{file}}); err != nil {
			return err
		}
		return turn.Reply(a2a.DataPart{Data: map[string]any{"camelCase": 1.0, "snake_case": 2.0}})
	}
	e := start(t, handler, inBindu)
	sent := params(message("a", `"reference_task_ids":[]`, `"metadata":{"keepMe":{"asItIs":1}}`), `"configuration":{"blocking":true}`)
	var id string
	for _, x := range []struct {
		method, params string
		want           []string
	}{
		{"message/send", sent, []string{"context_id", "message_id", "task_id", "artifact_id", "mimeType", "history", "metadata"}},
		{"tasks/list", `{}`, []string{"context_id", "message_id"}},
		{"contexts/list", `{}`, []string{"page_size", "created_at", "task_count"}},
		{"tasks/feedback", `{"task_id":"TASK","feedback":"good"}`, []string{"task_id", "feedback_id", "message"}},
		{"tasks/feedback/list", `{}`, []string{"created_at", "page_size"}},
		{"contexts/create", `{"context_id":"other"}`, []string{"context_id"}},
		{"contexts/clear", `{"context_id":"other"}`, []string{"context_id", "tasks"}},
		{"tasks/delete", `{"task_id":"TASK"}`, []string{"task_id", "message"}},
	} {
		got := e.call(x.method, strings.Replace(x.params, "TASK", id, 1))
		var answer struct{ Result any }
		if err := json.Unmarshal(got.Body, &answer); err != nil || answer.Result == nil {
			t.Fatalf("%s = %s, %v", x.method, got.Body, err)
		}
		if x.method == "message/send" {
			id = got.task(t).ID
		}
		found := make(map[string]bool)
		memberNames(answer.Result, found)
		for _, name := range x.want {
			if !found[name] {
				t.Errorf("%s = %s, want a member %q", x.method, got.Body, name)
			}
		}
		for name := range found {
			if name != "mimeType" && strings.ToLower(name) != name {
				t.Errorf("%s = %s, want no member %q", x.method, got.Body, name)
			}
		}
	}
	if got := string(e.call("message/send", sent).Body); !strings.Contains(got, `"keepMe":{"asItIs":1}`) || !strings.Contains(got, `"camelCase":1,"snake_case":2`) {
		t.Errorf("message/send = %s, want free-form values unchanged", got)
	}
	for _, event := range e.open("message/stream", sent).rest() {
		if text := string(event.Data.Result); !strings.Contains(text, `"context_id":`) || strings.Contains(text, `"contextId":`) {
			t.Errorf("event = %s, want it in snake_case", text)
		}
	}
	card := string(e.do("GET", "/.well-known/agent-card.json", "", nil).Body)
	if !strings.Contains(card, `"protocolVersion"`) || !strings.Contains(card, `"pushNotifications":false`) {
		t.Errorf("card = %s, want it in A2A format", card)
	}
}

func TestErrorCodesByProfile(t *testing.T) {
	t.Parallel()
	for codec, webhook := range map[rpc.Codec]int{v03.Codec{}: -32003, v03.Codec{Bindu: true}: -32005} {
		e := start(t, echo, func(c *server.Config) { c.Codecs = []rpc.Codec{codec} })
		got := e.call("tasks/pushNotificationConfig/list", `{"id":"t"}`)
		if got.code() != webhook || !strings.Contains(string(got.Body), `"code":"push_notification_not_supported"`) {
			t.Errorf("codec %+v: webhooks off = %s, want %d", codec, got.Body, webhook)
		}
		if got := e.call("tasks/get", `{"id":"00000000-0000-7000-8000-000000000000"}`); got.code() != -32001 {
			t.Errorf("codec %+v: unknown task = %s, want -32001", codec, got.Body)
		}
	}
}

func TestSkillsHavePaths(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) {
		c.Security.Authenticator = headerAuth{}
		c.Card.Skills = []a2a.AgentSkill{
			{ID: "sum", Name: "Summaries", Description: "Summarizes.", Tags: []string{"text"}, InputModes: []string{"text/plain"}, DocumentationContent: "# Summaries", Author: "me"},
			{ID: "none", Name: "sum", Tags: []string{}},
		}
	})
	for path, want := range map[string]string{
		"/agent/skills": `{"skills":[{"id":"sum","name":"Summaries","description":"Summarizes.","tags":["text"],"input_modes":["text/plain"]},` +
			`{"id":"none","name":"sum","description":"","tags":[]}],"total":2}` + "\n",
		"/agent/skills/sum":               `{"id":"sum","name":"Summaries","description":"Summarizes.","tags":["text"],"input_modes":["text/plain"],"author":"me","has_documentation":true}` + "\n",
		"/agent/skills/summaries":         `"id":"sum"`,
		"/agent/skills/sum/documentation": "# Summaries",
	} {
		if got := e.do("GET", path, "", nil); got.Status != 200 || !strings.Contains(string(got.Body), want) {
			t.Errorf("GET %s = HTTP %d %s, want %s", path, got.Status, got.Body, want)
		}
	}
	for _, path := range []string{"/agent/skills/other", "/agent/skills/none/documentation", "/agent/skills/other/documentation"} {
		if got := e.do("GET", path, "", nil); got.Status != 404 || got.Error == nil {
			t.Errorf("GET %s = HTTP %d %s, want 404", path, got.Status, got.Body)
		}
	}
}
