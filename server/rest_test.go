package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server"
)

// fetch sends a request and returns the status, the headers and the body.
func (e *env) fetch(verb, path, body string, h ...string) (int, http.Header, string) {
	e.t.Helper()
	r := e.do(verb, path, body, h)
	return r.Status, r.Header, string(r.Body)
}

func restMessage(text string) string {
	return fmt.Sprintf(`"message":{"messageId":"m-%s","role":"ROLE_USER","parts":[{"text":%q}]}`, text, text)
}

// restError returns the expected body of an error.
func restError(code int, status, message, reason, dataCode, more string) string {
	return fmt.Sprintf(`{"error":{"code":%d,"status":%q,"message":%q,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":%q,"domain":"a2a-protocol.org","metadata":{"code":%q}}%s,{"@type":"type.googleapis.com/google.rpc.RequestInfo","requestId":"rest"}]}}`,
		code, status, message, reason, dataCode, more)
}

func fieldViolation(field, rule string) string {
	return fmt.Sprintf(`,{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":%q,"description":%q}]}`, field, rule)
}

// maskREST replaces what differs between runs.
func maskREST(body string) string {
	body = timeForm.ReplaceAllString(body, "<time>")
	return uuidForm.ReplaceAllString(body, "<id>")
}

// The requests of a conversation, with their full responses.
func TestREST(t *testing.T) {
	t.Parallel()
	st := newStore()
	e := startOn(t, st, echo, withWebhook(t, st))
	_, _, sent := e.fetch("POST", "/message:send", `{`+restMessage("first")+`}`)
	var first struct{ Task taskView }
	if err := json.Unmarshal([]byte(sent), &first); err != nil {
		t.Fatal(err)
	}
	id, contextID := first.Task.ID, first.Task.ContextID
	status := `"status":{"state":"TASK_STATE_COMPLETED","message":{"messageId":"<id>","contextId":"<id>","taskId":"<id>","role":"ROLE_AGENT","parts":[{"text":"done"}]},"timestamp":"<time>"}`
	artifacts := func(text string) string {
		return `"artifacts":[{"artifactId":"<id>","name":"echo","parts":[{"text":"` + text + `"}]}]`
	}
	head := `{"id":"<id>","contextId":"<id>",` + status
	history := func(text string) string {
		return `"history":[{"messageId":"m-` + text + `","contextId":"<id>","taskId":"<id>","role":"ROLE_USER","parts":[{"text":"` + text + `"}]},{"messageId":"<id>","contextId":"<id>","taskId":"<id>","role":"ROLE_AGENT","parts":[{"text":"done"}]}]`
	}
	task := head + `,` + history("first") + `,` + artifacts("first") + `}`
	webhook := `{"taskId":"<id>","id":"w","url":"https://example.com/hook"}`
	webhooks := "/tasks/" + id + "/pushNotificationConfigs"
	notFound := restError(404, "NOT_FOUND", `task "nope" not found`, "TASK_NOT_FOUND", "task_not_found", "")
	precondition := func(message, reason, code string) string {
		return restError(400, "FAILED_PRECONDITION", message, reason, code, "")
	}
	invalid := func(field, rule string) string {
		return restError(400, "INVALID_ARGUMENT", field+" "+rule, "INVALID_PARAMS", "invalid_params", fieldViolation(field, rule))
	}
	noPath := func(path string) string {
		return restError(404, "NOT_FOUND", fmt.Sprintf("path %q not found", path), "METHOD_NOT_FOUND", "method_not_found", "")
	}
	for _, test := range []struct {
		verb, path, body string
		status           int
		want             string
	}{
		{"POST", "/message:send", `{` + restMessage("a") + `,"configuration":{"historyLength":0}}`, 200, `{"task":` + head + `,` + artifacts("a") + `}}`},
		{"GET", "/tasks/" + id, "", 200, task},
		{"GET", "/tasks/" + id + "?historyLength=0", "", 200, head + `,` + artifacts("first") + `}`},
		{"GET", "/tasks/" + id + "?history_length=0&unknown=1&id=", "", 200, head + `,` + artifacts("first") + `}`},
		{"GET", "/tasks?contextId=" + contextID + "&pageSize=1", "", 200, `{"tasks":[` + head + `}],"nextPageToken":"","pageSize":1,"totalSize":1}`},
		{"GET", "/tasks?context_id=" + contextID + "&includeArtifacts=true&states=TASK_STATE_FAILED,TASK_STATE_COMPLETED&statusTimestampAfter=2020-01-01T00:00:00Z", "", 200, `{"tasks":[` + head + `,` + artifacts("first") + `}],"nextPageToken":"","pageSize":50,"totalSize":1}`},
		{"GET", "/tasks?states=TASK_STATE_FAILED&states=TASK_STATE_WORKING", "", 200, `{"tasks":[],"nextPageToken":"","pageSize":50,"totalSize":0}`},
		{"GET", "/tasks?status=TASK_STATE_FAILED", "", 200, `{"tasks":[],"nextPageToken":"","pageSize":50,"totalSize":0}`},
		{"POST", "/tasks/" + id + ":cancel", "", 400, precondition(`task "`+id+`" is completed and cannot be canceled`, "TASK_NOT_CANCELABLE", "task_not_cancelable")},
		{"POST", webhooks, `{"id":"w","taskId":"` + id + `","url":"https://example.com/hook"}`, 200, webhook},
		{"GET", webhooks, "", 200, `{"configs":[` + webhook + `]}`},
		{"GET", webhooks + "/w", "", 200, webhook},
		{"DELETE", webhooks + "/w", "", 200, `{}`},
		{"DELETE", webhooks + "/w", "", 200, `{}`},
		{"GET", webhooks + "/w", "", 404, "?TASK_NOT_FOUND"},
		{"GET", "/extendedAgentCard", "", 400, "?UNSUPPORTED_OPERATION"},
		{"GET", "/contexts?pageSize=1", "", 200, `?{"contexts":[{"contextId":"`},
		{"GET", "/contexts/" + contextID, "", 200, `?{"contextId":"` + contextID + `"`},
		{"PATCH", "/contexts/" + contextID, `{"name":"n"}`, 200, `?"name":"n"`},
		{"POST", "/tasks/" + id + "/feedback", `{"feedback":"good","rating":5}`, 200, `?"message":"Feedback submitted successfully"`},
		{"GET", "/feedback?taskId=" + id, "", 200, `?"feedback":"good"`},
		{"GET", "/webhooks/dead", "", 200, `{"deadLetters":[],"pageSize":50}`},
		{"GET", "/tasks/" + id + "/webhooks/attempts", "", 200, `?"attempts":[]`},

		{"GET", "/tasks/nope", "", 404, notFound},
		{"POST", "/tasks/nope:cancel", "{}", 404, notFound},
		{"GET", "/tasks/nope/pushNotificationConfigs", "", 404, notFound},
		{"GET", "/tasks/a%2F..%2Fb", "", 404, strings.ReplaceAll(notFound, "nope", "a/../b")},
		{"GET", "/tasks/a%3Acancel", "", 404, strings.ReplaceAll(notFound, "nope", "a:cancel")},
		{"GET", "/tasks/a%22%7D", "", 404, strings.ReplaceAll(notFound, `\"nope\"`, `\"a\\\"}\"`)},
		{"GET", "/tasks/" + id + "?taskId=other", "", 200, task}, // the name of a param precedes its alias
		{"GET", "/tasks/" + id + "?id=other", "", 400, invalid("id", "differs between the path and the query")},
		{"POST", webhooks, `{"task_id":"other","url":"https://example.com/hook"}`, 400, invalid("taskId", "differs between the URL and the body")},
		{"POST", webhooks, `{"url":"x"}`, 400, "?\"field\":\"url\""},
		{"GET", "/tasks?pageSize=x", "", 400, "?\"field\":\"pageSize\""},
		{"GET", "/tasks?pageSize=1&page_size=2", "", 400, invalid("pageSize", "must have one value, not 2")},
		{"GET", "/tasks?includeArtifacts=1", "", 400, invalid("includeArtifacts", "must be a boolean, not a string")},
		{"GET", "/tasks?metadata=%7B", "", 400, invalid("metadata", "must be a JSON object")},
		{"GET", "/tasks?a=%zz", "", 400, "?INVALID_REQUEST"},
		{"POST", "/message:send", `{}`, 400, "?\"field\":\"message\""},
		{"POST", "/message:send", ``, 400, "?\"field\":\"message\""},
		{"POST", "/message:send", `{"message":`, 400, "?PARSE_ERROR"},
		{"PATCH", "/contexts/" + contextID, `{"name":"a","name":"b"}`, 400, invalid("name", "occurs more than once")},
		{"POST", "/message:send", `{"configuration":{},"configuration":{}}`, 400, invalid("configuration", "occurs more than once")},
		{"POST", "/message:send", `[]`, 400, restError(400, "INVALID_ARGUMENT", "the body must be an object, not an array", "INVALID_PARAMS", "invalid_params", "")},
		{"POST", "/message:stream", `{}`, 400, "?\"field\":\"message\""},
		{"GET", "/tasks/a/b", "", 404, noPath("/tasks/a/b")},
		{"GET", "/tasks/", "", 404, noPath("/tasks/")},
		{"GET", "//tasks", "", 404, noPath("//tasks")},
		{"GET", "/message:send", "", 405, restError(405, "UNIMPLEMENTED", `/message:send allows POST, not "GET"`, "INVALID_REQUEST", "invalid_request", "")},
		{"PUT", "/tasks", "", 405, restError(405, "UNIMPLEMENTED", `/tasks allows GET, HEAD, not "PUT"`, "INVALID_REQUEST", "invalid_request", "")},

		{"DELETE", "/tasks/" + id, "", 200, `?"taskId":"` + id + `"`},
		{"DELETE", "/contexts/" + contextID, "", 200, `?"contextId":"` + contextID + `"`},
	} {
		status, h, body := e.fetch(test.verb, test.path, test.body, "X-Request-Id", "rest")
		part, isPart := strings.CutPrefix(test.want, "?")
		if isPart && !strings.Contains(body, part) || !isPart && maskREST(body) != maskREST(test.want) || status != test.status {
			t.Errorf("%s %s %s = %d %s\nwant %d %s", test.verb, test.path, test.body, status, maskREST(body), test.status, maskREST(test.want))
		}
		if got := h.Get("Content-Type"); got != "application/json" {
			t.Errorf("%s %s: Content-Type %q, want application/json", test.verb, test.path, got)
		}
	}
}

