package summarize

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// maxRanked is the maximum number of sentences in the graph. Of longer documents, the best
// sentences of each page are used.
const maxRanked = 8_000

// corpus has all candidates of a document as vectors over one vocabulary.
type corpus struct {
	nodes []node
	terms int
	pages int
	// centroid is the sum of all vectors, including those that preselect omits.
	centroid []float64
}

type node struct {
	sentence Sentence
	// prior is the rating of the sentence by form and position, before its content is compared with
	// other sentences.
	prior float64
	// mass is about 1 and grows with the content of the sentence. It compensates for the cosine,
	// which is higher for short sentences.
	mass   float64
	vector vector
}

// vector has the terms of a sentence with their tf-idf weights, sorted by term, normalized to
// length 1.
type vector []component

type component struct {
	term   int32
	weight float64
}

func newCorpus(pages []PageAnalysis) *corpus {
	b := corpusBuilder{ids: make(map[string]int32), seen: make(map[string]int)}
	for _, p := range inOrder(pages) {
		b.addPage(p)
	}
	return b.build()
}

// inOrder sorts by page number and removes repeated pages, which an interrupted run may have
// stored.
func inOrder(pages []PageAnalysis) []PageAnalysis {
	sorted := slices.Clone(pages)
	slices.SortStableFunc(sorted, func(a, b PageAnalysis) int { return cmp.Compare(a.Page, b.Page) })
	return slices.CompactFunc(sorted, func(a, b PageAnalysis) bool { return a.Page == b.Page })
}

type corpusBuilder struct {
	corpus
	ids     map[string]int32
	df      []int
	counts  [][]component
	repeats []int
	// seen maps the term sequence of a sentence to its node.
	seen map[string]int
}

func (b *corpusBuilder) addPage(p PageAnalysis) {
	b.pages++
	global := make([]int32, len(p.Terms))
	for i, term := range p.Terms {
		id, ok := b.ids[term]
		if !ok {
			id = int32(len(b.df))
			b.ids[term] = id
			b.df = append(b.df, 0)
		}
		global[i] = id
	}
	for _, c := range p.Candidates {
		b.addCandidate(p.Page, c, global)
	}
}

// addCandidate adds a sentence. It adds repeated sentences only once: they are headers and footers,
// and copies would raise each other's rank.
func (b *corpusBuilder) addCandidate(page int, c Candidate, global []int32) {
	terms := make([]int32, 0, len(c.Terms))
	for _, t := range c.Terms {
		if t >= 0 && t < len(global) {
			terms = append(terms, global[t])
		}
	}
	if len(terms) == 0 {
		return
	}
	key := sequenceKey(terms)
	if at, ok := b.seen[key]; ok {
		b.repeats[at]++
		return
	}
	b.seen[key] = len(b.nodes)
	counts := count(terms)
	for _, t := range counts {
		b.df[t.term]++
	}
	b.counts = append(b.counts, counts)
	b.repeats = append(b.repeats, 0)
	b.nodes = append(b.nodes, node{
		sentence: Sentence{Page: page, Index: c.Index, Text: c.Text},
		prior:    float64(min(max(c.Fitness, 0), 2000)) / 1000,
	})
}

func sequenceKey(terms []int32) string {
	key := make([]byte, 0, 4*len(terms))
	for _, t := range terms {
		key = binary.BigEndian.AppendUint32(key, uint32(t))
	}
	return string(key)
}

// count sorts terms in place and returns each with its number of uses.
func count(terms []int32) []component {
	slices.Sort(terms)
	var out []component
	for _, t := range terms {
		if len(out) > 0 && out[len(out)-1].term == t {
			out[len(out)-1].weight++
			continue
		}
		out = append(out, component{term: t, weight: 1})
	}
	return out
}

