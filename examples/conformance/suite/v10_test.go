package suite_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
)

// row is a test of requirements of a kit.
type row struct {
	// ids are the requirements, separated by spaces.
	ids  string
	test func(c *conn)
}

// requirementsV10 are the requirements of A2A 1.0 that hold over each binding.
var requirementsV10 = []row{
	{"CORE-SEND-001 CORE-EXECUTION-MODE-001 CORE-MULTI-001 CORE-MULTI-001a DM-TASK-001 DM-STATUS-001", func(c *conn) {
		got := c.send("tck-complete-task", nil)
		if got.text("task.id") == "" || got.text("task.contextId") == "" || got.text("task.status.state") != "TASK_STATE_COMPLETED" {
			c.t.Errorf("SendMessage() = %s, want a completed task with ids", got.body)
		}
	}},
	{"CORE-EXECUTION-MODE-002", func(c *conn) {
		got := c.send("tck-cancel", object{"configuration": object{"returnImmediately": true}})
		if state := got.text("task.status.state"); state != "TASK_STATE_SUBMITTED" && state != "TASK_STATE_WORKING" {
			c.t.Errorf("SendMessage(returnImmediately) = %s, want a task that runs", got.body)
		}
		c.call(a2a.MethodCancel, object{"id": got.text("task.id")})
	}},
	{"CORE-SEND-002 CORE-ERR-001", func(c *conn) {
		task := c.send("tck-complete-task", nil)
		c.wantCode(c.follow("tck-complete-task", task, nil), a2a.CodeUnsupported)
	}},
	{"CORE-MULTI-003", func(c *conn) {
		if a, b := c.send("tck-complete-task", nil), c.send("tck-complete-task", nil); a.text("task.id") == b.text("task.id") {
			c.t.Errorf("two messages started task %s, want two tasks", a.text("task.id"))
		}
	}},
	{"CORE-MULTI-002 CORE-MULTI-002a", func(c *conn) {
		m := message("tck-complete-task")
		m["contextId"] = "context-of-the-client"
		if got := c.call(a2a.MethodSend, object{"message": m}); got.err == nil && got.text("task.contextId") != "context-of-the-client" {
			c.t.Errorf("SendMessage(contextId) = %s, want that context or an error", got.body)
		}
	}},
	{"CORE-MULTI-004", func(c *conn) {
		m := message("tck-complete-task")
		m["taskId"] = "absent"
		c.wantCode(c.call(a2a.MethodSend, object{"message": m}), a2a.CodeTaskNotFound)
	}},
	{"CORE-MULTI-005", func(c *conn) {
		task := c.send("tck-input-required", nil)
		if got := c.follow("tck-complete-task", task, nil); got.text("task.id") != task.text("task.id") || got.text("task.contextId") != task.text("task.contextId") {
			c.t.Errorf("follow-up = %s, want task %s in its context", got.body, task.text("task.id"))
		}
	}},
	{"CORE-MULTI-006", func(c *conn) {
		task := c.send("tck-input-required", nil)
		c.wantCode(c.follow("tck-complete-task", task, object{"contextId": "other"}), a2a.CodeInvalid)
	}},
	{"CORE-ERR-002 DM-SERIAL-004", func(c *conn) {
		for _, name := range []string{"messageId", "role", "parts"} {
			m := message("tck-complete-task")
			delete(m, name)
			c.wantCode(c.call(a2a.MethodSend, object{"message": m}), a2a.CodeInvalid)
		}
		m := message("tck-complete-task")
		m["parts"] = []any{}
		c.wantCode(c.call(a2a.MethodSend, object{"message": m}), a2a.CodeInvalid)
	}},
	{"CORE-GET-001", func(c *conn) {
		task := c.send("tck-input-required", nil)
		if got := c.call(a2a.MethodGet, object{"id": task.text("task.id")}); got.text("id") != task.text("task.id") || got.text("status.state") != "TASK_STATE_INPUT_REQUIRED" {
			c.t.Errorf("GetTask() = %s, want task %s", got.body, task.text("task.id"))
		}
	}},
	{"CORE-GET-002", func(c *conn) { c.wantCode(c.call(a2a.MethodGet, object{"id": "absent"}), a2a.CodeTaskNotFound) }},
	{"CORE-CANCEL-001", func(c *conn) {
		task := c.send("tck-input-required", nil)
		if got := c.call(a2a.MethodCancel, object{"id": task.text("task.id")}); got.text("status.state") != "TASK_STATE_CANCELED" {
			c.t.Errorf("CancelTask() = %s, want TASK_STATE_CANCELED", got.body)
		}
	}},
	{"CORE-CANCEL-002", func(c *conn) {
		task := c.send("tck-complete-task", nil)
		c.wantCode(c.call(a2a.MethodCancel, object{"id": task.text("task.id")}), a2a.CodeTaskNotCancelable)
	}},
	{"CORE-CANCEL-003", func(c *conn) { c.wantCode(c.call(a2a.MethodCancel, object{"id": "absent"}), a2a.CodeTaskNotFound) }},
	{"CORE-LIST-002 CORE-LIST-003 CORE-LIST-004 CORE-LIST-005", testList},
	{"CORE-HIST-001 CORE-HIST-002 CORE-HIST-003 CORE-HIST-004 CORE-HIST-005 CORE-HIST-006", testHistory},
	{"DM-ART-001 DM-PART-001", testArtifacts},
	{"CORE-STREAM-001 CORE-STREAM-003 STREAM-ORDER-001", func(c *conn) {
		events := c.open(a2a.MethodStream, object{"message": message("tck-stream-001")}).rest()
		if first, last := events[0], events[len(events)-1]; at(first, "task.id") == nil || at(last, "statusUpdate.status.state") != "TASK_STATE_COMPLETED" {
			c.t.Errorf("stream = %v, want a task first and its completion last", events)
		}
		if !slices.ContainsFunc(events, func(e any) bool { return at(e, "artifactUpdate.artifact.parts.0.text") == "Stream hello from TCK" }) {
			c.t.Errorf("stream = %v, want the artifact", events)
		}
	}},
	{"CORE-STREAM-002 DM-MSG-001 DM-MSG-002", func(c *conn) {
		events := c.open(a2a.MethodStream, object{"message": message("tck-message-response")}).rest()
		if len(events) != 1 || at(events[0], "message.role") != "ROLE_AGENT" || at(events[0], "message.parts.0.text") != "Direct message response" {
			c.t.Errorf("stream = %v, want a message alone", events)
		}
		if got := c.send("tck-message-response", nil); got.text("message.role") != "ROLE_AGENT" || got.at("task") != nil || got.text("message.contextId") == "" {
			c.t.Errorf("SendMessage() = %s, want a message alone", got.body)
		}
	}},
	{"STREAM-SUB-001 STREAM-SUB-002 STREAM-ORDER-002 STREAM-ORDER-003", testSubscribe},
	{"STREAM-ORDER-004", func(c *conn) {
		task := c.send("tck-input-required", nil)
		closed, open := c.open(a2a.MethodResubscribe, object{"id": task.text("task.id")}), c.open(a2a.MethodResubscribe, object{"id": task.text("task.id")})
		closed.next()
		_ = closed.resp.Body.Close()
		c.follow("tck-complete-task", task, nil)
		events := open.rest()
		if last := events[len(events)-1]; at(last, "statusUpdate.status.state") != "TASK_STATE_COMPLETED" {
			c.t.Errorf("the other stream = %v, want it to end with the task", events)
		}
	}},
	{"STREAM-SUB-003", func(c *conn) {
		task := c.send("tck-complete-task", nil)
		c.wantCode(c.call(a2a.MethodResubscribe, object{"id": task.text("task.id")}), a2a.CodeUnsupported)
	}},
	{"STREAM-SUB-004", func(c *conn) {
		c.wantCode(c.call(a2a.MethodResubscribe, object{"id": "absent"}), a2a.CodeTaskNotFound)
	}},
	{"DM-SERIAL-001 DM-SERIAL-002 DM-SERIAL-003 DM-TASK-002", func(c *conn) {
		body := string(c.send("tck-artifact-text", nil).body)
		if name := regexp.MustCompile(`"[a-z]+_[a-z_]+":`).FindString(body); name != "" {
			c.t.Errorf("response has member %s, want camelCase", name)
		}
		if !regexp.MustCompile(`"timestamp":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z"`).MatchString(body) {
			c.t.Errorf("response = %s, want a timestamp in UTC with milliseconds", body)
		}
	}},
	{"DM-SERIAL-005", func(c *conn) {
		m := message("tck-complete-task")
		m["unknownMember"] = object{"a": 1}
		if got := c.call(a2a.MethodSend, object{"message": m, "unknownParam": true}); got.err != nil {
			c.t.Errorf("unknown members = %s, want them ignored", got.body)
		}
	}},
	{"VER-SERVER-001 VER-CLIENT-002", func(c *conn) {
		for _, version := range []string{"1.0", "1.0.7"} {
			if got := c.with("A2A-Version", version).send("tck-complete-task", nil); got.text("task.status.state") != "TASK_STATE_COMPLETED" {
				c.t.Errorf("A2A-Version %s = %s, want a task in the form of 1.0", version, got.body)
			}
		}
	}},
	{"VER-SERVER-002", func(c *conn) {
		c.wantCode(c.with("A2A-Version", "99.0").send("tck-complete-task", nil), a2a.CodeVersionNotSupported)
	}},
	{"VER-SERVER-003", func(c *conn) {
		if got := c.with("A2A-Version", "").send("tck-complete-task", nil); got.err != nil {
			c.t.Errorf("empty A2A-Version = %s, want a result", got.body)
		}
	}},
	{"AUTH-INTASK-001 AUTH-INTASK-002 AUTH-INTASK-003 AUTH-INTASK-005 AUTH-INTASK-006", testAuthRequired},
	{"PUSH-CREATE-001 PUSH-CREATE-002 PUSH-GET-001 PUSH-GET-002 PUSH-LIST-001 PUSH-DEL-001 PUSH-DEL-002", testPushConfigs},
	{"PUSH-DELIVER-001 PUSH-DELIVER-002 PUSH-DELIVER-003", testPushDelivery},
}

