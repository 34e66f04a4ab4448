package storetest

import (
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// largeSize is well above what a store keeps in the rows of a log.
const largeSize = 80_000

// durableContent has stores keep the same large values in messages, artifacts and snapshots
// of two tasks, and removes one of these.
func durableContent(f *fixture, reopen func()) {
	k, twin := key("t1"), key("t2")
	large := strings.Repeat("large \"content\" \u001aM\\u001AM é\x00", largeSize/30)
	list := slices.Repeat([]any{large[:1000]}, largeSize/1000)
	log := func() []store.Event {
		artifact := store.Event{Time: at(2), State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a", Parts: []a2a.Part{
			a2a.DataPart{Data: map[string]any{"large": large, "list": list}},
			a2a.TextPart{Text: large, Metadata: map[string]any{"data": large}},
		}}}
		return []store.Event{
			received(at(0), large), status(at(1), a2a.StateWorking), artifact, artifact, artifact, artifact,
			said(at(3), a2a.StateWorking, "small"), said(at(4), a2a.StateWorking, large), chunk(at(5), "b", large, false), chunk(at(6), "b", large, true),
		}
	}()
	for task, run := range map[store.Key]*store.Run{k: queued(), twin: idle()} {
		c := withSnapshot(store.Change{
			Key: task, Create: &store.Create{ContextID: "in " + task.ID}, Events: log[:1], Run: run, Push: []store.NewPush{{ID: "p", Endpoint: "https://a"}},
		}, &store.Task{Key: task, ContextID: "in " + task.ID})
		for i := range log {
			r := f.results(c)[0]
			if r.Err != nil {
				f.Fatalf("Commit() of event %d = %v, want it applied", i+1, r.Err)
			}
			now := c.Snapshot.Clone()
			if now.LogSize = r.LogSize; i+1 < len(log) {
				c = withSnapshot(next(task, int64(i+1), log[i+1]), now)
			}
		}
	}
	f.remove("in t2", 1, 9)

	reopen()
	want := fold(k, "in t1", *queued(), log...)
	f.equal("Task()", f.task(k), want)
	f.equal("Events()", f.events(k), numbered(log))
	some := store.TaskOptions{OmitArtifacts: true}
	few := want.Clone()
	few.Cut(some)
	f.equal("Task() without artifacts", f.taskWith(k, some), few)
	f.equal("Tasks()", f.list(store.Query{Owner: owner, Limit: 9}).Tasks, []*store.Task{want})
	f.equal("Tasks() without artifacts", f.list(store.Query{Owner: owner, Limit: 9, Options: some}).Tasks, []*store.Task{few})
	p := laneClaim(worker, 10, 1)
	p.Events = len(log)
	read := func() []store.Event {
		lanes := f.claimLanes(p)
		if len(lanes) != 1 {
			f.Fatalf("ClaimLanes() = %d lanes, want one", len(lanes))
		}
		return lanes[0].Events
	}
	f.equal("ClaimLanes()", read(), numbered(log))
	p.Worker, p.Takeover, p.Bytes = rival, true, 10
	f.equal("ClaimLanes() of little", len(read()), 0)
	claimed := f.claim(claimAt(worker, at(20), 1))
	want = fold(k, "in t1", *leased(worker, at(20).Add(60e9)), append(log[:len(log):len(log)], status(at(20), a2a.StateWorking))...)
	f.equal("Claim()", claimed, []*store.Task{want})
	f.create(twin, at(30))
	f.equal("Task() with the id of one that was removed", f.task(twin), fold(twin, "context", *queued(), received(at(30), "m1")))
}
