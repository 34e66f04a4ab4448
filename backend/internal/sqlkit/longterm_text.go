package sqlkit

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/recall"
)

// The conditions of statements on memory_facts f.
const (
	whereScope   = ` f.owner = $1::text AND f.agent = $2::text AND f.namespace = $3::text`
	whereFact    = whereScope + ` AND f.id = $4::text`
	whereNewest  = whereFact + ` AND f.version = $5::bigint AND f.head = 1`
	factColumns  = ` f.namespace, f.id, f.key, f.content, f.metadata, f.version, f.created_at, f.updated_at, f.replaced_at, f.valid_from, f.valid_to, f.expires_at, f.entities`
	insertColumn = `owner, agent, namespace, id, version, head, key, content, metadata, created_at, updated_at, replaced_at, valid_from, valid_to, expires_at, entities, model, embedding`
	insertValues = `$1::text, $2::text, $3::text, $4::text, $5::bigint, 1, $6::text, $7::text, $8::text, $9::bigint, $10::bigint, $11::bigint, $12::bigint, $13::bigint, $14::bigint, $15::text, $16::text, $17::bytea`
	// whereFound selects the versions that a search may return, at two times, among those with
	// terms: versions that were replaced have none. A condition for these would let the planner
	// walk memory_facts_recent.
	whereFound = ` AND f.expires_at > $4::bigint AND f.valid_from <= $5::bigint AND f.valid_to > $5::bigint`
)

// textIndex is the full-text index of a dialect.
type textIndex struct {
	insert  string // adds a version; with its terms if index is empty, else with its number of words
	index   string // adds the terms of a version
	replace string // ends a version; with its terms if unindex is empty
	unindex string // removes the terms of a version
	// remove removes the terms of versions by whereFact and a bound of expires_at. removeUpTo
	// removes the terms of a scope up to an id. Both are empty if the terms are in the row.
	remove, removeUpTo string
	// count and candidates search the index and the rows in one statement. They are empty if terms is not:
	// it reads which facts have each of the terms, by their keys.
	count, candidates, terms string
	// visible reads the versions of a scope that a search may return, and which of these versions have
	// an embedding of a model. visibleKeys reads only the versions with the given keys.
	visible, visibleKeys string
	byID                 string // reads facts by their ids, or keys if terms is not empty
	// size reads the number of facts of a scope and of their words, contents all of them with their keys. Both
	// are empty if terms is.
	size, contents string
}

// A statement that can change several rows of an index of SQLite starts a savepoint, at which FTS5 writes what it
// has in memory as a segment. So the statements for one row are ones that cannot.
var sqliteIndex = textIndex{
	insert:     `INSERT INTO {s}.memory_facts (` + insertColumn + `, words) VALUES (` + insertValues + `, $18::bigint)`,
	index:      `INSERT INTO memory_index (rowid, terms) VALUES ((SELECT f.pk FROM {s}.memory_facts f WHERE` + whereFact + ` AND f.version = $5::bigint), $6::text)`,
	replace:    `UPDATE {s}.memory_facts AS f SET head = 0, replaced_at = $6::bigint, embedding = NULL WHERE` + whereNewest,
	unindex:    `DELETE FROM memory_index WHERE rowid = (SELECT f.pk FROM {s}.memory_facts f WHERE` + whereNewest + `)`,
	remove:     `DELETE FROM memory_index WHERE rowid IN (SELECT f.pk FROM {s}.memory_facts f WHERE` + whereFact + ` AND f.expires_at <= $5::bigint)`,
	removeUpTo: `DELETE FROM memory_index WHERE rowid IN (SELECT f.pk FROM {s}.memory_facts f WHERE` + whereScope + ` AND f.id <= $4::text)`,
	terms:      `SELECT s.key, memory_index.rowid FROM json_each($1::text) s CROSS JOIN memory_index WHERE memory_index MATCH s.value`,
	// memory_facts_recent has all columns, in this order.
	visible: `SELECT f.id, f.version, f.updated_at, f.model = $6::text, f.pk, f.words` + fromVisible,
	visibleKeys: `SELECT f.id, f.version, f.updated_at, f.model = $6::text, f.pk, f.words FROM json_each($7::text) s CROSS JOIN {s}.memory_facts f ON f.pk = s.value
		WHERE` + whereScope + whereFound,
	size:     `SELECT count(*), coalesce(sum(s.words), 0) FROM (SELECT f.words` + fromVisible + ` LIMIT $6::bigint) s`,
	contents: `SELECT` + factColumns + `, f.pk, f.words, f.model = $6::text` + fromVisible,
	byID:     `SELECT` + factColumns + ` FROM json_each($6::text) s CROSS JOIN {s}.memory_facts f ON f.pk = s.value WHERE` + whereScope + whereFound,
}

// On PostgreSQL, the collation keeps the planner from reading all facts of the scope: an index
// serves only its own collation. ts_rank ignores the proximity of words, which ts_rank_cd would
// prefer to the number of different ones.
const wherePostgres = ` f.terms @@ $6::text::tsquery AND f.owner = $1::text COLLATE "POSIX" AND f.agent = $2::text COLLATE "POSIX"
	AND f.namespace = $3::text COLLATE "POSIX"` + whereFound

