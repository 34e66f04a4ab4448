package memorysql

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/recall"
	"github.com/holdfast-dev/holdfast/store/memory/recall/recallsql"
)

// On SQLite, a search reads the list of facts for each of its terms once, and combines the lists in the
// process. FTS5 would look up each term in all segments of its index three times: to find the facts, to
// rank them by bm25, and to count them.

// lookupCost is the time to look up a version by its key, relative to the time to read the next one of a scope.
const lookupCost = 8

// lists returns the keys of the facts that have each of the terms.
func (s *factSearch) lists(terms []string) ([][]int64, error) {
	if s.byTerm == nil {
		s.byTerm = make(map[string][]int64)
		terms = append(slices.Clone(terms), s.entityMark())
		if !s.indexOnly {
			if err := s.readScope(); err != nil {
				return nil, err
			}
		}
	}
	var missing []string
	for _, t := range terms {
		if _, ok := s.byTerm[t]; !ok {
			s.byTerm[t] = nil
			missing = append(missing, t)
		}
	}
	if len(missing) > 0 {
		if err := s.readLists(missing); err != nil {
			return nil, err
		}
	}
	all := make([][]int64, len(terms))
	for i, t := range terms {
		all[i] = s.byTerm[t]
	}
	return all, nil
}

// readLists sets the lists of terms.
func (s *factSearch) readLists(terms []string) error {
	if s.contents != nil {
		s.contents.find(scopePrefix(s.scope), terms, s.byTerm)
		return nil
	}
	quoted := make([]string, len(terms))
	for i, t := range terms {
		quoted[i] = `"` + t + `"`
	}
	return s.q.Query(s.text.terms, func(r sqlkit.Row) error {
		t := terms[r.Int(0)]
		s.byTerm[t] = append(s.byTerm[t], r.Int(1))
		return nil
	}, quoted)
}

// entityMark is the term of the facts of the scope that have entities.
func (s *factSearch) entityMark() string {
	return scopePrefix(s.scope) + recallsql.Letter(recall.Links)
}

// countTerms implements Count.
func (s *factSearch) countTerms(stems []string) (counts []int, all int, err error) {
	lists, err := s.lists(recallsql.Terms(scopePrefix(s.scope), recall.Stems, stems))
	if err != nil {
		return nil, 0, err
	}
	keys := make(map[int64]float64)
	for _, list := range lists {
		for _, key := range list {
			keys[key] = 0
		}
	}
	visible, err := s.visibleAmong(keys)
	if err != nil {
		return nil, 0, err
	}
	found := make(map[int64]bool, len(visible))
	for i := range visible {
		found[visible[i].key] = true
	}
	counts = make([]int, len(stems))
	for i := range stems {
		for _, key := range lists[i] {
			if found[key] && counts[i] < recall.MaxCount {
				counts[i]++
			}
		}
	}
	all, err = s.scopeSize(recall.MaxCount)
	return counts, all, err
}

// scopeSize returns the number of facts that the search may return, up to limit.
func (s *factSearch) scopeSize(limit int) (int, error) {
	if s.read != nil {
		return min(len(s.read.all), limit), nil
	}
	return s.count(sqlCountScope, limit)
}

// visibleAmong returns the versions that the search may return. It may omit those that are not
// in keys.
func (s *factSearch) visibleAmong(keys map[int64]float64) ([]visibleFact, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if s.read == nil && s.model == "" {
		limit := lookupCost * len(keys)
		size, err := s.scopeSize(limit)
		if err != nil {
			return nil, err
		}
		if size == limit {
			v, err := s.readVisible(s.text.visibleKeys, s.model, slices.Collect(maps.Keys(keys)))
			return v.all, err
		}
	}
	v, err := s.visible()
	if err != nil {
		return nil, err
	}
	return v.all, nil
}

// rankedFact is a version with its score for the terms of a query.
type rankedFact struct {
	visibleFact
	score float64
}

// withTerms implements Candidates.
func (s *factSearch) withTerms(part recall.Part, terms []string, n int) (found []memory.Memory, err error) {
	if part == recall.Links {
		if _, err := s.lists(nil); err != nil || len(s.byTerm[s.entityMark()]) == 0 {
			return nil, err
		}
	}
	lists, err := s.lists(terms)
	if err != nil {
		return nil, err
	}
	most := 0
	for _, list := range lists {
		most = max(most, len(list))
	}
	weights := make(map[int64]float64, most)
	for i := range terms {
		for _, key := range lists[i] {
			weights[key] += recall.Weight(len(lists[i]), most)
		}
	}
	if len(weights) <= n && s.read == nil {
		return s.withKeys(slices.Sorted(maps.Keys(weights)))
	}
	visible, err := s.visibleAmong(weights)
	if err != nil {
		return nil, err
	}
	words := 1.0
	for i := range visible {
		words += visible[i].words
	}
	ranked := make([]rankedFact, 0, len(weights))
	for i := range visible {
		if w, ok := weights[visible[i].key]; ok {
			ranked = append(ranked, rankedFact{visible[i], recall.Score(w, visible[i].words*float64(len(visible))/words)})
		}
	}
	slices.SortFunc(ranked, func(a, b rankedFact) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.updatedAt, a.updatedAt), strings.Compare(b.id, a.id))
	})
	_, err = s.take(n, len(ranked), func(i int) visibleFact { return ranked[i].visibleFact }, func(_ int, m memory.Memory) { found = append(found, m) })
	return found, err
}

// withKeys returns the facts with keys that the search may return and that match its filter.
func (s *factSearch) withKeys(keys []int64) (found []memory.Memory, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	err = s.q.Query(s.text.byID, func(r sqlkit.Row) error {
		if m := scanFact(s.scope, r).Memory; s.p.Filter.Match(m.Metadata) {
			found = append(found, m)
		}
		return nil
	}, s.args(keys)...)
	return found, err
}
