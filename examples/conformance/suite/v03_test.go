package suite_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/agents/conformance"
	"github.com/holdfast-dev/holdfast/rpc"
)

// testsV03 are tests of the kit for A2A 0.3 that hold over each binding, by their names in the kit.
var testsV03 = []row{
	{"test_message_send_valid_text test_tasks_get_valid test_core_method_mapping_compliance", func(c *conn) {
		task := c.start("hello")
		if task.id == "" || task.contextID == "" || task.state != "submitted" && task.state != "working" {
			c.t.Errorf("message/send = %s, want a task that runs", task.body)
		}
		got := c.task(c.call(a2a.MethodGet, object{"id": task.id}))
		if got.id != task.id || got.contextID != task.contextID || got.state != "submitted" && got.state != "working" {
			c.t.Errorf("tasks/get = %s, want the task", got.body)
		}
	}},
	{"test_message_send_invalid_params", func(c *conn) {
		c.wantCodeV03(c.call(a2a.MethodSend, object{}), a2a.CodeInvalid)
		for _, name := range []string{"messageId", "role", "parts"} {
			m := c.message("hello")
			delete(m, name)
			delete(m, map[string]string{"parts": "content"}[name])
			c.wantCodeV03(c.call(a2a.MethodSend, object{"message": m}), a2a.CodeInvalid)
		}
	}},
	{"test_message_send_continue_task test_task_history_length test_tasks_get_with_history_length", func(c *conn) {
		task := c.start("hello")
		if got := c.task(c.call(a2a.MethodGet, object{"id": task.id, "historyLength": 1})); length(got.at("history")) != 1 {
			c.t.Errorf("tasks/get(historyLength 1) = %s, want one message", got.body)
		}
		for range 3 {
			m := c.message("more")
			m["taskId"], m["contextId"] = task.id, task.contextID
			if got := c.task(c.call(a2a.MethodSend, object{"message": m})); got.id != task.id || got.contextID != task.contextID {
				c.t.Errorf("follow-up = %s, want task %s", got.body, task.id)
			}
		}
		if got := c.task(c.call(a2a.MethodGet, object{"id": task.id})); length(got.at("history")) != 4 {
			c.t.Errorf("tasks/get = %s, want the four messages", got.body)
		}
		if got := c.task(c.call(a2a.MethodGet, object{"id": task.id, "historyLength": 2})); length(got.at("history")) != 2 {
			c.t.Errorf("tasks/get(historyLength 2) = %s, want two messages", got.body)
		}
		c.wantCodeV03(c.call(a2a.MethodGet, object{"id": task.id, "historyLength": -1}), a2a.CodeInvalid)
	}},
	{"test_tasks_get_nonexistent", func(c *conn) {
		c.wantCodeV03(c.call(a2a.MethodGet, object{"id": "absent"}), a2a.CodeTaskNotFound)
	}},
	{"test_tasks_cancel_valid", func(c *conn) {
		task := c.start("hello")
		if got := c.task(c.call(a2a.MethodCancel, object{"id": task.id})); got.state != "canceled" {
			c.t.Errorf("tasks/cancel = %s, want canceled", got.body)
		}
		c.wantCodeV03(c.call(a2a.MethodCancel, object{"id": task.id}), a2a.CodeTaskNotCancelable)
	}},
	{"test_tasks_cancel_nonexistent", func(c *conn) {
		c.wantCodeV03(c.call(a2a.MethodCancel, object{"id": "absent"}), a2a.CodeTaskNotFound)
	}},
	{"test_message_stream_basic test_tasks_resubscribe test_tasks_resubscribe_nonexistent", func(c *conn) {
		s := c.open(a2a.MethodStream, object{"message": c.message("test-resubscribe-message-id")})
		first := c.view(s.next(), nil)
		if first.id == "" || first.state == "" {
			c.t.Fatalf("first event = %v, want the task", first.value)
		}
		_ = s.resp.Body.Close() // the task continues
		again := c.open(a2a.MethodResubscribe, object{"id": first.id})
		if got := c.view(again.next(), nil); got.state == "" {
			c.t.Errorf("first event after tasks/resubscribe = %v, want a state", got.value)
		}
		c.wantCodeV03(c.call(a2a.MethodResubscribe, object{"id": "absent"}), a2a.CodeTaskNotFound)
		if got := c.task(c.call(a2a.MethodCancel, object{"id": first.id})); got.state != "canceled" {
			c.t.Errorf("tasks/cancel = %s, want canceled: the disconnect must not end the task", got.body)
		}
	}},
	{"test_set_push_notification_config test_get_push_notification_config test_list_push_notification_configs test_delete_push_notification_config", testPushConfigsV03},
	{"test_authenticated_extended_card_method_exists test_authenticated_extended_card_without_auth test_extended_agent_card_endpoint_exists", func(c *conn) {
		got := c.call(a2a.MethodExtendedCard, object{})
		if want := a2a.CodeNoExtendedCard; !c.rest && got.code() != want {
			c.t.Errorf("extended card without credentials = %s, want %s", got.body, want)
		}
		if c.rest && (got.status != http.StatusUnauthorized || got.header.Get("WWW-Authenticate") == "") {
			c.t.Errorf("extended card without credentials = %d %s, want 401 and a challenge", got.status, got.body)
		}
		if got := c.with("Authorization", "Bearer "+conformance.Token).call(a2a.MethodExtendedCard, object{}); length(got.at("skills")) != 2 {
			c.t.Errorf("extended card = %s, want two skills", got.body)
		}
	}},
}

