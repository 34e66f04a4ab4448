package summarize

import (
	"cmp"
	"math"
	"runtime"
	"slices"
)

const (
	// maxNeighbours is the maximum number of edges that a node adds. It limits memory.
	maxNeighbours = 40
	// maxPostings is the maximum number of sentences of a term that is used to find neighbours. The
	// work for a term is quadratic in this number. More frequent terms still count in centrality.
	maxPostings = 256
	// pause is the number of nodes after which other goroutines run.
	pause = 64
	// weakest is the minimum similarity of two sentences with an edge.
	weakest = 0.03
)

type edge struct {
	to     int32
	weight float64
}

// relevance rates each node from 0 to 1: TextRank on the similarity graph, with jumps in proportion
// to the prior, weighted by prior and centrality.
func (c *corpus) relevance() []float64 {
	central := c.centrality()
	jump := make([]float64, len(c.nodes))
	for i, n := range c.nodes {
		jump[i] = float64(n.prior * (0.25 + float64(0.75*central[i])))
	}
	rank := powerIterate(c.neighbours(), jump)
	highest := 0.0
	for i := range rank {
		rank[i] = math.Sqrt(float64(rank[i]*jump[i])) * min(1, c.nodes[i].prior)
		highest = max(highest, rank[i])
	}
	if highest > 0 {
		for i := range rank {
			rank[i] /= highest
		}
	}
	return rank
}

// neighbours returns the edges of each node, in both directions.
func (c *corpus) neighbours() [][]edge {
	postings := c.postings()
	own := make([][]edge, len(c.nodes))
	sums := make([]float64, len(c.nodes))
	var touched []int32
	var scratch []edge
	for i, n := range c.nodes {
		touched = touched[:0]
		for _, x := range n.vector {
			if len(postings[x.term]) > maxPostings {
				continue
			}
			for _, p := range postings[x.term] {
				if sums[p.to] == 0 {
					touched = append(touched, p.to)
				}
				sums[p.to] += float64(x.weight * p.weight)
			}
		}
		if i%pause == 0 {
			runtime.Gosched()
		}
		scratch = c.strongest(scratch[:0], int32(i), touched, sums)
		own[i] = slices.Clone(scratch[:min(len(scratch), maxNeighbours)])
		for _, at := range touched {
			sums[at] = 0
		}
	}
	return symmetric(own)
}

// postings returns the inverted index: the nodes of each term.
func (c *corpus) postings() [][]edge {
	lists := make([][]edge, c.terms)
	for i, n := range c.nodes {
		for _, x := range n.vector {
			// One entry more than the limit marks the list as too long.
			if len(lists[x.term]) <= maxPostings {
				lists[x.term] = append(lists[x.term], edge{to: int32(i), weight: x.weight})
			}
		}
	}
	return lists
}

// strongest appends the edges of a node to out, the strongest first.
func (c *corpus) strongest(out []edge, self int32, touched []int32, sums []float64) []edge {
	for _, at := range touched {
		if at != self && sums[at] >= weakest {
			mass := float64(c.nodes[self].mass * c.nodes[at].mass)
			out = append(out, edge{to: at, weight: float64(sums[at] * mass)})
		}
	}
	slices.SortFunc(out, func(a, b edge) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.to, b.to))
	})
	return out
}

func symmetric(own [][]edge) [][]edge {
	for i := range own {
		slices.SortFunc(own[i], func(a, b edge) int { return cmp.Compare(a.to, b.to) })
	}
	added := make([][]edge, len(own))
	for i, edges := range own {
		for _, e := range edges {
			_, known := slices.BinarySearchFunc(own[e.to], int32(i), func(x edge, to int32) int { return cmp.Compare(x.to, to) })
			if !known {
				added[e.to] = append(added[e.to], edge{to: int32(i), weight: e.weight})
			}
		}
	}
	for i := range own {
		own[i] = append(own[i], added[i]...)
	}
	return own
}

// powerIterate returns the stationary distribution of a random walk that follows edges by weight
// and sometimes jumps. It adds in the order of the nodes.
func powerIterate(graph [][]edge, jump []float64) []float64 {
	const (
		damping   = 0.85
		tolerance = 1e-9
		rounds    = 100
	)
	jump = distribution(jump)
	weights := make([]float64, len(graph))
	for i, edges := range graph {
		for _, e := range edges {
			weights[i] += e.weight
		}
	}
	rank := slices.Clone(jump)
	for range rounds {
		next := make([]float64, len(graph))
		lost := 0.0
		for i := range graph {
			if weights[i] == 0 {
				lost += rank[i]
			}
		}
		for i, edges := range graph {
			sum := 0.0
			for _, e := range edges {
				sum += float64(e.weight*rank[e.to]) / weights[e.to]
			}
			// A node without edges distributes its rank like a jump.
			next[i] = float64(damping*(sum+float64(lost*jump[i]))) + float64((1-damping)*jump[i])
		}
		change := 0.0
		for i := range next {
			change += math.Abs(next[i] - rank[i])
		}
		rank = next
		if change < tolerance {
			break
		}
	}
	return rank
}

func distribution(weights []float64) []float64 {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	out := make([]float64, len(weights))
	for i, w := range weights {
		if sum > 0 {
			out[i] = w / sum
		}
	}
	return out
}
