//go:build services

package check_test

import (
	"context"
	"database/sql"
	"path/filepath"
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

func TestLogFindsViolations(t *testing.T) {
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
		{"starts with working", log(a2a.StateWorking)},
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
		Queue: &store.QueueEntry{Phase: phase, Turn: 1},
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

func TestPostgresFindsViolations(t *testing.T) {
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
	register(t, s, "alice", "good", "hook", store.WebhookCursor{})
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
			"context c has 1 tasks and does not exist",
		},
		{
			"INSERT INTO {s}.counters VALUES ('bob', 'active', 1)", "INSERT INTO {s}.counters VALUES ('bob', 'active', -1)",
			"1 contexts are listed, their total is 2",
		},
		{
			"UPDATE {s}.task_rows SET phase = 0 WHERE id = 'waiting'", "UPDATE {s}.task_rows SET phase = 1 WHERE id = 'waiting'",
			"task waiting: it is working and idle",
		},
		{
			"INSERT INTO {s}.task_contents (owner, task_pk, hash, data) VALUES ('bob', -1, '', '1')", "DELETE FROM {s}.task_contents WHERE task_pk = -1",
			"contents of no task",
		},
		{
			"INSERT INTO {s}.task_log (owner, task_pk, seq, mark, n, events) VALUES ('bob', -1, 1, 0, 1, '[]')", "DELETE FROM {s}.task_log WHERE task_pk = -1",
			"there are 1 changes in logs of no task",
		},
		{
			"INSERT INTO {s}.task_steps (owner, task_pk, turn, name) VALUES ('bob', -1, 1, 'x')", "DELETE FROM {s}.task_steps WHERE task_pk = -1",
			"there are 1 steps of no task",
		},
		{
			"UPDATE {s}.webhook_lanes SET phase = 0", "UPDATE {s}.webhook_lanes SET phase = 1",
			"there are 1 lanes in a phase of the queue that they are not in",
		},
		{
			"UPDATE {s}.webhook_lanes SET tail_seq = 3", "UPDATE {s}.webhook_lanes SET tail_seq = 2",
			"webhook hook: its tail is 3, the log ends at 2",
		},
		{
			"UPDATE {s}.webhook_lanes SET rev = 9", "UPDATE {s}.webhook_lanes SET rev = (SELECT rev FROM {s}.webhooks)",
			"there are 2 lanes without their webhooks",
		},
		{
			"UPDATE {s}.task_rows SET webhooks = 2 WHERE id = 'good'", "UPDATE {s}.task_rows SET webhooks = 1 WHERE id = 'good'",
			"there are 1 tasks that count other webhooks than they have",
		},
		{
			"UPDATE {s}.webhooks SET task_id = 'gone'", "UPDATE {s}.webhooks SET task_id = 'good'",
			"there are 1 webhooks that belong to no task",
		},
		{
			"INSERT INTO {s}.dead_letters VALUES ('alice', 'good', 'x', 2, 1, 1, 1, 0, 'submitted', 1, 404, '')", "DELETE FROM {s}.dead_letters",
			"there are 1 dead letters of no webhook",
		},
		{
			"INSERT INTO {s}.delivery_attempts (owner, task_id, config_id, first_at, last_at, data) VALUES ('alice', 'gone', 'x', 1, 1, '[]')", "DELETE FROM {s}.delivery_attempts",
			"there are 1 attempts of no task",
		},
		{
			"INSERT INTO {s}.idempotency_keys VALUES ('bob', 'k', '', 'gone', false, false, 1, 1)", "DELETE FROM {s}.idempotency_keys",
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

// deliveries is a log of which receivers get events 2, 3 and 4, and the cursor behind
// each of its events.
func deliveries() (events []store.Event, at []store.WebhookCursor) {
	events = log(a2a.StateSubmitted, a2a.StateWorking, a2a.StateInputRequired, a2a.StateCompleted)
	c := store.WebhookCursor{}
	at = append(at, c)
	for i := range events {
		c, _ = c.Next(&events[i])
		at = append(at, c)
	}
	return events, at
}

func TestLaneOfFindsViolations(t *testing.T) {
	t.Parallel()
	events, at := deliveries()
	dead := func(cursor store.WebhookCursor, seq int64) map[int64]store.DeadLetter {
		return map[int64]store.DeadLetter{cursor.Sequence + 1: {Cursor: cursor, Seq: seq, Sequence: cursor.Sequence + 1}}
	}
	lane := func(cursor store.WebhookCursor, tail int64, dead map[int64]store.DeadLetter) check.Lane {
		return check.Lane{Lane: store.Lane{Cursor: cursor, Tail: tail}, Dead: dead}
	}
	for _, good := range []check.Lane{lane(at[4], 4, nil), lane(at[2], 4, nil), lane(at[0], 4, nil), lane(at[4], 4, dead(at[2], 3))} {
		if err := check.LaneOf(good, events); err != nil {
			t.Errorf("LaneOf(%+v) = %v, want nil", good, err)
		}
	}
	elsewhere := at[3]
	elsewhere.Sequence++
	for _, tt := range []struct {
		want string
		lane check.Lane
	}{
		{"its tail is 3, the log ends at 4", lane(at[3], 3, nil)},
		{"its cursor is 5, behind its tail 4", lane(store.WebhookCursor{Seq: 5, Sequence: 3}, 4, nil)},
		{"by the log it should be", lane(elsewhere, 4, nil)},
		{"of event 4 behind", lane(at[4], 4, dead(at[2], 4))},
		{"event 4 is a dead letter, and not delivered yet", lane(at[3], 4, dead(at[3], 4))},
		{"it has 1 dead letters, of which 0 are of delivered events", lane(at[4], 4, dead(store.WebhookCursor{Sequence: 7}, 9))},
	} {
		if err := check.LaneOf(tt.lane, events); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("LaneOf(%+v) = %v, want %q", tt.lane, err, tt.want)
		}
	}
}

// register adds a webhook to an existing task.
func register(t *testing.T, s store.Store, owner, task, id string, at store.WebhookCursor) {
	t.Helper()
	c := store.Webhook{Task: store.Key{Owner: owner, ID: task}, ID: id, Endpoint: "http://a:80", Data: []byte("{}"), CreatedAt: time.UnixMilli(3)}
	if _, err := s.SaveWebhook(t.Context(), c, at, time.UnixMilli(3)); err != nil {
		t.Fatal(err)
	}
}

func TestDirFindsAWebhookThatIsForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "alice", "good", a2a.StateCompleted, store.PhaseIdle)
	register(t, s, "alice", "good", "hook", store.WebhookCursor{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := check.Dir(t.Context(), dir)
	if err != nil || len(report.Lanes) != 1 || !report.Lanes[0].Pending() {
		t.Fatalf("Dir() = %+v, %v, want a webhook that is pending", report, err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, sqlite.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "UPDATE webhook_lanes SET phase = 0"); err != nil {
		t.Fatal(err)
	}
	if _, err := check.Dir(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "1 webhooks of no task, or not where they belong") {
		t.Errorf("Dir() = %v, want the webhook that is forgotten", err)
	}
}

func TestDirFindsRowsOfDeletedTasks(t *testing.T) {
	t.Parallel()
	for insert, want := range map[string]string{
		"task_log (id, n, events, large) VALUES (77 << 24, 1, '[]', 0)":                              "1 changes in logs of no task",
		"task_contents (task_pk, hash, data) VALUES (77, x'00', '1')":                                "1 contents of no task",
		"task_steps (task_pk, turn, name) VALUES (77, 1, 's')":                                       "1 steps of no task",
		"feedback_rows (owner, task_id, id, rating, created_at, data) VALUES ('','','',0,0,'{}')":    "1 feedback of no task",
		"webhook_rows (data, created_at, saved_at) VALUES ('{}', 0, 0)":                              "1 webhooks of no lane",
		"webhook_attempts (lane_pk, task_pk, owner, at, n, attempts) VALUES (1, 77, '', 0, 1, '[]')": "1 attempts of no task",
		"webhook_dead VALUES (1, 1, 77, '', 0, 1, 1, 0, 0, '', 1, 500, '')":                          "1 dead letters of no task",
		"idempotency_keys VALUES ('', 'k', x'00', 'gone', 1, 0, 0)":                                  "1 idempotency keys of no task",
	} {
		dir := t.TempDir()
		s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		create(t, s, "alice", "good", a2a.StateCompleted, store.PhaseIdle)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite", filepath.Join(dir, sqlite.FileName))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := check.Dir(t.Context(), dir); err != nil {
			t.Errorf("Dir() = %v before a row was left", err)
		}
		if _, err := db.ExecContext(t.Context(), "INSERT INTO "+insert); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := check.Dir(t.Context(), dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Dir() = %v after INSERT INTO %s, want %s", err, insert, want)
		}
	}
}