var lastMessage atomic.Int64

// message returns a message with an id that selects a behavior of the agent.
func message(prefix string) object {
	return object{"messageId": fmt.Sprintf("%s-%08d", prefix, lastMessage.Add(1)), "role": "ROLE_USER", "parts": []any{object{"text": "hello"}}}
}

// send sends a message. more are other params.
func (c *conn) send(prefix string, more object) reply {
	c.t.Helper()
	params := object{"message": message(prefix)}
	for name, value := range more {
		params[name] = value
	}
	return c.call(a2a.MethodSend, params)
}

// follow sends a message to a task. more are other members of the message.
func (c *conn) follow(prefix string, task reply, more object) reply {
	c.t.Helper()
	m := message(prefix)
	m["taskId"] = task.text("task.id")
	for name, value := range more {
		m[name] = value
	}
	return c.call(a2a.MethodSend, object{"message": m})
}

// wantCode reports an error if a call did not fail with a code, or says too little about it.
func (c *conn) wantCode(got reply, want a2a.Code) {
	c.t.Helper()
	if got.code() != want || len(got.err.Message) < 12 {
		c.t.Errorf("%d %s\nwant code %s", got.status, got.body, want)
		return
	}
	if status := c.codec.(v10.Codec).HTTPStatus(want); c.rest && got.status != status {
		c.t.Errorf("status of %s = %d, want %d", want, got.status, status)
	}
}

