// Package check checks the store of a server that has ended: every log has no gaps, every task is
// the fold of its log, every context counts its tasks, the cursor of every webhook is a position in
// its task's log, and every task and webhook with work to do is in a queue.
package check

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// Report is the content of a store.
type Report struct {
	// States are the tasks' states by id.
	States map[string]a2a.TaskState
	// Logs are the tasks' events by id.
	Logs map[string][]store.Event
	// Lanes are the tasks' webhooks.
	Lanes []Lane
}

// Count returns the number of tasks in a state.
func (r *Report) Count(state a2a.TaskState) (n int) {
	for _, s := range r.States {
		if s == state {
			n++
		}
	}
	return n
}

// Missing returns the ids for which no task exists.
func (r *Report) Missing(ids ...string) (missing []string) {
	for _, id := range ids {
		if _, ok := r.States[id]; !ok {
			missing = append(missing, id)
		}
	}
	return missing
}

// Dir checks the data directory of a server that has ended. It returns its content, and an error
// that lists all problems.
func Dir(ctx context.Context, dir string) (_ *Report, err error) {
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	names, err := owners(ctx, dir)
	if err != nil {
		return nil, err
	}
	report, err := all(ctx, s, names)
	return report, errors.Join(err, integrity(ctx, dir), misplaced(ctx, dir), orphans(ctx, dir))
}

// orphans returns an error if rows of deleted objects remain.
func orphans(ctx context.Context, dir string) error {
	const task, deleted = "SELECT pk FROM task_rows", " UNION SELECT pk FROM tasks_deleted"
	var errs []error
	for _, q := range []struct{ what, rows string }{
		{"changes in logs of no task", "task_log WHERE id >> 24 NOT IN (" + task + deleted + ")"},
		{"contents of no task", "task_contents WHERE task_pk NOT IN (" + task + deleted + ")"},
		{"steps of no task", "task_steps WHERE task_pk NOT IN (" + task + deleted + ")"},
		{"feedback of no task", "feedback_rows WHERE (owner, task_id) NOT IN (SELECT owner, id FROM task_rows)"},
		{"webhooks of no lane", "webhook_rows WHERE pk NOT IN (SELECT pk FROM webhook_lanes)"},
		{"attempts of no task", "webhook_attempts WHERE task_pk NOT IN (" + task + ")"},
		{"dead letters of no task", "webhook_dead WHERE task_pk NOT IN (" + task + ")"},
		{
			"idempotency keys of no task",
			"idempotency_keys WHERE lookup <> 2 AND (owner, task_id) NOT IN (SELECT owner, id FROM task_rows UNION SELECT owner, id FROM tasks_deleted)",
		},
	} {
		var n int
		if err := query(ctx, dir, "SELECT count(*) FROM "+q.rows, &n); err != nil {
			return fmt.Errorf("count %s: %w", q.what, err)
		}
		if n != 0 {
			errs = append(errs, fmt.Errorf("there are %d %s", n, q.what))
		}
	}
	return errors.Join(errs...)
}

// misplaced returns an error if a webhook has the wrong phase in the queue, or no task.
func misplaced(ctx context.Context, dir string) error {
	var n int
	const text = `SELECT count(*) FROM webhook_lanes l LEFT JOIN webhook_rows r ON r.pk = l.pk LEFT JOIN task_rows t ON t.owner = l.owner AND t.id = l.task_id
		WHERE l.phase <> 5 AND ((l.cursor_seq < l.tail_seq) <> (l.phase IN (1, 2, 3)) OR r.pk IS NULL OR t.id IS NULL) OR l.phase IN (1, 3) AND l.lease_until <> 0 OR l.phase = 2 AND l.lease_until = 0`
	if err := query(ctx, dir, text, &n); err != nil {
		return fmt.Errorf("count misplaced webhooks: %w", err)
	}
	if n != 0 {
		return fmt.Errorf("there are %d webhooks of no task, or not where they belong in the queue", n)
	}
	return nil
}

func integrity(ctx context.Context, dir string) error {
	var verdict string
	if err := query(ctx, dir, "PRAGMA integrity_check", &verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("integrity check: %s", verdict)
	}
	return nil
}

// query returns the first row of a query on the database file.
func query(ctx context.Context, dir, text string, into ...any) (err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, sqlite.FileName)+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.QueryRowContext(ctx, text).Scan(into...)
}

// owners returns the owners that have tasks.
func owners(ctx context.Context, dir string) (names []string, err error) {
	var list string
	if err = query(ctx, dir, "SELECT coalesce(json_group_array(DISTINCT owner), '[]') FROM task_rows", &list); err == nil {
		err = wire.Unmarshal([]byte(list), &names)
	}
	if err != nil {
		return nil, fmt.Errorf("read owners: %w", err)
	}
	return names, nil
}

