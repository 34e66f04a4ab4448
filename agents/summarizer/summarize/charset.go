package summarize

import (
	"bytes"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// charsetOf returns the encoding that the media type or the HTML head declares, or nil.
func charsetOf(f format, mimeType string, data []byte) encoding.Encoding {
	if _, params, err := mime.ParseMediaType(mimeType); err == nil && params["charset"] != "" {
		return lookupCharset(params["charset"])
	}
	if f != formatHTML {
		return nil
	}
	return lookupCharset(metaCharset(data))
}

// lookupCharset returns the encoding with a name, or nil. It returns nil for UTF-8 too: valid UTF-8
// needs no decoder, and for other text the declaration is wrong.
func lookupCharset(name string) encoding.Encoding {
	e, _ := charset.Lookup(name)
	if e == encoding.Nop {
		return nil
	}
	return e
}

// metaCharset returns the encoding that an HTML head declares.
func metaCharset(data []byte) string {
	head := bytes.ToLower(data[:min(len(data), 8<<10)])
	_, after, ok := bytes.Cut(head, []byte("charset="))
	if !ok {
		return ""
	}
	after = bytes.TrimLeft(after, `"' `)
	end := bytes.IndexAny(after, "\"' />;")
	if end < 0 {
		return ""
	}
	return string(after[:end])
}

// decodeText returns data as clean UTF-8. The encoding is, in order of precedence, the encoding of
// a byte order mark, UTF-8 if data is valid UTF-8, the declared encoding, or Windows-1252, which
// contains the letters of Latin-1. Data with zero bytes or escapes counts as UTF-8 only if no
// other encoding is declared, since UTF-16 and ISO-2022-JP contain them.
func decodeText(data []byte, declared encoding.Encoding) (string, error) {
	e := encodingOf(data, declared)
	text := data
	if e != nil {
		var err error
		if text, err = e.NewDecoder().Bytes(data); err != nil {
			return "", fmt.Errorf("%w: text does not match its encoding: %w", ErrMalformed, err)
		}
	}
	if len(text) > MaxTextBytes {
		return "", fmt.Errorf("%w: %d bytes of text, at most %d are read", ErrTooLarge, len(text), MaxTextBytes)
	}
	if err := checkText(text); err != nil {
		return "", err
	}
	return cleanText(strings.TrimPrefix(string(text), "\ufeff")), nil
}

func encodingOf(data []byte, declared encoding.Encoding) encoding.Encoding {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM)
	case utf8.Valid(data) && (declared == nil || !bytes.ContainsAny(data, "\x00\x1b")):
		return nil
	case declared != nil:
		return declared
	case nearlyUTF8(data):
		return unicode.UTF8
	}
	return charmap.Windows1252
}

// nearlyUTF8 reports whether data is UTF-8 with a few errors. Any other encoding would make all of
// it unreadable.
func nearlyUTF8(data []byte) bool {
	good, bad := 0, 0
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && n == 1:
			bad++
		case n > 1:
			good++
		}
		data = data[n:]
	}
	return good > 10*bad
}

// checkText returns an error if data is not text in any encoding: it has too many control
// characters, unassigned code points or replacement characters.
func checkText(text []byte) error {
	const window = 64 << 10
	const onePart = 50
	junk, total := 0, 0
	for rest := text[:min(len(text), window)]; len(rest) > 0; total++ {
		r, n := utf8.DecodeRune(rest)
		if isJunk(r) {
			junk++
		}
		rest = rest[n:]
	}
	if junk*onePart > total || bytes.IndexByte(text, 0) >= 0 && junk*1000 > total {
		return fmt.Errorf("%w: binary data, not text (%d of %d characters are not printable)", ErrMalformed, junk, total)
	}
	return nil
}

func isJunk(r rune) bool {
	switch r {
	case '\t', '\n', '\r', '\f', '\v', 0x1b, 0x85:
		return false
	case utf8.RuneError:
		return true
	}
	return r < 0x20 || 0x7f <= r && r < 0xa0
}

// cleanText unifies line breaks and removes invisible characters. It keeps form feeds, since they
// separate pages.
func cleanText(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n\n", "\u0085", "\n", "\v", "\n").Replace(s)
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\f':
			return r
		case r < 0x20 || 0x7f <= r && r < 0xa0:
			return -1
		case r == '\u200b' || r == '\u2060' || r == '\ufeff':
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}
