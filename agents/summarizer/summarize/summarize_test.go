package summarize

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func analyzeAll(t testing.TB, name string, data []byte) []PageAnalysis {
	t.Helper()
	pages, err := Reader{}.Pages(t.Context(), name, "", data)
	if err != nil {
		t.Fatalf("Pages(%s) = %v", name, err)
	}
	var out []PageAnalysis
	for _, p := range pages {
		out = append(out, Analyze(p))
	}
	return out
}

func TestSummaries(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("testdata/documents/*.*")
	if len(files) < 3 {
		t.Fatalf("found documents %v, want three", files)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			pages := analyzeAll(t, file, data)
			total := 0
			for _, p := range pages {
				total += p.Sentences
			}
			var b strings.Builder
			for _, s := range Summarize(pages, DefaultSentences(total)) {
				fmt.Fprintf(&b, "%d.%d %s\n", s.Page, s.Index, s.Text)
			}
			golden := filepath.Join("testdata", "summaries", filepath.Base(file)+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("Summarize(%s) (-want +got):\n%s", file, diff)
			}
		})
	}
}

func TestSummarizeOrdersAndBounds(t *testing.T) {
	t.Parallel()
	pages := syntheticPages(300)
	for _, n := range []int{-1, 0, 1, 7, 50, 299, 300, 5000} {
		got := Summarize(pages, n)
		if len(got) > max(n, 0) || n > 0 && n <= 7 && len(got) != n {
			t.Errorf("Summarize(%d) has %d sentences", n, len(got))
		}
		if !slices.IsSortedFunc(got, func(a, b Sentence) int {
			return 1000*(a.Page-b.Page) + a.Index - b.Index
		}) {
			t.Errorf("Summarize(%d) is not in document order", n)
		}
	}
	if got := Summarize(nil, 3); len(got) != 0 {
		t.Errorf("Summarize(nil) = %v, want none", got)
	}
}

// A resumed run reads analyses from JSON, possibly in another order and with a page twice.
func TestSummarizeSurvivesResumption(t *testing.T) {
	t.Parallel()
	pages := syntheticPages(200)
	want := Summarize(pages, 10)
	data, err := json.Marshal(pages)
	if err != nil {
		t.Fatal(err)
	}
	var back []PageAnalysis
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pages, back); diff != "" {
		t.Errorf("JSON changes analyses (-want +got):\n%s", diff)
	}
	slices.Reverse(back)
	back = append(back, back[1])
	if diff := cmp.Diff(want, Summarize(back, 10)); diff != "" {
		t.Errorf("Summarize(resumed) (-want +got):\n%s", diff)
	}
}

// A long document keeps the best candidates of each page, with their terms.
func TestAnalysesOfLongDocumentsAreLimited(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("Harbour works continue. ", 3) + "The harbour works continue until the spring, says the mayor of the town. Figure 7. The harbour pier will be closed until the works end in spring."
	whole := Analyze(Page{Number: 1, Text: text})
	limited := whole
	limited.Limit(2)
	var texts []string
	for _, c := range limited.Candidates {
		texts = append(texts, c.Text)
		from := whole.Candidates[slices.IndexFunc(whole.Candidates, func(w Candidate) bool { return w.Index == c.Index })]
		for i, term := range c.Terms {
			if limited.Terms[term] != whole.Terms[from.Terms[i]] {
				t.Errorf("term %d of %q is %q, want %q", i, c.Text, limited.Terms[term], whole.Terms[from.Terms[i]])
			}
		}
	}
	want := []string{"The harbour works continue until the spring, says the mayor of the town.", "The harbour pier will be closed until the works end in spring."}
	if diff := cmp.Diff(want, texts); diff != "" || limited.Sentences != whole.Sentences || len(limited.Terms) >= len(whole.Terms) {
		t.Errorf("Limit(2) = %+v (-want +got):\n%s", limited, diff)
	}
	same := whole
	same.Limit(len(whole.Candidates))
	if diff := cmp.Diff(whole, same); diff != "" {
		t.Errorf("Limit(%d) (-want +got):\n%s", len(whole.Candidates), diff)
	}
	for _, pages := range []int{1, 100, 8_000, 1_000_000} {
		if n := CandidatesPerPage(pages); n < 2 || pages <= maxRanked && n*pages > 2*maxRanked {
			t.Errorf("CandidatesPerPage(%d) = %d", pages, n)
		}
	}
}

