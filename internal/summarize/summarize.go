package summarize

import (
	"cmp"
	"math"
	"slices"
)

// MaxSentences is the longest summary that is made.
const MaxSentences = 1000

// DefaultSentences returns a sensible length for the summary of a document of
// total sentences: it grows with the square root, from 3 to 20.
func DefaultSentences(total int) int {
	const shortest, longest = 3, 20
	if total <= shortest {
		return max(total, 0)
	}
	return min(max(int(math.Sqrt(float64(total))), shortest), longest)
}

// Summarize ranks the sentences of all pages and returns the best n, at most
// [MaxSentences], in document order. It returns fewer if the document has fewer
// that differ. The order of pages does not matter; of a page given
// twice, the first counts.
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

// pick chooses n nodes one by one, each the best by relevance less its likeness
// to those chosen before (maximal marginal relevance).
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
		// It need not equal itself exactly after rounding.
		likeness[best] = 1
	}
	return picked
}

// bestFirst returns the indexes of scores, the highest first, ties in order.
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
