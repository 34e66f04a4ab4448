// Package recallsql writes the terms of package recall for the full-text indexes of SQLite and PostgreSQL.
package recallsql

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/memory/recall"
)

// Prefix returns the start of the terms of a scope or a collection. Other scopes may have the same
// prefix, so statements also compare the columns that it is made from.
func Prefix(names ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return hex.EncodeToString(sum[:5])
}

// The letter of a part stands between the prefix of a term and its text.
var letters = [...]string{recall.Stems: "w", recall.Grams: "g", recall.Links: "e"}

// Letter returns the letter of a part. It is also a term that a text with such terms has, for links.
func Letter(p recall.Part) string { return letters[p] }

// LinkTerms returns hashes of the terms of entities, which have several words.
func LinkTerms(terms []string) []string {
	hashed := make([]string, len(terms))
	for i, t := range terms {
		sum := sha256.Sum256([]byte(t))
		hashed[i] = hex.EncodeToString(sum[:8])
	}
	return hashed
}

// Document returns the terms of a text as text: a document for SQLite, a tsvector for PostgreSQL,
// in which stems have positions so that they are counted.
func Document(d sqlkit.Dialect, prefix string, text recall.Text, entities []string) string {
	text = text.Indexed()
	t := termWriter{quoted: d == sqlkit.PostgreSQL, prefix: prefix}
	for i, stem := range text.Stems {
		t.add(recall.Stems, stem, i+1)
	}
	grams := recall.Trigrams(text.Words...)
	for _, g := range grams[:min(len(grams), recall.MaxIndexed)] {
		t.add(recall.Grams, g, 0)
	}
	links := make([]string, len(entities))
	for i, name := range entities {
		links[i] = recall.LinkTerm(name)
	}
	if len(links) > 0 {
		t.add(recall.Links, "", 0) // see entityMark
	}
	for _, l := range LinkTerms(links) {
		t.add(recall.Links, l, 0)
	}
	return string(t.text)
}

// termWriter writes terms, quoted and with positions for PostgreSQL.
type termWriter struct {
	quoted bool
	prefix string
	text   []byte
}

// add adds a term, without a position if that is 0.
func (w *termWriter) add(part recall.Part, term string, position int) {
	if w.quoted {
		w.text = append(w.text, '\'')
	}
	w.text = append(append(append(w.text, w.prefix...), letters[part]...), term...)
	if w.quoted {
		w.text = append(w.text, '\'')
	}
	if w.quoted && position > 0 {
		w.text = strconv.AppendInt(append(w.text, ':'), int64(position), 10)
	}
	w.text = append(w.text, ' ')
}

// Terms returns terms as they are in an index.
func Terms(prefix string, part recall.Part, terms []string) []string {
	if part == recall.Links {
		terms = LinkTerms(terms)
	}
	all := make([]string, len(terms))
	for i, t := range terms {
		all[i] = prefix + letters[part] + t
	}
	return all
}

// MatchAny returns the condition for one of the terms of an index.
func MatchAny(d sqlkit.Dialect, terms []string) string {
	if d == sqlkit.PostgreSQL {
		return "'" + strings.Join(terms, "' | '") + "'"
	}
	return `"` + strings.Join(terms, `" OR "`) + `"`
}

// MatchAll returns the condition for all of the terms of an index.
func MatchAll(d sqlkit.Dialect, terms []string) string {
	if d == sqlkit.PostgreSQL {
		return "'" + strings.Join(terms, "' & '") + "'"
	}
	return `"` + strings.Join(terms, `" AND "`) + `"`
}
