package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/server"
)

func protoMessage(text string) string {
	return fmt.Sprintf(`"message":{"messageId":"m-%s","role":"ROLE_USER","content":[{"text":%q}]}`, text, text)
}

// restErrorV03 returns the expected body of an error of A2A 0.3.
func restErrorV03(code, status int, name, message, reason, dataCode string) string {
	return fmt.Sprintf(`{"code":%d,"message":%q,"data":{"code":%q,"requestId":"rest"},"error":{"code":%d,"status":%q,"message":%q,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":%q,"domain":"a2a-protocol.org","metadata":{"code":%q}}]}}`,
		code, message, dataCode, status, name, message, reason, dataCode)
}

// The requests of a conversation over HTTP+JSON of A2A 0.3, with their full responses.
func TestRESTV03(t *testing.T) {
	t.Parallel()
	st := newStore()
	e := startOn(t, st, echo, withWebhook(t, st))
	_, _, sent := e.fetch("POST", "/v1/message:send", `{`+protoMessage("first")+`,"configuration":{"blocking":true}}`)
	var first struct{ Task taskView }
	if err := json.Unmarshal([]byte(sent), &first); err != nil {
		t.Fatal(err)
	}
	id, contextID := first.Task.ID, first.Task.ContextID
	status := `"status":{"state":"TASK_STATE_COMPLETED","message":{"messageId":"<id>","contextId":"<id>","taskId":"<id>","role":"ROLE_AGENT","content":[{"text":"done"}]},"timestamp":"<time>"}`
	head := `{"id":"<id>","contextId":"<id>",` + status
	artifacts := `"artifacts":[{"artifactId":"<id>","name":"echo","parts":[{"text":"first"}]}]`
	agent := `{"messageId":"<id>","contextId":"<id>","taskId":"<id>","role":"ROLE_AGENT","content":[{"text":"done"}]}`
	task := head + `,"history":[{"messageId":"m-first","contextId":"<id>","taskId":"<id>","role":"ROLE_USER","content":[{"text":"first"}]},` + agent + `],` + artifacts + `}`
	last := head + `,"history":[` + agent + `],` + artifacts + `}`
	if want := `{"task":` + task + `}`; maskREST(sent) != maskREST(want) {
		t.Errorf("message:send = %s, want %s", maskREST(sent), maskREST(want))
	}
	webhooks := "/v1/tasks/" + id + "/pushNotificationConfigs"
	webhook := func(name string) string {
		return fmt.Sprintf(`{"name":"tasks/%s/pushNotificationConfigs/%s","pushNotificationConfig":{"id":%q,"url":"https://example.com/%s"}}`, id, name, name, name)
	}
	notFound := restErrorV03(-32001, 404, "NOT_FOUND", `task "nope" not found`, "TASK_NOT_FOUND", "task_not_found")
	noMethod := func(status int, message string) string {
		return restErrorV03(-32601, status, "NOT_FOUND", message, "METHOD_NOT_FOUND", "method_not_found")
	}
	refused := func(message string) string {
		return restErrorV03(-32600, 405, "UNIMPLEMENTED", message, "INVALID_REQUEST", "invalid_request")
	}
	for _, test := range []struct {
		verb, path, body string
		status           int
		want             string
	}{
		{"GET", "/v1/tasks/" + id, "", 200, task},
		{"GET", "/v1/tasks/" + id + "?historyLength=0", "", 200, task}, // no limit
		{"GET", "/v1/tasks/" + id + "?history_length=1", "", 200, last},
		{"GET", "/v1/tasks?contextId=" + contextID + "&pageSize=1", "", 200, `{"tasks":[` + head + `}],"nextPageToken":"","pageSize":1}`},
		{"GET", "/v1/tasks?status=TASK_STATE_CANCELLED&page_size=3", "", 200, `{"tasks":[],"nextPageToken":"","pageSize":3}`},
		{"GET", "/v1/tasks?status=completed&lastUpdatedAfter=2020-01-01T00:00:00Z", "", 200, `{"tasks":[` + head + `}],"nextPageToken":"","pageSize":50}`},
		{"POST", "/v1/tasks/" + id + ":cancel", "", 409, "?" + `{"code":-32002,`},
		{"POST", webhooks, `{"name":"tasks/` + id + `/pushNotificationConfigs/a","pushNotificationConfig":{"url":"https://example.com/a"}}`, 200, webhook("a")},
		{"POST", webhooks, `{"parent":"tasks/` + id + `","config_id":"b","config":{"push_notification_config":{"url":"https://example.com/b","token":"","authentication":{}}}}`, 200, webhook("b")},
		{"GET", webhooks + "/a", "", 200, webhook("a")},
		{"GET", webhooks, "", 200, `{"configs":[` + webhook("a") + `,` + webhook("b") + `]}`},
		{"GET", webhooks + "?pageSize=1", "", 200, `?{"configs":[` + webhook("a") + `],"nextPageToken":"`},
		{"GET", webhooks + "?page_size=x", "", 400, "?" + `"field":"pageSize"`},
		{"DELETE", webhooks + "/a", "", 200, `{}`},
		{"DELETE", webhooks + "/b", "", 200, `{}`},
		{"GET", webhooks, "", 200, `{"configs":[]}`},
		{"GET", webhooks + "/a", "", 404, "?" + `{"code":-32022,`},
		{"POST", webhooks, `{"pushNotificationConfig":{"url":"x"}}`, 400, "?" + `"field":"pushNotificationConfig.url"`},
		{"GET", "/v1/card", "", 404, "?" + `{"code":-32007,`},
		{"GET", "/v1/contexts?pageSize=1", "", 200, `?{"contexts":[{"contextId":"`},
		{"GET", "/v1/contexts/" + contextID, "", 200, `?"role":"ROLE_USER","content":[{"text":"first"}]`},
		{"PATCH", "/v1/contexts/" + contextID, `{"name":"n"}`, 200, `?"name":"n"`},
		{"POST", "/v1/tasks/" + id + "/feedback", `{"feedback":"good","rating":5}`, 200, `?"message":"Feedback submitted successfully"`},
		{"GET", "/v1/feedback?taskId=" + id, "", 200, `?"feedback":"good"`},
		{"GET", "/v1/webhooks/dead", "", 200, `{"deadLetters":[],"pageSize":50}`},

		{"GET", "/v1/tasks/nope", "", 404, notFound},
		{"GET", "/v1/tasks/nope:subscribe", "", 404, notFound},
		{"POST", "/v1/tasks/nope:subscribe", "", 404, notFound},
		{"POST", "/v1/message:send", `{}`, 400, `?{"code":-32602,"message":"message is required","data":{"code":"invalid_params","field":"message","requestId":"rest"},"error":{"code":400,"status":"INVALID_ARGUMENT"`},
		{"POST", "/v1/message:send", `{"message":`, 400, `?{"code":-32700,`},
		{"GET", "/v1/nope", "", 404, noMethod(404, `path "/v1/nope" not found`)},
		{"GET", "/v1", "", 404, noMethod(404, `path "/v1" not found`)},
		{"GET", "/v1/tasks?A2A-Version=1.0", "", 404, noMethod(404, `method "tasks/list" is of A2A 0.3.0 and not found in A2A-Version "1.0"`)},
		{"GET", "/v1/tasks?A2A-Version=99.0", "", 400, `?{"code":-32009,`},
		{"PUT", "/v1/tasks", "", 405, refused(`/v1/tasks allows GET, HEAD, not "PUT"`)},

		{"DELETE", "/v1/tasks/" + id, "", 200, `?"taskId":"` + id + `"`},
		{"DELETE", "/v1/contexts/" + contextID, "", 200, `?"contextId":"` + contextID + `"`},
	} {
		got := e.do(test.verb, test.path, test.body, headers{"X-Request-Id", "rest"})
		body := string(got.Body)
		part, isPart := strings.CutPrefix(test.want, "?")
		if isPart && !strings.Contains(body, part) || !isPart && maskREST(body) != maskREST(test.want) || got.Status != test.status {
			t.Errorf("%s %s %s = %d %s\nwant %d %s", test.verb, test.path, test.body, got.Status, maskREST(body), test.status, maskREST(test.want))
		}
	}
}

