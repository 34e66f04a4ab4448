package server_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/server"
)

// blockingHandler returns a handler that blocks until release is called, then asks for input.
func blockingHandler(t testing.TB) (h engine.Handler, release func()) {
	t.Helper()
	gate := make(chan struct{})
	open := false
	release = func() {
		if !open {
			open = true
			close(gate)
		}
	}
	t.Cleanup(release)
	return func(ctx context.Context, turn *engine.Turn) error {
		select {
		case <-gate:
			return turn.RequireInput(a2a.TextPart{Text: "what now?"})
		case <-ctx.Done():
			return ctx.Err()
		}
	}, release
}

func TestEnvelope(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	id := e.send("known").ID
	get := fmt.Sprintf(`"method":"tasks/get","params":{"id":%q}`, id)
	for _, test := range []struct {
		name, body string
		code       int
		id         string
		message    string // a part of the message
	}{
		{"not JSON", `{"jsonrpc": "2.0", "method": "message/send", "params": `, -32700, "null", "not JSON"},
		{"nothing at all", ``, -32700, "null", "not JSON"},
		{"two documents", `{} {}`, -32700, "null", "not JSON"},
		{"not UTF-8", "{\"method\":\"\xff\"}", -32700, "null", "UTF-8"},
		{"too deep", strings.Repeat(`{"a":`, 500), -32700, "null", "nested deeper"},
		{"a string", `"hello"`, -32600, "null", "must be an object"},
		{"no jsonrpc, no id", `{"method":"message/send","params":{}}`, -32600, "null", "jsonrpc"},
		{"wrong jsonrpc", `{"jsonrpc":"1.0","id":7,"method":"message/send"}`, -32600, "7", "jsonrpc"},
		{"jsonrpc a number", `{"jsonrpc":2.0,"id":7,"method":"message/send"}`, -32600, "7", "jsonrpc"},
		{"no method, no id", `{"jsonrpc":"2.0","params":{}}`, -32600, "null", "method is required"},
		{"method a number", `{"jsonrpc":"2.0","id":"a","method":5}`, -32600, `"a"`, "method must be a string"},
		{"unknown method", `{"jsonrpc":"2.0","id":"a","method":"no/such"}`, -32601, `"a"`, `"no/such"`},
		{"unknown method, no id", `{"jsonrpc":"2.0","method":"no/such"}`, -32601, `null`, `"no/such"`},
		{"invalid params, no id", `{"jsonrpc":"2.0","method":"tasks/get"}`, -32602, "null", "id is required"},
		{"id an object", `{"jsonrpc":"2.0","id":{},` + get + `}`, -32600, "null", "id must be"},
		{"id an array", `{"jsonrpc":"2.0","id":[1],` + get + `}`, -32600, "null", "id must be"},
		{"id a boolean", `{"jsonrpc":"2.0","id":true,` + get + `}`, -32600, "null", "id must be"},
		{"id too long", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 2000) + `",` + get + `}`, -32600, "null", "id is longer"},
		{"id a string", `{"jsonrpc":"2.0","id":"é\u00e9\n",` + get + `}`, 0, `"é\u00e9\n"`, ""},
		{"id a number", `{"jsonrpc":"2.0","id":12345678901234567890,` + get + `}`, 0, "12345678901234567890", ""},
		{"id a fraction", `{"jsonrpc":"2.0","id":-1.50e+1,` + get + `}`, 0, "-1.50e+1", ""},
		{"id null", `{"jsonrpc":"2.0","id":null,` + get + `}`, 0, "null", ""},
		{"unknown members", `{"jsonrpc":"2.0","id":1,"x":{"y":[]},` + get + `}`, 0, "1", ""},
		{"members twice", `{"jsonrpc":"1.0","id":1,"id":2,"jsonrpc":"2.0",` + get + `}`, -32600, "null", "occurs more than once"},
		{"escaped spelling", `{"\u006asonrpc":"\u0032.0","id":1,` + get + `}`, 0, "1", ""},
		{"white space", " \r\n\t{ \"jsonrpc\" : \"2.0\" , \"id\" : 1 , " + get + "} \n", 0, "1", ""},
		{"no params", `{"jsonrpc":"2.0","id":1,"method":"tasks/get"}`, -32602, "1", "id is required"},
		{"params null", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":null}`, -32602, "1", "id is required"},
		{"params an array", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":["x"]}`, -32602, "1", "params must be an object, not an array"},
		{"list without params", `{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`, 0, "1", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := e.post(test.body)
			if got.Status != http.StatusOK || got.code() != test.code || string(got.ID) != test.id || got.JSONRPC != "2.0" {
				t.Errorf("response = HTTP %d %s, want HTTP 200, id %s, code %d", got.Status, got.Body, test.id, test.code)
			}
			if got.Error != nil && !strings.Contains(got.Error.Message, test.message) {
				t.Errorf("message = %q, want it to contain %q", got.Error.Message, test.message)
			}
			if got := got.Header.Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type = %q, want application/json", got)
			}
		})
	}
}

