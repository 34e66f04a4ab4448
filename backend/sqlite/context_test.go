package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store"
)

// invariants are queries for redundant data that differs from its source.
var invariants = []struct{ name, query string }{
	{"counters that differ from the rows", sqlStoredCounts + " EXCEPT " + sqlActualCounts},
	{"rows that differ from the counters", sqlActualCounts + " EXCEPT " + sqlStoredCounts},
	{"wrong counts of tasks", `SELECT c.owner, c.id, '', c.task_count FROM context_rows c WHERE task_count <>
		(SELECT count(*) FROM task_rows t WHERE t.owner = c.owner AND t.context_id = c.id)`},
	{"first tasks that differ from context_rows.first_pk", `SELECT owner, id, '', pk FROM task_rows WHERE first <> (pk IN (SELECT first_pk FROM context_rows))`},
	{"labels that differ from their contexts", `SELECT owner, id, label, 0 FROM context_labels l WHERE NOT EXISTS (SELECT 1 FROM context_rows c
		WHERE c.owner = l.owner AND c.id = l.id AND c.bucket = l.bucket AND c.created_at = l.created_at AND c.updated_at = l.updated_at AND c.name = l.name)`},
	{"contexts with a wrong number of labels", `SELECT owner, id, '', labels FROM context_rows c WHERE labels <>
		(SELECT count(*) FROM context_labels l WHERE l.owner = c.owner AND l.id = c.id)`},
	{"changed contexts in the bucket of new ones", `SELECT owner, id, bucket, version FROM context_rows
		WHERE bucket = 'active.new' AND (updated_at <> created_at OR name <> '' OR record IS NOT NULL)`},
	{"records in the wrong bucket", `SELECT owner, id, bucket, version FROM context_rows
		WHERE bucket <> '' AND (record IS NULL AND bucket NOT LIKE 'active.%' OR record ->> '$.status' <> bucket)`},
	{"contents without tasks", `SELECT '', '', '', task_pk FROM task_contents WHERE task_pk NOT IN (SELECT pk FROM task_rows)`},
	{"log rows without tasks", `SELECT '', '', '', id FROM task_log WHERE id >> 24 NOT IN (SELECT pk FROM task_rows)`},
	{"steps without tasks", `SELECT '', '', '', id FROM task_steps WHERE task_pk NOT IN (SELECT pk FROM task_rows)`},
	{"feedback without tasks", `SELECT owner, task_id, id, rowid FROM feedback_rows f WHERE NOT EXISTS
		(SELECT 1 FROM task_rows t WHERE t.owner = f.owner AND t.id = f.task_id)`},
	{"records of keys without tasks or contexts", `SELECT owner, key, task_id, lookup FROM idempotency_keys k WHERE CASE lookup
		WHEN 2 THEN NOT EXISTS (SELECT 1 FROM context_rows c WHERE c.owner = k.owner AND c.id = k.task_id)
		ELSE NOT EXISTS (SELECT 1 FROM task_rows t WHERE t.owner = k.owner AND t.id = k.task_id) END`},
	{"contexts pending deletion that are not on the list", `SELECT owner, id, '', 0 FROM context_rows WHERE bucket = '' EXCEPT SELECT owner, id, '', 0 FROM contexts_pending_deletion`},
}

const (
	sqlStoredCounts = `SELECT owner, label, bucket, n FROM counters`
	sqlActualCounts = `SELECT * FROM (SELECT owner, '', bucket, count(*) FROM context_rows WHERE bucket <> '' GROUP BY owner, bucket
		UNION ALL SELECT owner, label, bucket, count(*) FROM context_labels GROUP BY owner, label, bucket
		UNION ALL SELECT owner, 'rating', CAST(rating AS TEXT), count(*) FROM feedback_rows GROUP BY owner, rating
		UNION ALL SELECT '', 'rating', CAST(rating AS TEXT), count(*) FROM feedback_rows GROUP BY rating)`
)

// checkCounts checks all redundant data of the store.
func checkCounts(t *testing.T, s *Store) {
	t.Helper()
	for _, test := range invariants {
		err := s.withReader(bg, func(r *reader) error {
			return r.query(test.query, func(rec record) error {
				t.Errorf("%s: %q %q %q %d", test.name, rec.text(0), rec.text(1), rec.text(2), rec.int(3))
				return nil
			})
		})
		must(t, err)
	}
	backlog, err := s.readBacklog(bg)
	must(t, err)
	if got, err := s.Backlog(bg); err != nil || got != backlog {
		t.Errorf("Backlog() = %+v, %v, want %+v", got, err, backlog)
	}
}

// expectedErrors are the errors that random calls may return.
var expectedErrors = []error{
	store.ErrNotFound, store.ErrExists, store.ErrConflict, store.ErrContextClosed, store.ErrBusy, store.ErrDuplicate,
	store.ErrParentNotFound, store.ErrParentCycle, store.ErrParentDepth,
}