// Every method has a route in A2A 0.3.
func TestEveryMethodHasARouteInRESTV03(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	for _, m := range a2a.Methods() {
		path := strings.NewReplacer("{", "", "}", "").Replace(m.Path)
		if got := e.do(m.HTTPMethod, path, "{}", nil); path == "" || strings.Contains(string(got.Body), "METHOD_NOT_FOUND") || strings.Contains(string(got.Body), " allows ") {
			t.Errorf("%s %s = %s, want the route of %s", m.HTTPMethod, path, got.Body, m.Name)
		}
	}
}

// A message in the JSON that 0.3 has over JSON-RPC is accepted too.
func TestRESTV03AcceptsTheJSONOfJSONRPC(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	got := e.do("POST", "/v1/message:send", params(message("plain"), blocking), nil)
	if got.Status != 200 || !strings.Contains(string(got.Body), `"parts":[{"text":"plain"}]`) {
		t.Errorf("message:send = %d %s, want the task with the text", got.Status, got.Body)
	}
}

func TestRESTV03Streams(t *testing.T) {
	t.Parallel()
	h, release := blockingHandler(t)
	defer release()
	working := start(t, h, nil)
	done := start(t, echo, nil)
	status, head, body := done.fetch("POST", "/v1/message:stream", `{`+protoMessage("a")+`}`)
	lines := regexp.MustCompile(`(?m)^id: \d+\ndata: \{"(task|statusUpdate|artifactUpdate)":`).FindAllStringSubmatch(body, -1)
	if status != 200 || head.Get("Content-Type") != "text/event-stream" || len(lines) < 3 || lines[0][1] != "task" || lines[len(lines)-1][1] != "statusUpdate" || !strings.Contains(body, `"final":true`) {
		t.Errorf("message:stream = %d %s, want a task and updates up to the final one", status, body)
	}
	_, _, sent := working.fetch("POST", "/v1/message:send", `{`+protoMessage("b")+`}`)
	var task struct{ Task taskView }
	if err := json.Unmarshal([]byte(sent), &task); err != nil {
		t.Fatal(err)
	}
	path := "/v1/tasks/" + task.Task.ID
	if status, _, body := working.fetch("POST", path+":cancel", ""); status != 200 || !strings.Contains(body, `"TASK_STATE_CANCELLED"`) {
		t.Errorf(":cancel = %d %s, want the canceled task", status, body)
	}
	for _, verb := range []string{"GET", "POST"} {
		if status, _, body := working.fetch(verb, path+":subscribe", ""); status != 200 || !strings.Contains(body, `data: {"task":{"id":"`+task.Task.ID) {
			t.Errorf("%s :subscribe = %d %s, want the task", verb, status, body)
		}
	}
	status, _, body = working.fetch("GET", path+":subscribe", "", "Last-Event-ID", "1")
	if status != 200 || strings.Contains(body, `"task":`) || !strings.Contains(body, "TASK_STATE_CANCELLED") {
		t.Errorf(":subscribe after event 1 = %d %s, want the later events", status, body)
	}
}

