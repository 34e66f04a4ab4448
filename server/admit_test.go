package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
)

// Admit rejects messages in all versions and bindings before anything is stored.
func TestAdmitRejectsMessagesBeforeTheyAreStored(t *testing.T) {
	t.Parallel()
	closed := false
	cfg := engine.Config{Store: newStore(), NewID: newID, Handler: echo, Turns: engine.Turns{Admit: func(_ context.Context, p engine.AdmitParams) (a engine.Admission, err error) {
		switch {
		case p.Principal.ID != a2a.Anonymous:
			err = fmt.Errorf("principal %s", p.Principal.ID)
		case p.Message.ContextID == "clients":
			err = a2a.Invalid("message.contextId", "must be the id of a context of this agent")
		case closed:
			err = a2a.Errorf(a2a.CodeUnsupported, "closed for today")
		case p.Message.Text() == "broken":
			err = errors.New("secret of the hook")
		}
		return a, err
	}}}
	e := serve(t, startConfig(t, cfg, nil))
	in := `"contextId":"clients"`
	for name, got := range map[string]string{
		"message/send":   e.body("message/send", params(message("a", in), blocking)),
		"message/stream": e.body("message/stream", params(message("a", in))),
		"SendMessage":    e.body("SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER","contextId":"clients","parts":[{"text":"a"}]}}`),
		"HTTP+JSON":      string(e.do("POST", "/message:send", `{"message":{"messageId":"m","role":"ROLE_USER","contextId":"clients","parts":[{"text":"a"}]}}`, nil).Body),
	} {
		if !strings.Contains(got, "must be the id of a context") || !strings.Contains(got, "-32602") && !strings.Contains(got, `"code":400`) || !strings.Contains(got, "message.contextId") {
			t.Errorf("%s = %s, want invalid params on message.contextId", name, got)
		}
	}
	if got := e.body("message/send", params(message("broken"))); !strings.Contains(got, "-32603") || strings.Contains(got, "secret") {
		t.Errorf("message/send = %s, want an internal error without its text", got)
	}
	if got := e.body("tasks/list", `{}`); !strings.Contains(got, `"tasks":[]`) {
		t.Errorf("tasks/list = %s, want no tasks", got)
	}

	first := e.body("message/send", params(messageWithUUID("a"), blocking))
	asked := e.send("b")
	closed = true
	if got := e.body("message/send", params(messageWithUUID("a"), blocking)); got != first || !strings.Contains(got, "completed") {
		t.Errorf("repeated message = %s, want the first response %s", got, first)
	}
	if got := e.call("message/send", params(message("c", fmt.Sprintf(`"contextId":%q`, asked.ContextID)))); got.code() != -32004 || got.Error.Message != "closed for today" {
		t.Errorf("new message = %s, want the error of Admit", got.Body)
	}
}
