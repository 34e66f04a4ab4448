package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
)

// v10Message returns the JSON of a message of A2A 1.0 with additional members.
func v10Message(text string, more ...string) string {
	return fmt.Sprintf(`"message":{"messageId":"m-%s","role":"ROLE_USER","parts":[{"text":%q}]%s}`, text, text, members(more))
}

// v10Send calls SendMessage and returns the task.
func (e *env) v10Send(text string, more ...string) taskView {
	e.t.Helper()
	got := e.call("SendMessage", `{`+v10Message(text, more...)+`}`)
	task := got.v10Task(e.t, "task")
	if task.ID == "" {
		e.t.Fatalf("SendMessage = %s, want a task", got.Body)
	}
	return task
}

// askThenReply asks for input in the first turn and completes the task in the second.
func askThenReply(_ context.Context, t *engine.Turn) error {
	if t.Number() == 1 {
		return t.RequireInput(a2a.TextPart{Text: "which one?"})
	}
	return t.Reply(a2a.TextPart{Text: "done"})
}

// v10Events returns the kinds and states of the items of a stream.
func v10Events(t *testing.T, events []event) string {
	t.Helper()
	var all []string
	for _, item := range events {
		e, err := v10.Codec{}.DecodeEvent(item.Data.Result)
		switch e := e.(type) {
		case *a2a.Task:
			all = append(all, "task "+string(e.Status.State))
		case *a2a.TaskStatusUpdateEvent:
			all = append(all, string(e.Status.State))
		case *a2a.TaskArtifactUpdateEvent:
			all = append(all, "artifact "+e.Artifact.Name)
		default:
			t.Fatalf("item %s: %v, %v", item.Data.Body, e, err)
		}
	}
	return strings.Join(all, ", ")
}

func TestSendWaitsUnlessReturnImmediately(t *testing.T) {
	t.Parallel()
	for _, configuration := range []string{``, `,"configuration":{}`, `,"configuration":{"returnImmediately":false}`, `,"configuration":{"returnImmediately":true}`, `,"configuration":{"return_immediately":true}`} {
		gate := make(chan struct{})
		immediately := strings.Contains(configuration, "true")
		e := start(t, func(ctx context.Context, turn *engine.Turn) error {
			if immediately {
				<-gate
			}
			return askThenReply(ctx, turn)
		}, nil)
		for _, send := range []func(params string) reply{
			func(params string) reply { return e.call("SendMessage", params) },
			func(params string) reply {
				got := e.do("POST", "/message:send", params, nil)
				got.Result = got.Body
				return got
			},
		} {
			task := send(`{`+v10Message("a")+configuration+`}`).v10Task(t, "task")
			waited := task.Status.State == "TASK_STATE_INPUT_REQUIRED"
			if waited == immediately || !waited && task.Status.State != "TASK_STATE_SUBMITTED" && task.Status.State != "TASK_STATE_WORKING" {
				t.Errorf("SendMessage with %q returned a task that is %s", configuration, task.Status.State)
			}
		}
		close(gate)
	}
}

// A subscription starts with the task, continues while the task waits, and ends with the task.
func TestSubscriptionToAnIdleTaskStaysOpen(t *testing.T) {
	t.Parallel()
	e := start(t, askThenReply, nil)
	task := e.v10Send("a")
	ids := fmt.Sprintf(`{"id":%q}`, task.ID)
	s := e.open("SubscribeToTask", ids)
	first, ok := s.next()
	if !ok || v10Events(t, []event{first}) != "task input-required" {
		t.Fatalf("first item = %s, want the task that waits", first.Data.Result)
	}
	e.v10Send("b", fmt.Sprintf(`"taskId":%q`, task.ID))
	if got := v10Events(t, s.rest()); got != "submitted, working, completed" {
		t.Errorf("items after the answer = %s", got)
	}
	for _, got := range []string{e.body("SubscribeToTask", ids), string(e.do("GET", "/tasks/"+task.ID+":subscribe", "", nil).Body), string(e.do("POST", "/tasks/"+task.ID+":subscribe", "{}", nil).Body)} {
		if !strings.Contains(got, "UNSUPPORTED_OPERATION") || !strings.Contains(got, task.ID) {
			t.Errorf("subscription to a task that ended = %s, want unsupported operation", got)
		}
	}
	if got := e.call("SubscribeToTask", `{"id":"none"}`); got.code() != -32001 {
		t.Errorf("subscription to no task = %s, want -32001", got.Body)
	}
}