// source is the part of a store that the checks read.
type source interface {
	Tasks(ctx context.Context, q store.Query) (store.Page, error)
	Task(ctx context.Context, key store.Key, opts store.TaskOptions) (*store.Task, error)
	Events(ctx context.Context, key store.Key, after int64, limit int) ([]store.Event, error)
	Contexts(ctx context.Context, q store.ContextQuery) (store.ContextPage, error)
	Lanes(ctx context.Context, q store.LaneQuery) (store.LanePage, error)
	DeadLetters(ctx context.Context, q store.WebhookQuery) (store.DeadLetterPage, error)
}

// all checks every task and context of the owners.
func all(ctx context.Context, s source, owners []string) (*Report, error) {
	report := &Report{States: make(map[string]a2a.TaskState), Logs: make(map[string][]store.Event)}
	var errs []error
	for _, owner := range owners {
		tasks, err := list(ctx, s, owner)
		if err != nil {
			return report, fmt.Errorf("list tasks: %w", err)
		}
		for _, t := range tasks {
			events, err := task(ctx, s, t.Key)
			if err != nil {
				errs = append(errs, fmt.Errorf("task %s: %w", t.Key.ID, err))
			}
			report.States[t.Key.ID], report.Logs[t.Key.ID] = t.Status.State, events
		}
		errs = append(errs, contexts(ctx, s, owner, tasks), lanes(ctx, s, owner, report))
	}
	return report, errors.Join(errs...)
}

func list(ctx context.Context, s source, owner string) (tasks []*store.Task, err error) {
	none := 0
	q := store.Query{Owner: owner, Limit: 100, Options: store.TaskOptions{History: &none, OmitArtifacts: true}}
	for {
		page, err := s.Tasks(ctx, q)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, page.Tasks...)
		if page.Next == nil {
			return tasks, nil
		}
		q.Cursor = page.Next
	}
}

// task checks one task and its log.
func task(ctx context.Context, s source, key store.Key) ([]store.Event, error) {
	t, err := s.Task(ctx, key, store.TaskOptions{})
	if err != nil {
		return nil, err
	}
	events, err := s.Events(ctx, key, 0, int(t.Seq)+10)
	if err != nil {
		return nil, err
	}
	folded := &store.Task{Key: key, ContextID: t.ContextID}
	folded.Apply(events...)
	return events, errors.Join(Log(events), same(t, folded), place(t))
}

// Log checks that a log has no gaps, only allowed changes of the state, times that do not
// decrease, and at most one terminal event, which is the last.
func Log(events []store.Event) error {
	var errs []error
	state := a2a.TaskState("")
	for i, e := range events {
		if e.Seq != int64(i)+1 {
			errs = append(errs, fmt.Errorf("event %d of the log has sequence %d", i+1, e.Seq))
		}
		switch {
		case i == 0 && e.State != a2a.StateSubmitted:
			errs = append(errs, fmt.Errorf("the log starts with %s", e.State))
		case i > 0 && !state.CanMove(e.State):
			errs = append(errs, fmt.Errorf("event %d moves from %s to %s", e.Seq, state, e.State))
		}
		if i > 0 && e.Time.Before(events[i-1].Time) {
			errs = append(errs, fmt.Errorf("event %d is %s earlier than the one before", e.Seq, events[i-1].Time.Sub(e.Time)))
		}
		state = e.State
	}
	if len(events) == 0 {
		errs = append(errs, errors.New("the log is empty"))
	}
	return errors.Join(errs...)
}

// same returns an error if a stored task differs from its folded log.
func same(t, folded *store.Task) error {
	var errs []error
	for _, part := range []struct {
		name         string
		stored, fold any
	}{
		{"sequence", t.Seq, folded.Seq},
		{"status", t.Status, folded.Status},
		{"history", t.History, folded.History},
		{"artifacts", t.Artifacts, folded.Artifacts},
		{"metadata", t.Metadata, folded.Metadata},
		{"creation time", t.CreatedAt, folded.CreatedAt},
		{"newest message", t.ReceivedSeq, folded.ReceivedSeq},
	} {
		stored, err := wire.Marshal(part.stored)
		fold, ferr := wire.Marshal(part.fold)
		if err = errors.Join(err, ferr); err != nil {
			errs = append(errs, err)
		} else if !bytes.Equal(stored, fold) {
			errs = append(errs, fmt.Errorf("its %s is %s, its log says %s", part.name, stored, fold))
		}
	}
	return errors.Join(errs...)
}

// place checks that a task is in the work queue if and only if it has work to do.
func place(t *store.Task) error {
	if idle := t.Queue.Phase == store.PhaseIdle; idle != t.Status.State.Final() {
		return fmt.Errorf("it is %s and %s in the queue", t.Status.State, t.Queue.Phase)
	}
	return nil
}
