package sqlite

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	largeTasks = 300
	largeText  = 20 << 10
)

// commitLargeTasks completes tasks of several pages each and returns the size of the
// file.
func commitLargeTasks(t *testing.T, dir string) int64 {
	t.Helper()
	s := open(t, Config{Dir: dir})
	for n := range largeTasks {
		c := submitted(n)
		c.Events[0].Received = message("m1", "user", fmt.Sprint(n, strings.Repeat("x", largeText)))
		must(t, commitOne(s, c))
		done := completed(c)
		if !isDeleted(n) {
			done.Events[1].State = a2a.StateFailed
		}
		must(t, commitOne(s, done))
	}
	must(t, s.Close())
	return fileSize(t, s.path)
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Size()
}

// isDeleted reports whether the tests delete task n. The pages of the other tasks must
// be moved.
func isDeleted(n int) bool { return n%3 > 0 }

func TestDeletedSpaceIsReturnedToFileSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before := commitLargeTasks(t, dir)
	s := open(t, Config{Dir: dir})
	kept := make(map[int]*store.Task)
	for n := range largeTasks {
		if isDeleted(n) {
			_, err := s.DeleteTask(bg, taskKey(n), false)
			must(t, err)
			continue
		}
		task, err := s.Task(bg, taskKey(n), store.TaskOptions{})
		must(t, err)
		kept[n] = task
	}
	pages := func() int64 {
		c, err := openConn(s.path, readWrite, "query_only(1)")
		must(t, err)
		n, err := c.ints("PRAGMA page_count")
		must(t, errors.Join(err, c.close()))
		return n[0]
	}
	steps, last := 0, pages()
	for more := true; more; steps++ {
		var err error
		if more, err = s.PurgeDeleted(bg); err != nil {
			t.Fatalf("PurgeDeleted() = %v", err)
		}
		now := pages()
		if last-now > 2*shrinkPages { // includes pointer map pages
			t.Errorf("PurgeDeleted() freed %d pages at once, want at most about %d", last-now, shrinkPages)
		}
		last = now
	}
	if more, err := s.PurgeDeleted(bg); more || err != nil || pages() != last {
		t.Errorf("PurgeDeleted() at the end = %t, %v and %d pages, want no more and %d pages", more, err, pages(), last)
	}
	if steps < 3 {
		t.Errorf("PurgeDeleted() needed %d calls, want at least 3", steps)
	}
	must(t, checkIntegrity(s))
	must(t, s.Close())
	if after := fileSize(t, s.path); after > before/2 {
		t.Errorf("size of the file = %d bytes, want less than half of %d", after, before)
	}
	s = open(t, Config{Dir: dir})
	for n, want := range kept {
		task, err := s.Task(bg, taskKey(n), store.TaskOptions{})
		if err != nil || !reflect.DeepEqual(want, task) {
			t.Fatalf("Task(%d) = %+v, %v, want %+v", n, task, err, want)
		}
	}
}

// childDeletes deletes tasks and shrinks the file until it is killed. It prints a line
// after each call.
func childDeletes(dir string) error {
	s, err := Open(bg, Config{Dir: dir})
	if err != nil {
		return err
	}
	for n := range largeTasks {
		if !isDeleted(n) {
			continue
		}
		if _, err := s.DeleteTask(bg, taskKey(n), false); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		fmt.Println("deleted", n)
	}
	return printPurges(s)
}

// childExpires is like childDeletes, but deletes by age.
func childExpires(dir string) error {
	s, err := Open(bg, Config{Dir: dir})
	if err != nil {
		return err
	}
	p := store.TaskExpiry{State: a2a.StateCompleted, Before: testTime.Add(time.Hour), Limit: 3}
	for next := true; next; next = p.After != nil {
		var n int
		if n, p.After, err = s.ExpireTasks(bg, p); err != nil {
			return err
		}
		fmt.Println("expired", n)
	}
	return printPurges(s)
}

