package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// KillConfig contains the parameters of KillLoop.
type KillConfig struct {
	// Open opens the store in a directory with its data, if any.
	Open func(dir string) (store.Store, error)
	// Rounds is the number of processes to kill; 0 means 5.
	Rounds int
	// Writers is the number of goroutines of a process that commit; 0 means 8.
	Writers int
}

// KillLoop starts processes that commit, kills them with SIGKILL at random times, and checks
// the store after each kill. The store must contain everything that was acknowledged and no
// partial change. The calling test must do nothing else: KillLoop runs the test binary again,
// for this test only, as the process to kill.
func KillLoop(t *testing.T, cfg KillConfig) {
	t.Helper()
	if cfg.Rounds == 0 {
		cfg.Rounds = 5
	}
	if cfg.Writers == 0 {
		cfg.Writers = 8
	}
	if dir, round, ok := suite.Killed(); ok {
		commitUntilKilled(t, cfg, dir, round)
		return
	}
	dir := t.TempDir()
	acked := make(map[store.Key]int64)
	deleted := make(map[store.ContextKey]bool)
	for round := range cfg.Rounds {
		runAndKill(t, dir, round, acked, deleted)
		checkAcked(t, cfg, dir, acked, deleted)
	}
	if len(acked) < cfg.Rounds {
		t.Errorf("%d tasks were acknowledged in %d rounds, want more", len(acked), cfg.Rounds)
	}
	t.Logf("%d tasks and %d deletions were acknowledged in %d rounds", len(acked), len(deleted), cfg.Rounds)
}

// runAndKill runs a process, kills it, and records what it acknowledged.
func runAndKill(t *testing.T, dir string, round int, acked map[store.Key]int64, deleted map[store.ContextKey]bool) {
	t.Helper()
	suite.Kill(t, dir, round, time.Duration(5+rand.IntN(200))*time.Millisecond, func(f []string) bool {
		switch {
		case len(f) == 3 && f[0] == "deleted":
			deleted[store.ContextKey{Owner: f[1], ID: f[2]}] = true
		case len(f) == 4 && f[0] == "acknowledged":
			seq, err := strconv.ParseInt(f[3], 10, 64)
			k := store.Key{Owner: f[1], ID: f[2]}
			acked[k] = max(acked[k], seq)
			return err == nil
		default:
			return false
		}
		return true
	})
}

// commitUntilKilled runs in the process to kill.
func commitUntilKilled(t *testing.T, cfg KillConfig, dir string, round int) {
	t.Helper()
	s := suite.Call(cfg.Open(dir)).Must(t, "Open()")
	deadline := time.Now().Add(30 * time.Second) // if it is not killed
	suite.Concurrently(cfg.Writers, func(w int) {
		for n := 0; time.Now().Before(deadline); n++ {
			k := store.Key{Owner: fmt.Sprint("owner-", w%3), ID: fmt.Sprintf("r%d-w%d-n%d", round, w, n)}
			err := commitAndReport(t.Context(), os.Stdout, s, k)
			if err == nil {
				err = deleteAndReport(t.Context(), os.Stdout, s, k)
			}
			if err != nil {
				t.Errorf("task %s: %v", k.ID, err)
				return
			}
		}
	})
}

// commitAndReport creates and changes a task that passes incompleteChange after every change.
// It prints each version after its commit.
func commitAndReport(ctx context.Context, out io.Writer, s store.Store, k store.Key) error {
	const changes = 5
	c := withKey(newTask(k, "context", start), "key-"+k.ID, start)
	c.Webhooks = testWebhooks("p")
	for i := 0; ; i++ {
		results, err := s.Commit(ctx, c)
		if err != nil {
			return err
		}
		if results[0].Err != nil {
			return results[0].Err
		}
		seq := results[0].Seq
		if _, err := fmt.Fprintf(out, "acknowledged %s %s %d\n", k.Owner, k.ID, seq); err != nil {
			return err
		}
		if i == changes {
			return nil
		}
		c = changeAt(k, seq, agentMessage(at(i), a2a.StateWorking, fmt.Sprint("m", i)), chunkEvent(at(i), "a", "x", true))
		c.Queue = &store.QueueEntry{Phase: store.PhaseQueued, Turn: i + 2}
		c.Steps = []store.Step{step(1, fmt.Sprint("s", i), "result")}
		c.Records = []store.RecordChange{valueChange("kill", k.ID, int64(i), fmt.Sprint(i))}
		if h := historyOf(s); h != nil {
			e, err := appendEffect(h, killSession(k), fmt.Sprint(i))
			if err != nil {
				return err
			}
			c.Effects = []store.Effect{e}
		}
	}
}

// killSession is the session that has a message for each change of a task.
func killSession(k store.Key) history.Key {
	return history.Key{Owner: k.Owner, Agent: "kill", Session: k.ID}
}

// deletedContextPrefix is the prefix of the ids of contexts that are deleted.
const deletedContextPrefix = "deleted-"

