package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/server"
)

// Requests with the names of A2A 1.0 have params and results of 1.0.
func TestMethodNamesOfV10(t *testing.T) {
	t.Parallel()
	h, release := blockingHandler(t)
	done := start(t, echo, nil)
	working := start(t, h, nil)
	defer release()
	v10Message := func(text string) string {
		return fmt.Sprintf(`"message":{"message_id":"m-%s","role":"ROLE_USER","parts":[{"text":%q}]}`, text, text)
	}
	open := func(e *env, text string) string {
		return e.call("SendMessage", `{`+v10Message(text)+`,"configuration":{"returnImmediately":true}}`).v10Task(t, "task").ID
	}
	finished := done.call("SendMessage", `{`+v10Message("a")+`}`).v10Task(t, "task")
	running := open(working, "b")
	for _, test := range []struct {
		method, params string
		env            *env
		want           string // of the body
	}{
		{"SendMessage", `{` + v10Message("c") + `}`, done, `"result":\{"task":\{"id":"[^"]+","contextId":"[^"]+","status":\{"state":"TASK_STATE_COMPLETED".*"role":"ROLE_USER".*"parts":\[\{"text":"c"\}\]`},
		{"SendMessage", `{` + v10Message("d") + `,"configuration":{"historyLength":"0"}}`, done, `^[^h]*"artifacts"`},
		{"GetTask", `{"id":"` + finished.ID + `","history_length":0}`, done, `"result":\{"id":"` + finished.ID + `",[^h]*"artifacts":`},
		{"GetTask", `{"id":"nope"}`, done, `"error":\{"code":-32001,.*"reason":"TASK_NOT_FOUND"`},
		{"GetTask", `{}`, done, `"error":\{"code":-32602,"message":"id is required",.*"fieldViolations":\[\{"field":"id"`},
		{"ListTasks", `{"status":"TASK_STATE_COMPLETED","pageSize":"1"}`, done, `"result":\{"tasks":\[\{"id":.*\],"nextPageToken":"[^"]+","pageSize":1,"totalSize":\d+\}`},
		{"ListTasks", `{"status":8}`, done, `"result":\{"tasks":\[\],"nextPageToken":"","pageSize":50,"totalSize":0\}`},
		{"CancelTask", `{"id":"` + open(working, "e") + `"}`, working, `"result":\{"id":"[^"]+",.*"TASK_STATE_CANCELED"`},
		{"CancelTask", `{"id":"` + finished.ID + `"}`, done, `"error":\{"code":-32002,.*"reason":"TASK_NOT_CANCELABLE"`},
		{"SubscribeToTask", `{"id":"` + finished.ID + `"}`, done, `"error":\{"code":-32004,.*"reason":"UNSUPPORTED_OPERATION"`},
		{"SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"g"}],"taskId":"019a0000-0000-7000-8000-000000000001","contextId":"019a0000-0000-7000-8000-000000000002"}}`, done, `"error":\{"code":-32001,`},
		{"CreateTaskPushNotificationConfig", `{}`, done, `"error":\{"code":-32003,`},
		{"GetExtendedAgentCard", `{}`, done, `"error":\{"code":-32004,.*"reason":"UNSUPPORTED_OPERATION"`},
		{"ListContexts", `{}`, done, `"result":\{"contexts":\[\{"contextId":`},
	} {
		body := test.env.body(test.method, test.params)
		if !regexp.MustCompile(test.want).MatchString(body) || strings.Contains(body, `"kind"`) {
			t.Errorf("%s %s = %s, want it to match %s", test.method, test.params, body, test.want)
		}
	}
	s := done.open("SendStreamingMessage", `{`+v10Message("f")+`}`)
	var kinds []string
	for _, e := range s.rest() {
		event, err := v10.Codec{}.DecodeEvent(e.Data.Result)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, strings.TrimPrefix(fmt.Sprintf("%T", event), "*a2a."))
	}
	if len(kinds) < 3 || kinds[0] != "Task" || kinds[len(kinds)-1] != "TaskStatusUpdateEvent" {
		t.Errorf("SendStreamingMessage: events %v, want a task, then updates", kinds)
	}
	s = working.open("SubscribeToTask", `{"id":"`+running+`"}`)
	working.body("CancelTask", `{"id":"`+running+`"}`)
	events := s.rest()
	if last := events[len(events)-1].Data.v10Task(t, "statusUpdate"); last.Status.State != "TASK_STATE_CANCELED" {
		t.Errorf("SubscribeToTask: last event %s, want TASK_STATE_CANCELED", events[len(events)-1].Data.Result)
	}
}

// body calls a method and returns the response.
func (e *env) body(method, params string, h ...string) string {
	e.t.Helper()
	return string(e.call(method, params, h...).Body)
}

// v10Task returns the member of a result of A2A 1.0.
func (r reply) v10Task(t testing.TB, member string) taskView {
	t.Helper()
	var result map[string]taskView
	if err := json.Unmarshal(r.Result, &result); err != nil {
		t.Fatalf("%s: %v", r.Result, err)
	}
	return result[member]
}

