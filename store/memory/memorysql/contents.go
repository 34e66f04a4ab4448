package memorysql

import (
	"errors"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/recall"
	"github.com/holdfast-dev/holdfast/store/memory/recall/recallsql"
)

// A scope of up to this many facts, with this many words and bytes in all, is read as a whole. That takes about as
// long as looking up a few words in a large index, and half as long as the 45 trigrams of a misspelt query.
const (
	smallScope      = 256
	smallScopeWords = 8192
	smallScopeBytes = 256 << 10
)

var errLargeScope = errors.New("the scope is large")

// scopeContents are all facts that a search in a small scope may return.
type scopeContents struct {
	facts map[factVersion]memory.Memory
	// words has the keys of the facts with each word, links those with each entity, by its term in the index.
	words, links map[string][]int64
}

// all returns the facts, nil if the scope is not small.
func (c *scopeContents) all() map[factVersion]memory.Memory {
	if c == nil {
		return nil
	}
	return c.facts
}

// readScope reads all facts of the scope if it is small.
func (s *factSearch) readScope() error {
	var facts, words int64
	err := s.q.Query(s.text.size, func(r sqlkit.Row) error {
		facts, words = r.Int(0), r.Int(1)
		return nil
	}, s.args(smallScope+1)...)
	if err != nil || facts > smallScope || words > smallScopeWords {
		return err
	}
	c := &scopeContents{facts: make(map[factVersion]memory.Memory, facts), words: make(map[string][]int64, words/4), links: make(map[string][]int64)}
	visible, bytes := &visibleFacts{}, 0
	err = s.q.Query(s.text.contents, func(r sqlkit.Row) error {
		m, key := scanFact(s.scope, r).Memory, r.Int(13)
		if bytes += len(m.Content); bytes > smallScopeBytes {
			return errLargeScope // a word may be long
		}
		version := versionOf(m)
		visible.add(visibleFact{version, key, float64(r.Int(14))}, r.Int(15) != 0)
		c.facts[version] = m
		for _, word := range recall.Words(m.Content) {
			c.words[word] = append(c.words[word], key)
		}
		for _, name := range m.Entities {
			term := recallsql.LinkTerms([]string{recall.LinkTerm(name)})[0]
			c.links[term], c.links[""] = append(c.links[term], key), append(c.links[""], key)
		}
		return nil
	}, s.args(s.model)...)
	switch {
	case err == nil:
		s.contents, s.read = c, visible
	case errors.Is(err, errLargeScope):
		err = nil
	}
	return err
}

// find adds the keys of the facts with terms of the index to lists.
func (c *scopeContents) find(prefix string, terms []string, lists map[string][]int64) {
	stems, grams := make(map[string]string), make(map[recall.Trigram]string) // terms by what they are made from
	for _, t := range terms {
		text := t[len(prefix)+1:]
		switch t[len(prefix) : len(prefix)+1] {
		case recallsql.Letter(recall.Stems):
			stems[text] = t
		case recallsql.Letter(recall.Grams):
			grams[recall.TrigramOf(text)] = t
		case recallsql.Letter(recall.Links):
			lists[t] = c.links[text]
		}
	}
	var all []recall.Trigram
	for word, keys := range c.words {
		if len(stems) > 0 {
			if t, ok := stems[recall.Stem(word)]; ok {
				lists[t] = append(lists[t], keys...)
			}
		}
		if len(grams) > 0 {
			all = recall.AppendTrigrams(all[:0], word)
		}
		for _, g := range all {
			if t, ok := grams[g]; ok {
				lists[t] = append(lists[t], keys...)
			}
		}
	}
	for _, t := range terms {
		slices.Sort(lists[t])
		lists[t] = slices.Compact(lists[t])
	}
}
