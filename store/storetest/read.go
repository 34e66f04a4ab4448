package storetest

import (
	"fmt"
	"math"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var readTests = []test{
	{"an absent task is not found", readAbsent},
	{"a read can be limited to the newest messages", readHistory},
	{"a read can omit artifacts and content", readWithoutArtifacts},
	{"a log is read in pages", readEvents},
	{"a read after the end of a log is empty", readEventsPastEnd},
	{"log rows report the size of their events", readLogRows},
	{"Versions returns the tasks that exist", readVersions},
}

var foldTests = []test{
	{"a task equals its log applied in order, at every version", foldEveryVersion},
	{"streamed text chunks are joined to one part", foldChunks},
	{"chunks of many changes are joined", foldManyChunks},
	{"a correct snapshot is used", snapshotCorrect},
	{"an incorrect snapshot is ignored", snapshotWrong},
	{"a snapshot that lacks a message is ignored", snapshotStale},
	{"a snapshot is not used after the next change", snapshotOutdated},
	{"a read of a long log is limited to about the size of the task", snapshotsBoundReads},
	{"large content is read back", func(f *fixture) { largeContent(f, func() {}) }},
}

func readAbsent(f *fixture) {
	f.wantNoTask(key("t1"))
	f.create(key("t1"), at(0))
	f.wantNoTask(key("T1"))
	f.wantNoTask(key("t1 "))
	f.wantNoTask(key("t"))
	f.wantNoTask(key("t1%"))
}

func readHistory(f *fixture) {
	k := key("t1")
	events := []store.Event{clientMessage(at(0), "m1"), agentMessage(at(1), a2a.StateWorking, "m2"), clientMessage(at(2), "m3"), agentMessage(at(3), a2a.StateInputRequired, "m4")}
	progress := agentMessage(at(4), a2a.StateWorking, "progress")
	progress.Progress = true
	events = append(events, progress)
	f.commit(store.Change{Key: k, Create: &store.Create{ContextID: "c1"}, Events: events, Queue: queued()})
	whole := fold(k, "c1", *queued(), events...)
	if len(whole.History) != 4 {
		f.Fatalf("expected task has %d messages, want 4", len(whole.History))
	}
	for _, n := range []int{0, 1, 3, 4, 5, 1000, math.MaxInt, -1} {
		want := whole.Clone()
		want.History = want.History[4-min(4, max(0, n)):]
		got := f.taskWith(k, store.TaskOptions{History: ptr(n)})
		f.equal(fmt.Sprintf("Task() with History %d", n), got, want)
		page := f.list(store.Query{Owner: owner, Limit: 1, Options: store.TaskOptions{History: ptr(n)}})
		f.equal(fmt.Sprintf("Tasks() with History %d", n), page.Tasks, []*store.Task{want})
	}
	f.equal("Task()", f.task(k), whole)
}

func readWithoutArtifacts(f *fixture) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	c.Events = append(c.Events, chunkEvent(at(1), "a1", "text", false), chunkEvent(at(2), "a2", "text", false))
	f.commit(c)
	want := fold(k, "c1", *c.Queue, c.Events...)
	f.equal("Task()", f.task(k), want)
	want.Artifacts = nil
	f.equal("Task() without artifacts", f.taskWith(k, store.TaskOptions{OmitArtifacts: true}), want)
	page := f.list(store.Query{Owner: owner, Limit: 1, Options: store.TaskOptions{OmitArtifacts: true, History: ptr(0)}})
	want.History = nil
	f.equal("Tasks() without artifacts", page.Tasks, []*store.Task{want})

	outline := store.TaskOptions{Outline: true}
	f.equal("Task() as an outline", f.taskWith(k, outline), want.AsOutline())
	page = f.list(store.Query{Owner: owner, Limit: 1, Options: outline})
	f.equal("Tasks() as outlines", page.Tasks, []*store.Task{want.AsOutline()})
	suite.Call(f.s.Task(f.ctx, key("none"), outline)).Fails(f, store.ErrNotFound, "Task() of an absent task as an outline")
}

func readEvents(f *fixture) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	for i := range 20 {
		c.Events = append(c.Events, agentMessage(at(i), a2a.StateWorking, fmt.Sprint("m", i)))
	}
	f.commit(c)
	log := withSeqs(c.Events)
	for _, page := range []struct{ after, limit, from, to int }{
		{0, 100, 0, 21}, {0, 21, 0, 21}, {0, 1, 0, 1}, {5, 4, 5, 9}, {20, 4, 20, 21}, {21, 4, 21, 21}, {-3, 2, 0, 2}, {3, 0, 3, 3},
	} {
		got := suite.Call(f.s.Events(f.ctx, k, int64(page.after), page.limit)).Must(f, "Events() after %d", page.after)
		f.equal(fmt.Sprintf("Events() after %d, at most %d", page.after, page.limit), got, log[page.from:page.to])
	}
}