// All streams of a task have the same items in the same order. One that closes affects no other.
func TestConcurrentStreamsHaveTheSameItems(t *testing.T) {
	t.Parallel()
	next := make(chan int)
	e := start(t, stepHandler(next), nil)
	sent := e.open("SendStreamingMessage", `{`+v10Message("a")+`}`)
	first, _ := sent.next()
	id := first.Data.v10Task(t, "task").ID
	_, _ = sent.next() // working: the subscriptions start after the same event
	var streams []*stream
	for range 4 {
		s := e.open("SubscribeToTask", fmt.Sprintf(`{"id":%q}`, id))
		if item, ok := s.next(); !ok || v10Events(t, []event{item}) != "task working" {
			t.Fatalf("first item = %s, want the task", item.Data.Result)
		}
		streams = append(streams, s)
	}
	next <- 1
	for _, s := range append(streams, sent) {
		if _, ok := s.next(); !ok {
			t.Fatal("a stream ended before its task")
		}
	}
	streams[0].cancel()
	next <- 2
	next <- 3
	close(next)
	text := func(s *stream) (all string) {
		for _, item := range s.rest() {
			all += item.ID + " " + string(item.Data.Result) + "\n"
		}
		return all
	}
	want := text(sent)
	if strings.Count(want, "\n") != 3 || !strings.Contains(want, "TASK_STATE_COMPLETED") {
		t.Errorf("items = %s, want two updates and the end", want)
	}
	for i, s := range streams[1:] {
		if got := text(s); got != want {
			t.Errorf("stream %d:\n%swant the items of the first stream:\n%s", i+1, got, want)
		}
	}
}

// v10Page is a result of ListTasks.
type v10Page struct {
	Tasks         []taskView `json:"tasks"`
	NextPageToken *string    `json:"nextPageToken"`
	PageSize      *int       `json:"pageSize"`
	TotalSize     *int       `json:"totalSize"`
}

// v10List calls ListTasks over JSON-RPC with params, and over HTTP+JSON with the same query. Both
// results must be the same.
func (e *env) v10List(params map[string]any) v10Page {
	e.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		e.t.Fatal(err)
	}
	got := e.call("ListTasks", string(raw))
	query := ""
	for name, value := range params {
		query += fmt.Sprintf("&%s=%v", name, value)
	}
	if rest := e.do("GET", "/tasks?"+strings.ReplaceAll(query, "+", "%2B"), "", nil); string(rest.Body) != string(got.Result) {
		e.t.Errorf("GET /tasks?%s = %s, want the result of JSON-RPC %s", query, rest.Body, got.Body)
	}
	var page v10Page
	if err := json.Unmarshal(got.Result, &page); err != nil || page.Tasks == nil || page.NextPageToken == nil || page.PageSize == nil || page.TotalSize == nil {
		e.t.Fatalf("ListTasks %s = %s, want tasks, nextPageToken, pageSize and totalSize", raw, got.Body)
	}
	return page
}

func (p v10Page) ids() (ids []string) {
	for _, task := range p.Tasks {
		ids = append(ids, task.ID)
	}
	return ids
}

