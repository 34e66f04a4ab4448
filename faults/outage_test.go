//go:build faults

package faults_test

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// TestFrozenDatabaseChargesNoAttempt freezes the database for longer than a lease while
// three replicas run tasks. Their handlers are stopped, since other replicas could run
// the tasks, and run again as the same attempt, never two of a task at once.
func TestFrozenDatabaseChargesNoAttempt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name         string
		freeze, work time.Duration
		each         int // tasks of a replica
		args         []string
	}{
		{"default lease", 30 * time.Second, 40 * time.Second, 40, nil},
		{"commands wait", 10 * time.Second, 6 * time.Second, 12, []string{"-lease", "3s"}},
		{"commands time out", 10 * time.Second, 6 * time.Second, 12, []string{"-lease", "3s", "-command-timeout", "2s", "-pool-timeout", "1s", "-retry-delay", "100ms"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := private(t, pgtest.Config{})
			c := newCluster(t, db.URL(), test.args...)
			ids := make(map[string]bool)
			for range test.each {
				for _, p := range c.replicas {
					ids[p.send("work "+test.work.String())] = true
				}
			}
			for id := range ids {
				c.await("begin", id, "")
			}
			if err := db.Pause(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(test.freeze)
			if err := db.Resume(); err != nil {
				t.Fatal(err)
			}
			answers := time.Now()
			c.awaitAll(ids)
			t.Logf("all tasks over %s after the database answers again", time.Since(answers))
			again, running := 0, make(map[string]bool)
			for _, e := range c.done() {
				switch e.what {
				case "begin":
					if e.attempt != 1 {
						t.Errorf("a handler of task %s started with attempt %d", e.task, e.attempt)
					}
					if running[e.task] {
						t.Errorf("task %s runs twice at the same time", e.task)
					}
					if running[e.task] = true; e.at.After(answers) {
						again++
					}
				case "end":
					delete(running, e.task)
				}
			}
			t.Logf("%d of %d handlers were stopped and ran again", again, len(ids))
			c.prove(ids)
		})
	}
}