// A stream that fails ends with an event of the type error, which official clients require.
func TestRESTStreamsEndWithAnErrorEvent(t *testing.T) {
	t.Parallel()
	large := func(_ context.Context, turn *engine.Turn) error {
		return turn.AddArtifact(a2a.Artifact{Parts: []a2a.Part{a2a.TextPart{Text: strings.Repeat("x", 1<<20)}}})
	}
	e := start(t, large, func(c *server.Config) { c.Memory = memory.New(1 << 19) })
	for _, test := range []struct{ path, message, want string }{
		{"/v1/message:stream", protoMessage("a"), `^id: 1\ndata: \{"task":.*event: error\ndata: \{"code":-32051,"message":"[^"]+","data":\{.*\},"error":\{"code":413,`},
		{"/message:stream", restMessage("a"), `^id: 1\ndata: \{"task":.*event: error\ndata: \{"error":\{"code":413,`},
	} {
		_, _, body := e.fetch("POST", test.path, `{`+test.message+`}`)
		if !regexp.MustCompile(`(?s)` + test.want).MatchString(body) {
			t.Errorf("POST %s = %.2000s, want %s", test.path, body, test.want)
		}
	}
}

func TestRESTV03ReportsErrorsInItsOwnForm(t *testing.T) {
	t.Parallel()
	e := start(t, echo, twoTokens)
	for _, path := range []string{"/v1/card", "/v1/tasks", "/v1/nope"} {
		got := e.do("GET", path, "", nil)
		if got.Status != 401 || got.Header.Get("WWW-Authenticate") == "" || !strings.HasPrefix(string(got.Body), `{"code":-32010,`) || !strings.Contains(string(got.Body), `"error":{"code":401,"status":"UNAUTHENTICATED"`) {
			t.Errorf("GET %s = %d %s, want 401 in the form of A2A 0.3", path, got.Status, got.Body)
		}
	}
}

