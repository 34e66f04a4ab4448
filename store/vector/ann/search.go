package ann

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"unsafe"
)

// SearchParams are the params of a search.
type SearchParams struct {
	Vector []float32
	// Limit is the maximum number of results.
	Limit int
	// Filter selects items; nil selects all.
	Filter *Filter
	// Exact compares the vector with every selected vector instead of codes.
	Exact bool
	// Ef is the number of candidates of a walk. More candidates find closer vectors in more time. 0 means
	// 64, or 48 without a filter in up to 250,000 vectors. With a large limit it means more: 4 times the
	// limit, but at most 256 more than the limit. With 0, a search also adds candidates if their codes do
	// not distinguish them well enough from other vectors.
	Ef int
}

// Result is an item that a search found.
type Result struct {
	ID    string
	Score float64 // larger is closer; see [Metric]
	// Attr is the attribute of the item, nil if the index has a Source.
	Attr any
}

// Search returns the items that are closest to a vector, by falling score, then by id.
func (x *Index) Search(ctx context.Context, p SearchParams) ([]Result, error) {
	if len(p.Vector) != x.cfg.Dim {
		return nil, fmt.Errorf("ann: vector has %d components, want %d", len(p.Vector), x.cfg.Dim)
	}
	if err := ctx.Err(); err != nil || p.Limit <= 0 {
		return nil, err
	}
	q, adapt := x.query(p.Vector), p.Ef == 0
	if adapt {
		p.Ef = p.ef(x.Len())
	}
	p.Ef = max(p.Ef, p.Limit)
	for limit := p.Ef; ; limit *= 4 {
		found, version, err := x.candidates(ctx, &q, p, limit)
		if err != nil {
			return nil, err
		}
		ranked, err := x.rank(ctx, &q, found, version, p.Limit)
		if err != nil {
			return nil, err
		}
		switch {
		case len(found) < limit:
		case len(ranked) < p.Limit: // the source does not have some candidates any more
			continue
		case adapt && limit < maxAdapt && !p.Exact && x.doubtful(found, ranked[p.Limit-1].Score):
			continue
		}
		results := make([]Result, min(len(ranked), p.Limit))
		for i := range results {
			results[i] = ranked[i].Result
		}
		return results, nil
	}
}

// ef returns the default of Ef for an index with a number of vectors.
func (p *SearchParams) ef(vectors int) int {
	least := defaultEf
	if p.Filter == nil && vectors <= smallGraph {
		least = smallEf
	}
	return max(least, min(4*p.Limit, p.Limit+256))
}

// doubtful reports that an item that is not a candidate may be closer than the last result: by its
// code it is at most as close as any candidate, and its code may be wrong by as much as theirs.
func (x *Index) doubtful(found []candidate, last float64) bool {
	if found[0].close == notCompared { // all selected items are candidates
		return false
	}
	least, wrong := math.Inf(1), 0.0
	for i := range found {
		if c := &found[i]; c.scored != notScored {
			code := float64(c.close)
			least, wrong = min(least, code), max(wrong, math.Abs(code-x.exactCloseness(c.Score)))
		}
	}
	return least+wrong > x.exactCloseness(last)
}

// exactCloseness returns the closeness of a score.
func (x *Index) exactCloseness(score float64) float64 {
	if x.cfg.Metric == L2 {
		distance := 1/score - 1
		return -distance * distance
	}
	return score
}

// notCompared is the closeness of rows that were selected without a comparison.
const notCompared = math.MaxFloat32

// candidate is an item. Its score is computed from its vector.
type candidate struct {
	Result
	row    uint32
	close  float32 // by its code
	norm   float32
	vector []float32 // nil if it is not kept
	scored scored
}

// scored states how the score of a candidate was computed.
type scored uint8

const (
	notScored scored = iota
	fast             // with the precision of float32
	precise
)

// candidates returns the items that may be the closest ones, up to limit unless they are exact, and
// the version of the index that it read.
func (x *Index) candidates(ctx context.Context, q *query, p SearchParams, limit int) ([]candidate, uint64, error) {
	selected, err := x.rlock(ctx, p.Filter)
	if err != nil {
		return nil, 0, err
	}
	defer x.mu.RUnlock()
	s := x.getScratch()
	defer x.scratch.Put(s)
	count := x.rows.count
	if selected != nil {
		count = selected.count
	}
	top := collector{x: x, q: q, limit: limit}
	switch {
	case p.Exact || count <= limit || count <= scanFloat && x.cfg.Source == nil:
		top.limit = count
		x.eachRow(selected, top.keep)
	case x.count == 0 || selected != nil && count <= max(scanBroad, x.rows.count/10):
		x.eachRow(selected, top.add)
	default:
		x.walkGraph(q, selected, &top, s)
		if top.len() < limit {
			top.hits = top.hits[:0]
			x.eachRow(selected, top.add)
		}
	}
	return top.candidates(), x.version, ctx.Err()
}

// eachRow calls f for the rows of a selection; nil means all live rows.
func (x *Index) eachRow(selected *selection, f func(row uint32)) {
	if selected != nil {
		selected.each(f)
		return
	}
	for n, b := range x.blocks {
		for i := range min(blockRows, int(x.size)-n<<blockBits) {
			if b.state[i].live() {
				f(uint32(n<<blockBits + i))
			}
		}
	}
}