func TestListTasksPagesAndFilters(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	var all, inContext []string // newest first
	contextID := ""
	for i := range 5 {
		more := []string{}
		if i%2 == 1 && contextID != "" {
			more = append(more, fmt.Sprintf(`"contextId":%q`, contextID))
		}
		task := e.v10Send(fmt.Sprint(i), more...)
		all = append([]string{task.ID}, all...)
		if contextID == "" || len(more) > 0 {
			contextID = task.ContextID
			inContext = append([]string{task.ID}, inContext...)
		}
	}
	for size := 1; size <= 6; size++ {
		var got []string
		for token := ""; ; {
			params := map[string]any{"pageSize": size}
			if token != "" {
				params["pageToken"] = token
			}
			page := e.v10List(params)
			got = append(got, page.ids()...)
			if token = *page.NextPageToken; *page.TotalSize != 5 || *page.PageSize != size || len(page.Tasks) > size || len(got) > 5 {
				t.Fatalf("page of %d after %v = %+v", size, got, page)
			}
			if token == "" {
				break
			}
		}
		if !slices.Equal(got, all) {
			t.Errorf("pages of %d have %v, want newest first: %v", size, got, all)
		}
	}
	var newest struct {
		Status struct{ Timestamp time.Time }
	}
	if err := json.Unmarshal(e.call("GetTask", fmt.Sprintf(`{"id":%q}`, all[0])).Result, &newest); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		params map[string]any
		want   []string
	}{
		{"defaults", map[string]any{}, all},
		{"context", map[string]any{"contextId": contextID}, inContext},
		{"state", map[string]any{"status": "TASK_STATE_COMPLETED"}, all},
		{"another state", map[string]any{"status": "TASK_STATE_FAILED"}, nil},
		{"context and state", map[string]any{"contextId": contextID, "status": "TASK_STATE_WORKING"}, nil},
		{"time", map[string]any{"statusTimestampAfter": newest.Status.Timestamp.Add(time.Millisecond).Format(time.RFC3339Nano)}, nil},
		{"earlier time", map[string]any{"statusTimestampAfter": newest.Status.Timestamp.Add(-time.Hour).Format(time.RFC3339Nano)}, all},
		{"no such context", map[string]any{"contextId": "none"}, nil},
	} {
		page := e.v10List(test.params)
		if !slices.Equal(page.ids(), test.want) || *page.TotalSize != len(test.want) || *page.NextPageToken != "" {
			t.Errorf("%s: %v of %d, want %v", test.name, page.ids(), *page.TotalSize, test.want)
		}
		for _, task := range page.Tasks {
			if task.Artifacts != nil {
				t.Errorf("%s: task %s has artifacts that were not requested", test.name, task.ID)
			}
		}
	}
	if page := e.v10List(map[string]any{"includeArtifacts": true}); len(page.Tasks) != 5 || len(page.Tasks[0].Artifacts) != 1 || *page.PageSize != 50 {
		t.Errorf("ListTasks with artifacts = %+v, want pages of 50 with them", page)
	}
	for _, bad := range []string{`"pageSize":0`, `"pageSize":101`, `"pageSize":-1`, `"pageToken":"x"`, `"historyLength":-1`, `"statusTimestampAfter":"yesterday"`, `"status":"TASK_STATE_NONE"`} {
		if got := e.call("ListTasks", `{`+bad+`}`); got.code() != -32602 {
			t.Errorf("ListTasks {%s} = %s, want -32602", bad, got.Body)
		}
	}
}