var postgresIndex = textIndex{
	insert:  `INSERT INTO {s}.memory_facts (` + insertColumn + `, terms) VALUES (` + insertValues + `, $18::text::tsvector)`,
	replace: `UPDATE {s}.memory_facts AS f SET head = 0, replaced_at = $6::bigint, embedding = NULL, terms = '' WHERE` + whereNewest,
	count:   `SELECT count(*) FROM (SELECT 1 FROM {s}.memory_facts f WHERE` + wherePostgres + ` LIMIT $7::bigint) s`,
	candidates: `SELECT` + factColumns + ` FROM {s}.memory_facts f WHERE` + wherePostgres + `
		ORDER BY ts_rank(f.terms, $6::text::tsquery, 1) DESC, f.updated_at DESC, f.id DESC LIMIT $7::bigint OFFSET $8::bigint`,
	visible: `SELECT f.id, f.version, f.updated_at, f.model = $6::text` + fromVisible,
	byID:    sqlFactsByID,
}

// scopePrefix returns the start of the terms of a scope.
func scopePrefix(s memory.Scope) string { return termPrefix(s.Owner, s.Agent, s.Namespace) }

// termPrefix returns the start of the terms of a scope or a collection. Others may share it:
// statements also compare the columns that it is made from.
func termPrefix(names ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return hex.EncodeToString(sum[:5])
}

// marks are the letters between the prefix of a term and its text.
var marks = [...]string{recall.Stems: "w", recall.Grams: "g", recall.Links: "e"}

// linkTerms returns hashes of the terms of entities, which have several words.
func linkTerms(terms []string) []string {
	hashed := make([]string, len(terms))
	for i, t := range terms {
		sum := sha256.Sum256([]byte(t))
		hashed[i] = hex.EncodeToString(sum[:8])
	}
	return hashed
}

// document returns the terms of a text as text: a document for SQLite, a tsvector for PostgreSQL,
// in which stems have positions so that they are counted.
func (d Dialect) document(prefix string, text recall.Text, entities []string) string {
	text = text.Indexed()
	t := termWriter{quoted: d == PostgreSQL, prefix: prefix}
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
	for _, l := range linkTerms(links) {
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
	w.text = append(append(append(w.text, w.prefix...), marks[part]...), term...)
	if w.quoted {
		w.text = append(w.text, '\'')
	}
	if w.quoted && position > 0 {
		w.text = strconv.AppendInt(append(w.text, ':'), int64(position), 10)
	}
	w.text = append(w.text, ' ')
}

// indexTerms returns terms as they are in an index.
func indexTerms(prefix string, part recall.Part, terms []string) []string {
	if part == recall.Links {
		terms = linkTerms(terms)
	}
	all := make([]string, len(terms))
	for i, t := range terms {
		all[i] = prefix + marks[part] + t
	}
	return all
}

// matchAny returns the condition for one of the terms of an index.
func (d Dialect) matchAny(terms []string) string {
	if d == PostgreSQL {
		return "'" + strings.Join(terms, "' | '") + "'"
	}
	return `"` + strings.Join(terms, `" OR "`) + `"`
}

// matchAll returns the condition for all of the terms of an index.
func (d Dialect) matchAll(terms []string) string {
	if d == PostgreSQL {
		return "'" + strings.Join(terms, "' & '") + "'"
	}
	return `"` + strings.Join(terms, `" AND "`) + `"`
}

// Statement is a statement with a cost that does not depend on the size of the database. Tests
// check its plan.
type Statement struct{ Name, Text string }

// LongTermStatements returns the statements of long-term memory that reads and writes run.
func LongTermStatements(d Dialect) []Statement {
	x := &sqliteIndex
	if d == PostgreSQL {
		x = &postgresIndex
	}
	all := []Statement{
		{"fact: newest version", sqlFactHead},
		{"fact: version at a time", sqlFactAt},
		{"fact: history", sqlFactHistory},
		{"fact: replace", x.replace},
		{"fact: end its validity", sqlEndValidity},
		{"fact: set the expiry", sqlSetExpiry},
		{"fact: set the key", sqlSetKey},
		{"fact: remove", sqlRemoveFact},
		{"fact: remove the key", sqlRemoveFactKey},
		{"facts: newest", sqlRecent},
		{"facts: count in the scope", sqlCountScope},
		{"facts: first batch", sqlLastID},
		{"facts: count of a batch", sqlCountUpTo},
		{"facts: remove a batch", sqlRemoveFactsUpTo},
		{"facts: remove keys of a batch", sqlRemoveKeysUpTo},
		{"facts: a scope of an owner", sqlFirstScope},
		{"facts: expired", sqlExpired},
		{"facts: next namespace", sqlNextNamespace},
		{"facts: list of an owner", sqlFactList},
		{"fact: exists", sqlFactExists},
		{"fact: id of a key", sqlFactKey},
		{"facts: versions of the scope", x.visible},
		{"facts: embeddings", sqlEmbeddings},
		{"facts: by id", x.byID},
		{"facts: embeddings of models before", sqlPendingBefore},
		{"facts: embeddings of models after", sqlPendingAfter},
		{"fact: set the embedding", sqlSetEmbedding},
	}
	for _, s := range []Statement{
		{"fact: index", x.index},
		{"fact: remove from the index", x.unindex},
		{"fact: remove all from the index", x.remove},
		{"facts: remove a batch from the index", x.removeUpTo},
		{"facts: count with a word", x.count},
		{"facts: candidates", x.candidates},
		{"facts: with terms", x.terms},
		{"facts: versions by keys", x.visibleKeys},
		{"facts: size of the scope", x.size},
		{"facts: contents of the scope", x.contents},
	} {
		if s.Text != "" {
			all = append(all, s)
		}
	}
	return all
}
