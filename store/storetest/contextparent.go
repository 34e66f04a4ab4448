package storetest

import (
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func parentTests() []test {
	return []test{
		{"a parent has to be there and the owner's", parentAbsent},
		{"parents form no cycle", parentCycle},
		{"a parent that begins again can close no cycle", parentBornAgain},
		{"contexts nest as deep as they may", parentDepth},
		{"a cycle is told before a depth", parentDeepCycle},
		{"a chain that grows at its top closes no cycle", parentOnTop},
		{"a parent may be closed and may be deleted", parentGone},
	}
}

// nested creates a context within another, "" for none.
func (f *fixture) nested(id, parent string) store.Context {
	f.Helper()
	c := newContext(id, 0)
	c.Context.ParentID = parent
	return f.saved(c)
}

// chain creates contexts, each within the one before.
func (f *fixture) chain(prefix string, n int) {
	f.Helper()
	parent := ""
	for _, id := range sequence(prefix, n) {
		f.nested(id, parent)
		parent = id
	}
}

func parentAbsent(f *fixture) {
	theirs := newContext("theirs", 0)
	theirs.Context.Key.Owner = other
	f.saved(theirs)
	f.commit(newTask(key("task"), "born", at(0)))
	c1 := f.saved(newContext("c1", 0))
	for _, parent := range []string{"none", "theirs", "task", "C1", " "} {
		created := newContext("c2", 0)
		created.Context.ParentID = parent
		f.unsaved(store.ErrParentNotFound, idempotentContext(created, "key", 1))
		f.unsaved(store.ErrParentNotFound, idempotentContext(within(c1, parent), "key", 1))
	}
	c1 = f.saved(within(c1, "born"))
	if got := f.context(owner, "c1").ParentID; got != "born" {
		f.Errorf("Context().ParentID = %q, want %q", got, "born")
	}
	f.saved(within(c1, ""))
}

func parentCycle(f *fixture) {
	a := f.nested("a", "")
	f.unsaved(store.ErrParentCycle, within(a, "a"))
	b := f.nested("b", "a")
	f.unsaved(store.ErrParentCycle, within(a, "b"))
	c := f.nested("c", "b")
	f.unsaved(store.ErrParentCycle, idempotentContext(within(a, "c"), "key", 1))
	f.unsaved(store.ErrParentCycle, within(b, "c"))
	f.unsaved(store.ErrParentCycle, within(c, "c"))
	// Two below one are no cycle, and what was one is none once it is cut.
	f.nested("d", "a")
	f.saved(within(c, "d"))
	f.saved(within(b, ""))
	f.saved(within(a, "b"))

	own := newContext("new", 0)
	own.Context.ParentID = "new"
	if got, err := f.save(own); !errors.Is(err, store.ErrParentCycle) && !errors.Is(err, store.ErrParentNotFound) {
		f.Errorf("SaveContext() of a new context within itself = %+v, %v, want it refused for its parent", got, err)
	}
	f.noContext(owner, "new")
}

func parentBornAgain(f *fixture) {
	f.nested("p", "")
	f.nested("a", "p")
	f.nested("b", "a")
	f.remove("p", 0, 1)
	if got := f.context(owner, "a").ParentID; got != "p" {
		f.Errorf("Context().ParentID after the parent was deleted = %q, want %q", got, "p")
	}
	p := newContext("p", 9)
	p.Context.ParentID = "b"
	f.unsaved(store.ErrParentCycle, p)
	f.commit(newTask(key("t1"), "p", at(9)))
	f.unsaved(store.ErrParentCycle, within(f.context(owner, "p"), "a"))
	f.nested("c", "b")
}

func parentDepth(f *fixture) {
	f.chain("c", store.MaxContextDepth+1) // the last has as many ancestors as it may
	deepest := fmt.Sprint("c", store.MaxContextDepth)
	below := newContext("below", 0)
	below.Context.ParentID = deepest
	f.unsaved(store.ErrParentDepth, idempotentContext(below, "key", 1))
	loose := f.nested("loose", "")
	f.unsaved(store.ErrParentDepth, within(loose, deepest))
	loose = f.saved(within(loose, fmt.Sprint("c", store.MaxContextDepth-1)))
	f.saved(within(loose, "c0"))
}

func parentDeepCycle(f *fixture) {
	f.chain("c", store.MaxContextDepth+1)
	f.unsaved(store.ErrParentCycle, within(f.context(owner, "c0"), fmt.Sprint("c", store.MaxContextDepth)))
}

// parentOnTop grows a chain at its top, where nobody has too many ancestors.
func parentOnTop(f *fixture) {
	const n = 3 * store.MaxContextDepth
	f.nested("c0", "")
	for i := range n {
		top := fmt.Sprint("c", i+1)
		f.nested(top, "")
		f.saved(within(f.context(owner, fmt.Sprint("c", i)), top))
	}
	below := newContext("below", 0)
	below.Context.ParentID = "c0"
	f.unsaved(store.ErrParentDepth, below)
	f.unsaved(store.ErrParentDepth, within(f.context(owner, fmt.Sprint("c", n)), "c0")) // a cycle too long to be walked
}

func parentGone(f *fixture) {
	for _, s := range []a2a.ContextStatus{a2a.ContextPaused, a2a.ContextCompleted, a2a.ContextArchived} {
		f.saved(as(f.nested(string(s), ""), s))
		f.nested("below "+string(s), string(s))
	}
	f.nested("p", "paused")
	a := f.nested("a", "p")
	f.remove("p", 0, 1)
	f.equal("Context()", f.context(owner, "a"), a)
	a.Name = "renamed" // the parent stays as it is, which is no question any more
	a = f.saved(store.ContextChange{Context: a, Version: a.Version})
	f.unsaved(store.ErrParentNotFound, within(a, "paused too"))
	f.saved(within(a, ""))
}
