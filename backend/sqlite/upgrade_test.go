package sqlite

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/migrate"
	"github.com/holdfast-dev/holdfast/store"
)

// firstSchema makes a database as the first program did, with rows in it.
func firstSchema(t *testing.T, path, rows string) {
	t.Helper()
	all, err := migrate.Load(migrationFiles, "migrations")
	must(t, err)
	db, err := sql.Open("sqlite", dataSource(path, "application_id(1212957766)", "journal_mode(wal)")+"&_txlock=immediate")
	must(t, err)
	_, err = migrate.Apply(t.Context(), db, migrate.Params{Migrations: all[:1]})
	must(t, err)
	if rows != "" {
		_, err = db.ExecContext(t.Context(), rows)
		must(t, err)
	}
	must(t, db.Close())
}

// oldRows are the tasks t1 in c1, t2 and t3 in c2, u1 of another owner, and what
// belongs to them. c3 has lost its task.
const oldRows = `
INSERT INTO task_rows VALUES
  (16,'o','t1','c1','completed',2000,1,1,1,0,0,'',0,0,1,1,1,1000,2000),
  (17,'o','t3','c2','completed',5000,1,1,1,0,0,'',0,0,1,1,1,4000,5000),
  (18,'o','t2','c2','working',3000,1,1,1,1,0,'',0,0,1,1,1,3000,3000),
  (19,'p','u1','c1','completed',3000,1,1,1,0,0,'',0,0,1,1,1,3000,3000);
INSERT INTO task_log SELECT (pk << 24) + 1, 1, NULL, json_array(json_object(
  'time', strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch'), 'state', state)) FROM task_rows;
INSERT INTO context_rows VALUES ('o','c1',1000,1000),('o','c2',3000,4000),('o','c3',500,500),('p','c1',3000,3000);
INSERT INTO idempotency_keys VALUES ('o','k1',x'00','t1',1,1000),('o','k2',x'00','t2',1,1000);
INSERT INTO task_steps VALUES (1,16,1,'s',x'01'),(2,18,1,'s',x'01');
INSERT INTO feedback_rows VALUES (1,16,'f',5,'good',NULL,6000),(2,16,'f',0,'again',NULL,6000),(3,19,'f',3,'','{"a":1}',6000);`

// migrated brings a database to the schema of the first n migrations.
func migrated(t *testing.T, path string, n int) {
	t.Helper()
	all, err := migrate.Load(migrationFiles, "migrations")
	must(t, err)
	db, err := sql.Open("sqlite", dataSource(path)+"&_txlock=immediate")
	must(t, err)
	_, err = migrate.Apply(t.Context(), db, migrate.Params{Migrations: all[:n]})
	must(t, err)
	must(t, db.Close())
}

func TestTasksOfTheSchemaBeforeWebhooksTakeThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	firstSchema(t, path, oldRows)
	migrated(t, path, 2)
	s := open(t, Config{Dir: dir})
	checkCounts(t, s)
	page, err := s.Lanes(bg, store.LaneQuery{Limit: 10})
	must(t, err)
	if len(page.Lanes) != 0 {
		t.Errorf("Lanes() = %+v, want none", page.Lanes)
	}
	now := time.Unix(100, 0).UTC()
	for _, id := range []string{"t1", "t2"} {
		hook := store.PushConfig{Task: store.Key{Owner: "o", ID: id}, ID: "p", Endpoint: "e", Data: []byte(`{"url":"u"}`), CreatedAt: now}
		_, err := s.SavePush(bg, hook, store.PushCursor{}, now)
		must(t, err)
	}
	must(t, commitOne(s, store.Change{
		Key: store.Key{Owner: "o", ID: "t2"}, Version: 1, Events: []store.Event{{Time: now, State: a2a.StateCompleted}},
		Run: &store.Run{Phase: store.PhaseIdle},
	}))
	lanes, err := s.ClaimLanes(bg, store.LaneClaim{Worker: "w", Now: now, Until: now.Add(time.Minute), Limit: 9, Events: 9})
	must(t, err)
	events := make(map[string]int)
	for i := range lanes {
		events[lanes[i].Config.Task.ID+" of "+lanes[i].ContextID] = len(lanes[i].Events)
	}
	if diff := cmp.Diff(map[string]int{"t1 of c1": 1, "t2 of c2": 2}, events); diff != "" {
		t.Errorf("events of ClaimLanes() (-want +got):\n%s", diff)
	}
	more, err := s.DeleteContext(bg, "o", "c2", 10)
	if more || err != nil {
		t.Errorf("DeleteContext() = %v, %v, want it done", more, err)
	}
	page, err = s.Lanes(bg, store.LaneQuery{Limit: 10})
	must(t, err)
	if len(page.Lanes) != 1 || page.Lanes[0].Config.Task.ID != "t1" {
		t.Errorf("Lanes() = %+v, want that of t1", page.Lanes)
	}
	must(t, checkIntegrity(s))
}