func TestKitOfV03(t *testing.T) {
	t.Parallel()
	url := startAgent(t, "v03", nil)
	for name, c := range map[string]*conn{
		"JSON-RPC":  newConn(t, url, v03.Codec{}, false),
		"HTTP+JSON": newConn(t, url, v03.ProtoCodec{}, true),
	} {
		for _, r := range testsV03 {
			for id := range strings.FieldsSeq(r.ids) {
				t.Run(name+"/"+id, func(t *testing.T) {
					t.Parallel()
					r.test(c.on(t))
				})
			}
		}
	}
}

// TestJSONRPCOfV03 covers the tests of the kit that concern only JSON-RPC. The kit sends the invalid
// requests without an id.
func TestJSONRPCOfV03(t *testing.T) {
	t.Parallel()
	c := newConn(t, startAgent(t, "v03", nil), v03.Codec{}, false)
	for _, tt := range []struct {
		name, body string
		code       float64
	}{
		{"test_rejects_malformed_json", `{"jsonrpc": "2.0", "method": `, -32700},
		{"test_rejects_invalid_json_rpc_requests", `{"method":"message/send","params":{}}`, -32600},
		{"test_invalid_jsonrpc_version", `{"jsonrpc":"1.0","method":"message/send","params":{}}`, -32600},
		{"test_missing_method_field", `{"jsonrpc":"2.0","params":{}}`, -32600},
		{"test_rejects_invalid_json_rpc_requests", `{"jsonrpc":"2.0","id":{"a":1},"method":"message/send","params":{}}`, -32600},
		{"test_rejects_unknown_method", `{"jsonrpc":"2.0","id":"1","method":"nonexistent/method","params":{}}`, -32601},
		{"test_rejects_invalid_params", `{"jsonrpc":"2.0","id":"1","method":"message/send","params":{"message":"text"}}`, -32602},
	} {
		got := c.raw(http.MethodPost, "/", "application/json", tt.body)
		if got.status != http.StatusOK || at(got.result, "error.code") != tt.code {
			t.Errorf("%s: %s = %d %s, want %v", tt.name, tt.body, got.status, got.body, tt.code)
		}
	}
	for range 2 { // test_duplicate_request_ids
		if got := c.call(a2a.MethodSend, object{"message": c.message("hello")}); got.err != nil {
			t.Errorf("a request with the id of another = %s, want a result", got.body)
		}
	}
}

