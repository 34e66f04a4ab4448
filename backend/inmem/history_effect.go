package inmem

import (
	"maps"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

// AppendEffect implements [history.Transactional].
func (h *historyStore) AppendEffect(k history.Key, p history.AppendParams) (store.Effect, error) {
	if err := historydriver.CheckAppend(k, &p); err != nil {
		return nil, err
	}
	p = historydriver.CopyAppend(p)
	return h.effect(k, func() error {
		_, err := h.append(k, &p, newHistoryMessages(&p))
		return err
	}), nil
}

// ClearEffect implements [history.Transactional].
func (h *historyStore) ClearEffect(k history.Key) (store.Effect, error) {
	if err := historydriver.CheckKey(k); err != nil {
		return nil, err
	}
	return h.effect(k, func() error {
		h.remove(h.sessions[k])
		return nil
	}), nil
}

// ClearRunEffect implements [history.Transactional].
func (h *historyStore) ClearRunEffect(k history.Key, run string, fence int64) (store.Effect, error) {
	if err := historydriver.CheckRun(k, run, fence); err != nil {
		return nil, err
	}
	return h.effect(k, func() error {
		_, err := h.clearRun(k, run, fence)
		return err
	}), nil
}

// effect returns an effect that calls f, which changes a session.
func (h *historyStore) effect(k history.Key, f func() error) store.Effect {
	return &effect{db: h.database, apply: func() (func(), error) {
		restore := h.restore(k)
		err := f()
		if err != nil {
			restore()
		}
		return restore, err
	}}
}

// restore returns a function that restores a session as it is now.
func (h *historyStore) restore(k history.Key) func() {
	t := h.sessions[k]
	if t == nil {
		return func() { h.remove(h.sessions[k]) }
	}
	before := *t
	before.fences, before.keys = maps.Clone(t.fences), maps.Clone(t.keys)
	return func() {
		h.remove(h.sessions[k])
		*t = before
		h.sessions[k] = t
		h.addToIndexes(t)
	}
}
