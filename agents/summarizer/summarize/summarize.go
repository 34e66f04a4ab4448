package summarize

import (
	"cmp"
	"math"
	"slices"
)

// MaxSentences is the maximum length of a summary.
const MaxSentences = 1000

// MemoryOfAnalyses returns about how many bytes of memory the analyses of a document with size bytes
// of text need, including [Summarize], if each page has [CandidatesPerPage].
func MemoryOfAnalyses(size int) int64 {
	const perByte, most = 40, 40 << 20
	return min(perByte*int64(size), most)
}

// DefaultSentences returns the default length of the summary of a document with total sentences. It
// grows with the square root, from 3 to 20.
func DefaultSentences(total int) int {
	const shortest, longest = 3, 20
	if total <= shortest {
		return max(total, 0)
	}
	return min(max(int(math.Sqrt(float64(total))), shortest), longest)
}

// Summarize ranks the sentences of all pages and returns the best n, at most [MaxSentences], in
// document order. It returns fewer if the document has fewer different sentences. The order of
// pages does not matter; if a page occurs twice, the first one is used.
func Summarize(pages []PageAnalysis, n int) []Sentence {
	n = min(n, MaxSentences)
	if n <= 0 {
		return nil
	}
	c := newCorpus(pages)
	c.preselect(maxRanked)
	picked := pick(c, c.relevance(), n)
	slices.Sort(picked)
	out := make([]Sentence, len(picked))
	for i, at := range picked {
		out[i] = c.nodes[at].sentence
	}
	return out
}

// pick selects n nodes, one after the other: each time the node with the highest relevance minus
// its similarity to the selected ones (maximal marginal relevance).
func pick(c *corpus, relevance []float64, n int) []int {
	const (
		diversity     = 0.35
		nearDuplicate = 0.7
	)
	pool := bestFirst(relevance)
	pool = pool[:min(len(pool), max(500, 5*n))]
	likeness := make([]float64, len(pool))
	var picked []int
	for len(picked) < n {
		best, bestScore := -1, math.Inf(-1)
		for i, at := range pool {
			if likeness[i] >= nearDuplicate || relevance[at] <= 0 {
				continue
			}
			score := float64((1-diversity)*relevance[at]) - float64(diversity*likeness[i])
			if score > bestScore {
				best, bestScore = i, score
			}
		}
		if best < 0 {
			break
		}
		chosen := pool[best]
		picked = append(picked, chosen)
		for i, at := range pool {
			likeness[i] = max(likeness[i], dot(c.nodes[chosen].vector, c.nodes[at].vector))
		}
		// Because of rounding, it may not equal itself.
		likeness[best] = 1
	}
	return picked
}

// bestFirst returns the indexes of scores, the highest score first, ties in order.
func bestFirst(scores []float64) []int {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b))
	})
	return order
}
