package inmem

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
)

var (
	_ memory.Lister   = (*longTerm)(nil)
	_ memory.Restorer = (*longTerm)(nil)
)

// Facts implements memory.Lister.
func (s *longTerm) Facts(ctx context.Context, q memory.FactQuery) (page memory.FactPage, err error) {
	if q, err = memorydriver.CheckFacts(q); err != nil {
		return page, err
	}
	var start memory.Memory
	start.Scope.Agent, start.Scope.Namespace, start.ID = memorydriver.PageStart(q)
	now := s.now()
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return page, err
	}
	for scope, in := range s.facts.byScope {
		if !memorydriver.Matches(q, scope) {
			continue
		}
		for _, f := range in.byID {
			if !f.expired(now) && compareFacts(f.head().Memory, start) > 0 {
				page.Facts = append(page.Facts, f.head().memory())
			}
		}
	}
	slices.SortFunc(page.Facts, compareFacts)
	if page.More = len(page.Facts) > q.Limit; page.More {
		page.Facts = page.Facts[:q.Limit]
	}
	return page, nil
}

// compareFacts orders the facts of an owner.
func compareFacts(a, b memory.Memory) int {
	return cmp.Or(strings.Compare(a.Scope.Agent, b.Scope.Agent), strings.Compare(a.Scope.Namespace, b.Scope.Namespace), strings.Compare(a.ID, b.ID))
}

// Restore implements memory.Restorer.
func (s *longTerm) Restore(ctx context.Context, versions []memory.Memory) error {
	metadata, err := memorydriver.CheckVersions(versions)
	if err != nil {
		return err
	}
	f := new(fact)
	for i, m := range versions {
		m.Metadata, m.Score, m.Scores = nil, 0, memory.Scores{}
		f.versions = append(f.versions, newVersion(content{Memory: m, metadata: metadata[i]}))
	}
	head := f.head()
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return err
	}
	in := s.in(head.Scope)
	if in.has(head.ID, head.Key) {
		return memory.ErrFactConflict
	}
	if in == nil {
		in = &scopeFacts{byID: make(map[string]*fact), byKey: make(map[string]*fact)}
		s.facts.byScope[head.Scope] = in
	}
	in.byID[head.ID] = f
	if head.Key != "" {
		in.byKey[head.Key] = f
	}
	return nil
}

// has reports whether the scope, which may be nil, has a fact with an id or a key.
func (s *scopeFacts) has(id, key string) bool {
	return s != nil && (s.byID[id] != nil || key != "" && s.byKey[key] != nil)
}

// CanRestore implements memory.Restorer.
func (s *longTerm) CanRestore(ctx context.Context, versions []memory.Memory) error {
	if _, err := memorydriver.CheckVersions(versions); err != nil {
		return err
	}
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return err
	}
	if s.in(versions[0].Scope).has(versions[0].ID, versions[0].Key) {
		return memory.ErrFactConflict
	}
	return nil
}
