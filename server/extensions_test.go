package server_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/server"
)

func TestExtensionsAreDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/extensions.md")
	if err != nil {
		t.Fatal(err)
	}
	anchors := make(map[string]bool)
	for line := range strings.Lines(string(doc)) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			anchors[strings.ReplaceAll(strings.ToLower(strings.TrimSpace(heading)), " ", "-")] = true
		}
	}
	st := newStore()
	card := viewCard(t, startOn(t, st, echo, withWebhook(t, st)).do("GET", cardPath, "", nil).Body)
	if len(card.Capabilities.Extensions) != 9 {
		t.Errorf("the card declares %d extensions, want 9", len(card.Capabilities.Extensions))
	}
	for _, extension := range card.Capabilities.Extensions {
		uri := extension.URI
		if file, anchor, _ := strings.Cut(uri, "#"); !strings.HasSuffix(file, "/docs/extensions.md") || !anchors[anchor] {
			t.Errorf("%s has no section in docs/extensions.md", uri)
		}
	}
}

// Every response lists the active extensions in the header in which they were requested.
func TestExtensionsAreActivatedOnRequest(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	v10Message := `"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"}]}`
	rpcBody := func(method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	}
	for _, test := range []struct {
		name, verb, path, body, header string
	}{
		{"result of 0.3", "POST", "/", rpcBody("tasks/list", `{}`), "X-A2A-Extensions"},
		{"error of 0.3", "POST", "/", rpcBody("tasks/get", `{}`), "X-A2A-Extensions"},
		{"stream of 0.3", "POST", "/", rpcBody("message/stream", params(message("a"))), "X-A2A-Extensions"},
		{"result of 1.0", "POST", "/", rpcBody("ListTasks", `{}`), "A2A-Extensions"},
		{"error of 1.0", "POST", "/", rpcBody("GetTask", `{}`), "A2A-Extensions"},
		{"stream of 1.0", "POST", "/", rpcBody("SendStreamingMessage", `{`+v10Message+`}`), "A2A-Extensions"},
		{"result over HTTP+JSON", "GET", "/tasks", "", "A2A-Extensions"},
		{"error over HTTP+JSON", "GET", "/tasks/nope", "", "A2A-Extensions"},
		{"stream over HTTP+JSON", "POST", "/message:stream", `{` + v10Message + `}`, "A2A-Extensions"},
		{"unknown path", "GET", "/nope", "", "A2A-Extensions"},
	} {
		_, h, body := e.fetch(test.verb, test.path, test.body, test.header, "urn:unknown, "+server.ExtensionResume+","+server.ExtensionList+", "+server.ExtensionResume)
		want := server.ExtensionResume + ", " + server.ExtensionList
		if got := h.Get(test.header); got != want {
			t.Errorf("%s: %s = %q, want %q; %s", test.name, test.header, got, want, body)
		}
		for _, other := range []string{"A2A-Extensions", "X-A2A-Extensions"} {
			if other != test.header && len(h.Values(other)) > 0 {
				t.Errorf("%s: %s = %q, want none", test.name, other, h.Get(other))
			}
		}
	}
	if _, h, _ := e.fetch("GET", "/tasks", ""); len(h.Values("A2A-Extensions")) > 0 {
		t.Errorf("A2A-Extensions = %q without a request for extensions, want none", h.Get("A2A-Extensions"))
	}
}

