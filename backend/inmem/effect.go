package inmem

import (
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

// effectTx is the transaction of the effects of a change. Effects change the data at once, under the
// lock of the database.
type effectTx struct {
	db *database
	// undo are the functions that undo the effects, in their order.
	undo   []func()
	locked []sync.Locker
}

// lock locks data that has a lock of its own until all effects are applied or undone.
func (t *effectTx) lock(mu sync.Locker) {
	if !slices.Contains(t.locked, mu) {
		mu.Lock()
		t.locked = append(t.locked, mu)
	}
}

// effect implements store.Effect.
type effect struct {
	db *database
	// lock is the lock of the data, nil if the lock of the database guards the data.
	lock sync.Locker
	// apply applies the effect and returns how to undo it. It returns an error if it has changed
	// nothing.
	apply func() (undo func(), err error)
}

// Apply implements store.Effect.
func (e *effect) Apply(tx any) error {
	t, ok := tx.(*effectTx)
	if !ok || t.db != e.db {
		return store.ErrForeignEffect
	}
	if e.lock != nil {
		t.lock(e.lock)
	}
	undo, err := e.apply()
	if err == nil {
		t.undo = append(t.undo, undo)
	}
	return err
}

// applyEffects applies all effects of a change or none.
func (s *taskStore) applyEffects(c *store.Change) error {
	if len(c.Effects) == 0 {
		return nil
	}
	tx := &effectTx{db: s.database}
	err := c.ApplyEffects(tx)
	if err != nil {
		for _, undo := range slices.Backward(tx.undo) {
			undo()
		}
	}
	for _, mu := range tx.locked {
		mu.Unlock()
	}
	return err
}
