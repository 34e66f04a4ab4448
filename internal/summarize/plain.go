package summarize

import (
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
		return pagesOf(strings.Split(text, "\f"))
	}
	var parts []string
	var page strings.Builder
	runes := 0
	for _, p := range paragraphs(strings.ReplaceAll(text, "\f", "\n\n")) {
		n := utf8.RuneCountInString(p)
		if runes > 0 && runes+n > pageRunes+pageRunes/5 {
			parts = append(parts, page.String())
			page.Reset()
			runes = 0
		}
		if runes > 0 {
			page.WriteString("\n\n")
		}
		page.WriteString(p)
		runes += n
		if runes >= pageRunes {
			parts = append(parts, page.String())
			page.Reset()
			runes = 0
		}
	}
	return pagesOf(append(parts, page.String()))
}

// pagesOf numbers the parts from 1 and omits blank ones.
func pagesOf(parts []string) []Page {
	var pages []Page
	for i, part := range parts {
		text := strings.Join(paragraphs(part), "\n\n")
		if text != "" {
			pages = append(pages, Page{Number: i + 1, Text: text})
		}
	}
	return pages
}

// paragraphs splits text at blank lines. It splits paragraphs that are too long at a line break,
// the end of a sentence or a space.
func paragraphs(text string) []string {
	var out []string
	var lines []string
	flush := func() {
		if len(lines) > 0 {
			out = appendCut(out, strings.Join(lines, "\n"))
			lines = lines[:0]
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, " \t\u00a0\u3000")
		if strings.TrimSpace(line) == "" {
			flush()
			continue
		}
		lines = append(lines, line)
	}
	flush()
	return out
}

func appendCut(out []string, p string) []string {
	for utf8.RuneCountInString(p) > longestParagraph {
		end := cutPoint(p, longestParagraph)
		out = append(out, strings.TrimSpace(p[:end]))
		p = strings.TrimLeft(p[end:], " \n\t")
	}
	if p != "" {
		out = append(out, p)
	}
	return out
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
