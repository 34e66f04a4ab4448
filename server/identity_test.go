package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/server"
)

var aliceAndBob = []server.Token{
	{Token: "alice-token", Principal: a2a.Principal{ID: "alice"}},
	{Token: "bob-token", Principal: a2a.Principal{ID: "bob"}},
}

func twoTokens(c *server.Config) {
	tokens, err := server.NewTokens(aliceAndBob)
	if err != nil {
		panic(err)
	}
	c.Security.Authenticator = tokens
}

// as returns the headers that authenticate a principal of twoTokens.
func as(name string) []string { return []string{"Authorization", "Bearer " + name + "-token"} }

// foreignCalls are calls with the ID of Bob's task or context in place of %q. Every supported
// method is in foreignCalls or in ownLists.
var foreignCalls = []struct {
	name, method, params string
	context              bool // the ID is the context's, not the task's
	code                 int  // 0: success without data of Bob
}{
	{"get", "tasks/get", `{"id":%q}`, false, -32001},
	{"cancel", "tasks/cancel", `{"id":%q}`, false, -32001},
	{"delete", "tasks/delete", `{"id":%q}`, false, -32001},
	{"resubscribe", "tasks/resubscribe", `{"id":%q}`, false, -32001},
	{"follow-up", "message/send", params(message("a", `"taskId":%q`)), false, -32001},
	{"streamed follow-up", "message/stream", params(message("a", `"taskId":%q`)), false, -32001},
	{"follow-up in a context of its own", "message/send", params(message("a", `"taskId":%q,"contextId":"mine"`)), false, -32001},
	{"list of a context", "tasks/list", `{"contextId":%q}`, true, 0},
	{"list of a context by metadata", "tasks/list", `{"metadata":{"contextId":%q}}`, true, 0},

	{"get", "contexts/get", `{"contextId":%q}`, true, -32020},
	{"update", "contexts/update", `{"contextId":%q,"name":"x"}`, true, -32020},
	{"forced update", "contexts/update", `{"contextId":%q,"status":"completed","force":true}`, true, -32020},
	{"update that is none", "contexts/update", `{"contextId":%q,"status":"archived"}`, true, -32020},
	{"clear", "contexts/clear", `{"contextId":%q}`, true, -32020},
	{"forced clear", "contexts/clear", `{"contextId":%q,"force":true}`, true, -32020},
	{"clear forced by metadata", "contexts/clear", `{"contextId":%q,"metadata":{"force":true}}`, true, -32020},
	{"parent", "contexts/create", `{"parentContextId":%q}`, true, -32020},
	{"relative", "contexts/create", `{"referenceContextIds":[%q]}`, true, -32020},
	{"new parent", "contexts/update", `{"contextId":"alices","parentContextId":%q}`, true, -32020},
	{"new relative", "contexts/update", `{"contextId":"alices","referenceContextIds":[%q]}`, true, -32020},

	{"feedback", "tasks/feedback", `{"taskId":%q,"feedback":"x","rating":1}`, false, -32001},
	{"feedback on a task", "tasks/feedback/list", `{"taskId":%q}`, false, 0},

	{"set", "tasks/pushNotificationConfig/set", `{"taskId":%q,"pushNotificationConfig":{"id":"secret","url":"https://example.com/"}}`, false, -32001},
	{"set of a bad URL", "tasks/pushNotificationConfig/set", `{"taskId":%q,"pushNotificationConfig":{"url":"http://127.0.0.1/"}}`, false, -32001},
	{"get", "tasks/pushNotificationConfig/get", `{"id":%q}`, false, -32001},
	{"get by id", "tasks/pushNotificationConfig/get", `{"id":%q,"pushNotificationConfigId":"secret"}`, false, -32001},
	{"list", "tasks/pushNotificationConfig/list", `{"id":%q}`, false, -32001},
	{"delete", "tasks/pushNotificationConfig/delete", `{"id":%q,"pushNotificationConfigId":"secret"}`, false, -32001},
	{"dead letters of a task", "webhooks/dead/list", `{"taskId":%q}`, false, -32001},
	{"replay", "webhooks/replay", `{"taskId":%q,"fromSequence":1}`, false, -32001},
	{"attempts", "webhooks/attempts", `{"taskId":%q}`, false, -32001},
	{"follow-up with a webhook", "message/send", params(message("a", `"taskId":%q`), `"configuration":{"pushNotificationConfig":{"url":"https://example.com/"}}`), false, -32001},
}