func readEventsPastEnd(f *fixture) {
	f.create(key("t1"), at(0))
	for _, after := range []int64{1, 2, math.MaxInt64} {
		got, err := f.s.Events(f.ctx, key("t1"), after, 10)
		if err != nil || len(got) != 0 {
			f.Errorf("Events() after %d = %v, %v, want nothing", after, got, err)
		}
	}
}

func readLogRows(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	for i := range 3 {
		f.appendEvents(k, chunkEvent(at(1), "a", strings.Repeat("x", 1000), i > 0), chunkEvent(at(1), "a", strings.Repeat("y", 100_000), true))
	}
	events := f.events(k)
	for after := range int64(len(events)) + 1 {
		for _, limit := range []int{1, 2, 100} {
			rows, err := f.s.LogRows(f.ctx, k, after, limit)
			if err != nil || len(rows) > limit || (len(rows) == 0) != (after == int64(len(events))) {
				f.Fatalf("LogRows() after %d = %v, %v", after, rows, err)
			}
			next := after + 1
			for i, r := range rows {
				size := 0
				for _, e := range events[r.Seq-1 : r.Last()] {
					size += e.Size()
				}
				if r.Seq > next || i > 0 && r.Seq != next || r.Last() < next || r.Bytes < int64(size) || r.Bytes > int64(size)+10_000 {
					f.Errorf("LogRows() after %d = %+v at index %d, want a row that contains event %d, of about %d bytes", after, r, i, next, size)
				}
				next = r.Last() + 1
			}
			if limit == 100 && next != int64(len(events))+1 {
				f.Errorf("LogRows() after %d ends before event %d, want %d events", after, next, len(events))
			}
		}
	}
	for _, after := range []int64{-1, math.MinInt64, math.MaxInt64} {
		rows, err := f.s.LogRows(f.ctx, k, after, 1)
		if err != nil || (len(rows) > 0) != (after < 0) {
			f.Errorf("LogRows() after %d = %v, %v", after, rows, err)
		}
	}
	suite.Call(f.s.LogRows(f.ctx, key("absent"), 0, 1)).Fails(f, store.ErrNotFound, "LogRows() of no task")
}

func readVersions(f *fixture) {
	first, second, theirs := key("t1"), key("t2"), store.Key{Owner: otherOwner, ID: "t2"}
	keys := []store.Key{first, second, theirs, key("absent"), key("nul\x00nul"), key("\xff"), first}
	check := func(when string, exist ...store.Key) {
		f.Helper()
		want := make(map[store.Key]store.TaskVersion)
		for _, k := range exist {
			want[k] = f.task(k).Version()
		}
		got := suite.Call(f.s.Versions(f.ctx, keys)).Must(f, "Versions() %s", when)
		f.equal("Versions() "+when, got, want)
	}
	check("of an empty store")
	f.create(first, at(0))
	f.create(theirs, at(1))
	check("of two owners", first, theirs)
	f.create(second, at(2))
	f.claim(claimAt(worker, at(3), 2))
	check("after a claim", first, second, theirs)
	f.commit(changeUnder(first, worker, 1, statusEvent(at(4), a2a.StateWorking), chunkEvent(at(5), "a1", "text", false)))
	check("after a commit", first, second, theirs)
	done := changeUnder(first, worker, 1, statusEvent(at(6), a2a.StateCompleted))
	done.Queue = idle()
	f.commit(done)
	check("after the end", first, second, theirs)
	suite.Call(f.s.Versions(f.ctx, nil)).Empty(f, "Versions() of no task")
}

