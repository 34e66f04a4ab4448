package sqlite

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

var bg = context.Background()

// testTime is the creation time of the first test task.
var testTime = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const testWorker = "worker-1"

func taskID(n int) string {
	ms := testTime.UnixMilli() + int64(n)/6
	return fmt.Sprintf("%08x-%04x-7%03x-8000-%012x", ms>>16, ms&0xffff, n%6, n)
}

func taskKey(n int) store.Key {
	return store.Key{Owner: "did:key:z6MkhaXgBZDvotDkL5257", ID: taskID(n)}
}

func message(id, role, text string) *a2a.Message {
	return &a2a.Message{ID: id, Role: a2a.Role(role), Parts: []a2a.Part{a2a.TextPart{Text: text}}}
}

const loremIpsum = "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore " +
	"et dolore magna aliqua. Ut enim ad minim veniam, quis nostrud exercitation ullamco laboris nisi ut aliquip. "

// submitted returns the change that creates task n and leases it to testWorker.
func submitted(n int) store.Change {
	at := testTime.Add(time.Duration(n) * time.Second / 6000)
	return store.Change{
		Key: taskKey(n), Create: &store.Create{ContextID: "c" + taskID(n)},
		Events: []store.Event{
			{Time: at, State: a2a.StateSubmitted, Received: message("m1", "user", loremIpsum)},
			{Time: at, State: a2a.StateWorking},
		},
		Queue: &store.QueueEntry{
			Phase: store.PhaseLeased, Turn: 1, Attempt: 1, SeenSeq: 1,
			Lease: store.Lease{Worker: testWorker, Fence: 1, Until: at.Add(30 * time.Second)},
		},
	}
}

// completed returns the change that completes a task created by c.
func completed(c store.Change) store.Change {
	at := c.Events[0].Time.Add(5 * time.Millisecond)
	done := store.Change{
		Key: c.Key, Lease: &store.HeldLease{Key: c.Key, Worker: testWorker, Fence: 1},
		Events: []store.Event{
			{Time: at, State: a2a.StateWorking, LastChunk: true, Artifact: &a2a.Artifact{
				ID: "a1", Name: "summary", Parts: []a2a.Part{a2a.TextPart{Text: loremIpsum + loremIpsum}},
			}},
			{Time: at, State: a2a.StateCompleted, Message: message("m2", "agent", "Here is the summary.")},
		},
		Queue: &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1, Attempt: 1, SeenSeq: 1, Lease: store.Lease{Worker: testWorker, Fence: 1}},
	}
	done.Snapshot = foldChanges(c, done)
	return done
}

// ints returns the integers of the first row of a query on a reader.
func ints(t testing.TB, s *Store, text string) (row []int64) {
	t.Helper()
	must(t, s.withReader(bg, func(r *reader) (err error) {
		row, err = r.ints(text)
		return err
	}))
	return row
}

// foldChanges returns the task that results from changes.
func foldChanges(changes ...store.Change) *store.Task {
	t := &store.Task{Key: changes[0].Key, ContextID: changes[0].Create.ContextID}
	for _, c := range changes {
		for _, e := range c.Events {
			e.Seq = t.Seq + 1
			t.Apply(e)
		}
		if c.Queue != nil {
			t.Queue = *c.Queue
		}
	}
	return t
}
