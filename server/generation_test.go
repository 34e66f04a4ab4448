package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/server"
)

// v11 are the headers of a client of A2A 1.1.
var v11 = headers{"A2A-Version", "1.1"}

// generationOf returns the member generation of a task or an update, "" if it is absent.
func generationOf(t *testing.T, raw []byte) string {
	t.Helper()
	var v struct{ Generation string }
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v.Generation
}

// getTask returns the task that GetTask returns over JSON-RPC with the headers h.
func (e *env) getTask(id, more string, h headers) []byte {
	e.t.Helper()
	got := e.call("GetTask", fmt.Sprintf(`{"id":%q%s}`, id, more), h...)
	if got.Error != nil {
		e.t.Fatalf("GetTask = %s", got.Body)
	}
	return got.Result
}

// Each item of a stream has the generation after its event, without gaps. Only clients of A2A 1.1
// see generations, also of finished tasks, which are cached.
func TestEventsHaveGenerations(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	var id, last string
	for i, item := range e.open("SendStreamingMessage", `{`+v10Message("a")+`}`, v11...).rest() {
		var kinds map[string]json.RawMessage
		if err := json.Unmarshal(item.Data.Result, &kinds); err != nil {
			t.Fatal(err)
		}
		for kind, content := range kinds {
			if last = generationOf(t, content); last != fmt.Sprint(i+1) || last != item.ID {
				t.Errorf("item %d, %s %s has the generation %s", i+1, kind, item.ID, last)
			}
			if kind == "task" {
				var task taskView
				if err := json.Unmarshal(content, &task); err != nil {
					t.Fatal(err)
				}
				id = task.ID
			}
		}
	}
	if last < "3" {
		t.Fatalf("the newest generation is %s, want 3 or more", last)
	}
	for range 2 {
		for version, want := range map[string]string{"1.1": last, "1.1.4": last, "1.2": last, "1.0": "", "1": "", "": ""} {
			h := headers{"A2A-Version", version}
			if got := generationOf(t, e.getTask(id, "", h)); got != want {
				t.Errorf("version %q: GetTask has the generation %q, want %q", version, got, want)
			}
			if got := generationOf(t, e.do("GET", "/tasks/"+id, "", h).Body); got != want {
				t.Errorf("version %q: GET /tasks has the generation %q, want %q", version, got, want)
			}
			var list struct{ Tasks []json.RawMessage }
			if err := json.Unmarshal(e.call("ListTasks", `{}`, h...).Result, &list); err != nil || len(list.Tasks) != 1 {
				t.Fatalf("ListTasks = %d tasks, %v", len(list.Tasks), err)
			}
			if got := generationOf(t, list.Tasks[0]); got != want {
				t.Errorf("version %q: ListTasks has the generation %q, want %q", version, got, want)
			}
		}
		if got := e.call("tasks/get", fmt.Sprintf(`{"id":%q}`, id)); strings.Contains(string(got.Body), "eneration") {
			t.Errorf("tasks/get = %s, want no generation in A2A 0.3", got.Body)
		}
	}
}

func TestMessageForAnotherGenerationIsRejected(t *testing.T) {
	t.Parallel()
	e := start(t, askThenReply, nil)
	task := e.v10Send("a")
	generation := generationOf(t, e.getTask(task.ID, "", v11))
	reply := func(text, generation string) string {
		return `{` + v10Message(text, fmt.Sprintf(`"taskId":%q`, task.ID)) + `,"configuration":{"ifGenerationMatch":` + generation + `}}`
	}
	for _, other := range []string{"1", `"1"`, "0", "-1", "999"} {
		got := e.call("SendMessage", reply("b", other), v11...)
		text := string(got.Body)
		if got.code() != -32010 || !strings.Contains(text, `"reason":"TASK_GENERATION_MISMATCH"`) || !strings.Contains(text, `"currentGeneration":"`+generation+`"`) ||
			!strings.Contains(text, `"expectedGeneration":"`+strings.Trim(other, `"`)+`"`) || !strings.Contains(text, `"taskId":"`+task.ID+`"`) {
			t.Errorf("ifGenerationMatch %s = %s, want -32010 with both generations", other, text)
		}
		got = e.do("POST", "/message:send", reply("b", other), v11)
		if got.Status != 409 || !strings.Contains(string(got.Body), `"status":"ABORTED"`) || !strings.Contains(string(got.Body), "TASK_GENERATION_MISMATCH") {
			t.Errorf("ifGenerationMatch %s over HTTP+JSON = %d %s, want 409 ABORTED", other, got.Status, got.Body)
		}
		got = e.do("POST", "/message:stream", reply("b", other), v11)
		if !strings.Contains(string(got.Body), "TASK_GENERATION_MISMATCH") {
			t.Errorf("ifGenerationMatch %s of a stream = %d %s, want a mismatch", other, got.Status, got.Body)
		}
	}
	if now := generationOf(t, e.getTask(task.ID, "", v11)); now != generation {
		t.Fatalf("the generation is %s after rejected messages, want %s", now, generation)
	}
	if got := e.call("SendMessage", reply("c", `"x"`), v11...); got.code() != -32602 || !strings.Contains(string(got.Body), "configuration.ifGenerationMatch") {
		t.Errorf("ifGenerationMatch x = %s, want invalid params", got.Body)
	}
	// Of several clients that saw the same generation, one continues the task.
	var wg sync.WaitGroup
	codes := make([]int, 8)
	for i := range codes {
		wg.Go(func() { codes[i] = e.call("SendMessage", reply(fmt.Sprint("d", i), generation), v11...).code() })
	}
	wg.Wait()
	accepted := 0
	for i, code := range codes {
		switch code {
		case 0:
			accepted++
			// A request that is repeated after its answer was lost gets the same answer.
			if again := e.call("SendMessage", reply(fmt.Sprint("d", i), generation), v11...); again.code() != 0 {
				t.Errorf("the accepted message again = %s", again.Body)
			}
		case -32010:
		default:
			t.Errorf("SendMessage has the code %d, want none or -32010", code)
		}
	}
	if accepted != 1 {
		t.Errorf("%d of %d messages for one generation were accepted, want 1", accepted, len(codes))
	}
	// A client that missed the end of the task gets the same error.
	if got := e.call("SendMessage", reply("e", generation), v11...); got.code() != -32010 {
		t.Errorf("a message to the finished task = %s, want -32010", got.Body)
	}
}