// sampleLog returns a log with every kind of event.
func sampleLog() []store.Event {
	progress := agentMessage(at(3), a2a.StateWorking, "progress")
	progress.Progress = true
	data := &a2a.Artifact{
		ID: "data", Name: "name", Description: "description", Extensions: []string{"urn:x"},
		Parts: []a2a.Part{
			a2a.DataPart{Data: map[string]any{"n": 1.5, "list": []any{"a", nil, true}}},
			a2a.FilePart{File: a2a.FileWithBytes{Name: "f", MimeType: "text/plain", Bytes: []byte{0, 1, 255}}},
			a2a.FilePart{File: a2a.FileWithURI{Name: "g", URI: "https://example.com/"}, Metadata: map[string]any{"k": "v"}},
			a2a.TextPart{Text: "text", Metadata: map[string]any{"lang": "en"}},
		},
		Metadata: map[string]any{"a": "1"},
	}
	more := &a2a.Artifact{
		ID: "data", Name: "new name", Parts: []a2a.Part{a2a.TextPart{Text: "more"}},
		Metadata: map[string]any{"a": "2", "b": map[string]any{"c": "d"}},
	}
	asked := agentMessage(at(9), a2a.StateInputRequired, "m2")
	asked.Message.ReferenceTaskIDs, asked.Message.Extensions = []string{"r"}, []string{"urn:y"}
	asked.Message.Metadata = map[string]any{"q": "?"}
	asked.Metadata = map[string]any{"k": "v", "over": "one"}
	again := clientMessage(at(10), "m3")
	again.Metadata, again.Sender = map[string]any{"over": "two"}, sender("name")
	last := chunkEvent(at(8), "text", "end", true)
	last.LastChunk = true
	return []store.Event{
		clientMessage(at(0), "m1"),
		statusEvent(at(1), a2a.StateWorking),
		progress,
		chunkEvent(at(4), "text", "one ", false),
		chunkEvent(at(5), "text", "two ", true),
		{Time: at(6), State: a2a.StateWorking, Artifact: data},
		{Time: at(7), State: a2a.StateWorking, Artifact: more, Append: true},
		last,
		asked,
		again,
		chunkEvent(at(11), "text", "replaced", false),
		agentMessage(at(12), a2a.StateCompleted, "m4"),
	}
}

func foldEveryVersion(f *fixture) {
	k := key("t1")
	log := sampleLog()
	for i := range log {
		if i == 0 {
			f.commit(store.Change{Key: k, Create: &store.Create{ContextID: "c1"}, Events: log[:1], Queue: queued()})
		} else {
			f.commit(changeAt(k, int64(i), log[i]))
		}
		got := f.task(k)
		f.equal(fmt.Sprintf("Task() at version %d", i+1), got, fold(k, "c1", *queued(), log[:i+1]...))
		f.equal(fmt.Sprintf("Task() at version %d and the fold of Events()", i+1), got, fold(k, "c1", *queued(), f.events(k)...))
	}
	together := key("t2")
	f.commit(store.Change{Key: together, Create: &store.Create{ContextID: "c1"}, Events: log, Queue: queued()})
	f.equal("Task() with its log in one change", f.task(together), fold(together, "c1", *queued(), log...))
}

func foldChunks(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	f.commit(changeAt(k, 1, chunkEvent(at(1), "a", "Hold ", false), chunkEvent(at(2), "a", "", true), chunkEvent(at(3), "a", "fa", true)))
	f.commit(changeAt(k, 4, chunkEvent(at(4), "a", "st", true)))
	got := f.task(k).Artifacts
	f.equal("Task().Artifacts", got, []a2a.Artifact{{ID: "a", Parts: []a2a.Part{a2a.TextPart{Text: "Hold fast"}}}})
	f.equal("number of Events()", len(f.events(k)), 5)
}

func foldManyChunks(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	n, text := f.h.Tasks, ""
	for i := range n {
		piece := fmt.Sprint(i, " ")
		text += piece
		f.commit(changeAt(k, int64(i+1), chunkEvent(at(i), "a", piece, i > 0)))
	}
	t := f.task(k)
	if t.Seq != int64(n+1) || len(t.Artifacts) != 1 || t.Artifacts[0].Text() != text {
		f.Errorf("Task() after %d chunks = version %d, %d artifacts, text equal: %t, want the text in 1 artifact",
			n, t.Seq, len(t.Artifacts), len(t.Artifacts) == 1 && t.Artifacts[0].Text() == text)
	}
}

// withSnapshot adds the task after the change, as its caller computes it.
func withSnapshot(c store.Change, before *store.Task) store.Change {
	t := before.Clone()
	for _, e := range c.Events {
		e.Seq = t.Seq + 1
		t.Apply(e)
	}
	if c.Queue != nil {
		t.Queue = *c.Queue
	}
	c.Snapshot = t
	return c
}