func TestInvalidParamsNameTheField(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	for _, test := range []struct {
		name, method, params string
		code                 int
		field, message       string
	}{
		{"no message", "message/send", `{}`, -32602, "message", "message is required"},
		{"message null", "message/send", `{"message":null}`, -32602, "message", "message is required"},
		{"no messageId", "message/send", `{"message":{"role":"user","parts":[{"kind":"text","text":"x"}]}}`, -32602, "message.messageId", "message.messageId is required"},
		{"no role", "message/send", `{"message":{"messageId":"a","parts":[{"kind":"text","text":"x"}]}}`, -32602, "message.role", "message.role is required"},
		{"unknown role", "message/send", `{"message":{"messageId":"a","role":"boss","parts":[{"kind":"text","text":"x"}]}}`, -32602, "message.role", `message.role is "boss", want one of user, agent, system`},
		{"no parts", "message/send", `{"message":{"messageId":"a","role":"user"}}`, -32602, "message.parts", "message.parts is required"},
		{"empty parts", "message/send", `{"message":{"messageId":"a","role":"user","parts":[]}}`, -32602, "message.parts", "message.parts must not be empty"},
		{"parts a string", "message/send", `{"message":{"messageId":"a","role":"user","parts":"x"}}`, -32602, "message.parts", "message.parts must be an array, not a string"},
		{"unknown kind of part", "message/send", `{"message":{"messageId":"a","role":"user","parts":[{"kind":"song"}]}}`, -32602, "message.parts[0].kind", `message.parts[0].kind is "song", want one of data, file, text`},
		{"no kind of part", "message/send", `{"message":{"messageId":"a","role":"user","parts":[{"text":"x"}]}}`, -32602, "message.parts[0].kind", "message.parts[0].kind is required"},
		{"no text", "message/stream", `{"message":{"messageId":"a","role":"user","parts":[{"kind":"text"}]}}`, -32602, "message.parts[0].text", "message.parts[0].text is required"},
		{"file of nothing", "message/send", `{"message":{"messageId":"a","role":"user","parts":[{"kind":"file","file":{}}]}}`, -32602, "message.parts[0].file", "message.parts[0].file must have exactly one of bytes, uri, url"},
		{"bad base64", "message/send", `{"message":{"messageId":"a","role":"user","parts":[{"kind":"file","file":{"bytes":"*"}}]}}`, -32602, "message.parts[0].file.bytes", "must be base64"},
		{"wrong kind of message", "message/send", `{"message":{"kind":"task","messageId":"a","role":"user","parts":[{"kind":"text","text":"x"}]}}`, -32602, "message.kind", `message.kind is "task", want "message"`},
		{"negative historyLength", "message/send", params(message("a"), `"configuration":{"historyLength":-1}`), -32602, "configuration.historyLength", "is -1, want 0 or more"},
		{"historyLength a string", "tasks/get", `{"id":"x","historyLength":"5"}`, -32602, "historyLength", "historyLength must be a number, not a string"},
		{"negative historyLength", "tasks/get", `{"id":"x","historyLength":-5}`, -32602, "historyLength", "is -5, want 0 or more"},
		{"numeric id", "tasks/get", `{"id":5}`, -32602, "id", "id must be a string, not a number"},
		{"no id", "tasks/cancel", `{}`, -32602, "id", "id is required"},
		{"no id", "tasks/resubscribe", `{}`, -32602, "id", "id is required"},
		{"page size", "tasks/list", `{"pageSize":0}`, -32602, "pageSize", "is 0, want 1 to"},
		{"page token", "tasks/list", `{"pageToken":"x"}`, -32602, "pageToken", "was not issued by this agent"},
		{"state", "tasks/list", `{"states":["working","lazy"]}`, -32602, "states[1]", `states[1] is "lazy", want one of`},
		{"time", "tasks/list", `{"statusTimestampAfter":"yesterday"}`, -32602, "statusTimestampAfter", "want a time in RFC 3339 form"},
		{"unknown task", "tasks/get", `{"id":"x"}`, -32001, "", `task "x" not found`},
		{"unknown task", "tasks/cancel", `{"id":"x"}`, -32001, "", `task "x" not found`},
		{"unknown task", "tasks/resubscribe", `{"id":"x"}`, -32001, "", `task "x" not found`},
		{"unknown task", "message/send", params(message("a", `"taskId":"x"`)), -32001, "", `task "x" not found`},
		{"push config", "message/send", params(message("a"), `"configuration":{"pushNotificationConfig":{"url":"https://example.com"}}`), -32003, "", "push notifications are not supported"},
		{"push set", "tasks/pushNotificationConfig/set", `{"taskId":"x","pushNotificationConfig":{"url":"https://example.com"}}`, -32003, "", "not supported"},
		{"push get", "tasks/pushNotificationConfig/get", `{"id":"x"}`, -32003, "", "not supported"},
		{"push list", "tasks/pushNotificationConfig/list", `{"id":"x"}`, -32003, "", "not supported"},
		{"push delete", "tasks/pushNotificationConfig/delete", `{"id":"x"}`, -32003, "", "not supported"},
		{"extended card", "agent/getAuthenticatedExtendedCard", `{}`, -32007, "", "not supported"},
	} {
		t.Run(test.method+" "+test.name, func(t *testing.T) {
			t.Parallel()
			got := e.call(test.method, test.params)
			if got.Status != http.StatusOK || got.code() != test.code {
				t.Fatalf("response = HTTP %d %s, want HTTP 200, code %d", got.Status, got.Body, test.code)
			}
			if !strings.Contains(got.Error.Message, test.message) {
				t.Errorf("message = %q, want it to contain %q", got.Error.Message, test.message)
			}
			if field, _ := got.Error.Data["field"].(string); field != test.field {
				t.Errorf("data.field = %q, want %q", field, test.field)
			}
			if got.Error.Data["code"] == "" || got.Error.Data["requestId"] != got.Header.Get("X-Request-Id") {
				t.Errorf("data = %v, want a code and the request id %s", got.Error.Data, got.Header.Get("X-Request-Id"))
			}
		})
	}
	if tasks := e.call("tasks/list", `{}`); !strings.Contains(string(tasks.Result), `"tasks":[]`) {
		t.Errorf("tasks/list = %s, want no tasks: rejected requests must have no effect", tasks.Result)
	}
}

