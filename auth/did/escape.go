package did

import (
	"unicode/utf16"
	"unicode/utf8"
)

const (
	shortEscaped = "\b\t\n\f\r\"\\"
	shortLetters = "btnfr\"\\"

	escapeSize = len(`\u0000`)
	deleteChar = 0x7f
)

// asciiSizes are the sizes of ASCII characters in a JSON string, where Python escapes the delete character too.
var asciiSizes = func() (sizes [utf8.RuneSelf]uint8) {
	for c := range sizes {
		if sizes[c] = 1; c < ' ' || c == deleteChar {
			sizes[c] = uint8(escapeSize)
		}
	}
	for i := range len(shortEscaped) {
		sizes[shortEscaped[i]] = 2
	}
	return sizes
}()

// escapedSize returns the size of a text in a JSON string if all characters but printable ASCII are escaped, or -1 if the text
// is not UTF-8. same reports that the text has no characters that only Python escapes.
func escapedSize(text []byte) (size int, same bool) {
	same = true
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			size += int(asciiSizes[c])
			same = same && c != deleteChar
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return -1, false
		}
		if size += escapeSize; r > 0xffff {
			size += escapeSize
		}
		same = false
		i += n
	}
	return size, same
}

// appendEscaped appends a UTF-8 text as the content of a JSON string: with escapeAll like Python, which escapes all characters
// but printable ASCII, else like JavaScript, which escapes control characters only.
func appendEscaped(dst, text []byte, escapeAll bool) []byte {
	start := 0
	for i := 0; i < len(text); {
		r, n := rune(text[i]), 1
		plain := !escapeAll
		if r < utf8.RuneSelf {
			plain = asciiSizes[r] == 1 || r == deleteChar && !escapeAll
		}
		if plain {
			i++
			continue
		}
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(text[i:])
		}
		dst = append(dst, text[start:i]...)
		dst = appendEscape(dst, r)
		i += n
		start = i
	}
	return append(dst, text[start:]...)
}

func appendEscape(dst []byte, r rune) []byte {
	for i := range len(shortEscaped) {
		if rune(shortEscaped[i]) == r {
			return append(dst, '\\', shortLetters[i])
		}
	}
	if r > 0xffff {
		first, second := utf16.EncodeRune(r)
		return appendUnicode(appendUnicode(dst, first), second)
	}
	return appendUnicode(dst, r)
}

func appendUnicode(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
