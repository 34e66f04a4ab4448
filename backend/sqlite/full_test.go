package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func TestFullDatabaseRejectsChangesUntilSpaceIsFreed(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir(), MaxPages: 100})
	written, err := fillUp(s, 0)
	must(t, err)
	must(t, checkCompleted(s, written))
	must(t, s.write(bg, &request{weight: 1, apply: func(w *writer) error { return nil }}))
	setMaxPages(s, 100_000)
	must(t, runTask(s, written+1))
	must(t, s.Ping(bg))
	must(t, checkIntegrity(s))
}

// setMaxPages changes the limit while the writer is idle.
func setMaxPages(s *Store, pages int64) {
	release := blockWriter(s)
	_ = s.committer.script(fmt.Sprintf("PRAGMA max_page_count(%d)", pages))
	release()
}

// fillUp completes tasks until the store is full, and returns the number of the first
// task that did not fit.
func fillUp(s *Store, from int) (int, error) {
	for n := from; n < from+100_000; n++ {
		err := runTask(s, n)
		switch {
		case err == nil:
		case a2a.CodeOf(err) != a2a.CodeExhausted || !strings.Contains(err.Error(), "disk full"):
			return n, fmt.Errorf("change of task %d = %w, want code %s and \"disk full\"", n, err, a2a.CodeExhausted)
		default:
			return n, nil
		}
	}
	return 0, errors.New("store is not full after 100000 tasks")
}

// checkCompleted checks that tasks 0 to n-1 are completed and complete.
func checkCompleted(s *Store, n int) error {
	for i := range n {
		t, err := s.Task(bg, taskKey(i), store.TaskOptions{})
		if err != nil {
			return fmt.Errorf("task %d of a full store: %w", i, err)
		}
		if t.Status.State != a2a.StateCompleted || len(t.History) != 2 || len(t.Artifacts) != 1 {
			return fmt.Errorf("task %d of a full store = %+v, want it completed with 2 messages and 1 artifact", i, t)
		}
	}
	return nil
}

func checkIntegrity(s *Store) error {
	c, err := openConn(s.path, readWrite, "query_only(1)")
	if err != nil {
		return err
	}
	defer func() { _ = c.close() }()
	return c.query("PRAGMA integrity_check", func(r record) error {
		if r.text(0) != "ok" {
			return fmt.Errorf("integrity_check: %s", r.text(0))
		}
		return nil
	})
}
