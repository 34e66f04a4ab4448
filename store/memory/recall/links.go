package recall

import (
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/store/memory"
)

const (
	// maxNamed is the number of stems of a query in which entities are looked up. maxName is the
	// maximum number of stems of an entity's name.
	maxNamed = 48
	maxName  = 6
	// maxEntities is the maximum number of entities at each distance for which facts are read.
	maxEntities = 200
)

// LinkTerm returns the term of the name of an entity: names with the same stems are equal.
func LinkTerm(name string) string { return strings.Join(Analyze(name).Stems, " ") }

// named returns the terms of the entities that a text may name: its sequences of words.
func named(text Text) []string {
	stems := text.Stems[:min(len(text.Stems), maxNamed)]
	var all []string
	for i := range stems {
		for n := 1; n <= maxName && i+n <= len(stems); n++ {
			all = append(all, strings.Join(stems[i:i+n], " "))
		}
	}
	return distinct(all, len(all))
}

// addLinked adds the facts of the entities that the query names, then the facts of entities that share a
// fact with them, up to memory.MaxDistance steps. A step leads over a fact that the search may return.
func (q *query) addLinked(c *candidates) error {
	terms := named(q.text)
	seen := make(map[string]bool) // entities at smaller distances
	for distance := 0; distance <= memory.MaxDistance && len(terms) > 0; distance++ {
		found, err := q.ix.Candidates(Links, terms, c.n)
		if err != nil {
			return err
		}
		c.more = c.more || len(found) >= c.n
		wanted := make(map[string]bool, len(terms))
		for _, t := range terms {
			wanted[t] = true
		}
		var next []string
		for i := range found {
			links := make([]string, len(found[i].Entities))
			for n, name := range found[i].Entities {
				links[n] = LinkTerm(name)
			}
			if !slices.ContainsFunc(links, func(l string) bool { return wanted[l] }) {
				continue // another entity with the same hash
			}
			if one := c.add(found[i]); one.linked == 0 {
				one.linked = 1 / float64(1+distance)
			}
			next = append(next, links...)
		}
		for t := range wanted {
			seen[t] = true
		}
		slices.Sort(next)
		next = slices.DeleteFunc(slices.Compact(next), func(l string) bool { return seen[l] })
		terms = next[:min(len(next), maxEntities)]
	}
	return nil
}
