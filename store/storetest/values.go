package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var valueTests = []test{
	{"special characters in texts are preserved", valueTexts},
	{"ids may contain special characters", valueIDs},
	{"free-form values are read back as equal JSON", valueFreeForm},
	{"numbers keep their value", valueNumbers},
	{"files are read back byte for byte", valueFiles},
	{"a text of a megabyte is read back completely", valueLarge},
	{"a task without content is read back", valueEmpty},
	{"every state is preserved, known or not", valueStates},
	{"messages keep the ids of their task and context, or have none", valueMessageIDs},
}

var specialTexts = []string{
	"", " ", "'", `"`, "''; DROP TABLE tasks; --", "%", "_", `\`, `\\`, `\u0000`, "\n\r\t", "nul\x00nul", "\x00", "\x01\x1f\x7f",
	"emoji 🦀👩‍👩‍👧‍👦", "ünïcödé", "\u2028\u2029", "<script>&amp;</script>", "\ufeff", "\U0010ffff", "\ufffd", "null", "{}", "$1 ? :a @b",
}

func valueTexts(f *fixture) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	for i, text := range specialTexts {
		e := agentMessage(at(i), a2a.StateWorking, fmt.Sprint("m", i))
		e.Message.Parts = append(e.Message.Parts, a2a.TextPart{Text: text}, a2a.TextPart{Text: text, Metadata: map[string]any{text: text}})
		e.Message.Metadata = map[string]any{"text": text, "list": []any{text}}
		e.Metadata = map[string]any{text: text}
		c.Events = append(c.Events, e)
		c.Events = append(c.Events, store.Event{Time: at(i), State: a2a.StateWorking, Artifact: &a2a.Artifact{
			ID: fmt.Sprint("a", i), Name: text, Description: text, Parts: []a2a.Part{a2a.TextPart{Text: text}},
		}})
	}
	f.commit(c)
	f.equal("Task()", f.task(k), fold(k, "c1", *queued(), c.Events...))
	f.equal("Events()", f.events(k), withSeqs(c.Events))
	for i, text := range specialTexts {
		f.addFeedback(store.Feedback{Key: k, ID: fmt.Sprint("f", i), Text: text, CreatedAt: at(i)})
	}
	for i, b := range slices.Backward(f.feedbackOf(k)) {
		if i = len(specialTexts) - 1 - i; b.Text != specialTexts[i] {
			f.Errorf("Feedback()[%d].Text = %q, want %q", i, b.Text, specialTexts[i])
		}
	}
}

func valueIDs(f *fixture) {
	special := []string{strings.Repeat("long", 500), "../../etc/passwd", "t1;t2", "🦀"}
	for _, text := range specialTexts {
		if text != "" && !strings.Contains(text, "\x00") {
			special = append(special, text)
		}
	}
	for i, id := range special {
		k := store.Key{Owner: id, ID: id}
		c := withKey(newTask(k, id, at(i)), id, at(i))
		c.Idempotency.TaskID = id
		c.Queue = leased(id, at(100))
		c.Steps = []store.Step{step(1, id, id)}
		f.commit(c)
		f.addFeedback(store.Feedback{Key: k, ID: id, CreatedAt: at(i)})
	}
	for i, id := range special {
		k := store.Key{Owner: id, ID: id}
		want := fold(k, id, *leased(id, at(100)), clientMessage(at(i), "m1"))
		f.equal("Task()", f.task(k), want)
		f.equal("Tasks()", f.list(store.Query{Owner: id, ContextID: id, Limit: 3}).Tasks, []*store.Task{want})
		f.equal("Steps()", f.steps(k, 1), []store.Step{step(1, id, id)})
		f.equal("Context()", f.context(id, id), implicitContext(id, id, i, id))
		f.equal("Contexts()", f.contexts(store.ContextQuery{Owner: id, MaxTaskIDs: 1}).Contexts, []store.Context{implicitContext(id, id, i, id)})
		f.equal("FeedbackSummary()", f.summary(id).Count(), 1)
		f.equal("Feedback()", f.feedbackOf(k), []store.Feedback{{Key: k, ID: id, CreatedAt: at(i)}})
		suite.Equal(f, f.record(id, id).TaskID, id, "Idempotency().TaskID")
		c := fullContext(id, id, i)
		c.ReferenceIDs, c.Tags = []string{id}, []string{id}
		f.saveContext(store.ContextChange{Context: c.Copy(), Version: 1})
		c.Version, c.TaskCount, c.TaskIDs = 2, 1, []string{id}
		f.equal("Context()", f.context(id, id), c)
		end := changeUnder(k, id, 1, statusEvent(at(200), a2a.StateWorking))
		end.Queue = idle()
		f.commit(end)
		suite.Call(f.s.DeleteContext(f.ctx, id, id, 9)).Want(f, false, "DeleteContext(%q)", id)
		f.wantNoTask(k)
		f.wantNoContext(id, id)
	}
}

// wantRoundTrip commits a value in data parts and metadata and checks that it is read back.
func (f *fixture) wantRoundTrip(id string, v any) {
	f.Helper()
	k := key(id)
	c := newTask(k, "c1", at(0))
	c.Events[0].Received.Parts = []a2a.Part{a2a.DataPart{Data: v, Metadata: map[string]any{"v": v}}}
	c.Events[0].Received.Metadata = map[string]any{"v": v}
	c.Events[0].Metadata = map[string]any{"v": v}
	c.Events = append(c.Events, store.Event{Time: at(1), State: a2a.StateWorking, Artifact: &a2a.Artifact{
		ID: "a", Parts: []a2a.Part{a2a.DataPart{Data: v}}, Metadata: map[string]any{"v": v},
	}})
	f.commit(c)
	f.equal(fmt.Sprintf("Task() with %T %.60v", v, v), f.task(k), fold(k, "c1", *queued(), c.Events...))
	f.equal(fmt.Sprintf("Events() with %T %.60v", v, v), f.events(k), withSeqs(c.Events))
}

func valueFreeForm(f *fixture) {
	deep := any("bottom")
	for range 30 {
		deep = map[string]any{"down": []any{deep}}
	}
	wide := make(map[string]any)
	for i := range 500 {
		wide[fmt.Sprintf("Key_%d camelCase snake_case", i)] = fmt.Sprint(i)
	}
	for i, v := range []any{
		map[string]any{},
		[]any{},
		"", true, false, "text",
		map[string]any{"": "", "null": nil, "empty": map[string]any{}, "none": []any{}, "b": false},
		[]any{nil, map[string]any{}, []any{[]any{}}, "x"},
		map[string]any{"snake_case": 1.0, "camelCase": 2.0, "Title": 3.0, "kind": "text", "taskId": "x"},
		deep, wide,
	} {
		f.wantRoundTrip(fmt.Sprint("t", i), v)
	}
	k := key("merge")
	f.create(k, at(0))
	merge := func(version int64, m map[string]any) {
		e := statusEvent(at(int(version)), a2a.StateWorking)
		e.Metadata = m
		f.commit(changeAt(k, version, e))
	}
	merge(1, map[string]any{"a": "1", "b": map[string]any{"x": "1"}})
	merge(2, map[string]any{})
	merge(3, map[string]any{"b": map[string]any{"y": "2"}, "c": "3"})
	merge(4, map[string]any{"b": map[string]any{"x": nil, "z": map[string]any{"n": nil}}, "c": nil})
	f.equal("Task().Metadata", f.task(k).Metadata, map[string]any{"a": "1", "b": map[string]any{"y": "2", "z": map[string]any{}}})
}

func valueNumbers(f *fixture) {
	for i, n := range []string{
		"0", "-1", "0.1", "1e300", "9007199254740991", "9007199254740993", "-9007199254740993", "9223372036854775807",
		"18446744073709551615", "123456789012345678901234567890", "0.1234567890123456789012345", "1e-7", "1E+2", "-0.5",
	} {
		f.wantRoundTrip(fmt.Sprint("t", i), map[string]any{"n": json.Number(n), "list": []any{json.Number(n)}})
	}
	f.wantRoundTrip("float", 1.5)
	f.wantRoundTrip("int", 7)
	f.wantRoundTrip("int64", int64(1)<<62+1)
}

func valueFiles(f *fixture) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	k := key("t1")
	c := newTask(k, "c1", at(0))
	for _, p := range []a2a.FilePart{
		{File: a2a.FileWithBytes{Bytes: all, Name: "all", MimeType: "application/octet-stream"}},
		{File: a2a.FileWithBytes{Bytes: []byte{0}}},
		{File: a2a.FileWithBytes{Bytes: []byte{}}},
		{File: a2a.FileWithURI{URI: "https://example.com/a?b=c&d=%20#e", Name: "n", MimeType: "m/t"}},
	} {
		c.Events[0].Received.Parts = append(c.Events[0].Received.Parts, p)
	}
	f.commit(c)
	f.equal("Task()", f.task(k), fold(k, "c1", *queued(), c.Events...))
	f.equal("Events()", f.events(k), withSeqs(c.Events))
}

func valueLarge(f *fixture) {
	k := key("t1")
	text := strings.Repeat("0123456789abcde\n", 1<<16)
	c := newTask(k, "c1", at(0))
	c.Events[0].Received = message(a2a.RoleUser, "m1", text)
	c.Steps = []store.Step{step(1, "large", text)}
	c.Events = append(c.Events, chunkEvent(at(1), "a", text, false), chunkEvent(at(2), "a", text, true))
	f.commit(c)
	t := f.task(k)
	if len(t.History) != 1 || t.History[0].Message.Text() != text {
		f.Errorf("Task().History does not contain the message of %d bytes", len(text))
	}
	if len(t.Artifacts) != 1 || t.Artifacts[0].Text() != text+text {
		f.Errorf("Task().Artifacts does not contain the text of %d bytes", 2*len(text))
	}
	if got := f.steps(k, 1); len(got) != 1 || string(got[0].Result) != text {
		f.Errorf("Steps() does not contain the result of %d bytes", len(text))
	}
	if log := f.events(k); len(log) != 3 || log[2].Artifact.Text() != text {
		f.Errorf("Events() does not end with the text of %d bytes", len(text))
	}
}

func valueEmpty(f *fixture) {
	k := key("t1")
	c := store.Change{Key: k, Create: &store.Create{ContextID: "c1"}, Events: []store.Event{{Time: at(0), State: a2a.StateSubmitted}}, Queue: idle()}
	c.Events = append(c.Events,
		store.Event{Time: at(1), State: a2a.StateWorking, Message: &a2a.Message{ID: "m", Role: a2a.RoleSystem}},
		store.Event{Time: at(2), State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a"}},
		store.Event{Time: at(3), State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a"}, Append: true, LastChunk: true},
	)
	f.commit(c)
	f.equal("Task()", f.task(k), fold(k, "c1", *idle(), c.Events...))
	f.equal("Events()", f.events(k), withSeqs(c.Events))
}

func valueStates(f *fixture) {
	states := append(a2a.States(), "unknown-state")
	for i, s := range states {
		c := newTask(key(fmt.Sprint("t", i)), "c1", at(i))
		c.Events[0].State = s
		f.commit(c)
	}
	for i, s := range states {
		page := f.list(store.Query{Owner: owner, States: []a2a.TaskState{s}, Limit: 10})
		f.equal(fmt.Sprintf("Tasks() in state %s", s), ids(page.Tasks), []string{fmt.Sprint("t", i)})
	}
}

func valueMessageIDs(f *fixture) {
	for i, ids := range [][2]string{{"t", "c"}, {"", "c"}, {"t", ""}, {"", ""}, {"other", "another"}} {
		k := key(fmt.Sprint("t", i))
		c := newTask(k, "c", at(i))
		c.Events[0].Received.TaskID, c.Events[0].Received.ContextID = k.ID, "c"
		f.commit(c)
		done := agentMessage(at(i), a2a.StateCompleted, "m")
		if ids[0] == "t" {
			ids[0] = k.ID
		}
		done.Message.TaskID, done.Message.ContextID = ids[0], ids[1]
		f.commit(store.Change{Key: k, Version: 1, Events: []store.Event{done}, Queue: idle()})
		want := fold(k, "c", *idle(), c.Events[0], done)
		f.equal("Task()", f.task(k), want)
		f.equal("Task().Answer()", f.task(k).Answer() != nil, ids[0] == "")
		f.equal("Tasks()", f.list(store.Query{Owner: owner, Limit: 1}).Tasks, []*store.Task{want})
		f.equal("Events()", f.events(k), withSeqs([]store.Event{c.Events[0], done}))
	}
}
