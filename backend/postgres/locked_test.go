//go:build services

package postgres

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// lockRows locks the rows of a statement in a separate session until unlock is called or the
// test ends.
func lockRows(t *testing.T, s *Store, text string, args ...any) (unlock func()) {
	t.Helper()
	c, err := pgx.Connect(bg, s.cfg.URL)
	must(t, err)
	tx, err := c.Begin(bg)
	must(t, err)
	rows, err := tx.Query(bg, s.qualify(text), args...)
	must(t, err)
	rows.Close()
	must(t, rows.Err())
	if n := rows.CommandTag().RowsAffected(); n == 0 {
		t.Fatalf("%s locked nothing", text)
	}
	unlock = sync.OnceFunc(func() {
		if err := errors.Join(tx.Rollback(bg), c.Close(bg)); err != nil {
			t.Errorf("unlock = %v", err)
		}
	})
	t.Cleanup(unlock)
	return unlock
}

const sqlLockRow = `SELECT 1 FROM {s}.task_rows WHERE owner = $1 AND id = $2 FOR UPDATE`

func lockTask(t *testing.T, s *Store, k store.Key) (unlock func()) {
	t.Helper()
	return lockRows(t, s, sqlLockRow, k.Owner, k.ID)
}

// agentMessage returns a change under the lease of testWorker that adds a message.
func agentMessage(n int, text string) store.Change {
	k := taskKey(n)
	return store.Change{
		Key: k, Lease: &store.HeldLease{Key: k, Worker: testWorker, Fence: 1},
		Events: []store.Event{{Time: testStart.Add(time.Hour), State: a2a.StateWorking, Message: message("m", "agent", text)}},
	}
}

// commitAsync starts a commit and returns the channel of its error.
func commitAsync(s *Store, c store.Change) chan error {
	done := make(chan error, 1)
	go func() { done <- commitOne(s, c) }()
	return done
}

func wantEvents(t *testing.T, s *Store, n, want int) {
	t.Helper()
	if log, err := s.Events(bg, taskKey(n), 0, 100); err != nil || len(log) != want {
		t.Errorf("Events(%d) = %d events, %v, want %d", n, len(log), err, want)
	}
}

// Changes of locked tasks wait for the lock, and all other calls succeed.
func TestLockedRowDelaysNoOtherTask(t *testing.T) {
	t.Parallel()
	for _, pooler := range []bool{false, true} {
		t.Run(fmt.Sprintf("pooler=%t", pooler), func(t *testing.T) {
			t.Parallel()
			s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{Pooler: pooler, CommandTimeout: 10 * time.Minute}))
			for n := range 3 {
				must(t, commitOne(s, submitted(n)))
			}
			var unlocks []func()
			var waiting []chan error
			for n := range 3 {
				unlocks = append(unlocks, lockTask(t, s, taskKey(n)))
				waiting = append(waiting, commitAsync(s, agentMessage(n, "late")))
			}
			within(t, "the work of others", func() {
				var wg sync.WaitGroup
				for g := range 8 {
					wg.Go(func() {
						for n := 10 + g; n < 90; n += 8 {
							if err := runTask(s, n); err != nil {
								t.Errorf("task %d = %v", n, err)
							}
						}
					})
				}
				wg.Wait()
			})
			for n := range 3 {
				wantEvents(t, s, n, 2)
				unlocks[n]()
			}
			within(t, "the changes that waited for a lock", func() {
				for n, done := range waiting {
					if err := <-done; err != nil {
						t.Errorf("Commit(%d) = %v, want it applied after the lock was released", n, err)
					}
				}
			})
			for n := range 3 {
				wantEvents(t, s, n, 3)
			}
		})
	}
}

