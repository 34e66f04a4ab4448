package summarize

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/keywords"
)

// PageAnalysis is the data about one page that [Summarize] needs. It is the unit of durable work:
// its JSON is about as large as the text of the page, and equal pages have equal analyses.
type PageAnalysis struct {
	// Page is the number of the page.
	Page int `json:"page"`
	// Sentences counts all sentences of the page.
	Sentences int `json:"sentences"`
	// Language is the ISO 639-1 code of the page's language, "" if it is unknown.
	Language string `json:"language,omitempty"`
	// Terms is the page's vocabulary, in order of first use.
	Terms []string `json:"terms,omitempty"`
	// Candidates are the sentences that a summary may contain, in the order of the page.
	Candidates []Candidate `json:"candidates,omitempty"`
}

// Candidate is a sentence that a summary may contain.
type Candidate struct {
	// Index is the sentence's [Sentence.Index].
	Index int `json:"i"`
	// Text is the sentence's [Sentence.Text].
	Text string `json:"t"`
	// Terms are indexes into [PageAnalysis.Terms], one per use.
	Terms []int `json:"w,omitempty"`
	// Fitness, in thousandths, rates the form of the sentence: its length, its punctuation and its
	// place in the paragraph. It is an integer so that JSON represents it exactly.
	Fitness int `json:"f"`
}

// maxTerms is the maximum number of words of a sentence that count in its rank.
const maxTerms = 128

// Analyze splits a page into sentences and rates each. It omits sentences without content words.
func Analyze(p Page) PageAnalysis {
	lang := keywords.Detect(p.Text)
	a := PageAnalysis{Page: p.Number, Language: string(lang)}
	ids := make(map[string]int)
	for _, b := range pageBlocks(p.Text) {
		for i, text := range b.sentences {
			index := a.Sentences
			a.Sentences++
			t := tokenize(text, lang)
			if len(t.terms) == 0 {
				continue
			}
			a.Candidates = append(a.Candidates, Candidate{
				Index:   index,
				Text:    text,
				Terms:   a.intern(ids, t.terms[:min(len(t.terms), maxTerms)]),
				Fitness: fitness(text, t, i == 0),
			})
		}
	}
	return a
}

// CandidatesPerPage returns how many candidates of each page of a document suffice, so that the
// analyses of a long document have a bounded size; see [PageAnalysis.Limit].
func CandidatesPerPage(pages int) int { return max(2, 2*maxRanked/max(pages, 1)) }

// Limit keeps at most the given number of candidates: sentences of good form that resemble the rest of
// the page. It keeps the terms that they use.
func (a *PageAnalysis) Limit(most int) {
	if len(a.Candidates) <= most {
		return
	}
	uses := make([]int, len(a.Terms))
	for _, c := range a.Candidates {
		for _, t := range c.Terms {
			uses[t]++
		}
	}
	scores := make([]float64, len(a.Candidates))
	for i, c := range a.Candidates {
		sum := 0
		for _, t := range c.Terms {
			sum += uses[t]
		}
		scores[i] = float64(float64(c.Fitness)*float64(sum)) / math.Sqrt(float64(len(c.Terms)))
	}
	best := bestFirst(scores)[:most]
	slices.Sort(best)
	all, terms := a.Candidates, a.Terms
	a.Candidates, a.Terms = make([]Candidate, most), nil
	ids := make(map[string]int)
	for to, from := range best {
		c := all[from]
		own := make([]string, len(c.Terms))
		for i, t := range c.Terms {
			own[i] = strings.Clone(terms[t])
		}
		// The text is a part of the page's text, which would stay in memory with it.
		c.Text, c.Terms = strings.Clone(c.Text), a.intern(ids, own)
		a.Candidates[to] = c
	}
}

func (a *PageAnalysis) intern(ids map[string]int, terms []string) []int {
	out := make([]int, len(terms))
	for i, term := range terms {
		id, ok := ids[term]
		if !ok {
			id = len(a.Terms)
			ids[term] = id
			a.Terms = append(a.Terms, term)
		}
		out[i] = id
	}
	return out
}

// fitness rates the form of a sentence.
func fitness(text string, t tokens, opensParagraph bool) int {
	f := lengthFitness(t.words)
	ends := endsSentence(text)
	switch {
	case !ends && t.words < 12:
		// A heading, caption or table cell.
		f = scale(f, 120)
	case !ends:
		f = scale(f, 500)
	case strings.ContainsAny(lastRunes(text, 3), "?？؟"):
		f = scale(f, 600)
	}
	if opensParagraph && ends {
		f = scale(f, 1150)
	}
	if dangles(t.first) {
		f = scale(f, 750)
	}
	if t.numbers*5 > t.words*2 || strings.Contains(text, "....") || strings.Contains(text, ". . .") {
		// A table row or a line of a table of contents.
		f = scale(f, 200)
	}
	switch r, _ := utf8.DecodeRuneInString(text); {
	case unicode.IsLower(r):
		// A fragment of a sentence.
		f = scale(f, 600)
	case strings.ContainsRune("\"“„«»‘‚「『—–", r):
		// Quoted speech is unclear without its context.
		f = scale(f, 600)
	}
	return f
}

func scale(f, thousandths int) int { return f * thousandths / 1000 }

func lengthFitness(words int) int {
	switch {
	case words < 4:
		return 100
	case words < 7:
		return 450
	case words < 9:
		return 750
	case words < 12:
		return 900
	case words <= 32:
		return 1000
	case words <= 45:
		return 800
	case words <= 70:
		return 450
	case words <= 100:
		return 200
	}
	return 60
}

func endsSentence(text string) bool {
	r, _ := utf8.DecodeLastRuneInString(strings.TrimRight(text, "\"'”’»«›“)]）」』】 \u00a0\u202f"))
	return isTerminal(r)
}

func lastRunes(s string, n int) string {
	for i := len(s); i > 0; {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
		if n--; n == 0 {
			return s[i:]
		}
	}
	return s
}

// dangles reports whether the first word of a sentence refers to the previous sentence, which the
// summary may omit.
func dangles(first string) bool {
	switch first {
	case "this", "these", "those", "that", "it", "he", "she", "they", "such", "his", "her", "their", "its",
		"however", "but", "and", "so", "thus", "therefore", "moreover", "furthermore", "nevertheless", "otherwise", "also",
		"dies", "diese", "dieser", "dieses", "er", "sie", "es", "aber", "jedoch", "doch", "dennoch", "deshalb", "daher",
		"dadurch", "damit", "dabei", "außerdem", "zudem", "und", "auch",
		"il", "elle", "ils", "elles", "ce", "cet", "cette", "ces", "cela", "mais", "cependant", "toutefois", "ainsi", "donc",
		"él", "ella", "ellos", "esto", "este", "esta", "estos", "estas", "eso", "ese", "pero", "además", "así", "también",
		"он", "она", "они", "оно", "это", "этот", "эта", "эти", "но", "однако", "поэтому", "также", "и", "а",
		"هو", "هي", "هم", "هذا", "هذه", "ولكن", "لكن", "كما",
		"यह", "वह", "ये", "वे", "लेकिन", "इसलिए", "परंतु":
		return true
	}
	return false
}
