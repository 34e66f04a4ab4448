package inmem

import (
	"cmp"
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
	"github.com/holdfast-dev/holdfast/store/memory/recall"
)

// Search implements memory.LongTerm.
func (s *longTerm) Search(ctx context.Context, scope memory.Scope, p memory.SearchParams) (memory.Results, error) {
	scope, err := memorydriver.CheckScope(scope)
	if err == nil {
		p, err = memorydriver.CheckSearch(p)
	}
	if err != nil {
		return memory.Results{}, err
	}
	plan, err := s.embeddings.Plan(ctx, p)
	if err != nil {
		return memory.Results{}, err
	}
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return memory.Results{}, err
	}
	now := s.now()
	if p.AsOf.IsZero() {
		p.AsOf = now
	}
	x := factIndex{p: p}
	if in := s.in(scope); in != nil {
		for _, f := range in.byID {
			if v := f.at(now, p.AsOf); v != nil {
				x.visible = append(x.visible, v)
			}
		}
	}
	if p.Query != "" {
		return recall.SearchFacts(x, p, plan)
	}
	var r memory.Results
	for _, v := range x.visible {
		if m := v.memory(); p.Filter.Match(m.Metadata) {
			m.Score = 1
			r.Facts = append(r.Facts, m)
		}
	}
	slices.SortFunc(r.Facts, recall.Compare)
	r.Facts = r.Facts[:min(len(r.Facts), p.Limit)]
	return r, nil
}

// factIndex implements recall.FactIndex. visible are the versions that the search may return.
type factIndex struct {
	visible []*version
	p       memory.SearchParams
}

func (x factIndex) Count(stems []string) (counts []int, all int, err error) {
	counts = make([]int, len(stems))
	for i, s := range stems {
		for _, v := range x.visible {
			if v.terms[recall.Stems][s] && counts[i] < recall.MaxCount {
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
		count := 0
		for _, t := range terms {
			if v.terms[part][t] {
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

func (x factIndex) Nearest(e memorydriver.Embedding, n int) (found []recall.Near, pending int, err error) {
	nearest := recall.NewNearest(n)
	for _, v := range x.visible {
		switch {
		case v.embedding.Model != e.Model:
			pending++
		case v.embedding.Vector != nil && (x.p.Filter.IsZero() || x.p.Filter.Match(jsonobject.Decode(v.metadata))):
			nearest.Add(e.Cosine(v.embedding.Vector), v.UpdatedAt, v.ID, v.memory)
		}
	}
	return nearest.Found(), pending, nil
}

// EmbedPending implements memory.Reembedder.
func (s *longTerm) EmbedPending(ctx context.Context, limit int) (int, error) {
	first, last, err := s.embeddings.Models()
	if err != nil {
		return 0, err
	}
	pending, err := s.pending(ctx, first, last, limit)
	if err != nil || len(pending) == 0 {
		return 0, err
	}
	texts := make([]string, len(pending))
	for i := range pending {
		texts[i] = pending[i].Content
	}
	embeddings, err := s.embeddings.Contents(ctx, texts)
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return 0, err
	}
	for i, m := range pending {
		f := s.in(m.Scope).fact(m.ID)
		if f == nil {
			continue
		}
		for v := range f.versions {
			if f.versions[v].Version == m.Version && f.versions[v].Content == m.Content {
				f.versions[v].embedding = embeddings[i]
			}
		}
	}
	return len(pending), nil
}

// pending returns up to limit versions that a search may find, with a model before first or after last.
func (s *longTerm) pending(ctx context.Context, first, last string, limit int) (all []memory.Memory, err error) {
	now := s.now()
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	for _, in := range s.facts.byScope {
		for _, f := range in.byID {
			for i := range f.versions {
				v := &f.versions[i]
				if len(all) < limit && v.ReplacedAt.IsZero() && (v.embedding.Model < first || v.embedding.Model > last) && !f.expired(now) {
					all = append(all, v.Memory)
				}
			}
		}
	}
	return all, nil
}