func testList(c *conn) {
	m := message("tck-artifact-text")
	m["contextId"] = m["messageId"]
	var ids []any
	for range 3 {
		got := c.call(a2a.MethodSend, object{"message": m})
		ids = append([]any{got.at("task.id")}, ids...) // newest first
	}
	var listed []any
	params := object{"contextId": m["contextId"], "pageSize": 2}
	for range 2 {
		page := c.call(a2a.MethodList, params)
		tasks, _ := page.at("tasks").([]any)
		for _, task := range tasks {
			listed = append(listed, at(task, "id"))
			if at(task, "artifacts") != nil {
				c.t.Errorf("ListTasks() = %s, want no artifacts", page.body)
			}
		}
		token, ok := page.at("nextPageToken").(string)
		if !ok || (token == "") != (len(listed) == len(ids)) {
			c.t.Errorf("nextPageToken = %v after %d of %d tasks", page.at("nextPageToken"), len(listed), len(ids))
		}
		params["pageToken"] = token
	}
	if !slices.Equal(listed, ids) {
		c.t.Errorf("ListTasks() = %v, want %v", listed, ids)
	}
	delete(params, "pageToken")
	params["includeArtifacts"] = true
	if page := c.call(a2a.MethodList, params); length(page.at("tasks.0.artifacts")) != 1 {
		c.t.Errorf("ListTasks(includeArtifacts) = %s, want the artifact", page.body)
	}
	if page := c.call(a2a.MethodList, object{"contextId": "absent"}); length(page.at("tasks")) != 0 || page.at("tasks") == nil || page.at("nextPageToken") != "" {
		c.t.Errorf("ListTasks(absent context) = %s, want an empty list", page.body)
	}
}

