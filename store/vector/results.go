package vector

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/holdfast-dev/holdfast/store/filter"
)

// Score returns the score of an embedding for a query; see [Metric]. Both have the same dimension.
func (m Metric) Score(query, embedding []float32) float64 {
	var dot, a, b, squares float64
	for i := range query {
		x, y := float64(query[i]), float64(embedding[i])
		dot, a, b, squares = dot+x*y, a+x*x, b+y*y, squares+(x-y)*(x-y)
	}
	switch m {
	case Dot:
		return dot
	case L2:
		return 1 / (1 + math.Sqrt(squares))
	default:
		// Rounded, so that vectors of the same direction have the same score.
		return max(-1, min(1, float64(float32(dot/math.Sqrt(a*b)))))
	}
}

// Collector applies the params of a search to documents in the order of their ranks.
type Collector struct {
	p      *SearchParams
	groups map[string]bool
	skip   int
	hits   []Hit
	full   bool
}

// NewCollector returns a collector for one query. p was checked.
func NewCollector(p *SearchParams) *Collector {
	return &Collector{p: p, groups: make(map[string]bool), skip: p.Offset}
}

// Add adds the next document and reports whether the search needs more.
func (c *Collector) Add(r *Row, score float64, parts Scores) bool {
	if c.full {
		return false
	}
	if c.p.MinScore != nil && score < *c.p.MinScore {
		c.full = true
		return false
	}
	h := Hit{Document: r.Document(c.p.IncludeEmbedding), Score: score, Scores: parts}
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
func (c *Collector) Hits() []Hit { return c.hits }

// groupOf returns the group of a scalar member, or "" if there is none.
func groupOf(metadata map[string]any, path string) string {
	member, _ := filter.Lookup(metadata, path)
	switch member := member.(type) {
	case string, bool, float64, json.Number:
		return fmt.Sprintf("%T %v", member, member)
	}
	return ""
}
