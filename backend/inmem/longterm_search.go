package inmem

import (
	"cmp"
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/backend/internal/recall"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// Search implements memory.LongTerm.
func (s *longTerm) Search(ctx context.Context, scope memory.Scope, p memory.SearchParams) ([]memory.Memory, error) {
	scope, err := scope.Check()
	if err == nil {
		p, err = p.Check()
	}
	if err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	x := factIndex{visible: s.visible(scope, p), p: p}
	if p.Query != "" {
		return recall.Search(x, p)
	}
	var found []memory.Memory
	for _, v := range x.visible {
		if m := v.memory(); p.Filter.Match(m.Metadata) {
			m.Score = 1
			found = append(found, m)
		}
	}
	slices.SortFunc(found, recall.Compare)
	return found[:min(len(found), p.Limit)], nil
}

// visible returns the versions that a search may return.
func (s *longTerm) visible(scope memory.Scope, p memory.SearchParams) (all []*version) {
	now := s.now()
	if p.AsOf.IsZero() {
		p.AsOf = now
	}
	if in := s.in(scope); in != nil {
		for _, f := range in.byID {
			if v := f.at(now, p.AsOf); v != nil {
				all = append(all, v)
			}
		}
	}
	return all
}

// factIndex implements recall.Index.
type factIndex struct {
	visible []*version
	p       memory.SearchParams
}

func (x factIndex) Count(stems []string) (counts []int, all int, err error) {
	counts = make([]int, len(stems))
	for i, s := range stems {
		for _, v := range x.visible {
			if v.stems[s] && counts[i] < recall.MaxCount {
				counts[i]++
			}
		}
	}
	return counts, min(len(x.visible), recall.MaxCount), nil
}

func (x factIndex) Candidates(part recall.Part, terms []string, n int) ([]memory.Memory, error) {
	type candidate struct {
		memory.Memory
		terms int
	}
	var all []candidate
	for _, v := range x.visible {
		contained, count := v.stems, 0
		if part == recall.Grams {
			contained = v.grams
		}
		for _, t := range terms {
			if contained[t] {
				count++
			}
		}
		if count == 0 {
			continue
		}
		if m := v.memory(); x.p.Filter.Match(m.Metadata) {
			all = append(all, candidate{m, count})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.terms, a.terms), recall.Compare(a.Memory, b.Memory))
	})
	found := make([]memory.Memory, min(n, len(all)))
	for i := range found {
		found[i] = all[i].Memory
	}
	return found, nil
}
