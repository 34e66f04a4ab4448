package summarize

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestPagesReadsText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, mime string
		data             string
		want             []string
	}{
		{"plain", "", "text/plain", "One.\r\n\r\nTwo.", []string{"One.\n\nTwo."}},
		{"byte order mark", "", "text/plain; charset=utf-8", "\ufeffÄpfel.", []string{"Äpfel."}},
		{"UTF-16 little endian", "", "text/plain", "\xff\xfeH\x00\xe4\x00", []string{"Hä"}},
		{"UTF-16 big endian", "", "", "\xfe\xff\x00H\x65\xe5", []string{"H日"}},
		{"Windows-1252", "", "text/plain", "caf\xe9 \x93quoted\x94 \x80", []string{"café “quoted” €"}},
		{"declared charset", "", "text/plain; charset=koi8-r", "\xf0\xf2\xe9", []string{"ПРИ"}},
		{"declared UTF-16 without a byte order mark", "", "text/plain; charset=utf-16be", "\x00H\x00i", []string{"Hi"}},
		{"declared charset of escapes", "", "text/plain; charset=iso-2022-jp", "\x1b$B8@8l\x1b(B", []string{"言語"}},
		{"declared charset that it is not", "", "text/plain; charset=iso-8859-1", "Äpfel.", []string{"Äpfel."}},
		{"damaged UTF-8", "", "text/plain", strings.Repeat("日本語", 30) + "\xe6", []string{strings.Repeat("日本語", 30) + "\ufffd"}},
		{"form feeds", "", "text/plain", "One.\fTwo.\f\f", []string{"One.", "Two."}},
		{"control characters", "", "text/plain", "A\x1bB\u200bC" + strings.Repeat("x", 100), []string{"ABC" + strings.Repeat("x", 100)}},

		{"markdown", "a.md", "", "# Title\n\nSome *emphasised* text\non [two](http://x) lines &amp; more \\* `code`.\n\n```go\nfunc x() {}\n```\n\n    indented\n\n- item one\n- item two\n\n> quoted\n\nSetext\n===\n<div>html</div>\n", []string{
			"Some emphasised text on two lines & more * code.\n\nitem one\n\nitem two\n\nquoted",
		}},
		{"markdown front matter", "", "text/markdown", "---\ntitle: x\n---\nBody.", []string{"Body."}},
		{"markdown table", "", "text/markdown", "|a|b|\n|-|-|\n|one|two|\n", []string{"one two"}},
		{"markdown of headings", "", "text/markdown", "# One\n## Two\n", []string{"One\n\nTwo"}},
		{"markdown hard break", "", "text/markdown", "One  \nTwo", []string{"One\nTwo"}},

		{"html", "", "text/html", `<!doctype html><html><head><title>T</title><style>p{}</style></head><body><nav><a>Menu</a></nav><header>H</header>
<h1>Big <b>title</b></h1><p>One&nbsp;&amp;
two <b>three</b><script>var x = "</p>";</script>.</p><noscript>N</noscript><template><p>T</p></template><ul><li>a<li>b</ul>x<br>y<footer>F</footer></body></html>`, []string{
			"One\u00a0& two three.\n\na\n\nb\n\nx\ny",
		}},
		{"html sniffed", "", "", "<!DOCTYPE html><p>Hi.</p>", []string{"Hi."}},
		{"html meta charset", "x.html", "", "<meta charset=iso-8859-2><p>\xb1\xe6", []string{"ąć"}},
		{"html of headings", "", "text/html", "<h1>One</h1><h2>Two</h2>", []string{"One\n\nTwo"}},
		{"html pre", "", "text/html", "<pre>a\nb</pre>", []string{"a\nb"}},
		{"html unclosed", "", "text/html", "<p>a<script>x", []string{"a"}},

		{"generic type, by extension", "x.md", "application/octet-stream", "*One*", []string{"One"}},
		{"generic type, no extension", "x", "application/octet-stream", "*One*", []string{"*One*"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pages, err := Reader{}.Pages(t.Context(), tt.file, tt.mime, []byte(tt.data))
			if err != nil {
				t.Fatalf("Pages() = %v", err)
			}
			var got []string
			for _, p := range pages {
				// The number of line breaks between blocks does not matter.
				got = append(got, strings.ReplaceAll(p.Text, "\n\n ", "\n\n"))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Pages(%q) (-want +got):\n%s", tt.data, diff)
			}
		})
	}
}

// A reader sees a PDF in content of an unspecific type. Without a function for PDF, it is unsupported.
func TestPagesSniffsPDF(t *testing.T) {
	t.Parallel()
	data := []byte("%PDF-1.7\n")
	reader := Reader{PDF: func(_ context.Context, got []byte, maxText int) ([]Page, error) {
		if string(got) != string(data) || maxText != MaxTextBytes {
			t.Errorf("PDF(%q, %d), want the document and %d", got, maxText, MaxTextBytes)
		}
		return []Page{{Number: 1, Text: " \x1b"}, {Number: 2, Text: "Sniffed.\x00"}}, nil
	}}
	for _, mime := range []string{"", "application/octet-stream", "text/plain", "application/pdf", "Application/PDF; x=y"} {
		pages, err := reader.Pages(t.Context(), "", mime, data)
		if diff := cmp.Diff([]Page{{Number: 2, Text: "Sniffed."}}, pages); err != nil || diff != "" {
			t.Errorf("Pages(%q) = %v (-want +got):\n%s", mime, err, diff)
		}
		_, err = Reader{}.Pages(t.Context(), "", mime, data)
		if want := `"application/pdf", supported are text/plain, text/markdown, text/html`; !errors.Is(err, ErrUnsupported) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("Pages(%q) without PDF = %v, want it to end with %s", mime, err, want)
		}
	}
}

