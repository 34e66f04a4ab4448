package memorysql

import (
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/recall/recallsql"
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

// sqliteIndex is the index in SQLite. A statement that can change several of its rows starts a savepoint, at
// which FTS5 writes what it has in memory as a segment. So a statement for one row is written so that it can
// change only one.
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
func scopePrefix(s memory.Scope) string { return recallsql.Prefix(s.Owner, s.Agent, s.Namespace) }

// Statements returns the statements of long-term memory that reads and writes run.
func Statements(d sqlkit.Dialect) []sqlkit.Statement {
	x := &sqliteIndex
	if d == sqlkit.PostgreSQL {
		x = &postgresIndex
	}
	all := []sqlkit.Statement{
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
	for _, s := range []sqlkit.Statement{
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
		if s[1] != "" {
			all = append(all, s)
		}
	}
	return all
}
