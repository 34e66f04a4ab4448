package vectordriver

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// Collector applies the params of a search to documents in the order of their ranks.
type Collector struct {
	p      *vector.SearchParams
	groups map[string]bool
	skip   int
	hits   []vector.Hit
	full   bool
}

// NewCollector returns a collector for one query. p was checked.
func NewCollector(p *vector.SearchParams) *Collector {
	return &Collector{p: p, groups: make(map[string]bool), skip: p.Offset}
}

// Add adds the next document and reports whether the search needs more.
func (c *Collector) Add(r *Row, score float64, parts vector.Scores) bool {
	if c.full {
		return false
	}
	if c.p.MinScore != nil && score < *c.p.MinScore {
		c.full = true
		return false
	}
	h := vector.Hit{Document: r.Document(c.p.IncludeEmbedding), Score: score, Scores: parts}
	if !c.p.Filter.Match(h.Metadata) {
		return true
	}
	if c.p.GroupBy != "" {
		if group := groupOf(h.Metadata, c.p.GroupBy); group != "" {
			if c.groups[group] {
				return true
			}
			c.groups[group] = true
		}
	}
	if c.skip > 0 {
		c.skip--
		return true
	}
	c.hits = append(c.hits, h)
	c.full = len(c.hits) == c.p.Limit
	return !c.full
}

// Full reports whether more documents would change nothing.
func (c *Collector) Full() bool { return c.full }

// Hits returns the documents to return.
func (c *Collector) Hits() []vector.Hit { return c.hits }

// groupOf returns the group of a scalar member, or "" if there is none.
func groupOf(metadata map[string]any, path string) string {
	member, _ := filter.Lookup(metadata, path)
	switch member := member.(type) {
	case string, bool, float64, json.Number:
		return fmt.Sprintf("%T %v", member, member)
	}
	return ""
}