// A2A 1.0 shows states that it lacks as others, and a filter selects a state with those shown as it.
func TestListTasksFiltersByTheShownState(t *testing.T) {
	t.Parallel()
	st := newStore()
	e := startOn(t, st, echo, nil)
	shown := map[a2a.TaskState]string{
		a2a.StatePending: "SUBMITTED", a2a.StateBidSubmitted: "SUBMITTED", a2a.StateBidWon: "SUBMITTED", a2a.StateResumed: "WORKING", a2a.StateSuspended: "INPUT_REQUIRED",
		a2a.StatePaymentRequired: "INPUT_REQUIRED", a2a.StateTrustVerificationRequired: "AUTH_REQUIRED", a2a.StateBidLost: "REJECTED", a2a.StateUnknown: "UNSPECIFIED",
	}
	for _, state := range []a2a.TaskState{
		a2a.StateSubmitted, a2a.StateWorking, a2a.StateCompleted, a2a.StateFailed, a2a.StateCanceled, a2a.StateInputRequired, a2a.StateRejected, a2a.StateAuthRequired,
	} {
		shown[state] = strings.ReplaceAll(strings.ToUpper(string(state)), "-", "_")
	}
	want := map[string][]string{}
	for _, state := range a2a.States() {
		results, err := st.Commit(t.Context(), store.Change{
			Key: store.Key{Owner: a2a.Anonymous, ID: string(state)}, Create: &store.Create{ContextID: "c"},
			Events: []store.Event{{Time: time.Now(), State: state}}, Queue: &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1},
		})
		if err != nil || results[0].Err != nil {
			t.Fatal(err, results)
		}
		want[shown[state]] = append(want[shown[state]], string(state))
	}
	for name, states := range want {
		if name == "UNSPECIFIED" {
			continue // does not filter
		}
		page := e.v10List(map[string]any{"status": "TASK_STATE_" + name})
		got := page.ids()
		slices.Sort(got)
		slices.Sort(states)
		if !slices.Equal(got, states) || *page.TotalSize != len(states) {
			t.Errorf("ListTasks in state %s = %v, want %v", name, got, states)
		}
		for _, task := range page.Tasks {
			if original := task.Metadata["holdfast.state"]; task.Status.State != "TASK_STATE_"+name || (original != nil) != (strings.ToUpper(strings.ReplaceAll(task.ID, "-", "_")) != name) {
				t.Errorf("task %s is shown as %s with the original %v, want %s", task.ID, task.Status.State, original, name)
			}
		}
	}
}

// Absent means all messages of a task, 0 none, N the newest N. Lists have none unless requested.
func TestHistoryLengthInV10(t *testing.T) {
	t.Parallel()
	e := start(t, askThenReply, nil)
	task := e.v10Send("a")
	e.v10Send("b", fmt.Sprintf(`"taskId":%q`, task.ID))
	texts := func(raw json.RawMessage, list bool) string {
		var task struct {
			Task    *json.RawMessage
			Tasks   []json.RawMessage
			History []struct{ Parts []struct{ Text string } }
		}
		if err := json.Unmarshal(raw, &task); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if list {
			raw = task.Tasks[0]
		} else if task.Task != nil {
			raw = *task.Task
		}
		if err := json.Unmarshal(raw, &task); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		all := []string{}
		for _, m := range task.History {
			all = append(all, m.Parts[0].Text)
		}
		return strings.Join(all, ", ")
	}
	for _, test := range []struct{ length, want, list, sent string }{
		{``, "a, which one?, b, done", "", "c, which one?"},
		{`"historyLength":0`, "", "", ""},
		{`"historyLength":1`, "done", "done", "which one?"},
		{`"historyLength":3`, "which one?, b, done", "which one?, b, done", "c, which one?"},
		{`"historyLength":100`, "a, which one?, b, done", "a, which one?, b, done", "c, which one?"},
		{`"historyLength":-1`, "-32602", "-32602", "-32602"},
	} {
		more := members(slices.DeleteFunc([]string{test.length}, func(s string) bool { return s == "" }))
		for _, call := range []struct{ method, params, want string }{
			{"GetTask", fmt.Sprintf(`{"id":%q%s}`, task.ID, more), test.want},
			{"ListTasks", fmt.Sprintf(`{"contextId":%q%s}`, task.ContextID, more), test.list},
			{"SendMessage", fmt.Sprintf(`{%s,"configuration":{%s}}`, v10Message("c"), test.length), test.sent},
		} {
			got := e.call(call.method, call.params)
			if got.Error != nil {
				if fmt.Sprint(got.code()) != call.want || !strings.Contains(string(got.Body), "historyLength") {
					t.Errorf("%s %s = %s, want %s", call.method, call.params, got.Body, call.want)
				}
				continue
			}
			if history := texts(got.Result, call.method == "ListTasks"); history != call.want || strings.Contains(string(got.Result), `"history"`) != (call.want != "") {
				t.Errorf("%s %s: history %q, want %q: %s", call.method, call.params, history, call.want, got.Result)
			}
		}
	}
}

