package keywords

import (
	"slices"
	"strings"
	"testing"
)

func TestKeywords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"When was the lighthouse built, in 1821?": "lighthouse built 1821",
		"Wann wurde der Leuchtturm gebaut?":       "Leuchtturm gebaut",
		"灯台 はいつ建てられた":                             "灯台 はいつ建てられた",
		"And what about it?":                      "",
		"":                                        "",
	} {
		if got := Of(text); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("Of(%q) = %q, want %q", text, got, want)
		}
	}
}
