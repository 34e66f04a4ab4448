package sqlite

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// childWrites completes tasks on 16 goroutines until it is killed. It prints the number
// of each task after its completion was acknowledged.
func childWrites(dir string) error {
	s, err := Open(bg, Config{Dir: dir})
	if err != nil {
		return err
	}
	start, err := strconv.Atoi(os.Getenv("HOLDFAST_SQLITE_TEST_START"))
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for g := range 16 {
		wg.Go(func() {
			for n := start + g; ; n += 16 {
				if err := runTask(s, n); err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				mu.Lock()
				fmt.Println(n)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return nil
}

func TestAcknowledgedChangesSurviveKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	acknowledged := make(map[int]bool)
	for round := range rounds {
		killWhileWriting(t, dir, round, acknowledged)
		s := open(t, Config{Dir: dir})
		for n := range acknowledged {
			got, err := s.Task(bg, taskKey(n), store.TaskOptions{})
			if err != nil || got.Status.State != a2a.StateCompleted || got.Seq != 4 || len(got.Artifacts) != 1 {
				t.Fatalf("round %d: Task(%d) = %+v, %v, want it completed", round, n, got, err)
			}
		}
		must(t, checkIntegrity(s))
		takeOver(t, s)
		must(t, s.Close())
	}
	t.Logf("%d acknowledged tasks, %d kills", len(acknowledged), rounds)
}

func killWhileWriting(t *testing.T, dir string, round int, acknowledged map[int]bool) {
	t.Helper()
	cmd := child(t.Context(), "write", dir)
	cmd.Env = append(cmd.Env, "HOLDFAST_SQLITE_TEST_START="+strconv.Itoa(round*1_000_000))
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var kill *time.Timer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			continue // truncated by the kill
		}
		acknowledged[n] = true
		if kill == nil {
			kill = time.AfterFunc(time.Duration(100+37*round)*time.Millisecond, func() { _ = cmd.Process.Kill() })
		}
	}
	if err := cmd.Wait(); err == nil || kill == nil {
		t.Fatalf("writing process was not killed: %v", err)
	}
}

// takeOver claims the tasks that the killed process had leased.
func takeOver(t *testing.T, s *Store) {
	t.Helper()
	backlog, err := s.Backlog(bg)
	must(t, err)
	now := testTime.Add(time.Second)
	claimed, err := s.Claim(bg, store.ClaimParams{
		Worker: "after", Now: now, Until: now.Add(time.Minute), Limit: 1000, Takeover: true,
		Event: store.Event{Time: now, State: a2a.StateWorking},
	})
	must(t, err)
	// There are no leased tasks if the process was killed between two tasks.
	if len(claimed) != backlog.Leased {
		t.Errorf("Claim() took over %d tasks, want all %d leased ones", len(claimed), backlog.Leased)
	}
	for _, task := range claimed {
		if task.Queue.Attempt != 2 || task.Seq != 3 {
			t.Errorf("Claim() = attempt %d at sequence %d, want 2 at 3", task.Queue.Attempt, task.Seq)
		}
		must(t, commitOne(s, store.Change{
			Key: task.Key, Lease: &store.HeldLease{Key: task.Key, Worker: "after", Fence: task.Queue.Lease.Fence},
			Events: []store.Event{{Time: now, State: a2a.StateFailed}}, Queue: &store.QueueEntry{Phase: store.PhaseIdle},
		}))
	}
}