// The rules for the ids of a message, each with its error over both bindings.
func TestIDsOfMessagesInV10(t *testing.T) {
	t.Parallel()
	e := start(t, askThenReply, nil)
	waiting, ended := e.v10Send("a"), e.v10Send("b")
	follow := fmt.Sprintf(`"taskId":%q`, ended.ID)
	if got := e.v10Send("c", follow); got.ID != ended.ID || got.ContextID != ended.ContextID || got.Status.State != "TASK_STATE_COMPLETED" {
		t.Errorf("message with a taskId alone = %+v, want the task in its context", got)
	}
	if got := e.v10Send("d", `"contextId":"of the client"`); got.ContextID != "of the client" {
		t.Errorf("contextId = %s, want the contextId of the message", got.ContextID)
	}
	for _, test := range []struct {
		name, ids, field string
		code             int
		reason           string
	}{
		{"a task that ended", follow, "", -32004, "UNSUPPORTED_OPERATION"},
		{"no task", `"taskId":"none"`, "", -32001, "TASK_NOT_FOUND"},
		{"ids made by the client", fmt.Sprintf(`"taskId":%q,"contextId":%q`, freshUUID(), freshUUID()), "", -32001, "TASK_NOT_FOUND"},
		{"another context", fmt.Sprintf(`"taskId":%q,"contextId":%q`, waiting.ID, ended.ContextID), "message.contextId", -32602, ""},
		{"another context that does not exist", fmt.Sprintf(`"taskId":%q,"contextId":"none"`, waiting.ID), "message.contextId", -32602, ""},
	} {
		params := `{` + v10Message("x", test.ids) + `}`
		for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
			got := e.call(method, params)
			if got.code() != test.code || !strings.Contains(string(got.Body), test.reason) || !strings.Contains(string(got.Body), test.field) {
				t.Errorf("%s to %s = %s, want %d %s", method, test.name, got.Body, test.code, test.reason)
			}
		}
		rest := e.do("POST", "/message:send", params, nil)
		if rest.Status/100 != 4 || !strings.Contains(string(rest.Body), test.reason) || !strings.Contains(string(rest.Body), test.field) {
			t.Errorf("POST /message:send to %s = HTTP %d %s, want %s", test.name, rest.Status, rest.Body, test.reason)
		}
	}
	for _, parts := range []string{`"parts":[]`, `"parts":null`, `"metadata":{}`, `"parts":[{}]`, `"parts":[{"text":"a","url":"https://example.com/"}]`} {
		if got := e.call("SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER",`+parts+`}}`); got.code() != -32602 || !strings.Contains(string(got.Body), "message.parts") {
			t.Errorf("SendMessage with %s = %s, want -32602 on message.parts", parts, got.Body)
		}
	}
}

// Tasks of others look nonexistent in A2A 1.0, whatever is wrong with the request.
func TestForeignTasksAreNotFoundInV10(t *testing.T) {
	t.Parallel()
	st := newStore()
	on := withWebhook(t, st)
	e := startOn(t, st, askThenReply, func(c *server.Config) { twoTokens(c); on(c) })
	alice, bob := as("alice"), append(as("bob"), "X-Request-Id", "same")
	waiting := e.call("SendMessage", `{`+v10Message("a")+`}`, alice...).v10Task(t, "task").ID
	ended := e.call("SendMessage", `{`+v10Message("b")+`}`, alice...).v10Task(t, "task").ID
	e.call("SendMessage", `{`+v10Message("c", fmt.Sprintf(`"taskId":%q`, ended))+`}`, alice...)
	e.call("CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"id":"w","url":"https://example.com/secret"}`, waiting), alice...)
	for _, call := range [][2]string{
		{"GetTask", `{"id":%q}`},
		{"CancelTask", `{"id":%q}`},
		{"SubscribeToTask", `{"id":%q}`},
		{"SendMessage", `{` + v10Message("x", `"taskId":%q`) + `}`},
		{"SendMessage", `{` + v10Message("x", `"taskId":%q,"contextId":"another"`) + `}`},
		{"SendStreamingMessage", `{` + v10Message("x", `"taskId":%q`) + `}`},
		{"CreateTaskPushNotificationConfig", `{"taskId":%q,"url":"https://example.com/x"}`},
		{"CreateTaskPushNotificationConfig", `{"taskId":%q,"url":"http://127.0.0.1/"}`},
		{"GetTaskPushNotificationConfig", `{"taskId":%q,"id":"w"}`},
		{"ListTaskPushNotificationConfigs", `{"taskId":%q}`},
		{"ListTaskPushNotificationConfigs", `{"taskId":%q,"pageToken":"x"}`},
		{"DeleteTaskPushNotificationConfig", `{"taskId":%q,"id":"w"}`},
	} {
		for _, id := range []string{waiting, ended} {
			none := freshUUID()
			foreign, absent := e.call(call[0], fmt.Sprintf(call[1], id), bob...), e.call(call[0], fmt.Sprintf(call[1], none), bob...)
			if got, want := string(foreign.Body), strings.ReplaceAll(string(absent.Body), none, id); got != want || foreign.code() != -32001 {
				t.Errorf("%s of another's task = %s\nwant the response for no task: %s", call[0], got, want)
			}
		}
	}
	for _, params := range []string{`{}`, `{"status":"TASK_STATE_COMPLETED"}`, `{"includeArtifacts":true,"historyLength":9}`} {
		if got := e.body("ListTasks", params, bob...); !strings.Contains(got, `"tasks":[],"nextPageToken":"","pageSize":50,"totalSize":0`) {
			t.Errorf("ListTasks %s = %s, want no tasks of others", params, got)
		}
	}
}