// ownLists are methods that list objects of the caller.
var ownLists = []struct{ method, params string }{
	{"tasks/list", `{"includeArtifacts":true,"includeTotal":true,"historyLength":100}`},
	{"contexts/list", `{"historyLength":100,"metadata":{"sortBy":"name"}}`},
	{"tasks/feedback/list", `{}`},
}

// Bob's objects must look nonexistent to Alice: the responses are the same except for the ID.
func TestForeignObjectsAreNotFound(t *testing.T) {
	t.Parallel()
	h, _ := blockingHandler(t)
	st := newStore()
	on := withWebhook(t, st)
	e := startOn(t, st, h, func(c *server.Config) { twoTokens(c); on(c) })
	stream := e.open("message/stream", params(message("secret")), as("bob")...)
	first, _ := stream.next()
	_, _ = stream.next() // working: no more events follow
	foreign := first.view(t)
	freshTask, freshContext := freshUUID(), freshUUID()
	for _, call := range []struct{ who, method, params string }{
		{"bob", "contexts/update", fmt.Sprintf(`{"contextId":%q,"name":"secret"}`, foreign.ContextID)},
		{"bob", "tasks/feedback", fmt.Sprintf(`{"taskId":%q,"feedback":"secret","rating":5}`, foreign.ID)},
		{"bob", "tasks/pushNotificationConfig/set", fmt.Sprintf(`{"taskId":%q,"pushNotificationConfig":{"id":"secret","url":"https://example.com/secret"}}`, foreign.ID)},
		{"alice", "contexts/create", `{"contextId":"alices"}`},
	} {
		if got := e.call(call.method, call.params, as(call.who)...); got.Error != nil {
			t.Fatalf("%s %s: %s", call.who, call.method, got.Body)
		}
	}
	bobs := func() string {
		var all strings.Builder
		for _, row := range ownLists {
			all.Write(e.call(row.method, row.params, as("bob")...).Result)
		}
		return all.String()
	}
	before := bobs()
	for _, test := range foreignCalls {
		t.Run(test.method+" "+test.name, func(t *testing.T) {
			alice := append(as("alice"), "X-Request-Id", "same")
			theirs, fresh := foreign.ID, freshTask
			if test.context {
				theirs, fresh = foreign.ContextID, freshContext
			}
			got := e.call(test.method, fmt.Sprintf(test.params, theirs), alice...)
			absent := e.call(test.method, fmt.Sprintf(test.params, fresh), alice...)
			want := strings.ReplaceAll(string(absent.Body), fresh, theirs)
			if string(got.Body) != want || got.Status != absent.Status {
				t.Errorf("foreign: HTTP %d %s\nabsent:  HTTP %d %s\nwant the same", got.Status, got.Body, absent.Status, want)
			}
			if got.code() != test.code || strings.Contains(string(got.Body), "secret") {
				t.Errorf("foreign: %s, want code %d and no data of Bob", got.Body, test.code)
			}
		})
	}
	if after := bobs(); after != before {
		t.Errorf("Bob's objects = %s\nwant them unchanged: %s", after, before)
	}
	t.Run("both ids reused", func(t *testing.T) {
		mine := e.call("message/send", params(message("a", fmt.Sprintf(`"taskId":%q,"contextId":%q`, foreign.ID, freshContext))), as("alice")...).task(t)
		if mine.ID != foreign.ID || mine.ContextID != freshContext || len(mine.History) != 1 {
			t.Errorf("task = %+v, want a new task of Alice", mine)
		}
		bobs := e.call("tasks/get", fmt.Sprintf(`{"id":%q}`, foreign.ID), as("bob")...).task(t)
		if bobs.ContextID != foreign.ContextID || len(bobs.History) != 1 {
			t.Errorf("Bob's task = %+v, want it unchanged", bobs)
		}
	})
	t.Run("foreign context", func(t *testing.T) {
		mine := e.call("message/send", params(message("b", fmt.Sprintf(`"contextId":%q`, foreign.ContextID))), as("alice")...).task(t)
		if mine.ContextID != foreign.ContextID {
			t.Errorf("context = %s, want the requested one", mine.ContextID)
		}
		list := e.call("tasks/list", fmt.Sprintf(`{"contextId":%q}`, foreign.ContextID), as("bob")...)
		if strings.Contains(string(list.Result), mine.ID) || !strings.Contains(string(list.Result), foreign.ID) {
			t.Errorf("Bob's list = %s, want only his own task", list.Result)
		}
	})
	t.Run("foreign context created", func(t *testing.T) {
		id := freshUUID()
		for _, who := range []string{"bob", "alice"} {
			if got := e.call("contexts/create", fmt.Sprintf(`{"contextId":%q,"name":"of %s"}`, id, who), as(who)...); got.Error != nil {
				t.Errorf("%s: %s, want a context with this ID for each owner", who, got.Body)
			}
		}
		if got := e.call("contexts/get", fmt.Sprintf(`{"contextId":%q}`, id), as("bob")...); !strings.Contains(string(got.Result), "of bob") {
			t.Errorf("Bob's context = %s, want it unchanged", got.Body)
		}
	})
	for _, row := range ownLists {
		t.Run(row.method, func(t *testing.T) {
			if list := e.call(row.method, row.params, as("alice")...); list.code() != 0 || strings.Contains(string(list.Body), "secret") {
				t.Errorf("Alice's list = %s, want no objects of Bob", list.Body)
			}
			if list := e.call(row.method, row.params, as("bob")...); !strings.Contains(string(list.Body), "secret") {
				t.Errorf("Bob's list = %s, want his objects", list.Body)
			}
		})
	}
}