// Every method has a route, which is known with and without its variables.
func TestEveryMethodHasARouteInREST(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	for _, m := range a2a.Methods() {
		path := strings.NewReplacer("/v1/card", "/extendedAgentCard", "/v1", "", "{", "", "}", "").Replace(m.Path)
		if _, _, body := e.fetch(m.HTTPMethod, path, "{}"); strings.Contains(body, "METHOD_NOT_FOUND") || strings.Contains(body, " allows ") {
			t.Errorf("%s %s = %s, want the route of %s", m.HTTPMethod, path, body, m.Name)
		}
	}
}

func TestRESTHeaders(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	id := e.send("a").ID
	for _, test := range []struct {
		verb, path, body string
		headers          headers
		status           int
		kind             string
	}{
		{"HEAD", "/tasks/" + id, "", nil, 200, "application/json"},
		{"HEAD", "/tasks/nope", "", nil, 404, "application/json"},
		{"HEAD", "/tasks/" + id + ":subscribe", "", nil, 405, "application/json"},
		{"GET", "/tasks/" + id, "", headers{"Accept", "application/a2a+json"}, 200, "application/a2a+json"},
		{"GET", "/tasks/" + id, "", headers{"Accept", "application/a2a+json, application/json"}, 200, "application/a2a+json"},
		{"GET", "/tasks/" + id, "", headers{"Accept", "application/json, application/a2a+json"}, 200, "application/json"},
		{"GET", "/tasks/a/b", "", headers{"Accept", "application/a2a+json"}, 404, "application/a2a+json"},
		{"GET", "/tasks", "", headers{"Accept", "application/a2a+json", "A2A-Version", "99.0"}, 400, "application/a2a+json"},
		{"POST", "/message:send", `{`, headers{"Accept", "application/a2a+json"}, 400, "application/a2a+json"},
		{"GET", "/tasks/" + id, "", headers{"Accept", "application/a2a+json;q=0.5, application/json"}, 200, "application/json"},
		{"GET", "/tasks/" + id, "", headers{"Accept", "*/*"}, 200, "application/json"},
		{"GET", "/tasks/" + id, "", headers{"A2A-Version", "0.3"}, 200, "application/json"},
		{"GET", "/tasks/" + id, "", headers{"A2A-Version", "1.0"}, 200, "application/json"},
		{"GET", "/tasks/" + id, "", headers{"A2A-Version", "1.1.2"}, 200, "application/json"},
		{"GET", "/tasks/" + id, "", headers{"A2A-Version", "99.0"}, 400, "application/json"},
		{"GET", "/tasks/" + id, "", headers{"A2A-Version", "0.2"}, 400, "application/json"},
		{"GET", "/tasks/" + id + "?A2A-Version=1.0", "", nil, 200, "application/json"},
		{"GET", "/tasks/" + id + "?A2A-Version=2.0", "", nil, 400, "application/json"},
		{"POST", "/message:send", `{` + restMessage("b") + `}`, headers{"Content-Type", "application/a2a+json"}, 200, "application/json"},
		{"POST", "/message:send", `{` + restMessage("c") + `}`, headers{"Content-Type", "text/plain"}, 415, "application/json"},
		{"POST", "/message:send", strings.Repeat(" ", 11<<20), nil, 413, "application/json"},
	} {
		status, h, body := e.fetch(test.verb, test.path, test.body, test.headers...)
		if status != test.status || h.Get("Content-Type") != test.kind {
			t.Errorf("%s %s %v = %d, %q %.200s, want %d, %q", test.verb, test.path, test.headers, status, h.Get("Content-Type"), body, test.status, test.kind)
		}
		if test.verb == "HEAD" && body != "" {
			t.Errorf("HEAD %s = %q, want no body", test.path, body)
		}
		if test.status >= 400 && test.verb != "HEAD" && !strings.HasPrefix(body, fmt.Sprintf(`{"error":{"code":%d,`, test.status)) {
			t.Errorf("%s %s = %s, want the error of the status", test.verb, test.path, body)
		}
	}
}