func TestWebhookMethodsOfV10(t *testing.T) {
	t.Parallel()
	h, release := blockingHandler(t)
	defer release()
	st := newStore()
	e := startOn(t, st, h, withWebhook(t, st))
	task := e.call("SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"}]},"configuration":{"returnImmediately":true}}`).v10Task(t, "task").ID
	ids := fmt.Sprintf(`{"taskId":%q,"id":"w"}`, task)
	view := `\{"taskId":"` + task + `","id":"w","url":"https://example.com/hook","authentication":\{"scheme":"Bearer","credentials":"\*+"\}\}`
	defer func() {
		if body := e.body("tasks/pushNotificationConfig/list", fmt.Sprintf(`{"id":%q}`, task)); !strings.Contains(body, `"id":"b","url":"https://example.com/b","payloadFormat":"stream-response"`) || !strings.Contains(body, `"id":"c","url":"https://example.com/c","payloadFormat":"task"`) {
			t.Errorf("webhooks in A2A 0.3 = %s, want b with the format of A2A 1.0 and c with its own", body)
		}
	}()
	for _, test := range []struct{ method, params, want string }{
		{"CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":"w","url":"https://example.com/hook","authentication":{"scheme":"Bearer","credentials":"c"}}`, task), `"result":` + view},
		{"CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"url":"x"}`, task), `-32602.*"field":"url"`},
		{"GetTaskPushNotificationConfig", ids, `"result":` + view},
		{"GetTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":"nope"}`, task), `"code":-32001,.*"TASK_NOT_FOUND"`},
		{"ListTaskPushNotificationConfigs", fmt.Sprintf(`{"taskId":%q}`, task), `"result":\{"configs":\[` + view + `\]\}`},
		{"DeleteTaskPushNotificationConfig", ids, `"result":\{\}`},
		{"DeleteTaskPushNotificationConfig", ids, `"result":\{\}`},
		{"ListTaskPushNotificationConfigs", fmt.Sprintf(`{"taskId":%q}`, task), `"result":\{"configs":\[\]\}`},
		{"CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":"b","url":"https://example.com/b"}`, task), `"id":"b"`},
		{"CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":"c","url":"https://example.com/c","payloadFormat":"task"}`, task), `"id":"c"`},
	} {
		if body := e.body(test.method, test.params); !regexp.MustCompile(test.want).MatchString(body) {
			t.Errorf("%s %s = %s, want it to match %s", test.method, test.params, body, test.want)
		}
	}
}

// Every method has a name in A2A 1.0 too.
func TestEveryMethodHasANameInV10(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	for _, m := range a2a.Methods() {
		if body := e.body(v10.Codec{}.MethodName(&m), `{}`); strings.Contains(body, "-32601") {
			t.Errorf("%s = %s, want it to be known", m.NameV10, body)
		}
	}
}

// The name of a method determines the version. The header, or the query parameter of the same
// name, must agree with it.
func TestAnnouncedVersionOverJSONRPC(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	for _, test := range []struct {
		version, method string
		code            int
		form            string // of the error
	}{
		{"", "GetTask", -32001, "1.0"},
		{"0.3", "GetTask", -32001, "1.0"},
		{"1.0", "GetTask", -32001, "1.0"},
		{"99.0", "GetTask", -32009, "1.0"},
		{"2.0", "GetTask", -32009, "1.0"},
		{"", "tasks/get", -32001, "0.3"},
		{"1.0", "tasks/get", -32601, "1.0"},
		{"99.0", "tasks/get", -32009, "0.3"},
		{"", "nope", -32601, "0.3"},
		{"1.0", "nope", -32601, "1.0"},
	} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"id":"nope"}}`, test.method)
		for _, got := range []reply{
			e.post(body, "A2A-Version", test.version),
			e.do("POST", "/?A2A-Version="+test.version, body, nil),
		} {
			if got.code() != test.code || got.form() != test.form {
				t.Errorf("%s with version %q = %s, want code %d in the form of %s", test.method, test.version, got.Body, test.code, test.form)
			}
		}
	}
}

func TestSeveralVersionsAreNoVersion(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	body := `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"nope"}}`
	for second, want := range map[string]string{"0.3": `"code":-32009`, "1.0": `"code":-32001`} {
		r := e.request("POST", "/", body, headers{"A2A-Version", "1.0"})
		r.Header.Add("A2A-Version", second)
		resp, err := e.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("GetTask with versions 1.0 and %s = %s, %v, want %s", second, got, err, want)
		}
	}
}

// form returns the version of A2A that defines the form of an error.
func (r reply) form() string {
	switch {
	case r.Error == nil:
		return ""
	case r.Error.Data == nil:
		return "1.0"
	default:
		return "0.3"
	}
}