func TestInputIsLenient(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	big := strings.Repeat("ünïcödé ", 1<<17)
	for _, test := range []struct{ name, message string }{
		{"snake case", `{"message_id":"a","role":"user","parts":[{"kind":"text","text":"x"}],"reference_task_ids":[]}`},
		{"explicit nulls", `{"messageId":"a","role":"user","parts":[{"kind":"text","text":"x","metadata":null}],"contextId":null,"taskId":null,"metadata":null,"extensions":null,"referenceTaskIds":null,"kind":null}`},
		{"unknown members", `{"messageId":"a","role":"user","parts":[{"kind":"text","text":"x","size":5}],"mood":"good"}`},
		{"a file by url", `{"messageId":"a","role":"user","parts":[{"kind":"file","file":{"url":"https://example.com/a","size":12}}]}`},
		{"an array as data", `{"messageId":"a","role":"user","parts":[{"kind":"data","data":[1,{"b":2}]}]}`},
		{"a large text", fmt.Sprintf(`{"messageId":"a","role":"user","parts":[{"kind":"text","text":%q}]}`, big)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := e.call("message/send", params(test.message, `"configuration":{"blocking":true,"history_length":1}`))
			if task := got.task(t); task.Status.State != "completed" || len(task.History) != 1 {
				t.Errorf("task = %+v, want it completed with one message", task)
			}
			if strings.Contains(string(got.Result), "message_id") {
				t.Errorf("response %s is in snake_case", got.Result)
			}
		})
	}
}