// A codec with the statuses of A2A 1.0.0 determines the statuses of a method's errors.
func TestRESTWithTheErrorsOfV100(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) { c.Codecs = []rpc.Codec{v03.Codec{}, v10.Codec{Errors100: true}} })
	path := "/tasks/" + e.send("a").ID + ":cancel"
	if status, _, body := e.fetch("POST", path, ""); status != 409 || !strings.HasPrefix(body, `{"error":{"code":409,"status":"FAILED_PRECONDITION"`) {
		t.Errorf("POST %s = %d %s, want 409 FAILED_PRECONDITION", path, status, body)
	}
}

func TestRESTNeedsAToken(t *testing.T) {
	t.Parallel()
	e := start(t, echo, twoTokens)
	for _, path := range []string{"/tasks", "/tasks/a/b", "/nobody/tasks"} {
		status, h, body := e.fetch("GET", path, "")
		if status != 401 || h.Get("WWW-Authenticate") == "" || !strings.Contains(body, `{"error":{"code":401,"status":"UNAUTHENTICATED"`) {
			t.Errorf("GET %s = %d %s, want 401 in the form of REST", path, status, body)
		}
	}
}

func TestRESTTenants(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) { c.Codecs = []rpc.Codec{v03.Codec{}, v10.Codec{Tenant: "acme"}} })
	for path, want := range map[string]int{"/tasks": 200, "/acme/tasks": 200, "/other/tasks": 200, "/acme/v1/tasks": 404, "/v1/v1/tasks": 404, "/health/tasks": 404} {
		if status, _, body := e.fetch("GET", path, ""); status != want {
			t.Errorf("GET %s = %d %s, want %d", path, status, body, want)
		}
	}
	for codec, want := range map[rpc.Codec]map[string]int{
		v03.Codec{}: {"/tasks": 404, "/v1/tasks": 200},
		v10.Codec{}: {"/tasks": 200, "/v1/tasks": 404},
	} {
		one := start(t, echo, func(c *server.Config) { c.Codecs = []rpc.Codec{codec} })
		for path, want := range want {
			if status, _, body := one.fetch("GET", path, ""); status != want {
				t.Errorf("GET %s with only %T = %d %s, want %d", path, codec, status, body, want)
			}
		}
	}
}

