//go:build services

package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
)

// testStart is the time of the first task of a test.
var testStart = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const testWorker = "worker-1"

func taskID(n int) string {
	ms := testStart.UnixMilli() + int64(n)/6
	return fmt.Sprintf("%08x-%04x-7%03x-8000-%012x", ms>>16, ms&0xffff, n%6, n)
}

func taskKey(n int) store.Key {
	return store.Key{Owner: "did:key:z6MkhaXgBZDvotDkL5257", ID: taskID(n)}
}

func message(id, role, text string) *a2a.Message {
	return &a2a.Message{ID: id, Role: a2a.Role(role), Parts: []a2a.Part{a2a.TextPart{Text: text}}}
}

const loremIpsum = "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore " +
	"et dolore magna aliqua. Ut enim ad minim veniam, quis nostrud exercitation ullamco laboris nisi ut aliquip. "

// submitted returns the change that creates a task and leases it to testWorker.
func submitted(n int) store.Change {
	at := testStart.Add(time.Duration(n) * time.Second / 6000)
	return store.Change{
		Key: taskKey(n), Create: &store.Create{ContextID: "c" + taskID(n)},
		Events: []store.Event{
			{Time: at, State: a2a.StateSubmitted, Received: message("m1", "user", loremIpsum)},
			{Time: at, State: a2a.StateWorking},
		},
		Queue: &store.QueueEntry{
			Phase: store.PhaseLeased, Turn: 1, Attempt: 1, SeenSeq: 1,
			Lease: store.Lease{Worker: testWorker, Fence: 1, Until: at.Add(30 * time.Second)},
		},
	}
}

// completed returns the change that completes a task created by submitted.
func completed(c store.Change) store.Change {
	at := c.Events[0].Time.Add(5 * time.Millisecond)
	return store.Change{
		Key: c.Key, Lease: &store.HeldLease{Key: c.Key, Worker: testWorker, Fence: 1},
		Events: []store.Event{
			{Time: at, State: a2a.StateWorking, LastChunk: true, Artifact: &a2a.Artifact{
				ID: "a1", Name: "summary", Parts: []a2a.Part{a2a.TextPart{Text: loremIpsum + loremIpsum}},
			}},
			{Time: at, State: a2a.StateCompleted, Message: message("m2", "agent", "Here is the summary.")},
		},
		Queue: &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1, Attempt: 1, SeenSeq: 1, Lease: store.Lease{Worker: testWorker, Fence: 1}},
	}
}

func runTask(s store.Store, n int) error {
	c := submitted(n)
	if err := commitOne(s, c); err != nil {
		return err
	}
	return commitOne(s, completed(c))
}

func commitOne(s store.Store, c store.Change) error {
	results, err := s.Commit(bg, c)
	if err != nil {
		return err
	}
	return results[0].Err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within fails the test unless f returns within await.Limit.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(await.Limit):
		t.Fatalf("not within %s: %s", await.Limit, what)
	}
}

// fillLanes adds a webhook without pending events to each of the n newest tasks of fillTasks.
func fillLanes(s *Store, n int) error {
	for _, text := range []string{
		`INSERT INTO {s}.webhooks (owner, task_id, id, task_pk, context_id, task_created_at, data, long_running, rev, created_at, updated_at)
			SELECT owner, id, 'p', pk, context_id, created_at, '{}', false, 1, created_at, created_at FROM {s}.task_rows ORDER BY created_at DESC LIMIT $1`,
		`INSERT INTO {s}.webhook_lanes (owner, task_id, id, endpoint, rev, phase, state, long_running, cursor_seq, cursor_sequence, cursor_state,
				tail_seq, due_at, attempt, failed_at, delivered, delivered_at, updated_at, worker, fence, lease_until, reason)
			SELECT c.owner, c.task_id, c.id, 'http://receiver.example:80', 1, {done}, 'active', false, t.seq, 1, t.state, t.seq, 0, 0, 0, 1,
				c.created_at, c.created_at, '', 1, 0, ''
			FROM {s}.webhooks c JOIN {s}.task_rows t ON t.owner = c.owner COLLATE "POSIX" AND t.id = c.task_id COLLATE "POSIX" LIMIT $1`,
		`UPDATE {s}.task_rows t SET webhooks = 1 FROM {s}.webhooks c
			WHERE t.owner = c.owner COLLATE "POSIX" AND t.id = c.task_id COLLATE "POSIX" AND $1 > 0`,
	} {
		if _, err := s.pool.Exec(bg, s.qualify(text), pgx.QueryExecModeExec, n); err != nil {
			return err
		}
	}
	_, err := s.pool.Exec(bg, s.qualify(`VACUUM ANALYZE {s}.task_rows, {s}.webhooks, {s}.webhook_lanes`))
	return err
}
