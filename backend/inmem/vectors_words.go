package inmem

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/recall"
	"github.com/holdfast-dev/holdfast/store/vector/vectordriver"
)

// wordIndex has the words of the documents of a collection. Each version of a document has a number. The
// lists keep the numbers of versions that were replaced or removed until there are more of them than of others.
type wordIndex struct {
	rows    []*vectordriver.Row // by number, nil if it was replaced or removed
	numbers map[string]uint32   // by id
	byStem  map[string][]uint32 // rising
	// byGram has the stems of words with a trigram.
	byGram map[string][]string
	words  map[string]bool
}

func newWordIndex(rows map[string]*vectordriver.Row) *wordIndex {
	x := &wordIndex{numbers: make(map[string]uint32, len(rows)), byStem: make(map[string][]uint32), byGram: make(map[string][]string), words: make(map[string]bool)}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		x.add(rows[id])
	}
	return x
}

// set replaces the document with an id. r is nil if it was removed. It returns the index to use from now on.
func (x *wordIndex) set(id string, r *vectordriver.Row) *wordIndex {
	if n, ok := x.numbers[id]; ok {
		x.rows[n] = nil
		delete(x.numbers, id)
	}
	if r != nil {
		x.add(r)
	}
	if len(x.rows) < 2*len(x.numbers)+1000 {
		return x
	}
	rows := make(map[string]*vectordriver.Row, len(x.numbers))
	for id, n := range x.numbers {
		rows[id] = x.rows[n]
	}
	return newWordIndex(rows)
}

func (x *wordIndex) add(r *vectordriver.Row) {
	n := uint32(len(x.rows)) // the documents need more memory than there is before
	x.rows, x.numbers[r.ID] = append(x.rows, r), n
	text := recall.Analyze(r.Text).Indexed()
	for i, s := range text.Stems {
		list := x.byStem[s]
		if len(list) == 0 || list[len(list)-1] != n {
			x.byStem[s] = append(list, n)
		}
		if w := text.Words[i]; !x.words[w] {
			x.words[w] = true
			for _, g := range recall.Trigrams(w) {
				x.byGram[g] = append(x.byGram[g], s)
			}
		}
	}
}

// lists returns the lists of documents with a term, and the weight of the term.
func (x *wordIndex) lists(part recall.Part, term string) (lists [][]uint32, weight float64) {
	if part == recall.Stems {
		list := x.byStem[term]
		return [][]uint32{list}, recall.Weight(len(list), len(x.rows))
	}
	stems := x.byGram[term]
	for _, s := range stems {
		lists = append(lists, x.byStem[s])
	}
	return lists, recall.Weight(len(stems), len(x.words))
}

// wordSearch implements recall.Index.
type wordSearch struct {
	c      *vectorCollection
	filter filter.Filter
}

// Words implements vectors.Documents. The first call makes the index.
func (c *vectorCollection) Words(_ context.Context, f filter.Filter) recall.Index {
	c.state.mu.RLock()
	known := c.words != nil
	c.state.mu.RUnlock()
	if !known {
		c.state.mu.Lock()
		defer c.state.mu.Unlock()
		if c.words == nil {
			c.words = newWordIndex(c.rows)
		}
	}
	return wordSearch{c, f}
}

func (s wordSearch) Count(stems []string) (counts []int, all int, err error) {
	s.c.state.mu.RLock()
	defer s.c.state.mu.RUnlock()
	x := s.c.words
	counts = make([]int, len(stems))
	for i, stem := range stems {
		for _, n := range x.byStem[stem] {
			if x.rows[n] != nil && counts[i] < recall.MaxCount {
				counts[i]++
			}
		}
	}
	return counts, min(len(x.numbers), recall.MaxCount), nil
}

func (s wordSearch) Candidates(part recall.Part, terms []string, n int) ([]memory.Memory, error) {
	s.c.state.mu.RLock()
	defer s.c.state.mu.RUnlock()
	x := s.c.words
	scores, counted := make([]float64, len(x.rows)), make([]int, len(x.rows))
	for i, t := range terms {
		lists, weight := x.lists(part, t)
		for _, list := range lists {
			for _, number := range list {
				if counted[number] <= i { // several words of a document may have the same trigram
					scores[number] += weight
					counted[number] = i + 1
				}
			}
		}
	}
	best := recall.NewNearest(n)
	for number, score := range scores {
		r := x.rows[number]
		if r == nil || score == 0 {
			continue
		}
		if s.filter.IsZero() || s.filter.Match(jsonobject.Decode(r.Metadata)) {
			best.Add(score, time.Time{}, r.ID, func() memory.Memory { return memory.Memory{ID: r.ID, Content: r.Text} })
		}
	}
	found := make([]memory.Memory, 0, n)
	for _, f := range best.Found() {
		found = append(found, f.Memory)
	}
	return found, nil
}