func TestOwnershipTestsCoverEveryMethod(t *testing.T) {
	t.Parallel()
	tested := make(map[string]bool)
	for _, row := range foreignCalls {
		tested[row.method] = true
	}
	for _, row := range ownLists {
		tested[row.method] = true
	}
	for _, m := range a2a.Methods() {
		if (m.Off == "" || m.Off == a2a.CodePushNotSupported) && !tested[m.Name] {
			t.Errorf("method %s is in neither foreignRows nor ownRows", m.Name)
		}
	}
}

func freshUUID() string {
	return fmt.Sprintf("11111111-0000-4000-8000-%012x", lastID.Add(1))
}

func TestFollowUps(t *testing.T) {
	t.Parallel()
	e := start(t, func(_ context.Context, turn *engine.Turn) error {
		if turn.Number() == 1 {
			return turn.RequireInput(a2a.TextPart{Text: "more?"})
		}
		return turn.Reply(a2a.TextPart{Text: "done"})
	}, nil)
	task := e.send("one")
	follow := func(text string, more ...string) reply {
		return e.call("message/send", params(message(text, more...), blocking))
	}
	byTask := fmt.Sprintf(`"taskId":%q`, task.ID)
	byContext := fmt.Sprintf(`"contextId":%q`, task.ContextID)

	if got := follow("wrong", byTask, `"contextId":"another"`); got.code() != -32602 || got.Error.Data["field"] != "message.contextId" {
		t.Errorf("another context: answer = %s, want -32602 for message.contextId", got.Body)
	}
	if got := follow("two", byTask).task(t); got.ID != task.ID || got.ContextID != task.ContextID || got.Status.State != "completed" {
		t.Errorf("by taskId: task = %+v, want the same task completed", got)
	}
	if got := follow("three", byTask); got.code() != -32004 {
		t.Errorf("completed task: answer = %s, want -32004", got.Body)
	}
	if got := follow("four", byContext).task(t); got.ID == task.ID || got.ContextID != task.ContextID || len(got.History) != 2 {
		t.Errorf("by contextId: task = %+v, want a new task in the context", got)
	}
	if got := follow("five", fmt.Sprintf(`"referenceTaskIds":[%q]`, task.ID)).task(t); got.ContextID == task.ContextID {
		t.Errorf("with a reference: task = %+v, want a new context", got)
	}
}