func testHistory(c *conn) {
	task := c.send("tck-input-required", nil)
	for _, text := range []string{"second", "third"} {
		c.follow("tck-input-required", task, object{"parts": []any{object{"text": text}}})
	}
	id := task.text("task.id")
	history, _ := c.call(a2a.MethodGet, object{"id": id}).at("history").([]any)
	var texts []any
	for _, m := range history {
		if at(m, "role") == "ROLE_USER" {
			texts = append(texts, at(m, "parts.0.text"))
		}
	}
	if want := []any{"hello", "second", "third"}; !slices.Equal(texts, want) {
		c.t.Errorf("messages of the client = %v, want %v", texts, want)
	}
	if got := c.call(a2a.MethodGet, object{"id": id, "historyLength": 0}); got.at("history") != nil {
		c.t.Errorf("GetTask(historyLength 0) = %s, want no history", got.body)
	}
	if got := c.call(a2a.MethodGet, object{"id": id, "historyLength": 1}); length(got.at("history")) != 1 {
		c.t.Errorf("GetTask(historyLength 1) = %s, want one message", got.body)
	}
	if got := c.send("tck-complete-task", object{"configuration": object{"historyLength": 0}}); got.at("task.history") != nil {
		c.t.Errorf("SendMessage(historyLength 0) = %s, want no history", got.body)
	}
	c.wantCode(c.call(a2a.MethodGet, object{"id": id, "historyLength": -1}), a2a.CodeInvalid)
}

func testArtifacts(c *conn) {
	for prefix, want := range map[string]object{
		"tck-artifact-text":     {"text": "Generated text content"},
		"tck-artifact-file":     {"raw": "R2VuZXJhdGVkIGZpbGUgY29udGVudA==", "filename": "output.txt", "mediaType": "text/plain"},
		"tck-artifact-file-url": {"url": "https://example.com/output.txt", "filename": "output.txt", "mediaType": "text/plain"},
		"tck-artifact-data":     {"data": object{"key": "value", "count": 42}},
	} {
		got := c.send(prefix, nil)
		part, _ := json.Marshal(got.at("task.artifacts.0.parts.0"))
		expected, _ := json.Marshal(want)
		if got.text("task.artifacts.0.artifactId") == "" || string(part) != string(expected) {
			c.t.Errorf("%s: artifact = %v, want an id and the part %s", prefix, got.at("task.artifacts.0"), expected)
		}
	}
}

func testSubscribe(c *conn) {
	task := c.send("tck-input-required", nil)
	id := task.text("task.id")
	streams := []*stream{c.open(a2a.MethodResubscribe, object{"id": id}), c.open(a2a.MethodResubscribe, object{"id": id})}
	for _, s := range streams {
		if first := s.next(); at(first, "task.id") != id || at(first, "task.status.state") != "TASK_STATE_INPUT_REQUIRED" {
			c.t.Errorf("first event = %v, want the waiting task", first)
		}
	}
	c.follow("tck-complete-task", task, nil)
	var ends []string
	for _, s := range streams {
		events := s.rest()
		if len(events) == 0 || at(events[len(events)-1], "statusUpdate.status.state") != "TASK_STATE_COMPLETED" {
			c.t.Fatalf("events = %v, want the completion last", events)
		}
		all, _ := json.Marshal(events)
		ends = append(ends, string(all))
	}
	if ends[0] != ends[1] {
		c.t.Errorf("streams differ: %s and %s", ends[0], ends[1])
	}
}

