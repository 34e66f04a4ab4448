package summarize

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func FuzzPagesHTML(f *testing.F) {
	f.Add([]byte("<!doctype html><title>t</title><h1>a<b>c</h1><p>One<script></p></script><pre>x\ny</pre><ul><li>a<li>b"))
	fuzzPages(f, "text/html")
}

func FuzzPagesMarkdown(f *testing.F) {
	f.Add([]byte("---\na: b\n---\n# T\n\n*One* [two](x) `c` &amp; \\*\n\n```\ncode\n```\n- a\n  1. b\n> c\n\n|a|\n|-|\n|b|\n"))
	fuzzPages(f, "text/markdown")
}

func FuzzPagesText(f *testing.F) {
	f.Add([]byte("One.\fTwo.\r\n\r\n\xff\xfe"))
	f.Add([]byte("\xff\xfea\x00\xd8"))
	fuzzPages(f, "text/plain")
}

func fuzzPages(f *testing.F, mime string) {
	f.Helper()
	f.Fuzz(func(t *testing.T, data []byte) {
		pages, err := Reader{}.Pages(t.Context(), "", mime, data)
		if err != nil {
			for _, known := range []error{ErrMalformed, ErrNoText, ErrTooLarge, ErrEncrypted} {
				if errors.Is(err, known) {
					return
				}
			}
			t.Fatalf("Pages() = %v, want an error of a known class", err)
		}
		last := 0
		for _, p := range pages {
			if p.Number <= last || strings.TrimSpace(p.Text) == "" {
				t.Errorf("page %d with text %q follows page %d", p.Number, p.Text, last)
			}
			last = p.Number
			checkPageText(t, p.Text)
		}
	})
}

func checkPageText(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("page text %q is not UTF-8", text)
	}
	checkSentences(t, Page{Number: 1, Text: text})
}

func FuzzSentences(f *testing.F) {
	f.Add("Dr. A. B. met (No. 5) e.g. us… Then \"Go!\" said he. 3. Oktober\n- x\n1. y\nThe docu-\nment 今日は「暑い。」と。؟ है।")
	f.Fuzz(func(t *testing.T, text string) {
		checkSentences(t, Page{Number: 1, Text: text})
	})
}

func checkSentences(t *testing.T, p Page) {
	t.Helper()
	sentences := Sentences(p)
	for _, s := range sentences {
		if s.Text == "" || s.Text != strings.TrimSpace(s.Text) || strings.Contains(s.Text, "\n") || utf8.RuneCountInString(s.Text) > longestSentence {
			t.Errorf("Sentences(%q) has %q", p.Text, s.Text)
		}
	}
	a := Analyze(p)
	if a.Sentences != len(sentences) {
		t.Errorf("Analyze(%q) counts %d sentences, Sentences %d", p.Text, a.Sentences, len(sentences))
	}
	for _, c := range a.Candidates {
		if sentences[c.Index].Text != c.Text {
			t.Errorf("Analyze(%q) has %q at %d, Sentences %q", p.Text, c.Text, c.Index, sentences[c.Index].Text)
		}
	}
	if utf8.ValidString(p.Text) {
		checkJSON(t, a)
	}
	if got := Summarize([]PageAnalysis{a}, 3); len(got) > 3 {
		t.Errorf("Summarize(3) has %d sentences", len(got))
	}
}

func checkJSON(t *testing.T, a PageAnalysis) {
	t.Helper()
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var back PageAnalysis
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, back); diff != "" {
		t.Errorf("JSON changes the analysis (-want +got):\n%s", diff)
	}
}
