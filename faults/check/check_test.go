package check_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/faults/check"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
)

func log(states ...a2a.TaskState) []store.Event {
	events := make([]store.Event, len(states))
	for i, state := range states {
		events[i] = store.Event{Seq: int64(i + 1), State: state, Time: time.Unix(int64(i), 0)}
	}
	return events
}

func TestLogFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := log(a2a.StateSubmitted, a2a.StateWorking, a2a.StateWorking, a2a.StateCompleted)
	if err := check.Log(good); err != nil {
		t.Errorf("Log() = %v, want nil", err)
	}
	gap := log(a2a.StateSubmitted, a2a.StateWorking, a2a.StateCompleted)
	gap[2].Seq = 4
	back := log(a2a.StateSubmitted, a2a.StateWorking)
	back[1].Time = time.Unix(-1, 0)
	for _, tt := range []struct {
		want   string
		events []store.Event
	}{
		{"empty", nil},
		{"event 3 of the log has sequence 4", gap},
		{"earlier than the one before", back},
		{"begins with working", log(a2a.StateWorking)},
		{"moves from completed to completed", log(a2a.StateSubmitted, a2a.StateWorking, a2a.StateCompleted, a2a.StateCompleted)},
		{"moves from canceled to working", log(a2a.StateSubmitted, a2a.StateCanceled, a2a.StateWorking)},
	} {
		if err := check.Log(tt.events); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Log() = %v, want %q", err, tt.want)
		}
	}
}

// create adds a task with a short log.
func create(t *testing.T, s store.Store, owner, id string, state a2a.TaskState, phase store.Phase) {
	t.Helper()
	message := a2a.Message{ID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: "hi"}}}
	results, err := s.Commit(t.Context(), store.Change{
		Key: store.Key{Owner: owner, ID: id}, Create: &store.Create{ContextID: "c"},
		Events: []store.Event{
			{Time: time.UnixMilli(1), State: a2a.StateSubmitted, Received: &message},
			{Time: time.UnixMilli(2), State: state},
		},
		Run: &store.Run{Phase: phase, Turn: 1},
	})
	if err != nil || results[0].Err != nil {
		t.Fatalf("Commit() = %+v, %v", results, err)
	}
}

func TestDirFindsATaskThatIsForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "alice", "good", a2a.StateCompleted, store.PhaseIdle)
	create(t, s, "bob", "waiting", a2a.StateWorking, store.PhaseQueued)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := check.Dir(context.Background(), dir)
	if err != nil || len(report.States) != 2 || report.Count(a2a.StateCompleted) != 1 || len(report.Logs["good"]) != 2 {
		t.Fatalf("Dir() = %+v, %v, want two good tasks", report, err)
	}
	if s, err = sqlite.Open(t.Context(), sqlite.Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	create(t, s, "bob", "forgotten", a2a.StateWorking, store.PhaseIdle)
	create(t, s, "bob", "restless", a2a.StateFailed, store.PhaseQueued)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = check.Dir(context.Background(), dir)
	for _, want := range []string{"task forgotten: it is working and idle", "task restless: it is failed and queued"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Dir() = %v, want %q", err, want)
		}
	}
}

func TestPostgresFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	schema := pgtest.Schema(t, url)
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Schema: schema, Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "alice", "good", a2a.StateCompleted, store.PhaseIdle)
	create(t, s, "alice", "waiting", a2a.StateWorking, store.PhaseQueued)
	create(t, s, "bob", "spoilt", a2a.StateCompleted, store.PhaseIdle)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := check.Postgres(t.Context(), url, schema)
	if err != nil || len(report.States) != 3 || report.Count(a2a.StateCompleted) != 2 || len(report.Logs["good"]) != 2 {
		t.Fatalf("Postgres() = %+v, %v, want three good tasks", report, err)
	}
	if missing := report.Missing("good", "lost"); len(missing) != 1 || missing[0] != "lost" {
		t.Errorf("Missing() = %v, want lost", missing)
	}
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, tt := range []struct{ spoil, mend, want string }{
		{
			"UPDATE {s}.context_rows SET task_count = 3 WHERE owner = 'alice'", "UPDATE {s}.context_rows SET task_count = 2 WHERE owner = 'alice'",
			"context c: it counts 3 tasks and has 2",
		},
		{
			"UPDATE {s}.context_rows SET id = 'x' WHERE owner = 'bob'", "UPDATE {s}.context_rows SET id = 'c' WHERE owner = 'bob'",
			"context c has 1 tasks and is not there",
		},
		{
			"INSERT INTO {s}.tallies VALUES ('bob', 'active', 1)", "INSERT INTO {s}.tallies VALUES ('bob', 'active', -1)",
			"1 contexts are listed, their total is 2",
		},
		{
			"UPDATE {s}.task_rows SET phase = 0 WHERE id = 'waiting'", "UPDATE {s}.task_rows SET phase = 1 WHERE id = 'waiting'",
			"task waiting: it is working and idle",
		},
		{
			"INSERT INTO {s}.task_log (task_pk, seq, mark, n, events) VALUES (-1, 1, 0, 1, '[]')", "DELETE FROM {s}.task_log WHERE task_pk = -1",
			"there are 1 changes in logs of no task",
		},
		{
			"INSERT INTO {s}.task_steps (task_pk, turn, name) VALUES (-1, 1, 'x')", "DELETE FROM {s}.task_steps WHERE task_pk = -1",
			"there are 1 steps of no task",
		},
		{
			"INSERT INTO {s}.idempotency_keys VALUES ('bob', 'k', '', 'gone', false, 1, 1)", "DELETE FROM {s}.idempotency_keys",
			"there are 1 idempotency keys of no task",
		},
		{
			"UPDATE {s}.task_log SET events = replace(events, 'completed', 'working') WHERE task_pk = (SELECT pk FROM {s}.task_rows WHERE id = 'spoilt')", "",
			"task spoilt is completed in the table, its log says working",
		},
	} {
		run := func(text string) {
			if _, err := c.Exec(t.Context(), strings.ReplaceAll(text, "{s}", schema)); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		run(tt.spoil)
		if _, err := check.Postgres(t.Context(), url, schema); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("after %s: Postgres() = %v, want %q", tt.spoil, err, tt.want)
		}
		run(tt.mend)
	}
}
