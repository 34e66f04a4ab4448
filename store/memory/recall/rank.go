package recall

import (
	"math"
	"slices"
)

// Parameters of BM25, and of the fusion by reciprocal rank.
const (
	saturation    = 1.2
	lengthWeight  = 0.75
	fusionRank    = 60
	minSimilarity = 0.3 // of two words by their trigrams
	recencyWeight = 0.2 // of the recency, relative to all other parts together
)

// Weight returns the weight of a term that n of all texts contain: the rarer, the greater.
func Weight(n, all int) float64 {
	return math.Log(1 + (float64(max(all, n)-n)+0.5)/(float64(n)+0.5))
}

// Score returns the BM25 score of a text that contains terms of a weight once. length is its number of
// words relative to the average.
func Score(weight, length float64) float64 {
	return weight * (saturation + 1) / (1 + saturation*(1-lengthWeight+lengthWeight*length))
}

// weighted is a term of a query.
type weighted struct {
	term   string
	weight float64
}

// lexical returns the BM25 score of each text. A text of average length that has each term once
// has the score 1.
func lexical(texts []Text, terms []weighted) []float64 {
	scores := make([]float64, len(texts))
	var words, once float64
	for i := range texts {
		words += float64(len(texts[i].Stems))
	}
	weights := make(map[string]float64, len(terms))
	for _, t := range terms {
		weights[t.term] = t.weight
		once += t.weight
	}
	average := words / float64(max(1, len(texts)))
	for i := range texts {
		counts := make(map[string]float64, len(terms))
		for _, s := range texts[i].Stems {
			if _, ok := weights[s]; ok {
				counts[s]++
			}
		}
		length := saturation * (1 - lengthWeight + lengthWeight*float64(len(texts[i].Stems))/average)
		for _, t := range terms { // in this order, so that equal texts have equal scores
			n := counts[t.term]
			scores[i] += t.weight * n * (saturation + 1) / (n + length) / once
		}
	}
	return scores
}

// fuzzy returns for each text the share of words that it has a similar word for. A word counts
// more if few texts have one.
func fuzzy(texts []Text, words []string) []float64 {
	best := similarities(texts, words)
	weights, sum := make([]float64, len(words)), 0.0
	for w := range words {
		n := 0
		for i := range texts {
			if best[i][w] > 0 {
				n++
			}
		}
		weights[w] = Weight(n, len(texts))
		sum += weights[w]
	}
	scores := make([]float64, len(texts))
	for i := range texts {
		for w := range words {
			scores[i] += weights[w] * best[i][w] / sum
		}
	}
	return scores
}

// similarities returns, for each text and each of words, the similarity of the most similar word
// of the text, or 0 if that is too low.
func similarities(texts []Text, words []string) [][]float64 {
	x := newWordIndex(words)
	known := make(map[string][]float64) // by word of a text
	best := make([][]float64, len(texts))
	for i := range texts {
		best[i] = make([]float64, len(words))
		for _, word := range texts[i].Words {
			found, ok := known[word]
			if !ok {
				found = x.similarities(word)
				known[word] = found
			}
			for w, s := range found {
				best[i][w] = max(best[i][w], s)
			}
		}
	}
	return best
}

// wordIndex has words by their trigrams.
type wordIndex struct {
	with  map[Trigram][]int // the words that have a trigram
	grams []int             // the number of trigrams of each word
	other []Trigram         // of the word that is compared
}

func newWordIndex(words []string) *wordIndex {
	x := &wordIndex{with: make(map[Trigram][]int), grams: make([]int, len(words))}
	for w, word := range words {
		all := AppendTrigrams(nil, word)
		x.grams[w] = len(all)
		for _, g := range all {
			x.with[g] = append(x.with[g], w)
		}
	}
	return x
}

// similarities returns for each word of the index the share of trigrams that it has in common with another
// word, or 0 if that is too low. It returns nil if no word has one in common.
func (x *wordIndex) similarities(word string) []float64 {
	var common []float64
	x.other = AppendTrigrams(x.other[:0], word)
	for _, g := range x.other {
		for _, w := range x.with[g] {
			if common == nil {
				common = make([]float64, len(x.grams))
			}
			common[w]++
		}
	}
	for w, n := range common {
		if common[w] = n / (float64(x.grams[w]+len(x.other)) - n); common[w] < minSimilarity {
			common[w] = 0
		}
	}
	return common
}

// ranks returns the rank of each score from 1, and 0 for the score 0. Equal scores have the same
// rank.
func ranks(scores []float64) []int {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	all := make([]int, len(scores))
	for n, i := range order {
		switch {
		case scores[i] == 0:
		case n > 0 && scores[i] == scores[order[n-1]]:
			all[i] = all[order[n-1]]
		default:
			all[i] = n + 1
		}
	}
	return all
}

// fuse returns the fusion of scores by reciprocal rank, from 0 to 1. A part in which no text has a
// score does not count.
func fuse(parts ...[]float64) []float64 {
	fused := make([]float64, len(parts[0]))
	parts = slices.DeleteFunc(parts, func(scores []float64) bool {
		return !slices.ContainsFunc(scores, func(s float64) bool { return s > 0 })
	})
	for _, scores := range parts {
		for i, r := range ranks(scores) {
			if r > 0 {
				fused[i] += (fusionRank + 1) / float64(fusionRank+r) / float64(len(parts))
			}
		}
	}
	return fused
}
