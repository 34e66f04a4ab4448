package sqlite

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// A worker may read a claimed task while others change it.
func TestReadAfterSnapshotReplacementFoldsWholeLog(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	c := submitted(1)
	must(t, commitOne(s, c))
	task := foldChanges(c)
	row := func() (row taskRow) {
		must(t, s.read(bg, func(r *reader) (err error) {
			row, err = r.row(c.Key)
			return err
		}))
		return row
	}
	// commitUntilSnapshot commits progress until a snapshot is written, and returns the
	// task at that point.
	commitUntilSnapshot := func() *store.Task {
		for before := row().Checkpoint; row().Checkpoint == before; {
			e := store.Event{Seq: task.Seq + 1, Time: testTime, State: a2a.StateWorking, Message: message("p", "agent", loremIpsum), Progress: true}
			next := store.Change{Key: c.Key, Version: task.Seq, Events: []store.Event{e}}
			task = task.Clone()
			task.Apply(e)
			next.Snapshot = task
			results, err := s.Commit(bg, next)
			must(t, err)
			task = task.Clone()
			task.LogSize = results[0].LogSize
		}
		return task
	}
	want := commitUntilSnapshot()
	then := row()
	commitUntilSnapshot()
	if n := ints(t, s, `SELECT count(*) FROM task_log WHERE snapshot IS NOT NULL`)[0]; n != 1 {
		t.Errorf("%d snapshots of a task are stored, want 1", n)
	}
	got, err := s.taskAsOf(bg, &then)
	must(t, err)
	if diff := cmp.Diff(want.Status, got.Status); diff != "" || got.Seq != want.Seq || len(got.History) != len(want.History) {
		t.Errorf("task %d of %d messages, want task %d of %d messages, status (-want +got):\n%s", got.Seq, len(got.History), want.Seq, len(want.History), diff)
	}
}

// A snapshot is not stored if another change was committed in between.
func TestOutdatedSnapshotIsIgnored(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	c := submitted(1)
	must(t, commitOne(s, c))
	late := store.Change{Key: c.Key, Version: 2, Events: []store.Event{
		{Time: c.Events[0].Time, State: a2a.StateWorking, Received: message("m9", "user", "one more thing")},
	}}
	must(t, commitOne(s, late))
	must(t, commitOne(s, completed(c)))
	got, err := s.Task(bg, c.Key, store.TaskOptions{})
	must(t, err)
	if len(got.History) != 3 || got.Seq != 5 || got.Status.State != a2a.StateCompleted {
		t.Errorf("Task() = %d messages at %d, %s, want 3 at 5, completed", len(got.History), got.Seq, got.Status.State)
	}
}
