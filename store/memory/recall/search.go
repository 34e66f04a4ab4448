package recall

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
)

const (
	// maxTerms is the number of distinct words of a query that are used.
	maxTerms = 32
	// minCandidates is the number of facts that are read to rank them.
	minCandidates = 100
	// MaxCount bounds the counts of an Index, because counting visits each fact. Terms in more
	// facts than this all get the same low weight.
	MaxCount = 4096
)

// Part is a part of the index.
type Part int

// The parts.
const (
	Stems Part = iota
	Grams
	Links // entities, as LinkTerm returns them
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

// FactIndex is an Index of facts that also have embeddings.
type FactIndex interface {
	Index
	// Nearest returns up to n of the facts that match the filter of the search and have an embedding
	// of the model, those with the greatest cosine. pending is the number of facts without an
	// embedding of the model.
	Nearest(e memorydriver.Embedding, n int) (found []Near, pending int, err error)
}

// Near is a fact with the cosine of its embedding and the embedding of the query.
type Near struct {
	memory.Memory
	Cosine float64
}

// SearchFacts returns the facts that match a query, which is not empty. p was checked, and has the time
// of the search in AsOf.
func SearchFacts(ix FactIndex, p memory.SearchParams, plan memorydriver.Plan) (memory.Results, error) {
	q := query{ix: ix, facts: ix, p: p, plan: plan}
	return q.search()
}

func (q *query) search() (memory.Results, error) {
	p := q.p
	r := memory.Results{Modes: q.plan.Modes(), Fallback: q.plan.Fallback}
	q.text = Analyze(p.Query)
	q.stems = distinct(q.text.Stems, maxTerms)
	for n := max(minCandidates, p.Limit); ; n *= 8 {
		facts, more, err := q.candidates(n)
		if err != nil {
			return memory.Results{}, err
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
		r.Facts, r.Pending = found, q.pending
		return r, nil
	}
}

// query is a search with the words of its query.
type query struct {
	ix    Index
	facts FactIndex
	p     memory.SearchParams
	plan  memorydriver.Plan
	text  Text
	stems []string // distinct

	weights []weighted // of the stems; nil before they are counted
	known   bool       // a fact contains one of the stems
	unknown []string   // the words with stems that no fact contains
	pending int        // facts without an embedding
}

// candidate is a fact with its text.
type candidate struct {
	memory.Memory
	text   Text
	cosine float64 // if near
	near   bool
	linked float64 // 1/(1+distance), 0 if no entity of the query is near
}

// candidates returns up to n facts of each part, and whether more exist.
func (q *query) candidates(n int) (all []candidate, more bool, err error) {
	c := &candidates{at: make(map[string]int), n: n, stems: make(stemmer)}
	if q.plan.Lexical && len(q.stems) > 0 {
		if err := q.addLexical(c); err != nil {
			return nil, false, err
		}
	}
	if q.plan.Embedding != nil {
		found, pending, err := q.facts.Nearest(*q.plan.Embedding, n)
		if err != nil {
			return nil, false, err
		}
		q.pending, c.more = pending, c.more || len(found) >= n
		for i := range found {
			one := c.add(found[i].Memory)
			one.cosine, one.near = found[i].Cosine, true
		}
	}
	if q.plan.Graph {
		if err := q.addLinked(c); err != nil {
			return nil, false, err
		}
	}
	return c.all, c.more, nil
}

// candidates are the facts that a search ranks.
type candidates struct {
	all   []candidate
	at    map[string]int // by id
	n     int            // of each part
	more  bool           // a part has more
	stems stemmer
}

// add adds a fact and returns its candidate, which is valid until the next call.
func (c *candidates) add(m memory.Memory) *candidate {
	i, ok := c.at[m.ID]
	if !ok {
		i = len(c.all)
		c.at[m.ID], c.all = i, append(c.all, candidate{Memory: m, text: c.stems.analyze(m.Content)})
	}
	return &c.all[i]
}

// addLexical adds facts with words of the query, or with similar ones.
func (q *query) addLexical(c *candidates) error {
	add := func(part Part, terms []string) error {
		found, err := q.ix.Candidates(part, terms, c.n)
		c.more = c.more || len(found) >= c.n
		for i := range found {
			c.add(found[i])
		}
		return err
	}
	if err := add(Stems, q.stems); err != nil {
		return err
	}
	if q.weights == nil {
		if err := q.weigh(c.all, !c.more); err != nil {
			return err
		}
	}
	if len(q.unknown) > 0 {
		return add(Grams, Trigrams(q.unknown...))
	}
	return nil
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
		q.weights = append(q.weights, weighted{s, Weight(counts[i], all)})
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
	if q.plan.Embedding != nil {
		parts = append(parts, near(all, facts))
	}
	if q.plan.Graph {
		scores := make([]float64, len(all))
		for i := range all {
			facts[i].Scores.Graph, scores[i] = all[i].linked, all[i].linked
		}
		parts = append(parts, scores)
	}
	if len(parts) == 0 {
		return nil
	}
	for i, s := range fuse(parts...) {
		facts[i].Score = s
		if q.p.RecencyHalfLife > 0 && s > 0 {
			facts[i].Scores.Recency = recency(q.p.AsOf.Sub(facts[i].UpdatedAt), q.p.RecencyHalfLife)
			facts[i].Score = (s + recencyWeight*facts[i].Scores.Recency) / (1 + recencyWeight)
		}
	}
	facts = slices.DeleteFunc(facts, func(m memory.Memory) bool { return m.Score == 0 })
	slices.SortFunc(facts, Compare)
	return facts
}

// near sets the semantic scores of facts, and returns values in the order of their cosines. Each fact
// with an embedding has a rank, whatever its cosine.
func near(all []candidate, facts []memory.Memory) []float64 {
	values := make([]float64, len(all))
	for i := range all {
		if all[i].near {
			facts[i].Scores.Semantic = min(1, max(0, all[i].cosine))
			values[i] = 2 + all[i].cosine
		}
	}
	return values
}

// recency returns 1 for a new fact, halved for each half-life of its age.
func recency(age, halfLife time.Duration) float64 {
	return math.Exp2(-max(0, age.Seconds()) / halfLife.Seconds())
}

// Compare is the order of results: by score, then as compareEqual.
func Compare(a, b memory.Memory) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), compareEqual(a.UpdatedAt, b.UpdatedAt, a.ID, b.ID))
}

// compareEqual is the order of results with equal scores: the newest first. Ids of facts grow with time, so they decide
// between facts of the same millisecond. Documents, which have no time, are in the order of their ids.
func compareEqual(aTime, bTime time.Time, a, b string) int {
	if aTime.IsZero() && bTime.IsZero() {
		return strings.Compare(a, b)
	}
	return cmp.Or(bTime.Compare(aTime), strings.Compare(b, a))
}
