package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Parsers disagree about such documents: a proxy that filters requests could see another
// request than the server.
func TestAmbiguousParamsAreRefused(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	refused := func(method, params, field, rule string) {
		t.Helper()
		got := e.call(method, params)
		if got.code() != -32602 || got.Error.Data["field"] != field || !strings.Contains(got.Error.Message, rule) {
			t.Errorf("%s %s = %s, want -32602 on %s with %q", method, params, got.Body, field, rule)
		}
	}
	for _, m := range a2a.Methods() {
		if m.Off != "" || sampleParams[m.Name] == "" {
			continue
		}
		var valid map[string]json.RawMessage
		if err := json.Unmarshal([]byte(sampleParams[m.Name]), &valid); err != nil {
			t.Fatal(err)
		}
		for member, value := range valid {
			refused(m.Name, fmt.Sprintf(`{%q:%s,%s`, member, value, sampleParams[m.Name][1:]), member, "occurs more than once")
		}
		refused(m.Name, `{"unknown":{"a":[{"b":1,"b":1}]},`+sampleParams[m.Name][1:], "unknown.a[0].b", "occurs more than once")
	}
	const lone = "lone surrogate"
	for _, test := range []struct{ message, field, rule string }{
		{`{"messageId":"m","role":"user","parts":[{"kind":"text","kind":"text","text":"a"}]}`, "message.parts[0].kind", "occurs more than once"},
		{`{"messageId":"m","role":"user","parts":[],"metadata":{"a":{"b":1,"b":2}}}`, "message.metadata.a.b", "occurs more than once"},
		{`{"messageId":"\ud800","role":"user","parts":[]}`, "message.messageId", lone},
		{`{"messageId":"m","contextId":"c\udfff","role":"user","parts":[]}`, "message.contextId", lone},
		{`{"messageId":"m","role":"user","parts":[{"kind":"file","file":{"name":"\ud83d.txt","bytes":""}}]}`, "message.parts[0].file.name", lone},
		{`{"messageId":"m","role":"user","parts":[{"kind":"data","data":{"\ud83d":1}}]}`, "message.parts[0].data", lone},
		{`{"messageId":"m","role":"user","parts":[{"kind":"data","data":{"a":1e999999}}]}`, "message.parts[0].data.a", "1e999999"},
		{`{"messageId":"m","role":"user","parts":[],"metadata":{"a":[-1e400]}}`, "message.metadata.a[0]", "-1e400"},
	} {
		refused(a2a.MethodSend, params(test.message), test.field, test.rule)
	}
}

func TestAmbiguousRequestsAreRefused(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	for request, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"tasks/list"}`:                           `member \"id\" of the request occurs more than once`,
		`{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{},"method":"tasks/get"}`: `member \"method\" of the request occurs more than once`,
		`{"jsonrpc":"2.0","id":1,"x":1,"method":"tasks/list","\u0078":1}`:                 `member \"x\" of the request occurs more than once`,
		`{"jsonrpc":"2.0","id":"\ud800","method":"tasks/list"}`:                           "id has a lone surrogate",
	} {
		for _, text := range []string{request, "[" + request + "]"} {
			if got := e.post(text); !strings.Contains(string(got.Body), `"code":-32600`) || !strings.Contains(string(got.Body), want) || !strings.Contains(string(got.Body), `"id":null`) {
				t.Errorf("%s = %s, want -32600 with %s", text, got.Body, want)
			}
		}
	}
}

// A message with the agent's role would appear in the history as written by the agent.
func TestClientsMayNotSendAsAgent(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	for _, method := range []string{a2a.MethodSend, a2a.MethodStream} {
		for role, field := range map[string]any{"agent": "message.role", "user": nil, "system": nil} {
			got := e.call(method, params(strings.Replace(message("a"), `"role":"user"`, fmt.Sprintf(`"role":%q`, role), 1)))
			if field == nil && !strings.Contains(string(got.Body), `"result"`) || field != nil && (got.code() != -32602 || got.Error.Data["field"] != field) {
				t.Errorf("%s as %s = %s, want an error on %v", method, role, got.Body, field)
			}
		}
	}
}

func TestLoneSurrogatesInFreeTextAreReplaced(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	got := e.call(a2a.MethodSend, params(`{"messageId":"m","role":"user","parts":[{"kind":"text","text":"cut \ud83d"}],"metadata":{"a":"cut \ud83d"}}`, blocking))
	if got.Error != nil || strings.Count(string(got.Result), "cut \ufffd") < 2 {
		t.Errorf("message/send = %s, want U+FFFD in its text and metadata", got.Body)
	}
}
