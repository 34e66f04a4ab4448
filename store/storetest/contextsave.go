package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var saveTests = []test{
	{"a saved context is read back", saveRead},
	{"every field can be replaced and cleared", saveFields},
	{"special characters in texts of a context are preserved", saveTexts},
	{"free-form maps of a context are read back as equal JSON", saveFreeForm},
	{"fields that a change of a context cannot set are ignored", saveIgnored},
	{"a change must name the current version of the context", saveVersion},
	{"a context is created once", saveOnce},
	{"a change moves UpdatedAt forward, never back", saveUpdatedAt},
	{"errors of a context change have an order of precedence", saveOrder},
	{"a malformed change of a context is an error", saveMalformed},
	{"a change of a context stores its idempotency key", saveKey},
	{"RequireFinished rejects a change while a task is unfinished", saveRequireFinished},
	{"RequireFinished ignores tasks of other contexts and owners", saveTasksElsewhere},
}

func saveRead(f *fixture) {
	f.wantNoContext(owner, "c1")
	want := fullContext(owner, "c1", 5)
	want.UpdatedAt, want.Version = at(7), 1
	f.equal("SaveContext()", f.saveContext(store.ContextChange{Context: want, Create: true}), want)
	f.equal("Context()", f.context(owner, "c1"), want)
	f.equal("Contexts()", f.contexts(store.ContextQuery{Owner: owner}), store.ContextPage{Contexts: []store.Context{want}, Total: 1})
	f.wantNoContext(otherOwner, "c1")

	f.commit(newTask(key("t1"), "c1", at(9)))
	want.UpdatedAt, want.TaskCount, want.TaskIDs = at(9), 1, []string{"t1"}
	f.equal("Context() with a task", f.context(owner, "c1"), want)

	bare := store.Context{Key: store.ContextKey{Owner: owner, ID: "bare"}, Role: "r", Status: a2a.ContextPaused, CreatedAt: at(1), UpdatedAt: at(1)}
	got := f.saveContext(store.ContextChange{Context: bare, Create: true})
	bare.Version = 1
	f.equal("SaveContext() with required fields only", got, bare)
	f.equal("Context()", f.context(owner, "bare"), bare)
}

// fieldValues are changes of one field each.
var fieldValues = map[string]func(*store.Context){
	"a name":               func(c *store.Context) { c.Name = "Ünïcödé 🦀" },
	"no name":              func(c *store.Context) { c.Name = "" },
	"a description":        func(c *store.Context) { c.Description = "other" },
	"no description":       func(c *store.Context) { c.Description = "" },
	"a role":               func(c *store.Context) { c.Role = "rôle of its own" },
	"paused":               func(c *store.Context) { c.Status = a2a.ContextPaused },
	"completed":            func(c *store.Context) { c.Status = a2a.ContextCompleted },
	"archived":             func(c *store.Context) { c.Status = a2a.ContextArchived },
	"an unknown status":    func(c *store.Context) { c.Status = "unknown-status" },
	"other tags":           func(c *store.Context) { c.Tags = []string{"", "B", "b", "b c", "é"} },
	"no tags":              func(c *store.Context) { c.Tags = nil },
	"empty tags":           func(c *store.Context) { c.Tags = []string{} },
	"metadata":             func(c *store.Context) { c.Metadata = map[string]any{"n": nil, "l": []any{}, "m": map[string]any{}} },
	"no metadata":          func(c *store.Context) { c.Metadata = nil },
	"empty metadata":       func(c *store.Context) { c.Metadata = map[string]any{} },
	"duplicate references": func(c *store.Context) { c.ReferenceIDs = []string{"z", "a", "z"} },
	"no references":        func(c *store.Context) { c.ReferenceIDs = nil },
	"extensions":           func(c *store.Context) { c.Extensions = map[string]any{"https://example.com/x": []any{true}} },
	"no extensions":        func(c *store.Context) { c.Extensions = nil },
	"a parent":             func(c *store.Context) { c.ParentID = "parent" },
	"a newer time":         func(c *store.Context) { c.UpdatedAt = at(9) },
	"no change":            func(*store.Context) {},
}

