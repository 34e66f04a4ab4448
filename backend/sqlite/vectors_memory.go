package sqlite

import (
	"container/list"

	"github.com/holdfast-dev/holdfast/store/vector/ann"
)

// vectorMemory chooses indexes to drop so that the indexes of all collections need no more memory
// than a limit. Its users hold the lock of vectorIndexes.
type vectorMemory struct {
	limit  int64
	total  int64
	recent list.List // of *vectorIndex, most recently used first
}

// vectorUse is the part of an index in vectorMemory.
type vectorUse struct {
	place *list.Element // nil if the index is not counted
	bytes int64
}

// add counts an index, or counts it again.
func (m *vectorMemory) add(v *vectorIndex, bytes int64) {
	m.remove(v)
	v.use = vectorUse{m.recent.PushFront(v), bytes}
	m.total += bytes
}

func (m *vectorMemory) remove(v *vectorIndex) {
	if v.use.place != nil {
		m.recent.Remove(v.use.place)
		m.total -= v.use.bytes
		v.use = vectorUse{}
	}
}

// oldest returns the least recently used index if all indexes together exceed the limit, otherwise nil.
// It never returns the most recently used index.
func (m *vectorMemory) oldest() *vectorIndex {
	if m.total <= m.limit || m.recent.Len() < 2 {
		return nil
	}
	return m.recent.Back().Value.(*vectorIndex)
}

// used notes that an index is in use, and drops the least recently used ones until the rest fit in the
// limit. Searches that use a dropped index continue; the next search reads the index again.
func (s *vectorIndexes) used(v *vectorIndex, index *ann.Index) {
	bytes := index.Bytes()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.byKey[v.key] != v {
		return
	}
	s.memory.add(v, bytes)
	for old := s.memory.oldest(); old != nil; old = s.memory.oldest() {
		s.memory.remove(old)
		if !s.worthSaving(old) && !old.saving.Load() {
			delete(s.byKey, old.key)
			continue
		}
		s.saves.Go(func() { s.saveAndDrop(old) })
	}
}

// worthSaving reports whether a snapshot makes it much faster to read an index again.
func (s *vectorIndexes) worthSaving(v *vectorIndex) bool {
	documents := v.state.Load().index.Len()
	return !s.noSnapshots && documents >= s.minSnapshot && 100*v.changes.Load() > int64(documents)
}

// saveAndDrop saves the snapshot of an index and drops it, unless it was used in the meantime. The index
// stays in byKey until then, so that no second index of the collection saves a snapshot, too.
func (s *vectorIndexes) saveAndDrop(v *vectorIndex) {
	if err := s.save(s.ctx, v); err != nil && s.ctx.Err() == nil {
		s.log.Warn("the snapshot of a vector index was not saved", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey[v.key] == v && v.use.place == nil && s.ctx.Err() == nil {
		delete(s.byKey, v.key)
	}
}

// dropped reports that the collection has or will have another index.
func (s *vectorIndexes) dropped(v *vectorIndex) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byKey[v.key] != v
}
