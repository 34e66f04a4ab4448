//go:build faults

package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// frozenLeases are flags for short leases, and frozenTimeouts for commands that end before the database answers.
var (
	frozenLeases   = []string{"-lease", "3s"}
	frozenTimeouts = []string{"-lease", "3s", "-command-timeout", "2s", "-pool-timeout", "1s", "-retry-delay", "100ms"}
)

func TestFrozenDatabaseChargesNoAttempt(t *testing.T) { testFrozenDatabase(t, 40, 0) }

func TestFrozenDatabaseChargesNoAttemptWhileCommandsWait(t *testing.T) {
	testFrozenDatabase(t, 12, 6*time.Second, frozenLeases...)
}

func TestFrozenDatabaseChargesNoAttemptWhenCommandsTimeOut(t *testing.T) {
	testFrozenDatabase(t, 12, 6*time.Second, frozenTimeouts...)
}

// testFrozenDatabase freezes the database until the leases of all tasks of three replicas have ended, and for a minimum
// time. The handlers are stopped, since other replicas could run the tasks, and run again as the same attempt, never two
// of a task at once.
func testFrozenDatabase(t *testing.T, each int, least time.Duration, args ...string) {
	parallel(t)
	db := private(t, pgtest.Config{})
	c := newCluster(t, db.URL(), args...)
	ids := make(map[string]bool)
	for range each {
		for _, p := range c.replicas {
			ids[p.send("until answered")] = true
		}
	}
	for id := range ids {
		c.await("begin", id, "")
	}
	if err := db.Pause(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(least)
	await.Success(t, func() error {
		if n := c.running(); n > 0 {
			return fmt.Errorf("%d handlers still run", n)
		}
		return nil
	})
	if err := db.Resume(); err != nil {
		t.Fatal(err)
	}
	answers := time.Now()
	await.Success(t, func() error {
		if n := c.running(); n < len(ids) {
			return fmt.Errorf("%d of %d handlers run again", n, len(ids))
		}
		return nil
	})
	c.release("answered")
	c.awaitAll(ids)
	t.Logf("all tasks over %s after the database answers again", time.Since(answers))
	running := make(map[string]bool)
	for _, e := range c.done() {
		switch e.what {
		case "begin":
			if e.attempt != 1 {
				t.Errorf("a handler of task %s started with attempt %d", e.task, e.attempt)
			}
			if running[e.task] {
				t.Errorf("task %s runs twice at the same time", e.task)
			}
			running[e.task] = true
		case "end":
			delete(running, e.task)
		}
	}
	c.prove(ids)
}

// running returns the number of handlers that have started and not ended.
func (s *site) running() (n int) {
	for _, e := range s.done() {
		switch e.what {
		case "begin":
			n++
		case "end":
			n--
		}
	}
	return n
}
