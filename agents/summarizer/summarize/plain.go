package summarize

import (
	"iter"
	"strings"
	"unicode/utf8"
)

const (
	// pageRunes is the page size in runes for documents without pages.
	pageRunes = 3000
	// longestParagraph is the maximum length of a paragraph; longer ones are split, to keep pages,
	// the units of durable work, small.
	longestParagraph = 2 * pageRunes
)

// paginate splits text at form feeds or, if it has none, into pages of whole paragraphs of about
// pageRunes.
func paginate(text string) []Page {
	if strings.ContainsRune(strings.Trim(text, "\f \n\t"), '\f') {
		return splitPages(text)
	}
	var pages []Page
	var page strings.Builder
	runes, number := 0, 1
	flush := func() {
		if page.Len() > 0 {
			pages = append(pages, Page{Number: number, Text: page.String()})
		}
		page.Reset()
		runes = 0
		number++
	}
	for p := range paragraphs(strings.ReplaceAll(text, "\f", "\n\n")) {
		n := utf8.RuneCountInString(p)
		if runes > 0 && runes+n > pageRunes+pageRunes/5 {
			flush()
		}
		if runes > 0 {
			page.WriteString("\n\n")
		}
		page.WriteString(p)
		runes += n
		if runes >= pageRunes {
			flush()
		}
	}
	flush()
	return pages
}

// splitPages splits text at form feeds, numbers the pages from 1 and omits blank ones.
func splitPages(text string) []Page {
	var pages []Page
	number := 0
	for part := range strings.SplitSeq(text, "\f") {
		number++
		if text := tidyParagraphs(part); text != "" {
			pages = append(pages, Page{Number: number, Text: text})
		}
	}
	return pages
}

// tidyParagraphs returns the paragraphs of a text with one blank line between them.
func tidyParagraphs(text string) string {
	var b strings.Builder
	for p := range paragraphs(text) {
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(p)
	}
	return b.String()
}

// paragraphs splits text at blank lines. It splits paragraphs that are too long at a line break,
// the end of a sentence or a space.
func paragraphs(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		var lines []string
		for line := range strings.SplitSeq(text, "\n") {
			line = strings.TrimRight(line, " \t\u00a0\u3000")
			if strings.TrimSpace(line) != "" {
				lines = append(lines, line)
				continue
			}
			if !yieldCut(strings.Join(lines, "\n"), yield) {
				return
			}
			lines = lines[:0]
		}
		yieldCut(strings.Join(lines, "\n"), yield)
	}
}

// yieldCut yields the pieces of a paragraph, none if it is empty.
func yieldCut(p string, yield func(string) bool) bool {
	for tooLong(p) {
		end := cutPoint(p, longestParagraph)
		if !yield(strings.TrimSpace(p[:end])) {
			return false
		}
		p = strings.TrimLeft(p[end:], " \n\t")
	}
	return p == "" || yield(p)
}

// tooLong reports whether a paragraph has more runes than [longestParagraph].
func tooLong(p string) bool {
	return utf8.RuneCountInString(p[:min(len(p), utf8.UTFMax*(longestParagraph+1))]) > longestParagraph
}

// cutPoint returns the byte offset, within the first limit runes of s, at which to split it: after
// a sentence if possible, else at white space, else between characters.
func cutPoint(s string, limit int) int {
	end, n := len(s), 0
	for i := range s {
		if n == limit {
			end = i
			break
		}
		n++
	}
	head := s[:end]
	if i := strings.LastIndexAny(head, ".!?。！？।؟\n"); i > end/2 {
		_, size := utf8.DecodeRuneInString(head[i:])
		return i + size
	}
	if i := strings.LastIndexAny(head, " \n\t、，,;"); i > end/2 {
		_, size := utf8.DecodeRuneInString(head[i:])
		return i + size
	}
	return end
}