func saveFields(f *fixture) {
	f.saveContext(newContext("parent", 0))
	n := 0
	for label, set := range fieldValues {
		n++
		id := fmt.Sprint("c", n)
		full := f.saveContext(newContext(id, 1))
		want := full.Copy()
		set(&want)
		change := store.ContextChange{Context: want.Copy(), Version: 1}
		want.Version = 2
		f.equal("SaveContext() with "+label, f.saveContext(change), want)
		f.equal("Context() with "+label, f.context(owner, id), want)
		back := f.saveContext(store.ContextChange{Context: full, Version: 2})
		full.UpdatedAt, full.Version = want.UpdatedAt, 3
		f.equal("SaveContext() that reverts "+label, back, full)
		f.equal("Context() after reverting "+label, f.context(owner, id), full)

		made := fullContext(owner, "new "+id, 1)
		set(&made)
		f.saveContext(store.ContextChange{Context: made.Copy(), Create: true})
		made.Version = 1
		f.equal("Context() created with "+label, f.context(owner, made.Key.ID), made)
	}
}

func saveTexts(f *fixture) {
	want := make(map[string]store.Context)
	for i, text := range append(specialTexts, strings.Repeat("long", 5000)) {
		c := fullContext(owner, fmt.Sprint("c", i), i)
		c.Name, c.Description, c.Role = text, text, text+"r"
		c.Tags, c.ReferenceIDs = []string{text}, []string{text, text}
		c.Metadata, c.Extensions = map[string]any{text: text}, map[string]any{text: []any{text}}
		want[c.Key.ID] = f.saveContext(store.ContextChange{Context: c.Copy(), Create: true})
		c.Version = 1
		f.equal("SaveContext()", want[c.Key.ID], c)
		page := f.contexts(store.ContextQuery{Owner: owner, Tags: c.Tags, Role: c.Role})
		f.equal("Contexts() by tag and role", contextIDs(page.Contexts), []string{c.Key.ID})
	}
	for _, c := range f.contexts(store.ContextQuery{Owner: owner}).Contexts {
		f.equal("Contexts()", c, want[c.Key.ID])
		f.equal("Context()", f.context(owner, c.Key.ID), want[c.Key.ID])
	}
}

func saveFreeForm(f *fixture) {
	deep := any("bottom")
	for range 20 {
		deep = map[string]any{"down": []any{deep, nil}}
	}
	for i, v := range []any{
		nil, true, "",
		map[string]any{},
		[]any{},
		[]any{[]any{}, nil},
		deep, 1.5, 7,
		map[string]any{"": "", "null": nil, "camelCase": 1.0, "snake_case": 2.0, "contextId": "x"},
		json.Number("9007199254740993"), json.Number("0.1234567890123456789012345"), json.Number("1e300"), json.Number("-123456789012345678901234567890"),
	} {
		c := fullContext(owner, fmt.Sprint("c", i), i)
		c.Metadata, c.Extensions = map[string]any{"v": v, "list": []any{v}}, map[string]any{"v": v}
		got := f.saveContext(store.ContextChange{Context: c.Copy(), Create: true})
		c.Version = 1
		f.equal(fmt.Sprintf("SaveContext() with %T %.60v", v, v), got, c)
		f.equal(fmt.Sprintf("Context() with %T %.60v", v, v), f.context(owner, c.Key.ID), c)
	}
}

func saveIgnored(f *fixture) {
	c := fullContext(owner, "c1", 5)
	c.Version, c.TaskCount, c.TaskIDs = 77, 9, []string{"x"}
	want := fullContext(owner, "c1", 5)
	want.Version = 1
	f.equal("SaveContext()", f.saveContext(store.ContextChange{Context: c, Create: true}), want)
	f.equal("Context()", f.context(owner, "c1"), want)

	f.commit(newTask(key("t1"), "c1", at(6)))
	c.CreatedAt, c.UpdatedAt = at(99), at(8)
	got := f.saveContext(store.ContextChange{Context: c, Version: 1})
	want.UpdatedAt, want.Version, want.TaskCount = at(8), 2, 1
	f.equal("SaveContext()", got, want)
	want.TaskIDs = []string{"t1"}
	f.equal("Context()", f.context(owner, "c1"), want)
}