// The same conversation has the same results over JSON-RPC and HTTP+JSON of A2A 0.3.
func TestRESTV03EqualsJSONRPC(t *testing.T) {
	t.Parallel()
	talk := func(call func(e *env, method, verb, path, params string) any) (all []any) {
		e := start(t, transcriptHandler, nil)
		sent := func(text, more string) *a2a.Task {
			body := `{"message":{"messageId":"m-` + text + `","role":"user","parts":[{"kind":"text","text":"` + text + `"}]` + more + `},"configuration":{"blocking":true}}`
			task := call(e, "message/send", "POST", "/v1/message:send", body).(*a2a.Task)
			all = append(all, task)
			return task
		}
		first := sent("ask", "")
		path, id := "/v1/tasks/"+first.ID, `{"id":"`+first.ID+`"`
		all = append(all, call(e, "tasks/get", "GET", path, id+`}`))
		sent("more", `,"taskId":"`+first.ID+`"`)
		all = append(all, call(e, "tasks/get", "GET", path+"?historyLength=1", id+`,"historyLength":1}`))
		sent("work", "")
		return all
	}
	masked := func(all []any) string {
		var n placeholders
		raw, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return n.mask(string(raw))
	}
	over := talk(func(e *env, method, _, _, params string) any {
		task := new(a2a.Task)
		if err := (v03.Codec{}).DecodeResult(e.call(method, params).Result, task); err != nil {
			t.Fatal(err)
		}
		return task
	})
	rest := talk(func(e *env, method, verb, path, params string) any {
		if verb == "GET" {
			params = ""
		}
		status, _, body := e.fetch(verb, path, params)
		if method == "message/send" {
			event, err := v03.ProtoCodec{}.DecodeEvent([]byte(body))
			if err != nil {
				t.Fatalf("%s %s = %d %s: %v", verb, path, status, body, err)
			}
			return event
		}
		task := new(a2a.Task)
		if err := (v03.ProtoCodec{}).DecodeResult([]byte(body), task); err != nil {
			t.Fatalf("%s %s = %d %s: %v", verb, path, status, body, err)
		}
		return task
	})
	if a, b := masked(over), masked(rest); !reflect.DeepEqual(a, b) {
		t.Errorf("JSON-RPC %s\nREST %s", a, b)
	}
}