func TestClientChosenIDs(t *testing.T) {
	t.Parallel()
	var turns atomic.Int64
	e := start(t, func(_ context.Context, turn *engine.Turn) error {
		turns.Add(1)
		return turn.Reply()
	}, nil)
	ids := fmt.Sprintf(`"taskId":%q,"contextId":%q`, freshUUID(), freshUUID())
	first := e.call("message/send", params(message("a", ids), blocking))
	again := e.call("message/send", params(message("a", ids), blocking))
	if a, b := string(first.Result), string(again.Result); a != b || first.code() != 0 {
		t.Errorf("first answer %s\nsecond answer %s\nwant the same task", first.Body, again.Body)
	}
	if n := turns.Load(); n != 1 {
		t.Errorf("the handler ran %d times, want once", n)
	}
	if got := e.call("message/send", params(message("b", ids), blocking)); got.code() != -32004 {
		t.Errorf("another message with the same ids: %s, want -32004: the task is finished", got.Body)
	}
	if got := e.call("message/send", params(message("a", `"taskId":"mine","contextId":"too"`))); got.code() != -32001 {
		t.Errorf("ids that are no UUIDs: %s, want -32001", got.Body)
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	var turns atomic.Int64
	e := start(t, func(_ context.Context, turn *engine.Turn) error {
		turns.Add(1)
		return turn.RequireInput()
	}, twoTokens)
	bob := append(as("bob"), "Idempotency-Key", "k1")
	body := params(message("a"), blocking)
	first := e.call("message/send", body, bob...)
	task := first.task(t)

	spaced := strings.ReplaceAll(body, `":`, `" : `)
	if again := e.call("message/send", spaced, bob...); string(again.Result) != string(first.Result) {
		t.Errorf("the repeated request = %s, want the first response %s", again.Body, first.Result)
	}
	if other := e.call("message/send", params(message("b"), blocking), bob...); other.code() != -32050 || !strings.Contains(other.Error.Message, `"k1"`) {
		t.Errorf("another body = %s, want the conflict -32050 naming the key", other.Body)
	}
	if other := e.call("message/stream", body, bob...); other.code() != -32050 {
		t.Errorf("another method = %s, want the conflict -32050", other.Body)
	}
	if alices := e.call("message/send", body, append(as("alice"), "Idempotency-Key", "k1")...).task(t); alices.ID == task.ID {
		t.Error("Alice's key returned Bob's task")
	}
	if n := turns.Load(); n != 2 {
		t.Errorf("the handler ran %d times, want twice: once for each principal", n)
	}
	if got := e.call("message/send", body, append(as("bob"), "Idempotency-Key", strings.Repeat("k", 1000))...); got.code() != -32602 {
		t.Errorf("long key = %s, want -32602", got.Body)
	}

	cancel := append(as("bob"), "Idempotency-Key", "k2")
	for range 2 {
		got := e.call("tasks/cancel", fmt.Sprintf(`{"id":%q}`, task.ID), cancel...)
		if got.task(t).Status.State != "canceled" {
			t.Errorf("tasks/cancel with a key = %s, want a canceled task both times", got.Body)
		}
	}
	if got := e.call("tasks/cancel", fmt.Sprintf(`{"id":%q}`, task.ID), as("bob")...); got.code() != -32002 {
		t.Errorf("tasks/cancel without the key = %s, want -32002", got.Body)
	}

	stream := append(as("bob"), "Idempotency-Key", "k3")
	one := e.open("message/stream", params(message("s")), stream...).rest()
	two := e.open("message/stream", params(message("s")), stream...).rest()
	if a, b := ids(one), ids(two); a != b || len(one) == 0 || one[0].view(t).ID != two[0].view(t).ID {
		t.Errorf("repeated stream: events %s, then %s, want the same events of one task", a, b)
	}
}

// ids returns the IDs of events, separated by spaces.
func ids(events []event) string {
	var all []string
	for _, v := range events {
		all = append(all, v.ID)
	}
	return strings.Join(all, " ")
}
