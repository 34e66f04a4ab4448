//go:build services

package postgres

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// A worker reads a claimed task while other commits replace its snapshot.
func TestReadsFromAReplacedSnapshotFoldTheWholeLog(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	c := submitted(1)
	must(t, commitOne(s, c))
	task := &store.Task{Key: c.Key, ContextID: c.Create.ContextID}
	for i, e := range c.Events {
		e.Seq = int64(i + 1)
		task.Apply(e)
	}
	row := func() (row taskRow) {
		must(t, s.read(bg, "read row", func(ctx context.Context, conn *pgx.Conn) error {
			return s.eachRow(ctx, conn, sqlReadVersions, func(r record) error {
				scanTask(&row, r)
				return nil
			}, []string{c.Key.Owner}, []string{c.Key.ID})
		}))
		return row
	}
	// chatter commits progress until a snapshot is written, and returns the task then.
	chatter := func() *store.Task {
		for before := row().Checkpoint; row().Checkpoint == before; {
			e := store.Event{Seq: task.Seq + 1, Time: testStart, State: a2a.StateWorking, Message: message("p", "agent", loremIpsum), Progress: true}
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
	want := chatter()
	then := row()
	chatter()
	var n int
	must(t, s.pool.QueryRow(bg, s.qualify(`SELECT count(*) FROM {s}.task_log WHERE snapshot IS NOT NULL`)).Scan(&n))
	if n != 1 {
		t.Errorf("%d snapshots of a task are stored, want 1", n)
	}
	var got *store.Task
	err := s.read(bg, "read logs", func(ctx context.Context, conn *pgx.Conn) error {
		tasks, err := s.readLogs(ctx, conn, []taskRow{then}, false)
		if err == nil {
			got = tasks[0]
		}
		return err
	})
	must(t, err)
	if diff := cmp.Diff(want.Status, got.Status); diff != "" || got.Seq != want.Seq || len(got.History) != len(want.History) {
		t.Errorf("task %d of %d messages, want task %d of %d messages, status (-want +got):\n%s", got.Seq, len(got.History), want.Seq, len(want.History), diff)
	}
}