func TestPagesRejectsUnreadableFiles(t *testing.T) {
	t.Parallel()
	binary := make([]byte, 4096)
	for i := range binary {
		binary[i] = byte(i * 7)
	}
	tests := []struct {
		name, mime string
		data       []byte
		want       error
		text       string
	}{
		{"picture", "image/png", []byte("\x89PNG"), ErrUnsupported, `"image/png", supported are text/plain, text/markdown, text/html`},
		{"nonsense type", "///", []byte("x"), ErrUnsupported, "///"},
		{"sniffed picture", "", []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\xff\xff"), ErrUnsupported, "image/png"},
		{"sniffed archive", "application/octet-stream", []byte("PK\x03\x04\xff\xff\xff"), ErrUnsupported, "zip"},
		{"binary", "text/plain", binary, ErrMalformed, "binary data"},
		{"binary without a type", "", binary, ErrMalformed, "binary data"},
		{"nulls", "text/markdown", make([]byte, 100), ErrMalformed, "binary data"},
		{"empty", "text/plain", nil, ErrNoText, "text/plain"},
		{"blank", "text/html", []byte("<p> </p>"), ErrNoText, "text/html"},
		{"too large", "text/plain", make([]byte, MaxDocumentBytes+1), ErrTooLarge, "bytes"},
		{"too much text", "text/plain", []byte(strings.Repeat("text ", MaxTextBytes/5+1)), ErrTooLarge, "text"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Reader{}.Pages(t.Context(), "", tt.mime, tt.data)
			if !errors.Is(err, tt.want) {
				t.Fatalf("Pages() = %v, want %v", err, tt.want)
			}
			if !strings.Contains(err.Error(), tt.text) {
				t.Errorf("Pages() = %q, want %q in it", err, tt.text)
			}
		})
	}
}

func TestPaginate(t *testing.T) {
	t.Parallel()
	paragraph := strings.Repeat("word ", 100) + "end."
	text := strings.Repeat(paragraph+"\n\n", 40) + strings.Repeat("long ", 5000)
	runes := 0
	for i, p := range paginate(text) {
		n := utf8.RuneCountInString(p.Text)
		runes += n
		if n > longestParagraph+pageRunes {
			t.Errorf("page %d has %d characters, want about %d", p.Number, n, pageRunes)
		}
		if p.Number != i+1 {
			t.Errorf("page %d has number %d", i+1, p.Number)
		}
	}
	if want := utf8.RuneCountInString(text); runes < want-300 {
		t.Errorf("pages have %d characters, want about %d", runes, want)
	}
}

// Nesting in the document must not make the time quadratic.
func TestPagesBearsNesting(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ mime, unit string }{
		{"text/markdown", "> "},
		{"text/markdown", "["},
		{"text/markdown", "[a]("},
		{"text/markdown", "[a]: x\n"},
		{"text/markdown", "*a **a "},
		{"text/markdown", "- "},
		{"text/markdown", "<a "},
		{"text/markdown", "![["},
		{"text/markdown", "`a``"},
		{"text/markdown", "|a|b|\n"},
		{"text/html", "<div>"},
		{"text/html", "<a b='"},
		{"text/html", "<!--"},
		{"text/html", "&#1"},
		{"text/plain", "«"},
		{"text/plain", "a\n\n"},
	} {
		data := []byte("x " + strings.Repeat(tt.unit, 50_000/len(tt.unit)))
		pages, err := Reader{}.Pages(t.Context(), "", tt.mime, data)
		if err != nil && !errors.Is(err, ErrNoText) {
			t.Errorf("Pages(%q repeated) = %v", tt.unit, err)
		}
		for _, p := range pages {
			Analyze(p)
		}
	}
}

// A document in sections has the text of one that is parsed as a whole.
func TestMarkdownIsReadInSections(t *testing.T) {
	t.Parallel()
	const chapter = "# Title\n\nA *sentence* of a paragraph.\n\n- item one\n\n  still item one\n\n```\ncode\n\nmore code\n```\n\n> quoted\n\nLast.\n\n"
	want := strings.TrimSpace(renderMarkdown(chapter, false))
	got := markdownText(strings.Repeat(chapter, 3000))
	count := 0
	for range sections(strings.Repeat(chapter, 3000)) {
		count++
	}
	if count < 4 {
		t.Errorf("the document has %d sections, want some", count)
	}
	tidy := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	if tidy(got) != tidy(strings.Repeat(want+"\n\n", 3000)) {
		t.Errorf("text in sections differs: %.300q", got)
	}
	for _, unclosed := range []string{"```\n", "x\n", strings.Repeat("y", 100) + " "} {
		whole := strings.Join(slices.Collect(sections(strings.Repeat(unclosed, 4<<20/len(unclosed)))), "")
		if whole != strings.Repeat(unclosed, 4<<20/len(unclosed)) {
			t.Errorf("sections of %q lose text", unclosed)
		}
	}
}