// The memory that a document needs is at most the stated one. The test is not parallel, because it
// measures the memory of the process.
func TestMemoryOfDocumentsIsStated(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	r := rand.New(rand.NewPCG(1, 2))
	for name, unit := range map[string]func(b *strings.Builder){
		"prose": func(b *strings.Builder) { b.WriteString(sentenceOf(r, r.IntN(50), 8+r.IntN(20)) + " ") },
		"rare words": func(b *strings.Builder) {
			fmt.Fprintf(b, "W%x q%x x%x d%x. ", r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32())
		},
		"ideographs": func(b *strings.Builder) {
			for range 12 {
				b.WriteRune(rune(0x4e00 + r.IntN(3000)))
			}
			b.WriteString("。")
		},
	} {
		for _, size := range []int{1 << 20, 3 << 20} {
			var b strings.Builder
			for b.Len() < size {
				unit(&b)
			}
			data := []byte(b.String())
			b.Reset()
			var pages []Page
			used := memoryOf(func() {
				var err error
				if pages, err = (Reader{}).Pages(t.Context(), "", "text/plain", data); err != nil {
					t.Fatal(err)
				}
			})
			if most := MemoryOfPages(data); used > most {
				t.Errorf("pages of %d bytes of %s need %d bytes, want at most %d", size, name, used, most)
			}
			used = memoryOf(func() {
				var all []PageAnalysis
				for _, p := range pages {
					a := Analyze(p)
					a.Limit(CandidatesPerPage(len(pages)))
					all = append(all, a)
				}
				Summarize(all, 20)
			})
			if most := MemoryOfAnalyses(size) + int64(size); used > most { // garbage is included
				t.Errorf("analyses of %d bytes of %s need %d bytes, want at most %d", size, name, used, most)
			}
			t.Logf("%s, %d MiB: %d MiB", name, size>>20, used>>20)
		}
	}
}

// memoryOf returns the most memory that f has at once.
func memoryOf(f func()) int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	done := make(chan struct{})
	largest := make(chan uint64)
	go func() {
		var most uint64
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
			select {
			case <-done:
				largest <- most
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	f()
	close(done)
	return int64(<-largest) - int64(before)
}

func TestSummarizeBearsForeignAnalyses(t *testing.T) {
	t.Parallel()
	pages := []PageAnalysis{
		{Page: 1, Terms: []string{"a"}, Candidates: []Candidate{{Text: "x", Terms: []int{-1, 5}, Fitness: 5}, {Text: "y", Terms: []int{0}, Fitness: -7}}},
		{Page: 1},
		{},
		{Page: 2, Terms: []string{"a", "a"}, Candidates: []Candidate{{Text: "z", Terms: []int{0, 1}, Fitness: math.MaxInt}}},
	}
	if got := Summarize(pages, 5); len(got) != 1 || got[0].Text != "z" {
		t.Errorf("Summarize() = %v, want z", got)
	}
}

func TestSummarizeSkipsNearDuplicates(t *testing.T) {
	t.Parallel()
	text := `The committee approved the new budget for the harbour on Monday evening.
The committee approved the new budget for the harbour on Monday night.
The new budget for the harbour was approved by the committee on Monday evening.
Fishermen protested against the closure of the northern pier during the winter.
The northern pier will stay open until repairs begin in the coming spring.`
	got := Summarize([]PageAnalysis{Analyze(Page{Number: 1, Text: text})}, 5)
	if len(got) != 3 {
		t.Errorf("Summarize() = %v, want the budget once and both on the pier", got)
	}
}

func TestSummarizePassesOverFurniture(t *testing.T) {
	t.Parallel()
	var pages []PageAnalysis
	for i := range 12 {
		text := fmt.Sprintf("Annual report of the harbour authority of Port Ellery.\n\nChapter %d .......... %d\n\nBudget\n\n%s", i, i, sentenceOf(rand.New(rand.NewPCG(uint64(i), 1)), 3, 14))
		pages = append(pages, Analyze(Page{Number: i + 1, Text: text}))
	}
	for _, s := range Summarize(pages, 6) {
		if strings.Contains(s.Text, "Annual report") || strings.Contains(s.Text, "....") || s.Text == "Budget" {
			t.Errorf("Summarize() picks %q", s.Text)
		}
	}
}

func TestSummarizeInManyScripts(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"Japanese": "東京都は新しい図書館を建設する計画を発表した。図書館は来年の春に開館する予定である。費用は約五十億円と見込まれている。天気は晴れだった。住民は図書館の建設計画を歓迎している。",
		"Chinese":  "市政府宣布将建设新的图书馆。图书馆预计明年春天开放。建设费用约为五亿元。今天天气很好。居民欢迎图书馆的建设计划。",
		"Arabic":   "أعلنت المدينة عن خطة لبناء مكتبة جديدة في وسط المدينة. ستفتح المكتبة أبوابها في الربيع القادم للجميع. تبلغ تكلفة بناء المكتبة خمسين مليون دينار. كان الطقس جميلا اليوم. رحب السكان بخطة بناء المكتبة الجديدة في مدينتهم.",
		"Hindi":    "शहर ने एक नए पुस्तकालय के निर्माण की योजना की घोषणा की। पुस्तकालय अगले वसंत में सभी के लिए खुलेगा। पुस्तकालय के निर्माण की लागत पचास करोड़ रुपये है। आज मौसम अच्छा था। लोगों ने नए पुस्तकालय की योजना का स्वागत किया।",
		"Russian":  "Город объявил о плане строительства новой библиотеки в центре. Библиотека откроется для всех жителей следующей весной. Стоимость строительства библиотеки составит пятьдесят миллионов рублей. Погода была хорошей. Жители приветствовали план строительства новой городской библиотеки.",
	}
	for name, text := range texts {
		a := Analyze(Page{Number: 1, Text: text})
		got := Summarize([]PageAnalysis{a}, 2)
		if a.Sentences != 5 || len(got) != 2 {
			t.Errorf("%s: %d sentences, summary %v, want 5 and 2", name, a.Sentences, got)
		}
		for _, s := range got {
			if s.Index == 3 {
				t.Errorf("%s: summary has the sentence on the weather: %v", name, got)
			}
		}
	}
}