// walkGraph collects the closest rows of the graph, and scans the rows that are not in it.
func (x *Index) walkGraph(q *query, selected *selection, top *collector, s *scratch) {
	entry := x.entry
	for level := x.top; level > 0; level-- {
		entry = x.descend(q, entry, level)
	}
	p := walkParams{entry: entry, ef: top.limit}
	if selected != nil {
		p.selected, p.filtered = selected.rows, true
	}
	x.walk(q, p, s)
	top.hits = append(top.hits, s.results...)
	top.trim()
	for _, row := range x.pending {
		if x.state(row) == statePending && (selected == nil || selected.rows.has(row)) {
			top.add(row)
		}
	}
}

// collector collects the closest rows.
type collector struct {
	x         *Index
	q         *query
	limit     int
	hits      []hit
	threshold float32
	full      bool
}

// keep adds a row without comparing it.
func (c *collector) keep(row uint32) { c.hits = append(c.hits, hit{notCompared, row}) }

// add adds a row unless it is less close than limit others.
func (c *collector) add(row uint32) {
	h := hit{c.x.closeness(c.q, row), row}
	if c.full && h.close < c.threshold {
		return
	}
	c.hits = append(c.hits, h)
	if len(c.hits) >= 2*c.limit {
		c.trim()
	}
}

// trim removes all but the limit closest rows.
func (c *collector) trim() {
	slices.SortFunc(c.hits, func(a, b hit) int {
		if order := cmp.Compare(b.close, a.close); order != 0 {
			return order
		}
		return strings.Compare(c.x.id(a.row), c.x.id(b.row))
	})
	if len(c.hits) >= c.limit {
		c.hits = c.hits[:c.limit]
		c.threshold, c.full = c.hits[c.limit-1].close, true
	}
}

func (c *collector) len() int { return min(len(c.hits), c.limit) }

func (c *collector) candidates() []candidate {
	if len(c.hits) > c.limit {
		c.trim()
	}
	all := make([]candidate, len(c.hits))
	var ids []byte // have memory of their own, as the index may change
	for _, h := range c.hits {
		ids = append(ids, c.x.id(h.row)...)
	}
	text := string(ids)
	for i, h := range c.hits {
		b, n := c.x.block(h.row)
		id := text[:b.ids.spans[n].n]
		text = text[len(id):]
		all[i] = candidate{Result: Result{ID: id}, row: h.row, close: h.close, norm: b.norm[n], vector: c.x.vector(h.row)}
		if b.attrs != nil {
			all[i].Attr = b.attrs[n]
		}
	}
	return all
}

// rank computes the scores of candidates and sorts them. It omits those that the source does not
// have any more. The scores of the first limit ones are precise.
func (x *Index) rank(ctx context.Context, q *query, found []candidate, version uint64, limit int) ([]*candidate, error) {
	if err := x.readVectors(ctx, q, found, version); err != nil {
		return nil, err
	}
	ranked := make([]*candidate, 0, len(found))
	for i := range found {
		c := &found[i]
		if i+1 < len(found) && found[i+1].vector != nil {
			prefetch(unsafe.Pointer(&found[i+1].vector[0]))
		}
		if c.scored == notScored && c.vector != nil {
			c.Score, c.scored = x.score(q, c.vector, c.norm), fast
		}
		if c.scored != notScored {
			ranked = append(ranked, c)
		}
	}
	slices.SortFunc(ranked, compareRanks)
	if len(ranked) == 0 {
		return ranked, nil
	}
	last := *ranked[min(limit, len(ranked))-1]
	for i, c := range ranked {
		if c.scored == fast && (i < limit || x.near(q, c, &last)) {
			c.Score, c.scored = x.precise(q.vector, c.vector), precise
		}
	}
	slices.SortFunc(ranked, compareRanks)
	return ranked, nil
}

// compareRanks orders candidates by falling score, then by id.
func compareRanks(a, b *candidate) int {
	if order := cmp.Compare(b.Score, a.Score); order != 0 {
		return order
	}
	return strings.Compare(a.ID, b.ID)
}

// floatError is the relative error of scores of vectors in float32, with a margin.
const floatError = 1e-5

// near reports that a candidate with a fast score may be as close as another one that ranks before it.
func (x *Index) near(q *query, c, before *candidate) bool {
	switch x.cfg.Metric {
	case Cosine:
		return c.Score >= before.Score-2*floatError
	case Dot:
		return c.Score >= before.Score-floatError*float64(q.norm)*float64(c.norm+before.norm)
	default:
		return 1/c.Score-1 <= (1/before.Score-1)*(1+2*floatError)
	}
}

// readVectors reads the vectors of candidates from the source, and keeps them if the index has
// not changed since. It computes the scores of the others, so that a search needs no memory for all of
// them.
func (x *Index) readVectors(ctx context.Context, q *query, found []candidate, version uint64) error {
	var missing []*candidate
	for i := range found {
		if found[i].vector == nil {
			missing = append(missing, &found[i])
		}
	}
	for part := range slices.Chunk(missing, 256) {
		ids := make([]string, len(part))
		for i, c := range part {
			ids[i] = c.ID
		}
		err := x.cfg.Source.Vectors(ctx, ids, func(i int, v []float32) {
			if c := part[i]; len(v) == x.cfg.Dim {
				c.vector, c.norm = v, norm(v)
				c.Score, c.scored = x.precise(q.vector, v), precise
			}
		})
		if err != nil {
			return err
		}
		x.keepRead(part, version)
		for _, c := range part {
			c.vector = nil
		}
	}
	return ctx.Err()
}

func (x *Index) keepRead(read []*candidate, version uint64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.version != version {
		return
	}
	for _, c := range read {
		if c.vector != nil {
			x.keep(c.row, c.vector)
		}
	}
}