func snapshotCorrect(f *fixture) {
	k := key("t1")
	log := sampleLog()
	run := *leased(worker, at(1000))
	done := *idle()
	c := store.Change{Key: k, Create: &store.Create{ContextID: "c1"}, Events: log[:2], Queue: &run}
	c = withSnapshot(c, &store.Task{Key: k, ContextID: "c1"})
	f.commit(c)
	f.equal("Task()", f.task(k), fold(k, "c1", run, log[:2]...))
	rest := changeUnder(k, worker, 1, log[2:]...)
	rest.Queue = &done
	f.commit(withSnapshot(rest, c.Snapshot))
	want := fold(k, "c1", done, log...)
	f.equal("Task()", f.task(k), want)
	f.equal("Tasks()", f.list(store.Query{Owner: owner, Limit: 2}).Tasks, []*store.Task{want})
	f.equal("Events()", f.events(k), withSeqs(log))
}

// wrongSnapshot returns a snapshot that no read may return.
func wrongSnapshot(k store.Key, seq int64) *store.Task {
	t := fold(k, "wrong context", *idle(), agentMessage(at(99), a2a.StateFailed, "wrong"))
	t.Seq = seq
	return t
}

func snapshotWrong(f *fixture) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	c.Snapshot = wrongSnapshot(k, 2)
	f.commit(c)
	f.equal("Task()", f.task(k), fold(k, "c1", *queued(), c.Events...))
	log := c.Events
	for i, seq := range []int64{1, 3, 0, 77} {
		c = changeAt(k, int64(i+1), agentMessage(at(i+1), a2a.StateWorking, fmt.Sprint("m", i)))
		if seq == int64(i+2) {
			seq++
		}
		c.Snapshot = wrongSnapshot(k, seq)
		f.commit(c)
		log = append(log, c.Events...)
		want := fold(k, "c1", *queued(), log...)
		f.equal("Task()", f.task(k), want)
		f.equal("Tasks()", f.list(store.Query{Owner: owner, Limit: 2}).Tasks, []*store.Task{want})
	}
	claimed := f.claim(claimAt(worker, at(50), 1))
	log = append(log, statusEvent(at(50), a2a.StateWorking))
	f.equal("Claim()", claimed, []*store.Task{fold(k, "c1", *leased(worker, at(50).Add(60e9)), log...)})
}

func snapshotStale(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	seen := f.claim(claimAt(worker, at(1), 1))[0]
	f.commit(changeAt(k, 2, clientMessage(at(2), "m2")))
	f.commit(withSnapshot(changeUnder(k, worker, 1, agentMessage(at(3), a2a.StateWorking, "m3")), seen))
	want := fold(k, "context", seen.Queue, clientMessage(at(0), "m1"), statusEvent(at(1), a2a.StateWorking), clientMessage(at(2), "m2"), agentMessage(at(3), a2a.StateWorking, "m3"))
	f.equal("Task()", f.task(k), want)
}

func snapshotOutdated(f *fixture) {
	k := key("t1")
	c := withSnapshot(newTask(k, "c1", at(0)), &store.Task{Key: k, ContextID: "c1"})
	f.commit(c)
	later := []store.Event{agentMessage(at(1), a2a.StateWorking, "m2"), chunkEvent(at(2), "a", "text", false)}
	f.commit(changeAt(k, 1, later[0]))
	f.commit(changeAt(k, 2, later[1]))
	run := changeAt(k, 3)
	run.Queue = idle()
	f.commit(run)
	f.equal("Task()", f.task(k), fold(k, "c1", *idle(), append(c.Events, later...)...))
}

// snapshotsBoundReads writes a log that is much larger than the task.
func snapshotsBoundReads(f *fixture) {
	k := key("t1")
	c := withSnapshot(newTask(k, "c1", at(0)), &store.Task{Key: k, ContextID: "c1"})
	f.commit(c)
	task, log := c.Snapshot, c.Events
	for i := range max(f.h.Tasks, 200) {
		e := agentMessage(at(i+1), a2a.StateWorking, fmt.Sprint("m", i))
		e.Progress = true
		log = append(log, e)
		c = withSnapshot(changeAt(k, int64(i+1), e), task)
		task = c.Snapshot
		task.LogSize = f.commitResults(c)[0].LogSize
	}
	const most = 8 << 10
	got := f.task(k)
	f.equal("Task()", got, fold(k, "c1", *queued(), log...))
	f.equal("Task().LogSize", got.LogSize, task.LogSize)
	if got.LogSize > most {
		f.Errorf("Task() of %d events reads %d bytes, want at most %d", len(log), got.LogSize, most)
	}
	f.equal("Tasks()", f.list(store.Query{Owner: owner, Limit: 1}).Tasks, []*store.Task{got})
	f.equal("number of Events()", len(f.events(k)), len(log))
}
