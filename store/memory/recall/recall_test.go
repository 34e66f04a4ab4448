package recall

import (
	"slices"
	"strings"
	"testing"
)

func TestStemsFollowPorter(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"caresses": "caress", "ponies": "poni", "cats": "cat", "feed": "feed", "plastered": "plaster", "bled": "bled",
		"motoring": "motor", "sing": "sing", "conflated": "conflat", "troubled": "troubl", "sized": "size", "hopping": "hop",
		"tanned": "tan", "falling": "fall", "hissing": "hiss", "fizzed": "fizz", "failing": "fail", "filing": "file", "happy": "happi",
		"sky": "sky", "relational": "relat", "conditional": "condit", "rational": "ration", "valenci": "valenc", "digitizer": "digit",
		"conformabli": "conform", "radicalli": "radic", "differentli": "differ", "vileli": "vile", "analogousli": "analog",
		"vietnamization": "vietnam", "predication": "predic", "operator": "oper", "feudalism": "feudal", "decisiveness": "decis",
		"hopefulness": "hope", "callousness": "callous", "formaliti": "formal", "sensitiviti": "sensit", "sensibiliti": "sensibl",
		"triplicate": "triplic", "formative": "form", "formalize": "formal", "electriciti": "electr", "electrical": "electr",
		"hopeful": "hope", "goodness": "good", "revival": "reviv", "allowance": "allow", "inference": "infer", "airliner": "airlin",
		"adjustable": "adjust", "defensible": "defens", "irritant": "irrit", "replacement": "replac", "adjustment": "adjust",
		"dependent": "depend", "adoption": "adopt", "communism": "commun", "activate": "activ", "effective": "effect",
		"bowdlerize": "bowdler", "probate": "probat", "rate": "rate", "cease": "ceas", "roll": "roll",
		"is": "is", "naïve": "naïve", "utf8": "utf8",
	} {
		if got := Stem(word); got != want {
			t.Errorf("Stem(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestAnalyzeSplitsWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"Café CRÈME, user's http.Request_2": {"cafe", "creme", "user", "s", "http", "request", "2"},
		"東京 は":                              {"東", "京", "東京", "は"},
		"हिन्दी ":                           {"हिन्दी"},
		"  ?!":                              nil,
		"abc":                               {"abc"},
		"aBc ab\u0301c abé":                 {"abc", "abc", "abe"},
		"go東京b2 c":                          {"go", "東", "京", "東京", "b2", "c"},
		strings.Repeat("x", 70) + " y":      {strings.Repeat("x", 64), "y"},
		strings.Repeat("É", 70) + "y":       {strings.Repeat("e", 64)},
	} {
		if got := Analyze(text).Words; !slices.Equal(got, want) {
			t.Errorf("Analyze(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestTrigramsOfWords(t *testing.T) {
	t.Parallel()
	for word, want := range map[string][]string{
		"":                               nil,
		"a":                              {"_a_"},
		"ab":                             {"_ab", "ab_"},
		"abc":                            {"_ab", "abc", "bc_"},
		"banana":                         {"_ba", "ban", "ana", "nan", "na_"},
		"aaaaaa":                         {"_aa", "aaa", "aa_"},
		"हिन्दी":                         {"_हि", "हिन", "िन्", "न्द", "्दी", "दी_"},
		"東京":                             {"_東京", "東京_"},
		"\U0010ffff\U0010fffe\U0010ffff": {"_\U0010ffff\U0010fffe", "\U0010ffff\U0010fffe\U0010ffff", "\U0010fffe\U0010ffff_"},
	} {
		if got := Trigrams(word); !slices.Equal(got, want) {
			t.Errorf("Trigrams(%q) = %q, want %q", word, got, want)
		}
		for i, g := range AppendTrigrams(nil, word) {
			if g != TrigramOf(want[i]) {
				t.Errorf("AppendTrigrams(%q)[%d] = %q, want %q", word, i, g, want[i])
			}
		}
	}
}

func TestEqualScoresHaveTheSameRank(t *testing.T) {
	t.Parallel()
	if got := ranks([]float64{0.5, 0, 0.9, 0.5, 0.1}); !slices.Equal(got, []int{2, 0, 1, 2, 4}) {
		t.Errorf("ranks() = %v", got)
	}
	fused := fuse([]float64{1, 0.5}, []float64{0.7, 0})
	if fused[0] != 1 || fused[1] <= 0 || fused[1] >= 0.5 {
		t.Errorf("fuse() = %v, want 1 for the first in each part", fused)
	}
}
