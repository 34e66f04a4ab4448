package sqlite

import (
	"database/sql"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// storeWithViewData returns a store with a running task, a completed task, feedback and
// a webhook.
func storeWithViewData(t *testing.T) *Store {
	t.Helper()
	s := open(t, Config{Dir: t.TempDir()})
	done, running := submitted(1), submitted(2)
	done.Events[0].Metadata = map[string]any{"a": 1, "b": true, "c": "x"}
	running.Events[0].Received.TaskID, running.Events[0].Received.ContextID = running.Key.ID, running.Create.ContextID
	for _, c := range []store.Change{done, completed(done), running} {
		must(t, commitOne(s, c))
	}
	at := running.Events[0].Time
	chunk := func(text string, more bool) store.Event {
		return store.Event{Time: at, State: a2a.StateWorking, Append: more, Artifact: &a2a.Artifact{
			ID: "a1", Name: "draft", Parts: []a2a.Part{a2a.TextPart{Text: text}},
		}}
	}
	other := func(id string, parts ...a2a.Part) store.Event {
		return store.Event{Time: at, State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: id, Parts: parts}}
	}
	must(t, commitOne(s, store.Change{Key: running.Key, Version: 2, Events: []store.Event{
		other("withdrawn", a2a.TextPart{Text: "gone"}), other("again", a2a.TextPart{Text: "gone"}), other("withdrawn"), other("again"),
		chunk("old", false), chunk("one", false), chunk("two", true),
		{Time: at, State: a2a.StateWorking, Message: message("p", "agent", "page 3 of 200"), Progress: true},
		{Time: at, State: a2a.StateWorking, Message: message("m3", "agent", "nearly"), Metadata: map[string]any{"k": map[string]any{"n": 1.5, "o": map[string]any{"p": 1}}, "m": 1}},
		{Time: at, State: a2a.StateWorking, Metadata: map[string]any{"k": map[string]any{"n": nil, "o": map[string]any{"q": 2}}, "l": false, "m": nil}},
		other("again", a2a.TextPart{Text: "back"}),
	}}))
	must(t, commitOne(s, store.Change{Key: running.Key, Version: 13, Events: []store.Event{
		other("large", a2a.TextPart{Text: strings.Repeat("x", 70_000)}, a2a.TextPart{Text: strings.Repeat("y", 80_000)}), other("large"),
		other("once", a2a.TextPart{Text: strings.Repeat("x", 70_000)}, a2a.TextPart{Text: strings.Repeat("y", 80_000)}),
	}}))
	_, err := s.SaveWebhook(bg, store.Webhook{
		Task: running.Key, ID: "p", Endpoint: "https://hooks.example:443", Data: []byte(`{"id":"p","url":"https://hooks.example/p"}`), CreatedAt: testTime,
	}, store.WebhookCursor{}, testTime.Add(time.Second))
	must(t, err)
	must(t, s.AddFeedback(bg, store.Feedback{Key: done.Key, ID: "f1", Rating: 5, Text: "good", CreatedAt: testTime.Add(time.Second)}))
	return s
}

