package storetest

import (
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// largeSize is larger than the values that stores keep in the rows of a log.
const largeSize = 80_000

// largeContent stores the same large values in messages, artifacts and snapshots of two tasks,
// and removes one of the tasks.
func largeContent(f *fixture, reopen func()) {
	k, second := key("t1"), key("t2")
	large := strings.Repeat("large \"content\" \u001aM\\u001AM é\x00", largeSize/30)
	list := slices.Repeat([]any{large[:1000]}, largeSize/1000)
	log := func() []store.Event {
		artifact := store.Event{Time: at(2), State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a", Parts: []a2a.Part{
			a2a.DataPart{Data: map[string]any{"large": large, "list": list}},
			a2a.TextPart{Text: large, Metadata: map[string]any{"data": large}},
		}}}
		return []store.Event{
			clientMessage(at(0), large), statusEvent(at(1), a2a.StateWorking), artifact, artifact, artifact, artifact,
			agentMessage(at(3), a2a.StateWorking, "small"), agentMessage(at(4), a2a.StateWorking, large), chunkEvent(at(5), "b", large, false), chunkEvent(at(6), "b", large, true),
		}
	}()
	for task, run := range map[store.Key]*store.QueueEntry{k: queued(), second: idle()} {
		c := withSnapshot(store.Change{
			Key: task, Create: &store.Create{ContextID: "in " + task.ID}, Events: log[:1], Queue: run, Webhooks: []store.NewWebhook{{ID: "p", Endpoint: "https://a"}},
		}, &store.Task{Key: task, ContextID: "in " + task.ID})
		for i := range log {
			r := f.commitResults(c)[0]
			if r.Err != nil {
				f.Fatalf("Commit() of event %d = %v, want nil", i+1, r.Err)
			}
			now := c.Snapshot.Clone()
			if now.LogSize = r.LogSize; i+1 < len(log) {
				c = withSnapshot(changeAt(task, int64(i+1), log[i+1]), now)
			}
		}
	}
	f.deleteContext("in t2", 1, 9)

	reopen()
	want := fold(k, "in t1", *queued(), log...)
	f.equal("Task()", f.task(k), want)
	f.equal("Events()", f.events(k), withSeqs(log))
	some := store.TaskOptions{OmitArtifacts: true}
	few := want.Clone()
	few.Cut(some)
	f.equal("Task() without artifacts", f.taskWith(k, some), few)
	f.equal("Tasks()", f.list(store.Query{Owner: owner, Limit: 9}).Tasks, []*store.Task{want})
	f.equal("Tasks() without artifacts", f.list(store.Query{Owner: owner, Limit: 9, Options: some}).Tasks, []*store.Task{few})
	p := laneClaim(worker, 10, 1)
	p.Events = len(log)
	read := func() []store.Event {
		lanes := suite.Len(f, f.claimLanes(p), 1, "ClaimLanes()")
		return lanes[0].Events
	}
	f.equal("ClaimLanes()", read(), withSeqs(log))
	p.Worker, p.Takeover, p.Bytes = otherWorker, true, 10
	f.equal("ClaimLanes() events with Bytes 10", len(read()), 0)
	claimed := f.claim(claimAt(worker, at(20), 1))
	want = fold(k, "in t1", *leased(worker, at(20).Add(60e9)), append(log[:len(log):len(log)], statusEvent(at(20), a2a.StateWorking))...)
	f.equal("Claim()", claimed, []*store.Task{want})
	f.create(second, at(30))
	f.equal("Task() with the id of a removed task", f.task(second), fold(second, "context", *queued(), clientMessage(at(30), "m1")))
}