// TestCardOfV03 covers test_agent_card_available, test_mandatory_fields_present, test_mandatory_field_types and
// test_multi_transport_method_mapping.
func TestCardOfV03(t *testing.T) {
	t.Parallel()
	url := startAgent(t, "v03", nil)
	c := newConn(t, url, v03.Codec{}, false)
	for _, path := range []string{"/.well-known/agent-card.json", "/.well-known/agent.json", "/"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		card := c.fetch(r)
		for name, want := range map[string]any{"protocolVersion": "0.3.0", "url": url + "/", "preferredTransport": "JSONRPC", "supportsAuthenticatedExtendedCard": true} {
			if card.at(name) != want {
				t.Errorf("%s: %s = %v, want %v", path, name, card.at(name), want)
			}
		}
		for _, name := range []string{"name", "description", "version", "capabilities.streaming", "skills.0.tags.0", "defaultInputModes.0", "defaultOutputModes.0"} {
			if card.at(name) == nil {
				t.Errorf("%s lacks %s: %s", path, name, card.body)
			}
		}
		transports := make(map[any]bool)
		for i := range length(card.at("additionalInterfaces")) {
			transports[card.at(fmt.Sprintf("additionalInterfaces.%d.transport", i))] = true
		}
		if !transports["JSONRPC"] || !transports["HTTP+JSON"] {
			t.Errorf("%s: additionalInterfaces = %v, want both transports", path, card.at("additionalInterfaces"))
		}
		checkDefinition(t, v03.Codec{}, "AgentCard", card.body)
	}
}

// TestPushDeliveryOfV03 covers the tests of the kit's pull request 87b37f3.
func TestPushDeliveryOfV03(t *testing.T) {
	t.Parallel()
	c := newConn(t, startAgent(t, "v03", nil), v03.Codec{}, false)
	receiver := newReceiver(t)
	task := c.start("tck-input-required")
	c.call(a2a.MethodPushSet, object{"taskId": task.id, "pushNotificationConfig": object{
		"url": receiver.URL, "token": "notification-token", "authentication": object{"schemes": []any{"Bearer"}, "credentials": "secret"},
	}})
	m := c.message("tck-complete-task")
	m["taskId"] = task.id
	c.call(a2a.MethodSend, object{"message": m})
	for {
		got := receiver.next(t)
		if got.header.Get("X-A2A-Notification-Token") != "notification-token" || got.header.Get("Authorization") != "Bearer secret" {
			t.Errorf("webhook request has the headers %v, want token and credentials", got.header)
		}
		checkForm(t, c.codec, a2a.MethodGet, got.body)
		var body any
		if err := json.Unmarshal(got.body, &body); err != nil {
			t.Fatal(err)
		}
		if at(body, "kind") != "task" || at(body, "id") != task.id {
			t.Fatalf("webhook request = %s, want the task", got.body)
		}
		if at(body, "status.state") == "completed" {
			return
		}
	}
}

// TestAuthenticationOfV03 covers the tests of the kit with credentials.
func TestAuthenticationOfV03(t *testing.T) {
	t.Parallel()
	url := startAgent(t, "v03-auth", nil)
	for _, rest := range []bool{false, true} {
		codec := rpc.Codec(v03.Codec{})
		if rest {
			codec = v03.ProtoCodec{}
		}
		c := newConn(t, url, codec, rest)
		params := object{"message": c.message("hello")}
		for _, credentials := range []string{"", "Bearer wrong", "Basic eDp5"} {
			resp := c.with("Authorization", credentials).do(c.with("Authorization", credentials).request(a2a.MethodSend, params))
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("credentials %q = %d %v, want 401 and a challenge", credentials, resp.StatusCode, resp.Header)
			}
		}
		known := c.with("Authorization", "Bearer "+conformance.Token)
		if got := known.task(known.call(a2a.MethodSend, params)); got.id == "" {
			t.Errorf("with credentials = %s, want a task", got.body)
		}
	}
}

