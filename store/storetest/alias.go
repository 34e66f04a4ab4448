package storetest

import (
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var aliasTests = []test{
	{"changing the arguments of a commit afterwards does not change the store", aliasArguments},
	{"callers may change the results of reads", aliasResults},
	{"callers may change the results of a claim", aliasClaim},
	{"callers may change a returned idempotency record", aliasRecord},
	{"callers may change feedback and steps", aliasFeedback},
	{"callers may change contexts that they pass and receive", aliasContext},
}

// modifyTask changes everything that is reachable from a task.
func modifyTask(t *store.Task) {
	t.Seq, t.ContextID, t.Queue.Phase = 99, "modified", "modified"
	modifyMessage(t.Status.Message)
	modifyPrincipal(t.Sender)
	modifyMap(t.Metadata)
	for i := range t.History {
		modifyMessage(&t.History[i].Message)
		t.History[i] = store.HistoryEntry{}
	}
	for i := range t.Artifacts {
		modifyParts(t.Artifacts[i].Parts)
		modifyMap(t.Artifacts[i].Metadata)
		clear(t.Artifacts[i].Extensions)
		t.Artifacts[i].Name = "modified"
	}
	t.History = append(t.History, store.HistoryEntry{Seq: 9})
	t.Artifacts = append(t.Artifacts, a2a.Artifact{ID: "modified"})
	t.Apply(store.Event{Seq: 100, Time: at(99), State: a2a.StateFailed, Append: true, Artifact: &a2a.Artifact{ID: "text", Parts: []a2a.Part{a2a.TextPart{Text: "modified"}}}})
}

func modifyEvent(e *store.Event) {
	modifyPrincipal(e.Sender)
	modifyMessage(e.Message)
	modifyMessage(e.Received)
	modifyMap(e.Metadata)
	if e.Artifact != nil {
		modifyParts(e.Artifact.Parts)
		modifyMap(e.Artifact.Metadata)
		clear(e.Artifact.Extensions)
		e.Artifact.Name = "modified"
	}
	*e = store.Event{Seq: 99}
}

func modifyPrincipal(p *a2a.Principal) {
	if p != nil {
		clear(p.Scopes)
		clear(p.Schemes)
		clear(p.Roles)
		clear(p.Permissions)
		p.ID, p.Level = "modified", "modified"
	}
}

func modifyMessage(m *a2a.Message) {
	if m == nil {
		return
	}
	modifyParts(m.Parts)
	modifyMap(m.Metadata)
	clear(m.ReferenceTaskIDs)
	clear(m.Extensions)
	m.ID, m.Role = "modified", "modified"
}

func modifyParts(parts []a2a.Part) {
	for i, p := range parts {
		switch p := p.(type) {
		case a2a.TextPart:
			modifyMap(p.Metadata)
		case a2a.DataPart:
			modifyMap(p.Metadata)
			modifyValue(p.Data)
		case a2a.FilePart:
			modifyMap(p.Metadata)
			if file, ok := p.File.(a2a.FileWithBytes); ok {
				clear(file.Bytes)
			}
		}
		parts[i] = a2a.TextPart{Text: "modified"}
	}
}

func modifyMap(m map[string]any) {
	for k, v := range m {
		modifyValue(v)
		m[k] = "modified"
	}
	if m != nil {
		m["modified"] = "modified"
	}
}

func modifyValue(v any) {
	switch v := v.(type) {
	case map[string]any:
		modifyMap(v)
	case []any:
		for i := range v {
			modifyValue(v[i])
			v[i] = "modified"
		}
	}
}

// aliasArguments modifies everything that was passed to Commit and Claim, except messages,
// artifacts and snapshots, which the contract lets a store retain.
func aliasArguments(f *fixture) {
	k := key("t1")
	metadata := func() map[string]any { return map[string]any{"a": map[string]any{"b": []any{"c"}}} }
	c := withKey(newTask(k, "c1", at(0)), "key", at(0))
	c.Events[0].Metadata = metadata()
	stored := step(1, "step", "result")
	stored.Artifacts = []byte("artifacts")
	c.Steps = []store.Step{{Turn: 1, Name: "step", Result: []byte("result"), Artifacts: []byte("artifacts")}}
	f.commit(c)
	c.Events[0].State, c.Events[0].Received, c.Events[0].Time = "modified", nil, at(99)
	modifyMap(c.Events[0].Metadata)
	c.Queue.Phase, c.Queue.Turn = store.PhaseIdle, 99
	c.Create.ContextID = "modified"
	copy(c.Steps[0].Result, "modified")
	copy(c.Steps[0].Artifacts, "modified")
	c.Steps[0].Name = "modified"
	c.Idempotency.TaskID, c.Idempotency.Hash = "modified", [32]byte{}

	claim := claimAt(worker, at(1), 1)
	claim.Event.Metadata = metadata()
	claim.Event.Message = message(a2a.RoleAgent, "m2", "hello")
	f.claim(claim)
	modifyMap(claim.Event.Metadata)
	modifyMessage(claim.Event.Message)
	lease := &store.HeldLease{Key: k, Worker: worker, Fence: 1}
	f.commit(store.Change{Key: k, Lease: lease, Events: []store.Event{statusEvent(at(2), a2a.StateWorking)}})
	lease.Fence = 99

	created, claimed := clientMessage(at(0), "m1"), statusEvent(at(1), a2a.StateWorking)
	claimed.Message = message(a2a.RoleAgent, "m2", "hello")
	created.Metadata, claimed.Metadata = metadata(), metadata()
	log := []store.Event{created, claimed, statusEvent(at(2), a2a.StateWorking)}
	f.equal("Task()", f.task(k), fold(k, "c1", *leased(worker, claim.Until), log...))
	f.equal("Events()", f.events(k), withSeqs(log))
	f.equal("Steps()", f.steps(k, 1), []store.Step{stored})
	if r := f.record(owner, "key"); r.TaskID != "t1" || r.Hash != [32]byte{1, 2, 255} {
		f.Errorf("Idempotency() = %+v, want the committed record", r)
	}
}

func aliasResults(f *fixture) {
	k := key("t1")
	f.commit(store.Change{Key: k, Create: &store.Create{ContextID: "c1"}, Events: sampleLog(), Queue: queued()})
	want := fold(k, "c1", *queued(), sampleLog()...)
	check := func() {
		f.Helper()
		f.equal("Task()", f.task(k), want)
		f.equal("Tasks()", f.list(store.Query{Owner: owner, Limit: 1}).Tasks, []*store.Task{want})
		f.equal("Events()", f.events(k), withSeqs(sampleLog()))
	}
	check()
	modifyTask(f.task(k))
	modifyTask(f.taskWith(k, store.TaskOptions{History: ptr(1)}))
	modifyTask(f.taskWith(k, store.TaskOptions{OmitArtifacts: true}))
	check()
	for _, t := range f.list(store.Query{Owner: owner, Limit: 1}).Tasks {
		modifyTask(t)
	}
	check()
	for i := range f.events(k) {
		log := f.events(k)
		modifyEvent(&log[i])
	}
	check()
	mine := f.task(k)
	later := chunkEvent(at(20), "text", " and more", true)
	f.commit(changeAt(k, mine.Seq, later))
	f.equal("Task() result from before the change", mine, want)
	f.equal("Task()", f.task(k), fold(k, "c1", *queued(), append(sampleLog(), later)...))
}

func aliasClaim(f *fixture) {
	k := key("t1")
	f.commit(store.Change{Key: k, Create: &store.Create{ContextID: "c1"}, Events: sampleLog(), Queue: queued()})
	for _, t := range f.claim(claimAt(worker, at(50), 1)) {
		modifyTask(t)
	}
	log := append(sampleLog(), statusEvent(at(50), a2a.StateWorking))
	f.equal("Task()", f.task(k), fold(k, "c1", *leased(worker, at(60_050)), log...))
	f.equal("Events()", f.events(k), withSeqs(log))
}

func aliasRecord(f *fixture) {
	c := withKey(newTask(key("t1"), "c1", at(0)), "key", at(0))
	f.commit(c)
	r := f.wantRejected(store.ErrDuplicate, c).Record
	r.TaskID, r.Seq = "modified", 99
	if got := f.record(owner, "key"); got.TaskID != "t1" || got.Seq != 1 {
		f.Errorf("Idempotency() = %+v, want the committed record", got)
	}
}

// modifyContext changes everything that is reachable from a context.
func modifyContext(c store.Context) {
	for _, texts := range [][]string{c.Tags, c.ReferenceIDs, c.TaskIDs} {
		for i := range texts {
			texts[i] = "modified"
		}
	}
	modifyMap(c.Metadata)
	modifyMap(c.Extensions)
}

func aliasContext(f *fixture) {
	change := contextWithKey(newContext("c1", 0), "key", 0)
	want := change.Context.Copy()
	want.Version = 1
	made := f.saveContext(change)
	modifyContext(change.Context)
	change.Idempotency.TaskID = "modified"
	f.equal("SaveContext() after its argument was modified", made, want)
	modifyContext(made)
	f.commit(newTask(key("t1"), "c1", at(0)))
	want.TaskCount, want.TaskIDs = 1, []string{"t1"}
	check := func() {
		f.Helper()
		f.equal("Context()", f.context(owner, "c1"), want)
		f.equal("Contexts()", f.contexts(store.ContextQuery{Owner: owner, MaxTaskIDs: 9}).Contexts, []store.Context{want})
	}
	check()
	modifyContext(f.context(owner, "c1"))
	check()
	modifyContext(f.contexts(store.ContextQuery{Owner: owner, MaxTaskIDs: 9}).Contexts[0])
	check()
	update := store.ContextChange{Context: fullContext(owner, "c1", 0), Version: 1}
	modifyContext(f.saveContext(update))
	modifyContext(update.Context)
	want.Version = 2
	check()
	suite.Equal(f, f.record(owner, "key").TaskID, "c1", "Idempotency().TaskID")
}

func aliasFeedback(f *fixture) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	c.Steps = []store.Step{{Turn: 1, Name: "step", Result: []byte("result"), Artifacts: []byte("artifacts")}}
	f.commit(c)
	given := func() store.Feedback {
		return store.Feedback{Key: k, ID: "f", Metadata: map[string]any{"a": map[string]any{"b": []any{"c"}}}, CreatedAt: at(1)}
	}
	in := given()
	f.addFeedback(in)
	modifyMap(in.Metadata)
	f.equal("Feedback()", f.feedbackOf(k), []store.Feedback{given()})
	out := f.feedbackOf(k)
	modifyMap(out[0].Metadata)
	out[0].Text = "modified"
	f.equal("Feedback()", f.feedbackOf(k), []store.Feedback{given()})
	steps := f.steps(k, 1)
	copy(steps[0].Result, "modified")
	copy(steps[0].Artifacts, "modified")
	steps[0].Name = "modified"
	f.equal("Steps()", f.steps(k, 1), []store.Step{{Turn: 1, Name: "step", Result: []byte("result"), Artifacts: []byte("artifacts")}})
}
