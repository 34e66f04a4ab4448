package storetest

import (
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var parentTests = []test{
	{"a parent must exist and have the same owner", parentAbsent},
	{"a parent that would form a cycle is rejected", parentCycle},
	{"a recreated parent cannot form a cycle", parentRecreated},
	{"contexts nest up to MaxContextDepth", parentDepth},
	{"ErrParentCycle has precedence over ErrParentDepth", parentDeepCycle},
	{"a chain that grows at its root forms no cycle", parentChainGrowsAtRoot},
	{"a parent may be closed or deleted", parentClosedOrDeleted},
}

// createChild creates a context with a parent, or without one if parent is "".
func (f *fixture) createChild(id, parent string) store.Context {
	f.Helper()
	c := newContext(id, 0)
	c.Context.ParentID = parent
	return f.saveContext(c)
}

// createChain creates n contexts. The parent of each is the previous one.
func (f *fixture) createChain(prefix string, n int) {
	f.Helper()
	parent := ""
	for _, id := range sequence(prefix, n) {
		f.createChild(id, parent)
		parent = id
	}
}

func parentAbsent(f *fixture) {
	theirs := newContext("theirs", 0)
	theirs.Context.Key.Owner = otherOwner
	f.saveContext(theirs)
	f.commit(newTask(key("task"), "implicit", at(0)))
	c1 := f.saveContext(newContext("c1", 0))
	for _, parent := range []string{"none", "theirs", "task", "C1", " "} {
		created := newContext("c2", 0)
		created.Context.ParentID = parent
		f.wantSaveRejected(store.ErrParentNotFound, contextWithKey(created, "key", 1))
		f.wantSaveRejected(store.ErrParentNotFound, contextWithKey(withParent(c1, parent), "key", 1))
	}
	c1 = f.saveContext(withParent(c1, "implicit"))
	suite.Equal(f, f.context(owner, "c1").ParentID, "implicit", "Context().ParentID")
	f.saveContext(withParent(c1, ""))
}

func parentCycle(f *fixture) {
	a := f.createChild("a", "")
	f.wantSaveRejected(store.ErrParentCycle, withParent(a, "a"))
	b := f.createChild("b", "a")
	f.wantSaveRejected(store.ErrParentCycle, withParent(a, "b"))
	c := f.createChild("c", "b")
	f.wantSaveRejected(store.ErrParentCycle, contextWithKey(withParent(a, "c"), "key", 1))
	f.wantSaveRejected(store.ErrParentCycle, withParent(b, "c"))
	f.wantSaveRejected(store.ErrParentCycle, withParent(c, "c"))
	// Two children of one parent are no cycle, and removing a parent breaks a potential cycle.
	f.createChild("d", "a")
	f.saveContext(withParent(c, "d"))
	f.saveContext(withParent(b, ""))
	f.saveContext(withParent(a, "b"))

	own := newContext("new", 0)
	own.Context.ParentID = "new"
	if got, err := f.trySaveContext(own); !errors.Is(err, store.ErrParentCycle) && !errors.Is(err, store.ErrParentNotFound) {
		f.Errorf("SaveContext() of a new context with itself as parent = %+v, %v, want ErrParentCycle or ErrParentNotFound", got, err)
	}
	f.wantNoContext(owner, "new")
}

func parentRecreated(f *fixture) {
	f.createChild("p", "")
	f.createChild("a", "p")
	f.createChild("b", "a")
	f.deleteContext("p", 0, 1)
	suite.Equal(f, f.context(owner, "a").ParentID, "p", "Context().ParentID after the parent was deleted")
	p := newContext("p", 9)
	p.Context.ParentID = "b"
	f.wantSaveRejected(store.ErrParentCycle, p)
	f.commit(newTask(key("t1"), "p", at(9)))
	f.wantSaveRejected(store.ErrParentCycle, withParent(f.context(owner, "p"), "a"))
	f.createChild("c", "b")
}

func parentDepth(f *fixture) {
	f.createChain("c", store.MaxContextDepth+1) // the last one has MaxContextDepth ancestors
	deepest := fmt.Sprint("c", store.MaxContextDepth)
	below := newContext("below", 0)
	below.Context.ParentID = deepest
	f.wantSaveRejected(store.ErrParentDepth, contextWithKey(below, "key", 1))
	loose := f.createChild("loose", "")
	f.wantSaveRejected(store.ErrParentDepth, withParent(loose, deepest))
	loose = f.saveContext(withParent(loose, fmt.Sprint("c", store.MaxContextDepth-1)))
	f.saveContext(withParent(loose, "c0"))
}

func parentDeepCycle(f *fixture) {
	f.createChain("c", store.MaxContextDepth+1)
	f.wantSaveRejected(store.ErrParentCycle, withParent(f.context(owner, "c0"), fmt.Sprint("c", store.MaxContextDepth)))
}

// parentChainGrowsAtRoot adds parents to the root of a chain. No changed context ever has too
// many ancestors.
func parentChainGrowsAtRoot(f *fixture) {
	const n = 3 * store.MaxContextDepth
	f.createChild("c0", "")
	for i := range n {
		top := fmt.Sprint("c", i+1)
		f.createChild(top, "")
		f.saveContext(withParent(f.context(owner, fmt.Sprint("c", i)), top))
	}
	below := newContext("below", 0)
	below.Context.ParentID = "c0"
	f.wantSaveRejected(store.ErrParentDepth, below)
	f.wantSaveRejected(store.ErrParentDepth, withParent(f.context(owner, fmt.Sprint("c", n)), "c0")) // a cycle that is longer than the check
}

func parentClosedOrDeleted(f *fixture) {
	for _, s := range []a2a.ContextStatus{a2a.ContextPaused, a2a.ContextCompleted, a2a.ContextArchived} {
		f.saveContext(withStatus(f.createChild(string(s), ""), s))
		f.createChild("below "+string(s), string(s))
	}
	f.createChild("p", "paused")
	a := f.createChild("a", "p")
	f.deleteContext("p", 0, 1)
	f.equal("Context()", f.context(owner, "a"), a)
	a.Name = "renamed" // a parent that does not change is not checked
	a = f.saveContext(store.ContextChange{Context: a, Version: a.Version})
	f.wantSaveRejected(store.ErrParentNotFound, withParent(a, "paused too"))
	f.saveContext(withParent(a, ""))
}