// viewTests are queries of operators, each with its result as JSON.
var viewTests = []struct{ query, want string }{
	{
		`SELECT json_array(id, context_id, owner_did, kind, state, state_timestamp, created_at, updated_at) FROM tasks WHERE state = 'completed'`,
		`["` + taskID(1) + `","c` + taskID(1) + `","did:key:z6MkhaXgBZDvotDkL5257","task","completed","2026-11-20T12:00:00.005Z","2026-11-20T12:00:00.000Z","2026-11-20T12:00:00.005Z"]`,
	},
	{
		`SELECT history FROM tasks WHERE state = 'completed'`,
		`[` + messageJSON("m1", "user", loremIpsum) + `,` + messageJSON("m2", "agent", "Here is the summary.") + `]`,
	},
	{
		`SELECT artifacts FROM tasks WHERE state = 'completed'`,
		`[{"artifactId":"a1","name":"summary","parts":[{"kind":"text","text":"` + loremIpsum + loremIpsum + `"}]}]`,
	},
	{`SELECT metadata FROM tasks WHERE state = 'completed'`, `{"a":1,"b":true,"c":"x"}`},
	{
		`SELECT history FROM tasks WHERE state = 'working'`,
		`[` + strings.TrimSuffix(messageJSON("m1", "user", loremIpsum), "}") + `,"taskId":"` + taskID(2) + `","contextId":"c` + taskID(2) + `"},` + messageJSON("m3", "agent", "nearly") + `]`,
	},
	{
		`SELECT artifacts FROM tasks WHERE state = 'working'`,
		`[{"artifactId":"a1","name":"draft","parts":[{"kind":"text","text":"one"},{"kind":"text","text":"two"}]},{"artifactId":"again","parts":[{"kind":"text","text":"back"}]},` +
			`{"artifactId":"once","parts":[{"kind":"text","text":"` + strings.Repeat("x", 70_000) + `"},{"kind":"text","text":"` + strings.Repeat("y", 80_000) + `"}]}]`,
	},
	{`SELECT metadata FROM tasks WHERE state = 'working'`, `{"k":{"o":{"p":1,"q":2}},"l":false}`},
	{
		`SELECT json_group_array(json_array(seq, time, state)) FROM task_events WHERE task_id = '` + taskID(1) + `'`,
		`[[1,"2026-11-20T12:00:00.000Z","submitted"],[2,"2026-11-20T12:00:00.000Z","working"],[3,"2026-11-20T12:00:00.005Z","working"],[4,"2026-11-20T12:00:00.005Z","completed"]]`,
	},
	{`SELECT json_group_array(seq) FROM task_events WHERE task_id = '` + taskID(2) + `'`, `[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]`},
	{
		`SELECT json_array(owner_did, json(context_data), json(message_history), created_at) FROM contexts WHERE id = 'c` + taskID(1) + `'`,
		`["did:key:z6MkhaXgBZDvotDkL5257",{"role":"assistant","status":"active"},[` + messageJSON("m1", "user", loremIpsum) + `,` +
			messageJSON("m2", "agent", "Here is the summary.") + `],"2026-11-20T12:00:00.000Z"]`,
	},
	{
		`SELECT json_array(task_id, json(feedback_data), created_at) FROM task_feedback`,
		`["` + taskID(1) + `",{"id":"f1","rating":5,"feedback":"good","metadata":{}},"2026-11-20T12:00:01.000Z"]`,
	},
	{
		`SELECT json_array(task_id, id, owner_did, json(config), created_at, updated_at) FROM webhook_configs`,
		`["` + taskID(2) + `","p","did:key:z6MkhaXgBZDvotDkL5257",{"id":"p","url":"https://hooks.example/p"},` +
			`"2026-11-20T12:00:00.000Z","2026-11-20T12:00:01.000Z"]`,
	},
	{`SELECT json_array(min(version)) FROM schema_migrations`, `["202611221300"]`},
}

func messageJSON(id, role, text string) string {
	return `{"kind":"message","messageId":"` + id + `","role":"` + role + `","parts":[{"kind":"text","text":"` + text + `"}]}`
}

func TestViewsAnswerDocumentedQueries(t *testing.T) {
	t.Parallel()
	s := storeWithViewData(t)
	db, err := sql.Open("sqlite", dataSource(s.path, "query_only(1)"))
	must(t, err)
	defer func() { _ = db.Close() }()
	for _, test := range viewTests {
		var got string
		must(t, db.QueryRowContext(t.Context(), test.query).Scan(&got))
		compareJSON(t, test.query, got, test.want)
	}
}

// The system's sqlite3 shell may be much older than the SQLite that is linked here.
func TestViewsWorkInSystemShell(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Fatalf("needs the program sqlite3; scripts/prerequisites installs it: %v", err)
	}
	s := storeWithViewData(t)
	for _, test := range viewTests {
		got, err := exec.CommandContext(t.Context(), shell, "-readonly", s.path, test.query).CombinedOutput()
		if err != nil {
			t.Fatalf("sqlite3 %q = %v\n%s", test.query, err, got)
		}
		compareJSON(t, test.query, strings.TrimSpace(string(got)), test.want)
	}
}

func compareJSON(t *testing.T, query, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%s = %s, want JSON: %v", query, got, err)
	}
	must(t, json.Unmarshal([]byte(want), &w))
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("%s (-want +got):\n%s", query, diff)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
