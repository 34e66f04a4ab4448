package sqlite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func over(id, text string) *store.Task {
	return &store.Task{
		Key: store.Key{Owner: "o", ID: id}, Status: a2a.TaskStatus{State: a2a.StateCompleted},
		Artifacts: []a2a.Artifact{{ID: "a", Parts: []a2a.Part{a2a.TextPart{Text: text}}}},
	}
}

func read(c *restCache, t *store.Task) *store.Task {
	if got := c.get(t.Key, store.TaskOptions{}); got != nil {
		return got
	}
	c.put(t.Key, t)
	return nil
}

func TestTasksThatAreOverAreKept(t *testing.T) {
	t.Parallel()
	c := newRestCache()
	task := over("1", "x")
	if read(c, task) != nil {
		t.Fatal("the first read found something")
	}
	got := read(c, task)
	if got == nil || got.Artifacts[0].Text() != "x" {
		t.Fatalf("second read = %+v", got)
	}
	got.Artifacts[0].Parts[0] = a2a.TextPart{Text: "changed by the caller"}
	if got := read(c, task); got.Artifacts[0].Text() != "x" {
		t.Errorf("third read = %q, want what was put", got.Artifacts[0].Text())
	}
	if cut := c.get(task.Key, store.TaskOptions{OmitArtifacts: true}); cut.Artifacts != nil {
		t.Errorf("read without artifacts = %+v", cut.Artifacts)
	}
	working := over("2", "x")
	working.Status.State = a2a.StateWorking
	read(c, working)
	if read(c, working) != nil {
		t.Error("a task that is not over was kept")
	}
	if len(c.reading) != 0 {
		t.Errorf("%d reads never ended", len(c.reading))
	}
}

func TestACommitTakesATaskOutEvenWhileItIsRead(t *testing.T) {
	t.Parallel()
	c := newRestCache()
	task := over("1", "old")
	read(c, task)
	c.drop(map[store.Key]taskRow{task.Key: {}})
	if c.get(task.Key, store.TaskOptions{}) != nil {
		t.Fatal("the task is still there after the commit")
	}
	c.drop(map[store.Key]taskRow{task.Key: {}})
	c.put(task.Key, task) // what was read before the commit
	if c.get(task.Key, store.TaskOptions{}) != nil {
		t.Fatal("a stale read was kept")
	}
	c.put(task.Key, over("1", "new"))
	if got := c.get(task.Key, store.TaskOptions{}); got == nil || got.Artifacts[0].Text() != "new" {
		t.Errorf("read after the commit = %+v, want the new task", got)
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := newRestCache()
	text := strings.Repeat("x", restShare/2)
	for i := range 100 {
		read(c, over(fmt.Sprint(i), text))
	}
	if c.size > restBytes || c.order.Len() != len(c.tasks) || len(c.tasks) < 10 {
		t.Errorf("cache holds %d tasks in %d bytes, list %d", len(c.tasks), c.size, c.order.Len())
	}
	if c.get(store.Key{Owner: "o", ID: "99"}, store.TaskOptions{}) == nil {
		t.Error("the newest task is not there")
	}
	huge := over("huge", strings.Repeat("x", restShare+1))
	read(c, huge)
	if read(c, huge) != nil {
		t.Error("a task larger than its share was kept")
	}
}