func (b *corpusBuilder) build() *corpus {
	b.terms = len(b.df)
	b.centroid = make([]float64, b.terms)
	idf := make([]float64, b.terms)
	for t, df := range b.df {
		idf[t] = ln(1 + float64(len(b.nodes))/float64(df))
	}
	lengths := make([]float64, len(b.nodes))
	mean := 0.0
	for i := range b.nodes {
		b.nodes[i].vector, lengths[i] = normalise(b.counts[i], idf)
		mean += lengths[i] / float64(len(b.nodes))
	}
	for i := range b.nodes {
		n := &b.nodes[i]
		n.mass = math.Sqrt(min(max(lengths[i]/mean, 0.25), 2))
		n.prior = float64(n.prior * positionPrior(i, len(b.nodes)))
		if b.repeats[i] >= 2 {
			n.prior *= 0.2
		}
		for _, c := range n.vector {
			b.centroid[c.term] += c.weight
		}
	}
	return &b.corpus
}

// normalise replaces counts by weights in place and returns the length that the vector had.
func normalise(counts []component, idf []float64) (vector, float64) {
	sum := 0.0
	for i, c := range counts {
		// A repetition of a word counts less than its first use.
		counts[i].weight = float64(math.Sqrt(c.weight) * idf[c.term])
		sum += float64(counts[i].weight * counts[i].weight)
	}
	length := math.Sqrt(sum)
	for i := range counts {
		counts[i].weight /= length
	}
	return counts, length
}

// positionPrior prefers the first tenth of a document, where most texts state their subject, and
// slightly its end.
func positionPrior(i, total int) float64 {
	const most = 0.5
	opening := max(total/10, 3)
	switch {
	case i < opening:
		return 1 + float64(most*float64(opening-i))/float64(opening)
	case i >= total-2:
		return 1.1
	}
	return 1
}

// centrality returns the similarity of each node to the whole document, relative to the highest.
func (c *corpus) centrality() []float64 {
	out := make([]float64, len(c.nodes))
	highest := 0.0
	for i, n := range c.nodes {
		for _, x := range n.vector {
			out[i] += float64(x.weight * c.centroid[x.term])
		}
		out[i] *= n.mass
		highest = max(highest, out[i])
	}
	if highest > 0 {
		for i := range out {
			out[i] /= highest
		}
	}
	return out
}

// preselect keeps about limit nodes: the best of each page by prior and centrality, so that every
// page is represented.
func (c *corpus) preselect(limit int) {
	if len(c.nodes) <= limit {
		return
	}
	scores := c.centrality()
	for i := range scores {
		scores[i] *= c.nodes[i].prior
	}
	quota := max(1, limit/c.pages)
	taken := make(map[int]int, c.pages)
	var kept []int
	for _, i := range bestFirst(scores) {
		page := c.nodes[i].sentence.Page
		if taken[page] < quota && len(kept) < limit {
			taken[page]++
			kept = append(kept, i)
		}
	}
	slices.Sort(kept)
	nodes := make([]node, len(kept))
	for to, from := range kept {
		nodes[to] = c.nodes[from]
	}
	c.nodes = nodes
}

// dot returns the cosine of two vectors of length 1.
func dot(a, b vector) float64 {
	sum := 0.0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i].term < b[j].term:
			i++
		case a[i].term > b[j].term:
			j++
		default:
			sum += float64(a[i].weight * b[j].weight)
			i++
			j++
		}
	}
	return sum
}

// ln returns the natural logarithm. The last bit of [math.Log] differs between platforms, which
// would change the order of equal sentences.
func ln(x float64) float64 {
	const ln2 = 0.693147180559945309417232121458
	fraction, exponent := math.Frexp(x)
	y := (fraction - 1) / (fraction + 1)
	square := float64(y * y)
	power, sum := y, 0.0
	for k := 1; k <= 41; k += 2 {
		sum += power / float64(k)
		power = float64(power * square)
	}
	return float64(2*sum) + float64(float64(exponent)*ln2)
}