func TestDefaultSentences(t *testing.T) {
	t.Parallel()
	for total, want := range map[int]int{-1: 0, 0: 0, 1: 1, 3: 3, 4: 3, 26: 5, 100: 10, 1000: 20, 60_000: 20} {
		if got := DefaultSentences(total); got != want {
			t.Errorf("DefaultSentences(%d) = %d, want %d", total, got, want)
		}
	}
}

func TestLn(t *testing.T) {
	t.Parallel()
	for _, x := range []float64{1, 1.00001, 1.5, 2, 3, 10, 12345.678, 1e9} {
		if got, want := ln(x), math.Log(x); math.Abs(got-want) > 1e-12*(1+want) {
			t.Errorf("ln(%v) = %v, want %v", x, got, want)
		}
	}
}

// sentenceOf returns a sentence of artificial words; topic shifts the vocabulary.
func sentenceOf(r *rand.Rand, topic, words int) string {
	var b strings.Builder
	for i := range words {
		// The distribution is skewed as in natural language: few words are frequent.
		rank := int(math.Pow(2, r.Float64()*11))
		if r.IntN(2) == 0 {
			rank = 3000 + topic*40 + rank%40
		}
		if i == 0 {
			fmt.Fprintf(&b, "Wo%s", wordOf(rank))
			continue
		}
		fmt.Fprintf(&b, " wo%s", wordOf(rank))
	}
	return b.String() + "."
}

func wordOf(n int) string {
	var b []byte
	for ; n > 0; n /= 20 {
		b = append(b, "bcdfghjklmnprtvwxzqy"[n%20], "aeiou"[n%5])
	}
	return string(b)
}

// syntheticPages returns a document with 30 sentences per page.
func syntheticPages(sentences int) []PageAnalysis {
	const perPage = 30
	r := rand.New(rand.NewPCG(1, 2))
	var out []PageAnalysis
	for done := 0; done < sentences; done += perPage {
		var b strings.Builder
		for range min(perPage, sentences-done) {
			b.WriteString(sentenceOf(r, len(out)%50, 8+r.IntN(20)) + " ")
		}
		out = append(out, Analyze(Page{Number: len(out) + 1, Text: b.String()}))
	}
	return out
}

func BenchmarkSummarize(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000, 60_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			pages := syntheticPages(n)
			b.ReportAllocs()
			for b.Loop() {
				Summarize(pages, DefaultSentences(n))
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/sentence")
		})
	}
}

func BenchmarkAnalyze(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	for range 30 {
		text.WriteString(sentenceOf(r, 1, 18) + " ")
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		Analyze(Page{Number: 1, Text: text.String()})
	}
}
