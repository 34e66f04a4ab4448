package recall

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/store/memory"
)

const (
	// maxTerms is the number of distinct words of a query that are used.
	maxTerms = 32
	// minCandidates is the number of facts that are read to rank them.
	minCandidates = 100
	// MaxCount bounds the counts of an Index, because counting visits each fact. All terms of
	// more facts weigh the same, which is little.
	MaxCount = 4096
)

// Part is a part of the index.
type Part int

// The parts.
const (
	Stems Part = iota
	Grams
)

// Index reads the facts that a search may return: those in its scope that are valid at its time
// and have not expired.
type Index interface {
	// Count returns the number of facts that contain each stem, and of all facts, each up to
	// MaxCount.
	Count(stems []string) (counts []int, all int, err error)
	// Candidates returns up to n of the facts that match the filter of the search and contain
	// one of the terms, preferably those that contain more and rarer ones. It returns fewer
	// only if no more exist.
	Candidates(part Part, terms []string, n int) ([]memory.Memory, error)
}

// Search returns the facts that match a query, which is not empty. p was checked.
func Search(ix Index, p memory.SearchParams) ([]memory.Memory, error) {
	q := query{ix: ix, p: p, text: Analyze(p.Query)}
	if q.stems = distinct(q.text.Stems, maxTerms); len(q.stems) == 0 {
		return nil, nil
	}
	for n := max(minCandidates, p.Limit); ; n *= 8 {
		facts, more, err := q.candidates(n)
		if err != nil {
			return nil, err
		}
		found := q.rank(facts)
		if len(found) < p.Limit && more {
			continue
		}
		found = found[:min(len(found), p.Limit)]
		end := slices.IndexFunc(found, func(m memory.Memory) bool { return m.Score < p.MinScore })
		if end >= 0 {
			found = found[:end]
		}
		return found, nil
	}
}

// query is a search with the words of its query.
type query struct {
	ix    Index
	p     memory.SearchParams
	text  Text
	stems []string // distinct

	weights []weighted // of the stems; nil before they are counted
	known   bool       // a fact contains one of the stems
	unknown []string   // the words whose stems no fact contains
}

// candidate is a fact with its text.
type candidate struct {
	memory.Memory
	text Text
}

// candidates returns up to n facts of each part, and whether more exist.
func (q *query) candidates(n int) (all []candidate, more bool, err error) {
	seen := make(map[string]bool)
	add := func(part Part, terms []string) error {
		found, err := q.ix.Candidates(part, terms, n)
		more = more || len(found) >= n
		for _, m := range found {
			if !seen[m.ID] {
				seen[m.ID] = true
				all = append(all, candidate{m, Analyze(m.Content)})
			}
		}
		return err
	}
	if err := add(Stems, q.stems); err != nil {
		return nil, false, err
	}
	if q.weights == nil {
		if err := q.weigh(all, !more); err != nil {
			return nil, false, err
		}
	}
	if len(q.unknown) > 0 {
		err = add(Grams, Trigrams(q.unknown...))
	}
	return all, more, err
}

// weigh counts the facts that contain each stem. A word that none contains is compared by its
// trigrams: it is probably misspelt. complete means that all facts with one of the stems that
// match the filter were read.
func (q *query) weigh(facts []candidate, complete bool) error {
	var counts []int
	stems := q.stems
	if complete && q.p.Filter.IsZero() {
		counts, stems = count(facts, q.stems), nil
	}
	read, all, err := q.ix.Count(stems)
	if err != nil {
		return err
	}
	if counts == nil {
		counts = read
	}
	for i, s := range q.stems {
		q.weights = append(q.weights, weighted{s, idf(counts[i], all)})
		if counts[i] > 0 {
			q.known = true
		} else {
			q.unknown = append(q.unknown, q.text.Words[slices.Index(q.text.Stems, s)])
		}
	}
	return nil
}

// count returns the number of facts that contain each stem.
func count(facts []candidate, stems []string) []int {
	counts := make([]int, len(stems))
	for i := range facts {
		for n, s := range stems {
			if slices.Contains(facts[i].text.Stems, s) {
				counts[n]++
			}
		}
	}
	return counts
}

// rank returns the facts that match, with their scores and in their order.
func (q *query) rank(all []candidate) []memory.Memory {
	texts, facts := make([]Text, len(all)), make([]memory.Memory, len(all))
	for i := range all {
		texts[i], facts[i] = all[i].text, all[i].Memory
	}
	var parts [][]float64
	if q.known {
		parts = append(parts, lexical(texts, q.weights))
		for i, s := range parts[0] {
			facts[i].Scores.Lexical = min(s, 1)
		}
	}
	if len(q.unknown) > 0 {
		scores := fuzzy(texts, q.unknown)
		for i, s := range scores {
			facts[i].Scores.Trigram = s
		}
		parts = append(parts, scores)
	}
	for i, s := range fuse(parts...) {
		facts[i].Score = s
	}
	facts = slices.DeleteFunc(facts, func(m memory.Memory) bool { return m.Score == 0 })
	slices.SortFunc(facts, Compare)
	return facts
}

// Compare is the order of results: by score, then the newest first, then by id.
func Compare(a, b memory.Memory) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), b.UpdatedAt.Compare(a.UpdatedAt), strings.Compare(a.ID, b.ID))
}