// A tenant with the name of a path would not receive the requests for it.
func TestTenantsDoNotHidePaths(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	for tenant, valid := range map[string]bool{"acme": true, "tasks": false, "v1": false, "rest": false, "health": false, "agent": false, ".well-known": false} {
		_, err := server.New(server.Config{Engine: e.engine, Card: a2a.AgentCard{Name: "a"}, Codecs: []rpc.Codec{v03.Codec{}, v10.Codec{Tenant: tenant}}})
		if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("tenant %q", tenant)) {
			t.Errorf("New() with the tenant %s = %v, want it valid: %t", tenant, err, valid)
		}
	}
}

func TestRESTStreams(t *testing.T) {
	t.Parallel()
	h, release := blockingHandler(t)
	defer release()
	working := start(t, h, nil)
	done := start(t, echo, nil)
	status, head, body := done.fetch("POST", "/message:stream", `{`+restMessage("a")+`}`)
	lines := regexp.MustCompile(`(?m)^id: \d+\ndata: \{"(task|statusUpdate|artifactUpdate)":`).FindAllStringSubmatch(body, -1)
	if status != 200 || head.Get("Content-Type") != "text/event-stream" || len(lines) < 3 || lines[0][1] != "task" || lines[len(lines)-1][1] != "statusUpdate" {
		t.Errorf("message:stream = %d %s, want a task and updates", status, body)
	}
	_, _, sent := working.fetch("POST", "/message:send", `{`+restMessage("b")+`,"configuration":{"returnImmediately":true}}`)
	var task struct{ Task taskView }
	if err := json.Unmarshal([]byte(sent), &task); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"GET", "POST"} {
		resp, err := working.client.Do(working.request(verb, "/tasks/"+task.Task.ID+":subscribe", "", nil))
		if err != nil {
			t.Fatal(err)
		}
		s := newLineReader(resp.Body)
		var data string
		for !strings.HasPrefix(data, "data: ") && err == nil {
			data, err = s.next()
		}
		if !strings.HasPrefix(data, `data: {"task":{"id":"`+task.Task.ID) {
			t.Errorf("%s :subscribe: first event %s, want the task", verb, data)
		}
		_ = resp.Body.Close()
	}
	if status, _, body := working.fetch("POST", "/tasks/"+task.Task.ID+":cancel", `{}`); status != 200 || !strings.Contains(body, "TASK_STATE_CANCELED") {
		t.Errorf(":cancel = %d %s, want the canceled task", status, body)
	}
	status, _, body = working.fetch("GET", "/tasks/"+task.Task.ID+":subscribe", "", "Last-Event-ID", "1")
	if status != 200 || strings.Contains(body, `"task":`) || !strings.Contains(body, "TASK_STATE_CANCELED") {
		t.Errorf(":subscribe after event 1 = %d %s, want the later events", status, body)
	}
}