// deleteAndReport creates a context of a few tasks, deletes it, and prints its name after the
// deletion is complete.
func deleteAndReport(ctx context.Context, out io.Writer, s store.Store, k store.Key) error {
	const tasks = 3
	c := newContext(deletedContextPrefix+k.ID, 0)
	c.Context.Key.Owner = k.Owner
	if _, err := s.SaveContext(ctx, c); err != nil {
		return err
	}
	for i := range tasks {
		t := store.Key{Owner: k.Owner, ID: fmt.Sprint(c.Context.Key.ID, "-", i)}
		change := withKey(idleTask(t, c.Context.Key.ID, i, a2a.StateCompleted), "key-"+t.ID, start)
		change.Webhooks = testWebhooks("p")
		results, err := s.Commit(ctx, change)
		if err != nil {
			return err
		}
		if results[0].Err != nil {
			return results[0].Err
		}
	}
	for more := true; more; {
		var err error
		if more, err = s.DeleteContext(ctx, k.Owner, c.Context.Key.ID, 1); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "deleted %s %s\n", k.Owner, c.Context.Key.ID)
	return err
}

// checkDeleted completes pending deletions and checks that nothing is left of deleted contexts.
func (f *fixture) checkDeleted(deleted map[store.ContextKey]bool) {
	f.Helper()
	pending := suite.Call(f.s.PendingDeletions(f.ctx, 1000)).Must(f, "PendingDeletions()")
	for _, k := range pending {
		if deleted[k] {
			f.Errorf("deletion of context %s is pending, but was acknowledged as complete", k.ID)
		}
		f.wantNoContext(k.Owner, k.ID)
		for more := true; more; {
			more = suite.Call(f.s.DeleteContext(f.ctx, k.Owner, k.ID, 2)).Must(f, "DeleteContext(%q) after a kill", k.ID)
		}
		deleted[k] = true
	}
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{})
	for k := range deleted {
		f.wantNoContext(k.Owner, k.ID)
		for i := range 3 {
			t := store.Key{Owner: k.Owner, ID: fmt.Sprint(k.ID, "-", i)}
			f.wantNoTask(t)
			f.wantNoRecord(t.Owner, "key-"+t.ID)
			f.wantNoLane(t, "p")
		}
	}
}

// checkAcked opens the store and checks its content.
func checkAcked(t *testing.T, cfg KillConfig, dir string, acked map[store.Key]int64, deleted map[store.ContextKey]bool) {
	t.Helper()
	s := suite.Call(cfg.Open(dir)).Must(t, "Open() after a kill")
	f := &fixture{T: Wrap(t), s: s, ctx: t.Context()}
	f.checkDeleted(deleted)
	versions := make(map[store.Key]int64)
	for w := range 3 {
		q := store.Query{Owner: fmt.Sprint("owner-", w), ContextID: "context", Limit: 200}
		for {
			page := f.list(q)
			for _, task := range page.Tasks {
				versions[task.Key] = task.Seq
				f.checkComplete(task)
			}
			if q.Cursor = page.Next; q.Cursor == nil {
				break
			}
		}
	}
	for k, seq := range acked {
		if versions[k] < seq {
			t.Errorf("Tasks() returns task %s at version %d, want at least the acknowledged version %d", k.ID, versions[k], seq)
		}
	}
	if b := f.backlog(); b.Queued != len(versions) || b.Leased != 0 {
		t.Errorf("Backlog() = %+v, want %d queued", b, len(versions))
	}
	suite.Do(errors.Join(s.Ping(t.Context()), s.Close())).Check(t, "Ping() and Close() after a kill")
}

// checkComplete checks that a task made by commitAndReport contains all parts of each change.
func (f *fixture) checkComplete(task *store.Task) {
	f.Helper()
	suite.Equal(f, incompleteChange(task), "", "Task(%s)", taskName(task.Key))
	log := f.events(task.Key)
	for i, e := range log {
		if e.Seq != int64(i+1) {
			f.Errorf("Events(%s)[%d].Seq = %d, want %d", taskName(task.Key), i, e.Seq, i+1)
		}
	}
	f.equal("Task()", task, fold(task.Key, task.ContextID, task.Queue, log...))
	if l := f.lane(task.Key, "p"); l.Tail != task.Seq || l.Cursor.Seq != 0 {
		f.Errorf("Lanes(%s) = tail %d, cursor %d, want tail %d, cursor 0", taskName(task.Key), l.Tail, l.Cursor.Seq, task.Seq)
	}
	if got := len(f.steps(task.Key, 1)); got != len(log)/2 {
		f.Errorf("Steps(%s) = %d steps at version %d, want one per change", taskName(task.Key), got, task.Seq)
	}
	if r, err := f.s.Record(f.ctx, store.RecordKey{Owner: task.Key.Owner, Namespace: "kill", Key: task.Key.ID}); err != nil && !errors.Is(err, store.ErrNotFound) || r.Version != int64(len(log)/2) {
		f.Errorf("Record(%s) = version %d, %v at version %d, want one per change", taskName(task.Key), r.Version, err, task.Seq)
	}
	if h := historyOf(f.s); h != nil {
		if n, err := h.Count(f.ctx, killSession(task.Key)); err != nil || int(n) != len(log)/2 {
			f.Errorf("Count(%s) = %d, %v at version %d, want one message per change", taskName(task.Key), n, err, task.Seq)
		}
	}
	if r := f.record(task.Key.Owner, "key-"+task.Key.ID); r.TaskID != task.Key.ID || r.Seq != 1 {
		f.Errorf("Idempotency() = %+v, want the record of task %s", r, task.Key.ID)
	}
}