func TestADatabaseOfTheFirstSchemaIsUpgraded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	firstSchema(t, filepath.Join(dir, FileName), oldRows)
	s := open(t, Config{Dir: dir})
	checkCounts(t, s)
	at := func(s int64) time.Time { return time.Unix(s, 0).UTC() }
	context := func(id string, created, updated int64, tasks ...string) store.Context {
		return store.Context{
			Key: store.ContextKey{Owner: "o", ID: id}, Role: store.DefaultContextRole, Status: a2a.ContextActive, Version: 1,
			CreatedAt: at(created), UpdatedAt: at(updated), TaskCount: len(tasks), TaskIDs: tasks,
		}
	}
	c3 := context("c3", 0, 0)
	c3.CreatedAt, c3.UpdatedAt = time.UnixMilli(500).UTC(), time.UnixMilli(500).UTC()
	page, err := s.Contexts(bg, store.ContextQuery{Owner: "o", Sort: store.ContextsByUpdated, Limit: 10, Tasks: 10})
	must(t, err)
	want := store.ContextPage{Contexts: []store.Context{context("c2", 3, 4, "t2", "t3"), context("c1", 1, 1, "t1"), c3}, Total: 3}
	if diff := cmp.Diff(want, page); diff != "" {
		t.Errorf("Contexts() (-want +got):\n%s", diff)
	}
	for id, want := range map[string][]string{"c1": {"t1"}, "c2": {"t3", "t2"}, "": {"t3", "t2", "t1"}} {
		for _, byCreated := range []bool{false, true} {
			tasks, err := s.Tasks(bg, store.Query{Owner: "o", ContextID: id, ByCreated: byCreated, Limit: 10})
			must(t, err)
			var got []string
			for _, task := range tasks.Tasks {
				got = append(got, task.Key.ID)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Tasks() of %q (-want +got):\n%s", id, diff)
			}
		}
	}
	feedback, err := s.Feedback(bg, store.FeedbackQuery{Owner: "o", TaskID: "t1", Limit: 10})
	must(t, err)
	if len(feedback.Feedback) != 2 || feedback.Feedback[0].ID != "f~2" || feedback.Feedback[1].ID != "f" {
		t.Errorf("Feedback() = %+v, want f~2 and f", feedback.Feedback)
	}
	sum, err := s.FeedbackSummary(bg, "")
	must(t, err)
	if want := [6]int{0: 1, 3: 1, 5: 1}; sum.Ratings != want {
		t.Errorf("FeedbackSummary() = %v, want %v", sum.Ratings, want)
	}
	more, err := s.DeleteContext(bg, "o", "c1", 10)
	if more || err != nil {
		t.Errorf("DeleteContext() = %v, %v, want it done", more, err)
	}
	_, err = s.DeleteContext(bg, "o", "c2", 10)
	if !errors.Is(err, store.ErrBusy) {
		t.Errorf("DeleteContext() of a context with a queued task = %v, want %v", err, store.ErrBusy)
	}
	if _, err := s.Idempotency(bg, "o", "k1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Idempotency() of a deleted task = %v, want %v", err, store.ErrNotFound)
	}
	if _, err := s.Idempotency(bg, "o", "k2"); err != nil {
		t.Errorf("Idempotency() of another task = %v", err)
	}
	checkCounts(t, s)
}