// view is a task, as both bindings of A2A 0.3 show it.
type view struct {
	id, contextID, state string
	value                any
	body                 []byte
}

func (v view) at(path string) any { return at(v.value, path) }

// task returns the task of a reply.
func (c *conn) task(r reply) view {
	c.t.Helper()
	if r.err != nil {
		c.t.Fatalf("%s, want a task", r.body)
	}
	return c.view(r.result, r.body)
}

// view returns the task, or the update, of a result or event.
func (c *conn) view(value any, body []byte) view {
	for _, name := range []string{"task", "statusUpdate"} {
		if inner := at(value, name); inner != nil {
			value = inner
		}
	}
	text := func(path string) string {
		s, _ := at(value, path).(string)
		return s
	}
	state := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(text("status.state"), "TASK_STATE_")), "_", "-")
	return view{text("id"), text("contextId"), strings.Replace(state, "cancelled", "canceled", 1), value, body}
}

// message returns a message of the version of c.
func (c *conn) message(prefix string) object {
	m := message(prefix)
	if c.rest {
		m["content"] = m["parts"]
		delete(m, "parts")
		return m
	}
	m["kind"], m["role"], m["parts"] = "message", "user", []any{object{"kind": "text", "text": "hello"}}
	return m
}

// start sends a message that starts a task.
func (c *conn) start(prefix string) view {
	c.t.Helper()
	return c.task(c.call(a2a.MethodSend, object{"message": c.message(prefix)}))
}

// wantCodeV03 reports an error if a call did not fail with a code and its HTTP status.
func (c *conn) wantCodeV03(got reply, want a2a.Code) {
	c.t.Helper()
	if got.code() != want || c.rest && got.status != want.HTTPStatus() || !c.rest && got.status != http.StatusOK {
		c.t.Errorf("%d %s, want code %s", got.status, got.body, want)
	}
}

func testPushConfigsV03(c *conn) {
	task := c.start("hello")
	set := c.call(a2a.MethodPushSet, object{"id": task.id, "taskId": task.id, "pushNotificationConfig": object{"url": "https://example.com/hook"}})
	id, _ := set.at("pushNotificationConfig.id").(string)
	if id == "" || set.at("pushNotificationConfig.url") != "https://example.com/hook" {
		c.t.Fatalf("set = %s, want a generated id", set.body)
	}
	one := object{"id": task.id, "taskId": task.id, "pushNotificationConfigId": id}
	if got := c.call(a2a.MethodPushGet, one); got.at("pushNotificationConfig.url") != "https://example.com/hook" {
		c.t.Errorf("get = %s, want the webhook", got.body)
	}
	list := func() any {
		got := c.call(a2a.MethodPushList, object{"id": task.id, "taskId": task.id})
		if c.rest {
			return got.at("configs")
		}
		return got.result
	}
	if got := list(); length(got) != 1 || at(got, "0.pushNotificationConfig.url") != "https://example.com/hook" {
		c.t.Errorf("list = %v, want the webhook", got)
	}
	if got := c.call(a2a.MethodPushDelete, one); got.err != nil || got.result != nil && length(got.result) != 0 {
		c.t.Errorf("delete = %s, want an empty result", got.body)
	}
	if got := c.call(a2a.MethodPushGet, one); got.err == nil {
		c.t.Errorf("get after delete = %s, want an error", got.body)
	}
	if got := list(); !c.rest && (got == nil || length(got) != 0) {
		c.t.Errorf("list after delete = %v, want []", got)
	}
	c.wantCodeV03(c.call(a2a.MethodPushList, object{"id": "absent", "taskId": "absent"}), a2a.CodeTaskNotFound)
}
