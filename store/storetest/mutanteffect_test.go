package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// effectMutants are the ways to break the effects of a store.
var effectMutants = map[string]func(s *inmem.Store, c *store.Change) (after func()){
	"loses effects": func(_ *inmem.Store, c *store.Change) func() { c.Effects = nil; return nil },
	"loses the last effect": func(_ *inmem.Store, c *store.Change) func() {
		c.Effects = c.Effects[:max(0, len(c.Effects)-1)]
		return nil
	},
	"applies effects twice": func(_ *inmem.Store, c *store.Change) func() { c.Effects = append(c.Effects, c.Effects...); return nil },
	"applies effects of rejected changes": func(s *inmem.Store, c *store.Change) func() {
		e := c.Effects
		c.Effects = nil
		return func() { _, _ = s.Commit(context.Background(), effectsOnly(e)) }
	},
	"applies effects separately": func(s *inmem.Store, c *store.Change) func() {
		for _, e := range c.Effects {
			_, _ = s.Commit(context.Background(), effectsOnly([]store.Effect{e}))
		}
		c.Effects = nil
		return nil
	},
	"reverses effects": func(_ *inmem.Store, c *store.Change) func() {
		var reversed []store.Effect
		for _, e := range c.Effects {
			reversed = append([]store.Effect{e}, reversed...)
		}
		c.Effects = reversed
		return nil
	},
}

// effectsOnly returns a change of an unrelated task with effects.
func effectsOnly(effects []store.Effect) store.Change {
	c := newTask(store.Key{Owner: "unrelated", ID: fmt.Sprint(effectTasks.Add(1))}, "c", at(0))
	c.Effects = effects
	return c
}

var effectTasks atomic.Int64

// effectMutant is a store that changes the effects of a change.
type effectMutant struct {
	*inmem.Store
	mutate func(s *inmem.Store, c *store.Change) (after func())
}

func (m *effectMutant) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	changes = append([]store.Change(nil), changes...)
	var after []func()
	for i := range changes {
		if f := m.mutate(m.Store, &changes[i]); f != nil {
			after = append(after, f)
		}
	}
	defer func() {
		for _, f := range after {
			f()
		}
	}()
	return m.Store.Commit(ctx, changes...)
}

func TestSuiteCatchesBrokenEffects(t *testing.T) {
	suite.Mutants(t, effectMutants, func(t T, mutate func(s *inmem.Store, c *store.Change) (after func())) {
		h := Harness{Open: func(T) store.Store { return &effectMutant{inmem.New(), mutate} }}
		for _, test := range effectTests {
			if test.name != "concurrent changes with effects lose and repeat nothing" {
				t.Run(test.name, func(t T) { test.run(newFixture(t, h)) })
			}
		}
	})
}
