package rag

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
)

// Chunk is a part of a text.
type Chunk struct {
	// Start and End are byte offsets: the text of the chunk is text[Start:End]. It neither starts
	// nor ends with white space.
	Start, End int
}

// Chunks splits a text into chunks of up to size bytes. A chunk ends with a sentence, and with a
// paragraph if one ends in its second half; a sentence longer than size is split between words. A
// chunk repeats the last sentences of the previous chunk that fit into overlap bytes. The result
// depends on the arguments only. size must be at least [MinChunk], overlap at most size/2.
func Chunks(text string, size, overlap int) (all []Chunk) {
	ends := sentenceEnds(text, size)
	done := 0 // sentences that chunks have
	for first := 0; done < len(ends); {
		start := startOf(ends, first)
		last := done
		for last+1 < len(ends) && ends[last+1]-start <= size {
			last++
		}
		if last < len(ends)-1 {
			last = paragraphEnd(text, ends, done, last, start+size/2)
		}
		if c := trim(text, start, ends[last]); c.Start < c.End && (len(all) == 0 || c.End > all[len(all)-1].End) {
			all = append(all, c)
		}
		done = last + 1
		first = done
		for done < len(ends) && first > 0 && ends[last]-startOf(ends, first-1) <= overlap && ends[done]-startOf(ends, first-1) <= size {
			first--
		}
	}
	return all
}

func startOf(ends []int, i int) int {
	if i == 0 {
		return 0
	}
	return ends[i-1]
}

// paragraphEnd returns the last sentence from first to last that ends a paragraph after an offset, or
// last.
func paragraphEnd(text string, ends []int, first, last, after int) int {
	for i := last; i >= first && ends[i] >= after; i-- {
		if strings.HasSuffix(strings.ReplaceAll(text[startOf(ends, max(i-1, 0)):ends[i]], "\r", ""), "\n\n") {
			return i
		}
	}
	return last
}

func trim(text string, start, end int) Chunk {
	part := text[start:end]
	start += len(part) - len(strings.TrimLeftFunc(part, unicode.IsSpace))
	return Chunk{start, start + len(strings.TrimSpace(part))}
}

// sentenceEnds returns the offsets at which sentences end, or parts of sentences longer than size.
func sentenceEnds(text string, size int) (ends []int) {
	at := 0
	for s := sentences.FromString(text); s.Next(); {
		end := at + len(s.Value())
		for end-at > size {
			at += wordEnd(text[at : at+size])
			ends = append(ends, at)
		}
		at = end
		ends = append(ends, at)
	}
	return ends
}

// wordEnd returns the length of the longest part of a text that ends after white space or, if there is
// none in its second half, at the end of a character.
func wordEnd(text string) int {
	if i := strings.LastIndexFunc(text, unicode.IsSpace); i >= len(text)/2 {
		_, n := utf8.DecodeRuneInString(text[i:])
		return i + n
	}
	n := len(text)
	for back := 1; back < utf8.UTFMax && back < n; back++ {
		if i := n - back; utf8.RuneStart(text[i]) {
			if !utf8.FullRuneInString(text[i:]) {
				return i
			}
			break
		}
	}
	return n
}