func TestHistoryLength(t *testing.T) {
	t.Parallel()
	h, _ := blockingHandler(t)
	e := start(t, h, nil)
	task := e.call("message/send", params(message("one"))).task(t)
	for _, text := range []string{"two", "three"} {
		e.call("message/send", params(message(text, fmt.Sprintf(`"taskId":%q`, task.ID)))).task(t)
	}
	for _, test := range []struct{ member, want string }{
		{"", "m-one m-two m-three"},
		{`"historyLength":null`, "m-one m-two m-three"},
		{`"historyLength":2`, "m-two m-three"},
		{`"historyLength":1`, "m-three"},
		{`"history_length":1`, "m-three"},
		{`"historyLength":1000000`, "m-one m-two m-three"},
		{`"historyLength":0`, ""},
	} {
		extra := []string{}
		if test.member != "" {
			extra = append(extra, test.member)
		}
		got := e.call("tasks/get", fmt.Sprintf(`{"id":%q%s}`, task.ID, members(extra)))
		checkHistory(t, "tasks/get "+test.member, got.Result, got.task(t), test.want)

		list := e.call("tasks/list", fmt.Sprintf(`{"pageSize":1%s}`, members(extra)))
		var page struct{ Tasks []taskView }
		if err := json.Unmarshal(list.Result, &page); err != nil || len(page.Tasks) != 1 {
			t.Fatalf("tasks/list = %s, want one task", list.Body)
		}
		if test.member != "" && !strings.Contains(test.member, "null") { // by default lists have no messages
			checkHistory(t, "tasks/list "+test.member, list.Result, page.Tasks[0], test.want)
		}
	}
	configuration := `"configuration":{"historyLength":1}`
	got := e.call("message/send", params(message("four", fmt.Sprintf(`"taskId":%q`, task.ID)), configuration))
	checkHistory(t, "message/send", got.Result, got.task(t), "m-four")
	first, _ := e.open("message/stream", params(message("five", fmt.Sprintf(`"taskId":%q`, task.ID)), configuration)).next()
	checkHistory(t, "message/stream", first.Data.Result, first.view(t), "m-five")
}

func checkHistory(t *testing.T, call string, raw []byte, task taskView, want string) {
	t.Helper()
	var ids []string
	for _, m := range task.History {
		ids = append(ids, m.MessageID)
	}
	if got := strings.Join(ids, " "); got != want || !strings.Contains(string(raw), `"history":[`) {
		t.Errorf("%s: history = %q, want %q in a member history: %s", call, got, want, raw)
	}
}

