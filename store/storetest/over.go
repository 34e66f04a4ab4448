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

	stores sync.Map // by part
}

// Open opens the part of a fresh store, which the test closes. It skips a test if the store has no such part.
func (p *Parts[P, O]) Open(t T, o O) P { return p.over(t, p.Harness.Open(t), o) }

// Reopen closes the store of a part and opens its data again.
func (p *Parts[P, O]) Reopen(t T, part P, o O) P {
	return p.over(t, p.Harness.Reopen(t, p.Store(part)), o)
}

// Store returns the store of a part.
func (p *Parts[P, O]) Store(part P) store.Store {
	s, _ := p.stores.Load(part)
	return s.(store.Store)
}

func (p *Parts[P, O]) over(t T, s store.Store, o O) (part P) {
	t.Cleanup(func() { _ = s.Close() })
	if part = p.Of(t, s, o); part == *new(P) {
		t.Skipf("the store has no such part")
	}
	p.stores.Store(part, s)
	return part
}