// A request that is rejected before its method is called gets the error in the form of its
// path and method, or of its header A2A-Version.
func TestRefusalsHaveTheFormOfTheRequest(t *testing.T) {
	t.Parallel()
	const (
		rpcV10  = `^{"jsonrpc":"2.0","id":null,"error":{"code":-\d+,.*"data":\[`
		rpcV03  = `^{"jsonrpc":"2.0","id":null,"error":{"code":-\d+,.*"data":{`
		restV10 = `^{"error":{"code":\d+,"status":"%s",.*"details":\[`
		restV03 = `^{"code":-\d+,"message":.*"data":{.*"error":{"code":\d+,"status":"%s",.*"details":\[`
	)
	withID := func(form string) string { return strings.Replace(form, "null", "7", 1) }
	named := func(form, name string) string { return strings.Replace(form, "%s", name, 1) }
	closed := start(t, echo, twoTokens)
	open := start(t, echo, func(c *server.Config) { c.Requests.MaxBodyBytes = 1 << 10 })
	large := strings.Repeat(" ", 2<<10)
	foreign, text := headers{"Origin", "http://evil.example.com"}, headers{"Content-Type", "text/plain"}
	for _, test := range []struct {
		e                         *env
		verb, path, body, version string
		more                      headers
		status                    int
		want                      string
	}{
		{closed, "POST", "/", `{"jsonrpc":"2.0","id":7,"method":"GetTask"}`, "", nil, 401, withID(rpcV10)},
		{closed, "POST", "/", `{"jsonrpc":"2.0","id":7,"method":"tasks/get"}`, "", nil, 401, withID(rpcV03)},
		{closed, "POST", "/", `[]`, "1.0", nil, 401, rpcV10},
		{closed, "PUT", "/", ``, "1.0", nil, 401, rpcV10},
		{closed, "GET", "/nope", ``, "", nil, 401, rpcV03},
		{closed, "GET", "/tasks", ``, "", nil, 401, named(restV10, "UNAUTHENTICATED")},
		{closed, "GET", "/v1/tasks", ``, "", nil, 401, named(restV03, "UNAUTHENTICATED")},
		{closed, "GET", "/rest/v1/tasks", ``, "", nil, 401, named(restV03, "UNAUTHENTICATED")},

		{open, "POST", "/", `{"jsonrpc":"2.0","id":7,"method":"GetTask"}`, "", foreign, 403, withID(rpcV10)},
		{open, "POST", "/", `{"jsonrpc":"2.0","id":7,"method":"tasks/get"}`, "", foreign, 403, withID(rpcV03)},
		{open, "POST", "/message:send", `{}`, "", foreign, 403, named(restV10, "PERMISSION_DENIED")},
		{open, "POST", "/v1/message:send", `{}`, "", foreign, 403, named(restV03, "PERMISSION_DENIED")},

		{open, "GET", "/nope", ``, "1.0", nil, 404, rpcV10},
		{open, "GET", "/nope", ``, "", nil, 404, rpcV03},
		{open, "GET", "/restful", ``, "", nil, 404, rpcV03},
		{open, "GET", "/tasks/a/b/c", ``, "", nil, 404, named(restV10, "NOT_FOUND")},
		{open, "GET", "/v1/nope", ``, "", nil, 404, named(restV03, "NOT_FOUND")},
		{open, "GET", "/rest", ``, "", nil, 404, named(restV03, "NOT_FOUND")},
		{open, "GET", "/rest/v1/nope", ``, "", nil, 404, named(restV03, "NOT_FOUND")},

		{open, "PUT", "/", ``, "1.0", nil, 405, rpcV10},
		{open, "PUT", "/", ``, "", nil, 405, rpcV03},
		{open, "PUT", "/tasks", ``, "", nil, 405, named(restV10, "UNIMPLEMENTED")},
		{open, "PUT", "/v1/tasks", ``, "", nil, 405, named(restV03, "UNIMPLEMENTED")},
		{open, "PUT", "/rest/v1/tasks", ``, "", nil, 405, named(restV03, "UNIMPLEMENTED")},

		{open, "POST", "/", large, "1.0", nil, 413, rpcV10},
		{open, "POST", "/", large, "", nil, 413, rpcV03},
		{open, "POST", "/message:send", large, "", nil, 413, named(restV10, "INVALID_ARGUMENT")},
		{open, "POST", "/v1/message:send", large, "", nil, 413, named(restV03, "INVALID_ARGUMENT")},

		{open, "POST", "/", `{}`, "1.0", text, 415, rpcV10},
		{open, "POST", "/v1/message:send", `{}`, "", text, 415, named(restV03, "INVALID_ARGUMENT")},
	} {
		got := test.e.do(test.verb, test.path, test.body, append(headers{"A2A-Version", test.version}, test.more...))
		if got.Status != test.status || !regexp.MustCompile(test.want).Match(got.Body) {
			t.Errorf("%s %s %.60s with version %q = %d %s, want %d %s", test.verb, test.path, test.body, test.version, got.Status, got.Body, test.status, test.want)
		}
		if (got.Header.Get("WWW-Authenticate") != "") != (test.status == 401) || (got.Header.Get("Allow") != "") != (test.status == 405) {
			t.Errorf("%s %s: headers %v of the status %d", test.verb, test.path, got.Header, got.Status)
		}
	}
}