func TestTasksListPages(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	var want []string
	for i := range 5 {
		want = append([]string{e.send(fmt.Sprint(i)).ID}, want...)
	}
	var got []string
	token := ""
	for page := 0; ; page++ {
		r := e.call("tasks/list", fmt.Sprintf(`{"page_size":2,"pageToken":%q,"includeTotal":true,"status":"completed"}`, token))
		var list struct {
			Tasks         []taskView
			NextPageToken *string
			PageSize      int
			TotalSize     *int
		}
		if err := json.Unmarshal(r.Result, &list); err != nil || list.NextPageToken == nil || list.TotalSize == nil {
			t.Fatalf("tasks/list = %s (%v), want a page with nextPageToken and totalSize", r.Body, err)
		}
		if list.PageSize != 2 || *list.TotalSize != 5 {
			t.Errorf("pageSize, totalSize = %d, %d, want 2, 5", list.PageSize, *list.TotalSize)
		}
		for _, task := range list.Tasks {
			got = append(got, task.ID)
			if len(task.Artifacts) > 0 {
				t.Errorf("task %s has artifacts that were not requested", task.ID)
			}
		}
		if token = *list.NextPageToken; token == "" {
			break
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("pages have %v, want %v", got, want)
	}
	if r := e.call("tasks/list", `{"includeArtifacts":true}`); !strings.Contains(string(r.Result), `"artifacts":[`) {
		t.Errorf("tasks/list = %s, want artifacts", r.Result)
	}
	if r := e.call("tasks/list", `{"contextId":"none"}`); !strings.Contains(string(r.Result), `"tasks":[],"nextPageToken":""`) {
		t.Errorf("tasks/list = %s, want an empty list and page token", r.Result)
	}
}

func TestBlockingWaits(t *testing.T) {
	t.Parallel()
	h, release := blockingHandler(t)
	e := start(t, h, nil)
	if task := e.call("message/send", params(message("a"))).task(t); task.Status.State != "submitted" && task.Status.State != "working" {
		t.Errorf("without blocking: state = %s, want submitted or working", task.Status.State)
	}
	done := make(chan taskView, 1)
	go func() { done <- e.call("message/send", params(message("b"), blocking)).task(t) }()
	release()
	if task := <-done; task.Status.State != "input-required" {
		t.Errorf("blocking: state = %s, want input-required", task.Status.State)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	h, _ := blockingHandler(t)
	e := start(t, h, nil)
	task := e.call("message/send", params(message("a"))).task(t)
	id := fmt.Sprintf(`{"id":%q}`, task.ID)
	if got := e.call("tasks/cancel", id).task(t); got.Status.State != "canceled" {
		t.Errorf("tasks/cancel: state = %s, want canceled", got.Status.State)
	}
	if got := e.call("tasks/cancel", id); got.code() != -32002 {
		t.Errorf("second tasks/cancel = %s, want code -32002", got.Body)
	}
	if got := e.call("message/send", params(message("b", fmt.Sprintf(`"taskId":%q`, task.ID)))); got.code() != -32004 {
		t.Errorf("message to a canceled task = %s, want code -32004", got.Body)
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) { c.Requests.MaxBatch = 8 })
	got := e.post(`[` +
		`{"jsonrpc":"2.0","id":1,"method":"message/send","params":` + params(message("a"), blocking) + `},` +
		`{"jsonrpc":"2.0","id":"two","method":"tasks/get","params":{"id":"x"}}, 5, {"jsonrpc":"2.0","method":"tasks/list"},` +
		`{"jsonrpc":"2.0","id":3,"method":"message/stream","params":` + params(message("b")) + `},` +
		`{"jsonrpc":"2.0","id":4,"method":"tasks/list"}]`)
	var responses []reply
	if err := json.Unmarshal(got.Body, &responses); err != nil {
		t.Fatalf("response %s: %v", got.Body, err)
	}
	var list []string
	for _, r := range responses {
		list = append(list, fmt.Sprintf("%s:%d", r.ID, r.code()))
	}
	if got, want := strings.Join(list, " "), `1:0 "two":-32001 null:-32600 3:-32600 4:0`; got != want {
		t.Errorf("batch responses = %s, want %s", got, want)
	}
	for _, test := range []struct {
		name, body string
		h          []string
		code       int
	}{
		{"empty", `[]`, nil, -32600},
		{"too many", `[1,2,3,4,5,6,7,8,9]`, nil, -32600},
		{"not JSON", `[{"jsonrpc"`, nil, -32700},
		{"with an idempotency key", `[{"jsonrpc":"2.0","id":4,"method":"tasks/list"}]`, []string{"Idempotency-Key", "k"}, -32600},
	} {
		if got := e.post(test.body, test.h...); got.code() != test.code || string(got.ID) != "null" {
			t.Errorf("%s: response = %s, want one error %d", test.name, got.Body, test.code)
		}
	}
}

// A valid request without an id is executed and gets no response, also no error.
func TestNotificationsGetNoResponse(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	send := func(contextID, id string) string {
		return `{"jsonrpc":"2.0",` + id + `"method":"message/send","params":` + params(message("a", `"contextId":"`+contextID+`"`)) + `}`
	}
	notification := func(method, params string) string {
		return `{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`
	}
	for _, test := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"a message", send("one", ""), 204, ""},
		{"a read", notification("tasks/get", `{"id":"none"}`), 204, ""},
		{"a message to no task", notification("message/send", params(message("a", `"taskId":"none"`))), 204, ""},
		{"an unknown method", notification("notifications/initialized", `{}`), 200, `^\{"jsonrpc":"2.0","id":null,"error":\{"code":-32601`},
		{"invalid params", notification("message/send", `{}`), 200, `^\{"jsonrpc":"2.0","id":null,"error":\{"code":-32602`},
		{"a stream", strings.Replace(send("none", ""), "message/send", "message/stream", 1), 200, `^\{"jsonrpc":"2.0","id":null,"error":\{"code":-32600`},
		{"a batch of notifications", "[" + send("two", "") + "," + notification("tasks/get", `{"id":"none"}`) + "]", 204, ""},
		{"a batch with others", "[" + notification("tasks/get", `{"id":"none"}`) + "," + `{"jsonrpc":"2.0","id":1,"method":"x"}` + "," + send("three", "") + `,{"jsonrpc":"2.0","id":2,"method":"y"}]`, 200, `^\[\{"jsonrpc":"2.0","id":1,.*\},\{"jsonrpc":"2.0","id":2,.*\}\]$`},
		{"an invalid request", `{"jsonrpc":"1.0","method":"tasks/get"}`, 200, `^\{"jsonrpc":"2.0","id":null,"error":`},
		{"a null id", send("four", `"id":null,`), 200, `^\{"jsonrpc":"2.0","id":null,"result":`},
	} {
		got := e.post(test.body)
		if got.Status != test.status || !regexp.MustCompile(cmp.Or(test.want, "^$")).Match(got.Body) {
			t.Errorf("%s: HTTP %d %q, want %d %q", test.name, got.Status, got.Body, test.status, test.want)
		}
	}
	for contextID, want := range map[string]string{"one": `"totalSize":1`, "two": `"totalSize":1`, "three": `"totalSize":1`, "four": `"totalSize":1`, "none": `"totalSize":0`} {
		if got := string(e.call("tasks/list", `{"contextId":"`+contextID+`","includeTotal":true}`).Body); !strings.Contains(got, want) {
			t.Errorf("tasks of context %s = %s, want %s", contextID, got, want)
		}
	}
}