// A server without a free stream, or that stops, rejects requests in the form of REST.
func TestRESTOverloadAndShutdown(t *testing.T) {
	t.Parallel()
	h, release := blockingHandler(t)
	defer release()
	e := start(t, h, func(c *server.Config) { c.Requests.MaxStreams = 1 })
	first := e.open("SendStreamingMessage", `{`+restMessage("a")+`}`)
	if _, ok := first.next(); !ok {
		t.Fatal("the stream has no event")
	}
	rejected := func(status int, name string) {
		t.Helper()
		got, h, body := e.fetch("POST", "/message:stream", `{`+restMessage("b")+`}`)
		if got != status || h.Get("Retry-After") == "" || !strings.HasPrefix(body, fmt.Sprintf(`{"error":{"code":%d,"status":%q,`, status, name)) {
			t.Errorf("message:stream = %d %s, want %d %s and Retry-After", got, body, status, name)
		}
	}
	rejected(429, "RESOURCE_EXHAUSTED")
	first.cancel()
	e.server.Drain()
	for {
		if status, _, _ := e.fetch("POST", "/message:stream", `{`+restMessage("c")+`}`); status != 429 {
			break // the first stream has ended
		}
	}
	rejected(503, "UNAVAILABLE")
}

// A page that reaches the server under its own host name cannot change anything.
func TestRESTRejectsDNSRebinding(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	id := e.send("a").ID
	for _, verb := range []string{"GET", "DELETE", "PATCH"} {
		r := e.request(verb, "/tasks/"+id, "", headers{"Origin", "http://evil.example.com"})
		r.Host = "evil.example.com"
		resp, err := e.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 403 {
			t.Errorf("%s with a foreign host name = %d, want 403", verb, resp.StatusCode)
		}
	}
}