func saveVersion(f *fixture) {
	f.saveContext(newContext("c1", 0))
	for version := range int64(4) {
		for _, wrong := range []int64{version, version + 2, 1 << 60} {
			if wrong > 0 {
				f.wantSaveRejected(store.ErrConflict, store.ContextChange{Context: fullContext(owner, "c1", 50), Version: wrong})
			}
		}
		got := f.saveContext(store.ContextChange{Context: fullContext(owner, "c1", 9), Version: version + 1})
		suite.Equal(f, got.Version, version+2, "version of SaveContext() of version %d", version+1)
	}
	f.wantSaveRejected(store.ErrNotFound, store.ContextChange{Context: fullContext(owner, "none", 1), Version: 1})

	// A context that was created with a task has a version too.
	f.commit(newTask(key("t1"), "c2", at(0)), newTask(key("t2"), "c2", at(1)))
	want := fullContext(owner, "c2", 0)
	want.UpdatedAt, want.Version, want.TaskCount, want.TaskIDs = at(3), 2, 2, []string{"t1", "t2"}
	f.saveContext(store.ContextChange{Context: want, Version: 1})
	f.equal("Context()", f.context(owner, "c2"), want)
}

func saveOnce(f *fixture) {
	f.saveContext(newContext("c1", 0))
	f.commit(newTask(key("t1"), "c2", at(0)))
	f.wantSaveRejected(store.ErrExists, newContext("c1", 9))
	f.wantSaveRejected(store.ErrExists, newContext("c2", 9))
	theirs := newContext("c1", 9)
	theirs.Context.Key.Owner = otherOwner
	f.saveContext(theirs)
}

func saveUpdatedAt(f *fixture) {
	c := f.saveContext(newContext("c1", 10))
	for _, step := range []struct{ ms, want int }{{20, 20}, {15, 20}, {0, 20}, {21, 21}} {
		c.UpdatedAt = at(step.ms)
		c = f.saveContext(store.ContextChange{Context: c, Version: c.Version})
		if !c.UpdatedAt.Equal(at(step.want)) || !c.CreatedAt.Equal(at(10)) {
			f.Errorf("SaveContext() at %d ms: UpdatedAt %v, CreatedAt %v, want UpdatedAt %v", step.ms, c.UpdatedAt, c.CreatedAt, at(step.want))
		}
	}
	f.create(key("t1"), at(0))
	f.commit(newTask(key("t2"), "c1", at(30)))
	c.UpdatedAt = at(25)
	if got := f.saveContext(store.ContextChange{Context: c, Version: c.Version}).UpdatedAt; !got.Equal(at(30)) {
		f.Errorf("SaveContext().UpdatedAt before the last message = %v, want %v", got, at(30))
	}
	f.commit(changeAt(key("t2"), 1, clientMessage(at(5), "m2")))
	if got := f.context(owner, "c1").UpdatedAt; !got.Equal(at(30)) {
		f.Errorf("Context().UpdatedAt = %v, want %v", got, at(30))
	}
}

func saveOrder(f *fixture) {
	f.commit(withKey(newTask(key("t1"), "busy", at(0)), "key", at(0)))
	change := func(id string, version int64, keyed bool) store.ContextChange {
		c := store.ContextChange{Context: fullContext(owner, id, 1), Version: version, Create: version == 0, RequireFinished: true}
		c.Context.ParentID = "no parent"
		if keyed {
			c = contextWithKey(c, "key", 1)
		}
		return c
	}
	for _, test := range []struct {
		want    error
		id      string
		version int64
	}{{store.ErrExists, "busy", 0}, {store.ErrNotFound, "none", 1}, {store.ErrConflict, "busy", 2}, {store.ErrBusy, "busy", 1}, {store.ErrParentNotFound, "new", 0}} {
		f.wantSaveRejected(test.want, change(test.id, test.version, false))
		f.wantSaveRejected(store.ErrDuplicate, change(test.id, test.version, true))
		rejected := change(test.id, test.version, false)
		f.wantSaveRejected(test.want, contextWithKey(rejected, "free key", 1))
	}
	own := change("busy", 1, false)
	own.Context.ParentID = "busy"
	f.wantSaveRejected(store.ErrBusy, own)
	if r := f.record(owner, "key"); r.TaskID != "t1" || r.Seq != 1 {
		f.Errorf("Idempotency() = %+v, want the record of the task", r)
	}
}