func purgeAll(s *Store) (err error) {
	for more := true; more && err == nil; {
		more, err = s.PurgeDeleted(bg)
	}
	return err
}

func printPurges(s *Store) (err error) {
	for more := true; more; fmt.Println("purged", more) {
		if more, err = s.PurgeDeleted(bg); err != nil {
			return err
		}
	}
	return s.Close()
}

// A process that is killed while it deletes tasks or shrinks the file leaves each task
// complete or deleted.
func TestDeletionSurvivesKill(t *testing.T) {
	t.Parallel()
	// Each process is killed after it printed a number of lines. Tasks that earlier
	// ones deleted need no work.
	surviveKills(t, "delete", []int{40, 130, 201, 203, 1 << 30})
}

func TestExpirySurvivesKill(t *testing.T) {
	t.Parallel()
	surviveKills(t, "expire", []int{15, 25, 30, 3, 1 << 30})
}

func surviveKills(t *testing.T, task string, killAfter []int) {
	t.Helper()
	dir := t.TempDir()
	commitLargeTasks(t, dir)
	deleted, expired, removed, ended := make(map[int]bool), 0, 0, false
	check := func() {
		t.Helper()
		s := open(t, Config{Dir: dir})
		removed = 0
		for n := range largeTasks {
			task, err := s.Task(bg, taskKey(n), store.TaskOptions{})
			switch {
			case errors.Is(err, store.ErrNotFound) && isDeleted(n):
				removed++
			case err != nil || deleted[n]:
				t.Fatalf("Task(%d) = %v, want the task; deletion acknowledged: %t", n, err, deleted[n])
			case task.Seq != 4 || len(task.Artifacts) != 1 || len(task.History) != 2:
				t.Fatalf("Task(%d) = %+v, want it complete", n, task)
			}
		}
		if removed < max(len(deleted), expired) {
			t.Errorf("%d tasks are deleted, want at least the %d deleted and %d expired ones that were acknowledged", removed, len(deleted), expired)
		}
		if n := ints(t, s, `SELECT count(*) FROM task_log WHERE id >> 24 NOT IN (SELECT pk FROM task_rows UNION SELECT pk FROM tasks_deleted)`)[0]; n != 0 {
			t.Errorf("%d log rows belong to no task, want 0", n)
		}
		must(t, checkIntegrity(s))
		must(t, s.Close())
	}
	for _, lines := range killAfter {
		cmd := child(t.Context(), task, dir)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		read := 0
		for in := bufio.NewScanner(out); in.Scan(); {
			var n int
			if _, err := fmt.Sscanf(in.Text(), "deleted %d", &n); err == nil {
				deleted[n] = true
			}
			if _, err := fmt.Sscanf(in.Text(), "expired %d", &n); err == nil {
				expired += n
			}
			if read++; read == lines {
				_ = cmd.Process.Kill()
			}
		}
		ended = cmd.Wait() == nil
		check()
	}
	if !ended || removed != largeTasks*2/3 {
		t.Errorf("last process succeeded: %t, with %d tasks deleted, want true and %d", ended, removed, largeTasks*2/3)
	}
	// A process that starts while fewer pages are free than shrinking starts at leaves them,
	// although the killed one would have returned them.
	s := open(t, Config{Dir: dir})
	free, pages, size := ints(t, s, "PRAGMA freelist_count")[0], ints(t, s, "PRAGMA page_count")[0], ints(t, s, "PRAGMA page_size")[0]
	must(t, s.Close())
	if free >= shrinkMinFree && free >= pages/shrinkStartShare {
		t.Errorf("%d of %d pages are free, want less than %d or a %dth of them", free, pages, shrinkMinFree, shrinkStartShare)
	}
	if got := fileSize(t, dir+"/"+FileName); got != pages*size {
		t.Errorf("size of the file = %d bytes, want %d pages of %d", got, pages, size)
	}
}