// A key identifies a request on both bindings of 1.0.
func TestRESTIdempotencyKey(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	params := `{` + restMessage("a") + `}`
	_, _, first := e.fetch("POST", "/message:send", params, "Idempotency-Key", "k")
	if _, _, again := e.fetch("POST", "/message:send", params, "Idempotency-Key", "k"); again != first {
		t.Errorf("repeated = %s, want %s", again, first)
	}
	if over := e.call("SendMessage", params, "Idempotency-Key", "k"); string(over.Result) != first {
		t.Errorf("repeated over JSON-RPC = %s, want %s", over.Body, first)
	}
	if status, _, body := e.fetch("POST", "/message:send", `{`+restMessage("b")+`}`, "Idempotency-Key", "k"); status != 409 || !strings.Contains(body, `"status":"ABORTED"`) {
		t.Errorf("another message with the key = %d %s, want 409", status, body)
	}
}

// The same conversation has the same results over JSON-RPC and REST.
func TestRESTEqualsJSONRPC(t *testing.T) {
	t.Parallel()
	talk := func(call func(e *env, method, verb, path, params string) string) (all []any) {
		e := start(t, transcriptHandler, nil)
		var n placeholders
		keep := func(raw string) {
			var v any
			if err := json.Unmarshal([]byte(n.mask(raw)), &v); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			all = append(all, v)
		}
		keep(call(e, "SendMessage", "POST", "/message:send", `{`+restMessage("ask")+`}`))
		id := n.ids[0]
		keep(call(e, "GetTask", "GET", "/tasks/"+id, `{"id":"`+id+`"}`))
		keep(call(e, "SendMessage", "POST", "/message:send", strings.Replace(`{`+restMessage("more")+`}`, `"role"`, `"taskId":"`+id+`","role"`, 1)))
		keep(call(e, "GetTask", "GET", "/tasks/"+id+"?historyLength=1", `{"id":"`+id+`","historyLength":1}`))
		keep(call(e, "ListTasks", "GET", "/tasks?pageSize=5&includeArtifacts=true", `{"pageSize":5,"includeArtifacts":true}`))
		keep(call(e, "SendMessage", "POST", "/message:send", `{`+restMessage("work")+`}`))
		return all
	}
	over := talk(func(e *env, method, _, _, params string) string { return string(e.call(method, params).Result) })
	rest := talk(func(e *env, method, verb, path, params string) string {
		if verb == "GET" {
			params = ""
		}
		status, _, body := e.fetch(verb, path, params)
		if status != 200 {
			t.Errorf("%s %s = %d %s", verb, path, status, body)
		}
		return body
	})
	if !reflect.DeepEqual(over, rest) {
		t.Errorf("JSON-RPC %v\nREST %v", over, rest)
	}
}