// A group is committed without the request that waits for a lock.
func TestGroupCommitsWithoutLockedRequest(t *testing.T) {
	t.Parallel()
	for what, lock := range map[string]struct {
		text string
		args []any
	}{
		"task":    {sqlLockRow, []any{taskKey(5).Owner, taskKey(5).ID}},
		"context": {`SELECT 1 FROM {s}.context_rows WHERE owner = $1 AND id = $2 FOR UPDATE`, []any{taskKey(5).Owner, "c" + taskID(5)}},
		"key": {`INSERT INTO {s}.idempotency_keys (owner, key, hash, task_id, of_context, seq, created_at)
			VALUES ($1, $2, '', '', false, 1, 0)`, []any{taskKey(5).Owner, "k"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{CommandTimeout: 10 * time.Minute}))
			const size = 40
			c := s.newCommitter()
			for n := range size {
				must(t, commitOne(s, submitted(n)))
				ch := agentMessage(n, "x")
				if n == 5 {
					ch.Lease, ch.Version, ch.Events[0].Message = nil, 2, nil
					ch.Events[0].Received = message("m", "user", "x")
					ch.Idempotency = &store.IdempotencyRecord{Owner: ch.Key.Owner, Key: "k", TaskID: ch.Key.ID, CreatedAt: testStart}
				}
				r := &request{changes: make([]change, 1), done: make(chan error, 1)}
				must(t, r.changes[0].prepare(&ch))
				c.group = append(c.group, r)
			}
			unlock := lockRows(t, s, lock.text, lock.args...)
			group := slices.Clone(c.group)
			within(t, "the rest of the group", func() {
				c.run(c.group)
				for n, r := range group {
					if n != 5 {
						if err := <-r.done; err != nil || r.changes[0].result.Err != nil {
							t.Errorf("change %d = %v, %v", n, r.changes[0].result.Err, err)
						}
					}
				}
			})
			wantEvents(t, s, 4, 3)
			wantEvents(t, s, 5, 2)
			unlock()
			within(t, "the change that waited", func() {
				if err := <-group[5].done; err != nil || group[5].changes[0].result.Err != nil {
					t.Errorf("change that waited = %v, %v", group[5].changes[0].result.Err, err)
				}
			})
			wantEvents(t, s, 5, 3)
		})
	}
}

// A slow group does not delay other requests, whatever it waits for.
func TestSlowCommitStartsSecondCommitter(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{CommandTimeout: 10 * time.Minute})
	cfg.URL += "&lock_timeout=600000" // the URL overrides the setting of the store
	s := open(storetest.Wrap(t), cfg)
	must(t, commitOne(s, submitted(1)))
	unlock := lockTask(t, s, taskKey(1))
	waiting := commitAsync(s, agentMessage(1, "late"))
	waitForLock(t, s) // requests of the same group wait, too
	within(t, "the work of others", func() {
		for n := 2; n < 6; n++ {
			must(t, runTask(s, n))
		}
	})
	unlock()
	if err := <-waiting; err != nil {
		t.Errorf("Commit() = %v, want it applied after the lock was released", err)
	}
}

// A change of a task that stays locked fails within the command timeout and changes nothing.
func TestChangeOfLockedTaskFailsInTime(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{CommandTimeout: 4 * time.Second}))
	must(t, commitOne(s, submitted(1)))
	unlock := lockTask(t, s, taskKey(1))
	within(t, "the change", func() {
		err := commitOne(s, agentMessage(1, "x"))
		if a2a.CodeOf(err) != a2a.CodeUnavailable || sqlState(err) != stateLockNotAvailable || errors.Is(err, errIndeterminate) {
			t.Errorf("Commit() = %v, want code unavailable: the row is locked", err)
		}
	})
	unlock()
	must(t, commitOne(s, agentMessage(1, "y")))
	wantEvents(t, s, 1, 3)
}

func TestLockedTaskDelaysNoOtherRenewal(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{CommandTimeout: 10 * time.Minute}))
	var leases []store.HeldLease
	for n := range 5 {
		must(t, commitOne(s, submitted(n)))
		leases = append(leases, store.HeldLease{Key: taskKey(n), Worker: testWorker, Fence: 1})
	}
	leases[4].Fence = 7 // not the current fence
	unlock := lockTask(t, s, taskKey(2))
	until := testStart.Add(time.Hour)
	within(t, "Renew()", func() {
		lost, err := s.Renew(bg, until, leases)
		var some *store.RenewError
		if !errors.As(err, &some) || a2a.CodeOf(err) != a2a.CodeUnavailable {
			t.Fatalf("Renew() = %v, want a RenewError", err)
		}
		if d := cmp.Diff([]store.Key{taskKey(2)}, some.Keys); d != "" {
			t.Errorf("Renew() did not extend (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]store.Key{taskKey(4)}, lost); d != "" {
			t.Errorf("Renew() lost (-want +got):\n%s", d)
		}
	})
	for n, want := range []bool{true, true, false, true, false} {
		task, err := s.Task(bg, taskKey(n), store.TaskOptions{})
		if err != nil || task.Queue.Lease.Until.Equal(until) != want {
			t.Errorf("lease %d ends at %v, %v, want it extended: %t", n, task.Queue.Lease.Until, err, want)
		}
	}
	unlock()
	if lost, err := s.Renew(bg, until, leases[:4]); err != nil || lost != nil {
		t.Errorf("Renew() after the lock was released = %v, %v", lost, err)
	}
	if lost, err := s.Renew(bg, until, nil); err != nil || lost != nil {
		t.Errorf("Renew() of nothing = %v, %v", lost, err)
	}
}
