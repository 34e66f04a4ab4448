package storetest

import (
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func aliasTests() []test {
	return []test{
		{"what the caller changes after a commit does not change the store", aliasIn},
		{"what a read handed out may be changed", aliasOut},
		{"what a claim handed out may be changed", aliasClaim},
		{"a record handed out may be changed", aliasRecord},
		{"feedback and steps may be changed", aliasFeedback},
		{"contexts handed in and out may be changed", aliasContext},
	}
}

// wrecked changes everything that can be reached from a task.
func wrecked(t *store.Task) {
	t.Seq, t.ContextID, t.Run.Phase = 99, "wrecked", "wrecked"
	wreckMessage(t.Status.Message)
	wreckMap(t.Metadata)
	for i := range t.History {
		wreckMessage(&t.History[i].Message)
		t.History[i] = store.Entry{}
	}
	for i := range t.Artifacts {
		wreckParts(t.Artifacts[i].Parts)
		wreckMap(t.Artifacts[i].Metadata)
		clear(t.Artifacts[i].Extensions)
		t.Artifacts[i].Name = "wrecked"
	}
	t.History = append(t.History, store.Entry{Seq: 9})
	t.Artifacts = append(t.Artifacts, a2a.Artifact{ID: "wrecked"})
	t.Apply(store.Event{Seq: 100, Time: at(99), State: a2a.StateFailed, Append: true, Artifact: &a2a.Artifact{ID: "text", Parts: []a2a.Part{a2a.TextPart{Text: "wrecked"}}}})
}

func wreckEvent(e *store.Event) {
	wreckMessage(e.Message)
	wreckMessage(e.Received)
	wreckMap(e.Metadata)
	if e.Artifact != nil {
		wreckParts(e.Artifact.Parts)
		wreckMap(e.Artifact.Metadata)
		clear(e.Artifact.Extensions)
		e.Artifact.Name = "wrecked"
	}
	*e = store.Event{Seq: 99}
}

func wreckMessage(m *a2a.Message) {
	if m == nil {
		return
	}
	wreckParts(m.Parts)
	wreckMap(m.Metadata)
	clear(m.ReferenceTaskIDs)
	clear(m.Extensions)
	m.ID, m.Role = "wrecked", "wrecked"
}

func wreckParts(parts []a2a.Part) {
	for i, p := range parts {
		switch p := p.(type) {
		case a2a.TextPart:
			wreckMap(p.Metadata)
		case a2a.DataPart:
			wreckMap(p.Metadata)
			wreckValue(p.Data)
		case a2a.FilePart:
			wreckMap(p.Metadata)
			if file, ok := p.File.(a2a.FileWithBytes); ok {
				clear(file.Bytes)
			}
		}
		parts[i] = a2a.TextPart{Text: "wrecked"}
	}
}

func wreckMap(m map[string]any) {
	for k, v := range m {
		wreckValue(v)
		m[k] = "wrecked"
	}
	if m != nil {
		m["wrecked"] = "wrecked"
	}
}

func wreckValue(v any) {
	switch v := v.(type) {
	case map[string]any:
		wreckMap(v)
	case []any:
		for i := range v {
			wreckValue(v[i])
			v[i] = "wrecked"
		}
	}
}

// aliasIn changes all that Commit and Claim were given except what the contract
// lets a store keep: messages, artifacts and snapshots.
func aliasIn(f *fixture) {
	k := key("t1")
	metadata := func() map[string]any { return map[string]any{"a": map[string]any{"b": []any{"c"}}} }
	c := idempotent(newTask(k, "c1", at(0)), "key", at(0))
	c.Events[0].Metadata = metadata()
	kept := step(1, "step", "result")
	kept.Artifacts = []byte("artifacts")
	c.Steps = []store.Step{{Turn: 1, Name: "step", Result: []byte("result"), Artifacts: []byte("artifacts")}}
	f.commit(c)
	c.Events[0].State, c.Events[0].Received, c.Events[0].Time = "wrecked", nil, at(99)
	wreckMap(c.Events[0].Metadata)
	c.Run.Phase, c.Run.Turn = store.PhaseIdle, 99
	c.Create.ContextID = "wrecked"
	copy(c.Steps[0].Result, "wrecked")
	copy(c.Steps[0].Artifacts, "wrecked")
	c.Steps[0].Name = "wrecked"
	c.Idempotency.TaskID, c.Idempotency.Hash = "wrecked", [32]byte{}

	claim := claimAt(worker, at(1), 1)
	claim.Event.Metadata = metadata()
	claim.Event.Message = message(a2a.RoleAgent, "m2", "hello")
	f.claim(claim)
	wreckMap(claim.Event.Metadata)
	wreckMessage(claim.Event.Message)
	lease := &store.HeldLease{Key: k, Worker: worker, Fence: 1}
	f.commit(store.Change{Key: k, Lease: lease, Events: []store.Event{status(at(2), a2a.StateWorking)}})
	lease.Fence = 99

	created, claimed := received(at(0), "m1"), status(at(1), a2a.StateWorking)
	claimed.Message = message(a2a.RoleAgent, "m2", "hello")
	created.Metadata, claimed.Metadata = metadata(), metadata()
	log := []store.Event{created, claimed, status(at(2), a2a.StateWorking)}
	f.equal("Task()", f.task(k), fold(k, "c1", *leased(worker, claim.Until), log...))
	f.equal("Events()", f.events(k), numbered(log))
	f.equal("Steps()", f.steps(k, 1), []store.Step{kept})
	if r := f.record(owner, "key"); r.TaskID != "t1" || r.Hash != [32]byte{1, 2, 255} {
		f.Errorf("Idempotency() = %+v, want what was committed", r)
	}
}

func aliasOut(f *fixture) {
	k := key("t1")
	f.commit(store.Change{Key: k, Create: &store.Create{ContextID: "c1"}, Events: story(), Run: queued()})
	want := fold(k, "c1", *queued(), story()...)
	check := func() {
		f.Helper()
		f.equal("Task()", f.task(k), want)
		f.equal("Tasks()", f.list(store.Query{Owner: owner, Limit: 1}).Tasks, []*store.Task{want})
		f.equal("Events()", f.events(k), numbered(story()))
	}
	check()
	wrecked(f.task(k))
	wrecked(f.taskWith(k, store.TaskOptions{History: ptr(1)}))
	wrecked(f.taskWith(k, store.TaskOptions{OmitArtifacts: true}))
	check()
	for _, t := range f.list(store.Query{Owner: owner, Limit: 1}).Tasks {
		wrecked(t)
	}
	check()
	for i := range f.events(k) {
		log := f.events(k)
		wreckEvent(&log[i])
	}
	check()
	mine := f.task(k)
	later := chunk(at(20), "text", " and more", true)
	f.commit(next(k, mine.Seq, later))
	f.equal("Task() read before a change", mine, want)
	f.equal("Task()", f.task(k), fold(k, "c1", *queued(), append(story(), later)...))
}

func aliasClaim(f *fixture) {
	k := key("t1")
	f.commit(store.Change{Key: k, Create: &store.Create{ContextID: "c1"}, Events: story(), Run: queued()})
	for _, t := range f.claim(claimAt(worker, at(50), 1)) {
		wrecked(t)
	}
	log := append(story(), status(at(50), a2a.StateWorking))
	f.equal("Task()", f.task(k), fold(k, "c1", *leased(worker, at(60_050)), log...))
	f.equal("Events()", f.events(k), numbered(log))
}

func aliasRecord(f *fixture) {
	c := idempotent(newTask(key("t1"), "c1", at(0)), "key", at(0))
	f.commit(c)
	r := f.refused(store.ErrDuplicate, c).Record
	r.TaskID, r.Seq = "wrecked", 99
	if got := f.record(owner, "key"); got.TaskID != "t1" || got.Seq != 1 {
		f.Errorf("Idempotency() = %+v, want what was committed", got)
	}
}

// wreckedContext changes everything that can be reached from a context.
func wreckedContext(c store.Context) {
	for _, texts := range [][]string{c.Tags, c.ReferenceIDs, c.TaskIDs} {
		for i := range texts {
			texts[i] = "wrecked"
		}
	}
	wreckMap(c.Metadata)
	wreckMap(c.Extensions)
}

func aliasContext(f *fixture) {
	change := idempotentContext(newContext("c1", 0), "key", 0)
	want := change.Context.Copy()
	want.Version = 1
	made := f.saved(change)
	wreckedContext(change.Context)
	change.Idempotency.TaskID = "wrecked"
	f.equal("SaveContext() after its change was changed", made, want)
	wreckedContext(made)
	f.commit(newTask(key("t1"), "c1", at(0)))
	want.TaskCount, want.TaskIDs = 1, []string{"t1"}
	check := func() {
		f.Helper()
		f.equal("Context()", f.context(owner, "c1"), want)
		f.equal("Contexts()", f.contexts(store.ContextQuery{Owner: owner, Tasks: 9}).Contexts, []store.Context{want})
	}
	check()
	wreckedContext(f.context(owner, "c1"))
	check()
	wreckedContext(f.contexts(store.ContextQuery{Owner: owner, Tasks: 9}).Contexts[0])
	check()
	update := store.ContextChange{Context: described(owner, "c1", 0), Version: 1}
	wreckedContext(f.saved(update))
	wreckedContext(update.Context)
	want.Version = 2
	check()
	if got := f.record(owner, "key").TaskID; got != "c1" {
		f.Errorf("Idempotency().TaskID = %q, want c1", got)
	}
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
	f.feedback(in)
	wreckMap(in.Metadata)
	f.equal("Feedback()", f.feedbackOn(k), []store.Feedback{given()})
	out := f.feedbackOn(k)
	wreckMap(out[0].Metadata)
	out[0].Text = "wrecked"
	f.equal("Feedback()", f.feedbackOn(k), []store.Feedback{given()})
	steps := f.steps(k, 1)
	copy(steps[0].Result, "wrecked")
	copy(steps[0].Artifacts, "wrecked")
	steps[0].Name = "wrecked"
	f.equal("Steps()", f.steps(k, 1), []store.Step{{Turn: 1, Name: "step", Result: []byte("result"), Artifacts: []byte("artifacts")}})
}