// All times are in UTC with milliseconds, and end with Z.
func TestTimesAreInUTCWithMilliseconds(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	task := e.v10Send("a")
	valid := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
	times := regexp.MustCompile(`"(?:timestamp|createdAt|updatedAt)":"([^"]*)"`)
	id := fmt.Sprintf(`{"id":%q}`, task.ID)
	stream := string(e.do("POST", "/message:stream", `{`+v10Message("b")+`}`, nil).Body)
	for name, text := range map[string]string{
		"GetTask": e.body("GetTask", id), "ListTasks": e.body("ListTasks", `{}`), "POST /message:stream": stream,
		"tasks/get": e.body("tasks/get", id), "ListContexts": e.body("ListContexts", `{}`),
	} {
		found := times.FindAllStringSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("%s = %s, want times", name, text)
		}
		for _, at := range found {
			if !valid.MatchString(at[1]) {
				t.Errorf("%s has the time %s, want UTC with milliseconds", name, at[1])
			}
		}
	}
}

// A message of the system is shown as one of the user, with its role in the metadata, in both
// versions.
func TestSystemRoleIsShownAsTheUser(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	task := e.call("message/send", params(strings.Replace(message("a"), `"role":"user"`, `"role":"system"`, 1), blocking)).task(t)
	id := fmt.Sprintf(`{"id":%q}`, task.ID)
	for method, role := range map[string]string{"tasks/get": `"role":"user"`, "GetTask": `"role":"ROLE_USER"`} {
		got := e.body(method, id)
		if strings.Count(got, role) != 1 || !strings.Contains(got, `"metadata":{"holdfast.role":"system"}`) {
			t.Errorf("%s = %s, want %s with the original in the metadata", method, got, role)
		}
	}
}