func testPushConfigs(c *conn) {
	task := c.send("tck-complete-task", nil)
	id := task.text("task.id")
	set := c.call(a2a.MethodPushSet, object{"taskId": id, "id": "one", "url": "https://example.com/hook", "authentication": object{"scheme": "Bearer", "credentials": "secret"}})
	if set.text("id") != "one" || set.text("url") != "https://example.com/hook" {
		c.t.Fatalf("Create() = %s, want the configuration", set.body)
	}
	if got := c.call(a2a.MethodPushGet, object{"taskId": id, "id": "one"}); got.text("url") != "https://example.com/hook" {
		c.t.Errorf("Get() = %s, want the configuration", got.body)
	}
	if got := c.call(a2a.MethodPushList, object{"taskId": id}); length(got.at("configs")) != 1 {
		c.t.Errorf("List() = %s, want one configuration", got.body)
	}
	for range 2 {
		if got := c.call(a2a.MethodPushDelete, object{"taskId": id, "id": "one"}); got.err != nil {
			c.t.Errorf("Delete() = %s, want a result each time", got.body)
		}
	}
	if got := c.call(a2a.MethodPushGet, object{"taskId": id, "id": "one"}); got.err == nil {
		c.t.Errorf("Get(deleted) = %s, want an error", got.body)
	}
	if got := c.call(a2a.MethodPushList, object{"taskId": id}); got.err != nil || length(got.at("configs")) != 0 {
		c.t.Errorf("List(none) = %s, want no configuration", got.body)
	}
}

func testPushDelivery(c *conn) {
	receiver := newReceiver(c.t)
	config := object{"url": receiver.URL, "authentication": object{"scheme": "Bearer", "credentials": "secret"}}
	task := c.send("tck-input-required", object{"configuration": object{"taskPushNotificationConfig": config}})
	c.follow("tck-complete-task", task, nil)
	for {
		got := receiver.next(c.t)
		if auth, kind := got.header.Get("Authorization"), got.header.Get("Content-Type"); auth != "Bearer secret" || kind != "application/a2a+json" {
			c.t.Errorf("webhook request has Authorization %q and Content-Type %q", auth, kind)
		}
		checkForm(c.t, c.codec, a2a.MethodStream, got.body)
		var event any
		if err := json.Unmarshal(got.body, &event); err != nil {
			c.t.Fatal(err)
		}
		if at(event, "statusUpdate.status.state") == "TASK_STATE_COMPLETED" {
			return
		}
	}
}

// raw sends a request with a body as it is.
func (c *conn) raw(verb, path, kind, body string) reply {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), verb, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header = c.header.Clone()
	r.Header.Set("Content-Type", kind)
	return c.fetch(r)
}

// testAuthRequired proves that the task waits for authorization with a message that explains it,
// while its streams stay open and it accepts messages.
func testAuthRequired(c *conn) {
	task := c.send("tck-auth-required", nil)
	if task.text("task.status.state") != "TASK_STATE_AUTH_REQUIRED" || task.text("task.status.message.parts.0.text") == "" {
		c.t.Fatalf("SendMessage() = %s, want a task that explains the authorization it requires", task.body)
	}
	open := c.open(a2a.MethodResubscribe, object{"id": task.text("task.id")})
	if first := open.next(); at(first, "task.status.state") != "TASK_STATE_AUTH_REQUIRED" {
		c.t.Errorf("first event = %v, want the waiting task", first)
	}
	if got := c.follow("tck-complete-task", task, nil); got.text("task.status.state") != "TASK_STATE_COMPLETED" {
		c.t.Errorf("follow-up = %s, want the completed task", got.body)
	}
	events := open.rest()
	if len(events) == 0 || at(events[len(events)-1], "statusUpdate.status.state") != "TASK_STATE_COMPLETED" {
		c.t.Errorf("events = %v, want the completion last", events)
	}
}
