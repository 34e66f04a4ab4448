package engine

import (
	"context"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store"
)

// The next run of a task may start in this process before the previous run has released the
// task.
func TestRunEndKeepsTaskBeingClaimed(t *testing.T) {
	t.Parallel()
	e, err := New(Config{Store: inmem.New(), NewID: t.Name, Handler: func(context.Context, *Turn) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	key := store.Key{Owner: "alice", ID: "a"}
	l := e.hub.acquire(key)
	defer e.hub.release(l)
	ended := &run{e: e, l: e.hub.acquire(key)}
	cached := func() bool { task, _ := l.snapshot(); return task != nil }

	l.commit.Lock()
	l.setTask(&store.Task{Key: key, Seq: 2, Status: a2a.TaskStatus{State: a2a.StateWorking}})
	ended.releaseTask()
	if !cached() {
		t.Error("the task is not known while it is being claimed")
	}
	l.commit.Unlock()
	e.runs.active.Wait()
	if cached() {
		t.Error("the task is still in memory after its run ended")
	}
}