// A2A 1.0 has no generations, so that its server ignores their members. A task that a message creates has
// none to compare.
func TestGenerationsAreIgnored(t *testing.T) {
	t.Parallel()
	e := start(t, askThenReply, nil)
	const mismatch = `,"configuration":{"ifGenerationMatch":"77"}}`
	if got := e.call("SendMessage", `{`+v10Message("a")+mismatch, v11...); got.code() != 0 {
		t.Errorf("a message that creates a task = %s", got.Body)
	}
	for _, version := range []string{"1.0", ""} {
		h := headers{"A2A-Version", version}
		task := e.v10Send("b" + version)
		e.getTask(task.ID, `,"currentGeneration":1000`, h)
		if got := e.do("GET", "/tasks/"+task.ID+"?currentGeneration=1000", "", h); got.Status != 200 {
			t.Errorf("version %q: GET /tasks = %d %s", version, got.Status, got.Body)
		}
		if got := e.call("SendMessage", `{`+v10Message("c"+version, fmt.Sprintf(`"taskId":%q`, task.ID))+mismatch, h...); got.code() != 0 {
			t.Errorf("version %q: SendMessage = %s, want no error", version, got.Body)
		}
	}
}

func TestGetTaskWaitsForALaterGeneration(t *testing.T) {
	t.Parallel()
	e := start(t, askThenReply, func(c *server.Config) { c.Requests.BlockingTimeout = time.Hour })
	task := e.v10Send("a")
	generation := generationOf(t, e.getTask(task.ID, "", v11))
	if got := generationOf(t, e.getTask(task.ID, `,"currentGeneration":1`, v11)); got != generation {
		t.Errorf("GetTask with an earlier generation has the generation %s, want %s at once", got, generation)
	}
	got := make(chan []byte, 2)
	go func() { got <- e.getTask(task.ID, `,"currentGeneration":"`+generation+`"`, v11) }()
	go func() { got <- e.do("GET", "/tasks/"+task.ID+"?currentGeneration="+generation, "", v11).Body }()
	select {
	case early := <-got:
		t.Fatalf("GetTask = %s, want no response before a later generation", early)
	case <-time.After(50 * time.Millisecond):
	}
	e.v10Send("b", fmt.Sprintf(`"taskId":%q`, task.ID))
	for range 2 {
		if now := <-got; len(generationOf(t, now)) < len(generation) || generationOf(t, now) == generation {
			t.Errorf("GetTask = %s, want a later generation than %s", now, generation)
		}
	}
	e.getTask(task.ID, `,"currentGeneration":1000`, v11) // the task has finished
	if none := e.call("GetTask", `{"id":"none","currentGeneration":1}`, v11...); none.code() != -32001 {
		t.Errorf("GetTask of no task = %s, want -32001", none.Body)
	}
	if bad := e.do("GET", "/tasks/"+task.ID+"?currentGeneration=x", "", v11); bad.Status != 400 || !strings.Contains(string(bad.Body), "currentGeneration") {
		t.Errorf("currentGeneration=x = %d %s, want 400", bad.Status, bad.Body)
	}
}

// The wait for a generation ends with the limit of blocking calls, and when its task is deleted.
func TestGetTaskWaitsNoLongerThanBlockingCalls(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	e := start(t, func(ctx context.Context, turn *engine.Turn) error {
		<-release
		return turn.Reply()
	}, func(c *server.Config) { c.Requests.BlockingTimeout = 50 * time.Millisecond })
	defer close(release)
	task := e.v10Send("a")
	before := generationOf(t, e.getTask(task.ID, "", v11))
	if got := generationOf(t, e.getTask(task.ID, `,"currentGeneration":1000`, v11)); got != before {
		t.Errorf("GetTask has the generation %s after its limit, want %s", got, before)
	}
}
