// Package content replaces large values in the JSON of a task's log by references, so that a
// store keeps each value once, outside of the log, and inserts the values again.
//
// A reference is a JSON string: "\u001A" in this spelling, the kind and the hash of the value. In
// all other strings Cut writes this character as "\u001a", so no text of a client is taken for a
// reference.
package content

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Size is the length of the JSON of a value, in bytes, above which a reference replaces it.
const Size = 64 << 10

// Value is a value that a reference has replaced.
type Value struct {
	// Hash is the SHA-256 of JSON.
	Hash [sha256.Size]byte
	JSON string
}

// The kinds of references. References in artifacts are not resolved if artifacts are omitted.
const (
	inMessage  = 'M'
	inArtifact = 'A'
)

// A reference consists of mark, the kind, the hash in hexadecimal and a quote.
const (
	mark       = `"\u001A`
	harmless   = `"\u001a`
	hashLength = 2 * sha256.Size
	refLength  = len(mark) + 1 + hashLength + 1
)

// Cut replaces large values in text by references and appends the values to found, each once.
// Large values are strings, and objects and arrays of members named data. text is the JSON of
// events or of a snapshot, without white space between tokens.
func Cut(text string, found []Value) (string, []Value) {
	text = strings.ReplaceAll(text, mark, harmless)
	if len(text) <= Size {
		return text, found
	}
	c := cutter{text: text, found: found}
	c.run()
	if c.done == 0 {
		return text, found
	}
	c.out.WriteString(text[c.done:])
	return c.out.String(), c.found
}

type cutter struct {
	text  string
	out   strings.Builder
	done  int // text up to here was written to out
	found []Value
}

func (c *cutter) run() {
	text, depth, members := c.text, 0, 1 // depth of the members of an event or a snapshot
	if text[0] == '[' {
		members = 2
	}
	key, kind := "", byte(inMessage)
	for i := 0; i < len(text); {
		switch text[i] {
		case '"':
			end := textEnd(text, i)
			if end == len(text) || text[end] != ':' {
				c.value(i, end, kind)
				i = end
				continue
			}
			key = text[i:end]
			if depth == members {
				if kind = inMessage; key == `"artifact"` || key == `"artifacts"` {
					kind = inArtifact
				}
			}
			i = end
		case '{', '[':
			if key == `"data"` {
				end := containerEnd(text, i)
				c.value(i, end, kind)
				i, key = end, ""
				continue
			}
			depth, key = depth+1, ""
		case '}', ']':
			depth--
		case ',':
			key = ""
		}
		i++
	}
}

// value replaces the value between two positions if it is large.
func (c *cutter) value(start, end int, kind byte) {
	if end-start <= Size {
		return
	}
	v := Value{JSON: c.text[start:end]}
	v.Hash = sha256.Sum256([]byte(v.JSON))
	if !slices.ContainsFunc(c.found, func(f Value) bool { return f.Hash == v.Hash }) {
		c.found = append(c.found, v)
	}
	c.out.WriteString(c.text[c.done:start])
	fmt.Fprintf(&c.out, `%s%c%x"`, mark, kind, v.Hash)
	c.done = end
}

// textEnd returns the position after the string that starts at i.
func textEnd(text string, i int) int {
	for i++; ; i++ {
		n := strings.IndexByte(text[i:], '"')
		if n < 0 {
			return len(text)
		}
		i += n
		escapes := 0
		for text[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// containerEnd returns the position after the object or array that starts at i.
func containerEnd(text string, i int) int {
	for depth := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = textEnd(text, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// Join replaces references by the values that find returns for their hashes. With omitArtifacts
// it replaces references in artifacts by empty strings, without calling find. Join does not
// modify text.
func Join(text []byte, omitArtifacts bool, find func(hash []byte) ([]byte, error)) ([]byte, error) {
	i := bytes.Index(text, []byte(mark))
	if i < 0 {
		return text, nil
	}
	var out []byte
	for ; i >= 0; i = bytes.Index(text, []byte(mark)) {
		out = append(out, text[:i]...)
		if len(text) < i+refLength {
			return nil, fmt.Errorf("reference to content is incomplete")
		}
		ref := text[i+len(mark) : i+refLength-1]
		text = text[i+refLength:]
		if ref[0] == inArtifact && omitArtifacts {
			out = append(out, `""`...)
			continue
		}
		hash, err := hex.DecodeString(string(ref[1:]))
		if err != nil {
			return nil, fmt.Errorf("reference to content: %w", err)
		}
		value, err := find(hash)
		if err != nil {
			return nil, fmt.Errorf("content %x: %w", hash, err)
		}
		out = append(out, value...)
	}
	return append(out, text...), nil
}