func saveMalformed(f *fixture) {
	f.saveContext(newContext("c1", 0))
	for label, mutate := range map[string]func(*store.ContextChange){
		"no owner":            func(c *store.ContextChange) { c.Context.Key.Owner = "" },
		"no id":               func(c *store.ContextChange) { c.Context.Key.ID = "" },
		"create and version":  func(c *store.ContextChange) { c.Version = 1 },
		"no guard":            func(c *store.ContextChange) { c.Create = false },
		"a negative version":  func(c *store.ContextChange) { c.Create, c.Version = false, -1 },
		"no status":           func(c *store.ContextChange) { c.Context.Status = "" },
		"no role":             func(c *store.ContextChange) { c.Context.Role = "" },
		"unsorted tags":       func(c *store.ContextChange) { c.Context.Tags = []string{"b", "a"} },
		"duplicate tags":      func(c *store.ContextChange) { c.Context.Tags = []string{"a", "b", "b"} },
		"an existing context": func(c *store.ContextChange) { c.Context.Key.ID, c.Context.Role = "c1", "" },
	} {
		c := contextWithKey(newContext("new", 1), "key", 1)
		mutate(&c)
		got, err := f.trySaveContext(c)
		if err == nil {
			f.Errorf("SaveContext() with %s = %+v, want an error", label, got)
		}
		for _, rejection := range []error{store.ErrNotFound, store.ErrExists, store.ErrConflict, store.ErrDuplicate} {
			if errors.Is(err, rejection) {
				f.Errorf("SaveContext() with %s = %v, want another error", label, err)
			}
		}
		f.wantNoContext(owner, "new")
		f.wantNoRecord(owner, "key")
	}
}

func saveKey(f *fixture) {
	create := contextWithKey(newContext("c1", 0), "create", 1)
	create.Idempotency.Seq = 99
	f.saveContext(create)
	if create.Idempotency.Seq != 99 {
		f.Errorf("SaveContext() modified the record of its argument")
	}
	update := contextWithKey(store.ContextChange{Context: fullContext(owner, "c1", 5), Version: 1}, "update", 2)
	f.saveContext(update)
	for i, k := range []string{"create", "update"} {
		f.equal("Idempotency()", f.record(owner, k), store.IdempotencyRecord{
			Owner: owner, Key: k, Hash: [32]byte{3, 4, 254}, TaskID: "c1", Seq: int64(i + 1), CreatedAt: at(i + 1),
		})
	}
	// Contexts and tasks share the set of keys.
	f.wantSaveRejected(store.ErrDuplicate, create)
	f.wantSaveRejected(store.ErrDuplicate, update)
	f.wantSaveRejected(store.ErrDuplicate, contextWithKey(newContext("c2", 0), "create", 9))
	r := f.wantRejected(store.ErrDuplicate, withKey(newTask(key("t1"), "c3", at(0)), "update", at(9)))
	f.equal("Result.Record", *r.Record, f.record(owner, "update"))
	f.wantNoTask(key("t1"))
	f.wantNoContext(owner, "c3")
	theirs := contextWithKey(newContext("c1", 0), "create", 1)
	theirs.Context.Key.Owner, theirs.Idempotency.Owner = otherOwner, otherOwner
	f.saveContext(theirs)
	suite.Call(f.s.ExpireIdempotency(f.ctx, at(2), 10)).Want(f, 2, "ExpireIdempotency()")
	f.saveContext(contextWithKey(newContext("c2", 0), "create", 9))
}

func saveRequireFinished(f *fixture) {
	for i, s := range append(a2a.States(), "unknown-state") {
		id, k := fmt.Sprint("c", i), key(fmt.Sprint("t", i))
		f.commit(idleTask(k, id, 0, s), idleTask(key(k.ID+" over"), id, 1, a2a.StateCompleted))
		change := withStatus(f.context(owner, id), a2a.ContextArchived)
		change.RequireFinished = true
		if !s.Terminal() {
			f.wantSaveRejected(store.ErrBusy, change)
			rename := change
			rename.RequireFinished, rename.Context.Status, rename.Context.Name = false, a2a.ContextActive, "renamed"
			f.saveContext(rename)
			f.commit(changeAt(k, 2, statusEvent(at(2), a2a.StateFailed)))
			change.Version = 2
		}
		suite.Equal(f, f.saveContext(change).Status, a2a.ContextArchived, "SaveContext() with RequireFinished and a task in state %s", s)
	}
}

func saveTasksElsewhere(f *fixture) {
	f.saveContext(newContext("c1", 0))
	f.commit(
		idleTask(key("t1"), "c1", 0, a2a.StateRejected),
		newTask(key("t2"), "c2", at(0)), newTask(key("c1"), "c11", at(0)), newTask(store.Key{Owner: otherOwner, ID: "t1"}, "c1", at(0)),
	)
	change := withStatus(f.context(owner, "c1"), a2a.ContextCompleted)
	change.RequireFinished = true
	f.saveContext(change)
	empty := newContext("empty", 0)
	empty.RequireFinished = true
	f.saveContext(empty)
}