func TestCountersMatchRowsAfterRandomCalls(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	s := open(t, Config{Dir: t.TempDir()})
	for n := range 2000 {
		if err := randomCall(s, r, n); err != nil && !slices.ContainsFunc(expectedErrors, func(e error) bool { return errors.Is(err, e) }) {
			t.Fatalf("call %d = %v", n, err)
		}
		if n%500 == 499 {
			checkCounts(t, s)
		}
	}
}

func randomCall(s *Store, r *rand.Rand, n int) error {
	owner, id, task := fmt.Sprint("o", r.IntN(2)), fmt.Sprint("c", r.IntN(6)), fmt.Sprint("t", r.IntN(40))
	now := testTime.Add(time.Duration(r.IntN(50)) * time.Millisecond)
	var key *store.IdempotencyRecord
	if r.IntN(2) == 0 {
		key = &store.IdempotencyRecord{Owner: owner, Key: fmt.Sprint("k", n), TaskID: task, CreatedAt: now}
	}
	switch r.IntN(10) {
	case 0, 1, 2:
		return commitOne(s, store.Change{
			Key: store.Key{Owner: owner, ID: task}, Create: &store.Create{ContextID: id}, Idempotency: key,
			Events: []store.Event{{Time: now, State: a2a.StateSubmitted, Received: message("m", "user", "x")}},
			Queue:  &store.QueueEntry{Phase: store.PhaseIdle}, Steps: []store.Step{{Turn: 1, Name: "s"}},
		})
	case 3, 4, 5:
		found, err := s.Task(bg, store.Key{Owner: owner, ID: task}, store.TaskOptions{})
		if err != nil {
			return err
		}
		change := store.Change{Key: found.Key, Version: found.Seq, Idempotency: key, Queue: &store.QueueEntry{Phase: store.PhaseIdle}}
		if r.IntN(6) == 0 {
			change.Queue.Phase = store.PhaseQueued
		}
		if r.IntN(3) > 0 {
			change.Events = []store.Event{{Time: now, State: a2a.StateCompleted, Received: message("m", "user", "x")}}
		}
		return commitOne(s, change)
	case 6, 7:
		return randomSave(s, r, store.ContextKey{Owner: owner, ID: id}, now, key)
	case 8:
		return s.AddFeedback(bg, store.Feedback{
			Key: store.Key{Owner: owner, ID: task}, ID: fmt.Sprint("f", r.IntN(3)), Rating: r.IntN(6), CreatedAt: now,
		})
	}
	_, err := s.DeleteContext(bg, owner, id, r.IntN(4))
	return err
}

func randomSave(s *Store, r *rand.Rand, k store.ContextKey, now time.Time, key *store.IdempotencyRecord) error {
	c := store.Context{
		Key: k, Name: fmt.Sprint("n", r.IntN(3)), CreatedAt: now, UpdatedAt: now,
		Role:   []string{store.DefaultContextRole, "analyst"}[r.IntN(2)],
		Status: []a2a.ContextStatus{a2a.ContextActive, a2a.ContextActive, a2a.ContextPaused}[r.IntN(3)],
	}
	for _, tag := range []string{"a", "b", "c"} {
		if r.IntN(2) == 0 {
			c.Tags = append(c.Tags, tag)
		}
	}
	if r.IntN(3) == 0 {
		c.ParentID = fmt.Sprint("c", r.IntN(6))
	}
	change := store.ContextChange{Context: c, Idempotency: key, RequireFinished: r.IntN(4) == 0}
	if key != nil {
		key.TaskID = k.ID
	}
	if before, err := s.Context(bg, k.Owner, k.ID, 0); err == nil {
		change.Version = before.Version
	} else {
		change.Create = true
	}
	_, err := s.SaveContext(bg, change)
	return err
}

// commitToOneContext creates n finished tasks in one context.
func commitToOneContext(t *testing.T, s *Store, n int) {
	t.Helper()
	var changes []store.Change
	for i := range n {
		c := submitted(i)
		c.Create.ContextID, c.Queue = "many", &store.QueueEntry{Phase: store.PhaseIdle}
		c.Events[1].State = a2a.StateCompleted
		if i%1000 == 7 {
			c.Events[1].State = a2a.StateRejected
		}
		c.Events[1].Time = testTime.Add(time.Duration(i*7919%n) * time.Millisecond)
		if changes = append(changes, c); len(changes) == 250 || i == n-1 {
			results, err := s.Commit(bg, changes...)
			must(t, err)
			for _, r := range results {
				must(t, r.Err)
			}
			changes = changes[:0]
		}
	}
}

func TestDeleteContextResumesAfterRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	commitToOneContext(t, s, 4*maxTasksPerDelete)
	owner := taskKey(0).Owner
	for range 2 { // the second reads from the cache
		_, err := s.Task(bg, taskKey(3), store.TaskOptions{})
		must(t, err)
	}
	transactions := transactionCount(s)
	if more, err := s.DeleteContext(bg, owner, "many", 2*maxTasksPerDelete+1); !more || err != nil {
		t.Fatalf("DeleteContext() = %v, %v, want more tasks to delete", more, err)
	}
	if got := transactions(); got < 3 {
		t.Errorf("DeleteContext() took %d transactions, want at least 3", got)
	}
	if _, err := s.Task(bg, taskKey(3), store.TaskOptions{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Task() of a removed task = %v, want %v", err, store.ErrNotFound)
	}
	must(t, s.Close())
	s = open(t, Config{Dir: dir})
	pending, err := s.PendingDeletions(bg, 10)
	if err != nil || len(pending) != 1 || pending[0] != (store.ContextKey{Owner: owner, ID: "many"}) {
		t.Fatalf("PendingDeletions() after a restart = %v, %v, want the context", pending, err)
	}
	checkCounts(t, s)
	if more, err := s.DeleteContext(bg, owner, "many", 1<<30); more || err != nil {
		t.Errorf("DeleteContext() = %v, %v, want no more tasks to delete", more, err)
	}
	rows := ints(t, s, `SELECT (SELECT count(*) FROM task_rows), (SELECT count(*) FROM task_log), (SELECT count(*) FROM context_rows),
		(SELECT count(*) FROM contexts_pending_deletion), (SELECT count(*) FROM counters)`)
	if !slices.Equal(rows, make([]int64, 5)) {
		t.Errorf("rows of tasks, logs, contexts, pending deletions and counters = %v, want 0", rows)
	}
}

// Filtered walks that exceed scanLimit fall back to sorting.
func TestRareTasksAreFoundInEveryOrder(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	const tasks = 3 * scanLimit
	commitToOneContext(t, s, tasks)
	all, err := s.Tasks(bg, store.Query{Owner: taskKey(0).Owner, Limit: tasks + 1, Options: store.TaskOptions{OmitArtifacts: true}})
	must(t, err)
	if len(all.Tasks) != tasks {
		t.Fatalf("Tasks() = %d, want %d", len(all.Tasks), tasks)
	}
	middle := all.Tasks[tasks/2].CreatedAt
	for name, q := range map[string]store.Query{
		"state, by creation":        {ByCreated: true, States: []a2a.TaskState{a2a.StateRejected}},
		"created early, by status":  {CreatedBefore: testTime.Add(5 * time.Millisecond)},
		"created in the middle":     {CreatedAfter: middle, CreatedBefore: middle.Add(2 * time.Millisecond), States: []a2a.TaskState{a2a.StateCompleted}},
		"status early, by creation": {ByCreated: true, Before: testTime.Add(9 * time.Millisecond)},
	} {
		for _, ascending := range []bool{false, true} {
			for _, context := range []string{"", "many"} {
				q.Owner, q.ContextID, q.Ascending, q.Total = taskKey(0).Owner, context, ascending, true
				want := filterTasks(all.Tasks, q)
				if got := pages(t, s, q, len(want)); !slices.Equal(got, want) || len(want) == 0 {
					t.Errorf("%s, ascending %v, context %q: Tasks() = %v, want %v", name, ascending, context, got, want)
				}
			}
		}
	}
}

// filterTasks returns the ids of the tasks that q selects, in its order.
func filterTasks(all []*store.Task, q store.Query) (ids []string) {
	var found []*store.Task
	for _, t := range all {
		if (len(q.States) == 0 || slices.Contains(q.States, t.Status.State)) &&
			spanOf(q.After, q.Before).contains(millis(t.Status.Timestamp)) && spanOf(q.CreatedAfter, q.CreatedBefore).contains(millis(t.CreatedAt)) {
			found = append(found, t)
		}
	}
	slices.SortFunc(found, func(a, b *store.Task) int {
		x, y := q.CursorOf(a), q.CursorOf(b)
		if !q.Ascending {
			x, y = y, x
		}
		return comparePositions(position{at: millis(x.Time), id: x.ID}, position{at: millis(y.Time), id: y.ID})
	})
	for _, t := range found {
		ids = append(ids, t.Key.ID)
	}
	return ids
}

// pages reads all pages of a list and returns the ids of its tasks.
func pages(t *testing.T, s *Store, q store.Query, total int) (ids []string) {
	t.Helper()
	for q.Limit = 4; ; {
		page, err := s.Tasks(bg, q)
		must(t, err)
		if page.Total != total {
			t.Errorf("Total = %d, want %d", page.Total, total)
		}
		for _, task := range page.Tasks {
			ids = append(ids, task.Key.ID)
		}
		if q.Cursor = page.Next; q.Cursor == nil {
			return ids
		}
	}
}