func TestRequiredExtensionMustBeRequested(t *testing.T) {
	t.Parallel()
	const required = "urn:example:audit"
	e := start(t, echo, func(c *server.Config) {
		c.Card.Capabilities.Extensions = []a2a.AgentExtension{{URI: "urn:example:optional"}, {URI: required, Required: true}}
	})
	v10Message := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"}]}}`
	for _, test := range []struct{ method, params, header string }{
		{"message/send", params(message("a")), "X-A2A-Extensions"},
		{"message/stream", params(message("b")), "X-A2A-Extensions"},
		{"tasks/list", `{}`, "X-A2A-Extensions"},
		{"SendMessage", v10Message, "A2A-Extensions"},
		{"SendStreamingMessage", v10Message, "A2A-Extensions"},
		{"ListTasks", `{}`, "A2A-Extensions"},
	} {
		call := func(h ...string) string {
			status, _, body := e.fetch("POST", "/", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, test.method, test.params), h...)
			if status != 200 {
				t.Errorf("%s = %d %s, want 200", test.method, status, body)
			}
			return body
		}
		for _, h := range [][]string{nil, {test.header, "urn:example:optional"}} {
			if body := call(h...); !strings.Contains(body, `"code":-32008,"message":"the extension urn:example:audit is required: list it in the header `+test.header) {
				t.Errorf("%s with %v = %s, want -32008 with the extension and the header", test.method, h, body)
			}
		}
		if body := call(test.header, required); strings.Contains(body, `"error"`) {
			t.Errorf("%s with the extension = %s, want a result", test.method, body)
		}
	}
	for _, path := range []string{"/message:send", "/message:stream"} {
		if status, _, body := e.fetch("POST", path, v10Message); status != http.StatusBadRequest || !strings.Contains(body, `"reason":"EXTENSION_SUPPORT_REQUIRED"`) {
			t.Errorf("POST %s = %d %s, want 400 EXTENSION_SUPPORT_REQUIRED", path, status, body)
		}
		if status, _, body := e.fetch("POST", path, v10Message, "A2A-Extensions", required); status != 200 {
			t.Errorf("POST %s with the extension = %d %s, want 200", path, status, body)
		}
	}
}

func TestEachRequiredExtensionMustBeRequested(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) {
		c.Card.Capabilities.Extensions = []a2a.AgentExtension{{URI: "urn:a", Required: true}, {URI: "urn:b", Required: true}}
	})
	for requested, missing := range map[string]string{"urn:a": "urn:b", "urn:b": "urn:a", "urn:b, urn:a": "", "URN:A, urn:b": "urn:a"} {
		got := e.call("tasks/list", `{}`, "X-A2A-Extensions", requested)
		if missing == "" && got.Error != nil || missing != "" && (got.code() != -32008 || !strings.Contains(got.Error.Message, "the extension "+missing+" is required")) {
			t.Errorf("tasks/list with the extensions %s = %s, want an error that names %q", requested, got.Body, missing)
		}
	}
}

// Results of A2A 1.0 have members of extensions only for callers that requested one, also if
// the encoding is cached.
func TestMembersOfExtensionsAreSentOnRequest(t *testing.T) {
	t.Parallel()
	e := start(t, func(_ context.Context, turn *engine.Turn) error {
		return turn.Reply(a2a.TextPart{Text: "done", Embeddings: []float64{1}})
	}, func(c *server.Config) {
		c.Card.Capabilities.Extensions = []a2a.AgentExtension{{URI: "urn:example:other"}}
	})
	id := e.send("a").ID
	for _, path := range []string{"/tasks/" + id, "/tasks?historyLength=5", "/tasks/" + id} {
		for extension, want := range map[string]bool{"": false, "urn:example:other": false, server.ExtensionList: true} {
			if _, _, body := e.fetch("GET", path, "", "A2A-Extensions", extension); strings.Contains(body, `"embeddings":[1]`) != want || !strings.Contains(body, id) {
				t.Errorf("GET %s with %q = %s, want members of extensions: %t", path, extension, body, want)
			}
		}
	}
	both := headers{"A2A-Extensions", server.ExtensionList, "X-A2A-Extensions", "urn:example:other"}
	if got := e.do("GET", "/tasks/"+id, "", both); !strings.Contains(string(got.Body), `"embeddings":[1]`) {
		t.Errorf("GET with an extension in each header = %s, want members of extensions", got.Body)
	}
	const params = `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"}]}}`
	for path, body := range map[string]string{
		"/message:send": params, "/message:stream": params,
		"/": `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":` + params + `}`,
	} {
		for extension, want := range map[string]bool{"": false, server.ExtensionList: true} {
			if _, _, got := e.fetch("POST", path, body, "A2A-Extensions", extension); strings.Contains(got, `"embeddings":[1]`) != want || !strings.Contains(got, "done") {
				t.Errorf("POST %s with %q = %s, want members of extensions: %t", path, extension, got, want)
			}
		}
	}
	if info := string(e.do("GET", "/health", "", nil).Body); !strings.Contains(info, `"readCache":{"tasks":4,`) {
		t.Errorf("health = %s, want four cached encodings: two of each codec", info)
	}
}
