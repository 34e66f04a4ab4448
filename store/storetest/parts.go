package storetest

import (
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

// Suite is the suite of a contract over stores of tasks: it tests the parts of a backend.
type Suite struct {
	Name string
	Run  func(t T, h Harness)
}

// Parts opens parts of stores for the suite of a contract. O has the options of a part.
type Parts[P comparable, O any] struct {
	Harness
	// Of returns the part of a store, the zero P if it has none.
	Of func(t T, s store.Store, o O) P

	opened sync.Map // openedPart by part
}

type openedPart[O any] struct {
	store store.Store
	o     O
}

// Open opens the part of a fresh store, which the test closes. It skips the test if the store has no such part.
func (p *Parts[P, O]) Open(t T, o O) P { return p.of(t, p.Opened(t), o) }

// Reopen closes the store of a part and opens its data again.
func (p *Parts[P, O]) Reopen(t T, part P, o O) P { return p.of(t, p.Reopened(t, p.Store(part)), o) }

// ReopenSame is Reopen with the options of the part.
func (p *Parts[P, O]) ReopenSame(t T, part P) P { return p.Reopen(t, part, p.find(part).o) }

// Second returns another part with the store and the options of a part.
func (p *Parts[P, O]) Second(t T, part P) P { return p.of(t, p.Store(part), p.find(part).o) }

// With returns a part of the same store with other options.
func (p *Parts[P, O]) With(t T, part P, o O) P { return p.of(t, p.Store(part), o) }

// Store returns the store of a part.
func (p *Parts[P, O]) Store(part P) store.Store { return p.find(part).store }

func (p *Parts[P, O]) find(part P) openedPart[O] {
	found, _ := p.opened.Load(part)
	return found.(openedPart[O])
}

func (p *Parts[P, O]) of(t T, s store.Store, o O) (part P) {
	if part = p.Of(t, s, o); part == *new(P) {
		t.Skipf("the store has no such part")
	}
	p.opened.Store(part, openedPart[O]{s, o})
	return part
}
