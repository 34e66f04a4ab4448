package vectorsql

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/recall"
	"github.com/holdfast-dev/holdfast/store/memory/recall/recallsql"
)

const (
	whereDocuments = ` d.owner = $1::text AND d.collection = $2::bigint`
	whereDocument  = whereDocuments + ` AND d.id = $3::text`
	// maxRanked is the number of documents with common words that a search ranks to find candidates.
	maxRanked = 2048

	// SQLite has the terms of documents in a table of its own, by vector_documents.pk. See sqliteIndex.
	sqlIndexDocument    = `INSERT INTO vector_index (rowid, terms) VALUES ((SELECT d.pk FROM {s}.vector_documents d WHERE` + whereDocument + `), $4::text)`
	sqlUnindexDocuments = `DELETE FROM vector_index WHERE rowid IN (SELECT d.pk FROM {s}.vector_documents d WHERE` + whereDocuments + ` AND d.id = ANY($3::text[]))`
	sqlUnindexSome      = `DELETE FROM vector_index WHERE rowid IN (SELECT d.pk FROM {s}.vector_documents d WHERE` + whereDocuments + ` ORDER BY d.id LIMIT $3::bigint)`
	// PostgreSQL has them in the row.
	sqlSetTerms = `UPDATE {s}.vector_documents AS d SET terms = $4::text::tsvector WHERE` + whereDocument
)

// documentIndex is the full-text index of documents in a dialect.
type documentIndex struct{ count, candidates string }

// The statements read only rows with one of the terms; see wherePostgres.
const (
	whereTermsSQLite   = ` FROM vector_index CROSS JOIN {s}.vector_documents d ON d.pk = vector_index.rowid WHERE vector_index MATCH $3::text AND` + whereDocuments
	whereTermsPostgres = ` FROM {s}.vector_documents d WHERE d.terms @@ $3::text::tsquery AND d.owner = $1::text COLLATE "POSIX" AND d.collection + 0 = $2::bigint`
)

var documentIndexes = map[sqlkit.Dialect]documentIndex{
	sqlkit.SQLite: {
		// Another collection with the same prefix would only change weights.
		count: `SELECT count(*) FROM (SELECT 1 FROM vector_index WHERE vector_index MATCH $1::text LIMIT $2::bigint)`,
		candidates: `SELECT d.id, d.text, d.metadata FROM (SELECT m.pk AS pk FROM (SELECT d.pk AS pk, d.id AS id, bm25(vector_index) AS score` + whereTermsSQLite + ` LIMIT $6::bigint) m
			ORDER BY m.score, m.id LIMIT $4::bigint OFFSET $5::bigint) s CROSS JOIN {s}.vector_documents d ON d.pk = s.pk`,
	},
	sqlkit.PostgreSQL: {
		count: `SELECT count(*) FROM (SELECT 1 FROM {s}.vector_documents d WHERE d.terms @@ $1::text::tsquery LIMIT $2::bigint) s`,
		candidates: `SELECT m.id, m.text, m.metadata FROM (SELECT d.id, d.text, d.metadata, ts_rank(d.terms, $3::text::tsquery, 1) AS score` + whereTermsPostgres + ` LIMIT $6::bigint) m
			ORDER BY m.score DESC, m.id LIMIT $4::bigint OFFSET $5::bigint`,
	},
}

// Terms is the full-text index of the documents of a collection.
type Terms struct {
	DB         sqlkit.DB
	Owner      string
	Collection int64 // its id
}

func (t *Terms) prefix() string {
	return recallsql.Prefix(t.Owner, strconv.FormatInt(t.Collection, 10))
}

func (t *Terms) args(more ...any) []any { return append([]any{t.Owner, t.Collection}, more...) }

// Of returns the terms of a text.
func (t *Terms) Of(text string) string {
	return recallsql.Document(t.DB.Dialect(), t.prefix(), recall.Analyze(text), nil)
}

// Add adds the terms of a document that has none.
func (t *Terms) Add(tx sqlkit.Tx, id, text string) error {
	add := sqlIndexDocument
	if t.DB.Dialect() == sqlkit.PostgreSQL {
		add = sqlSetTerms
	}
	_, err := tx.Exec(add, t.args(id, t.Of(text))...)
	return err
}

// Remove removes the terms of documents, those that exist, before the documents are removed or replaced.
func (t *Terms) Remove(tx sqlkit.Tx, ids []string) error {
	if len(ids) == 0 || t.DB.Dialect() == sqlkit.PostgreSQL {
		return nil
	}
	_, err := tx.Exec(sqlUnindexDocuments, t.args(ids)...)
	return err
}

// RemoveFirst removes the terms of the first documents by id.
func (t *Terms) RemoveFirst(tx sqlkit.Tx, documents int) error {
	_, err := tx.Exec(sqlUnindexSome, t.args(documents)...)
	return err
}

// Search returns the index for a search in a collection with a number of documents.
func (t *Terms) Search(ctx context.Context, documents int64, f filter.Filter) recall.Index {
	return &documentSearch{ctx: ctx, terms: t, documents: documents, filter: f, index: documentIndexes[t.DB.Dialect()], counts: make(map[string]int)}
}

// documentSearch implements recall.Index.
type documentSearch struct {
	ctx       context.Context // the context of the search
	terms     *Terms
	documents int64
	filter    filter.Filter
	index     documentIndex
	counts    map[string]int // of stems
}

// match returns the condition for one of terms.
func (s *documentSearch) match(part recall.Part, terms []string) string {
	return recallsql.MatchAny(s.terms.DB.Dialect(), recallsql.Terms(s.terms.prefix(), part, terms))
}

// Count implements recall.Index.
func (s *documentSearch) Count(stems []string) (counts []int, all int, err error) {
	counts = make([]int, len(stems))
	err = s.terms.DB.Read(s.ctx, func(q sqlkit.Querier) error {
		for i, stem := range stems {
			if n, ok := s.counts[stem]; ok {
				counts[i] = n
				continue
			}
			_, err := sqlkit.QueryOne(q, s.index.count, func(r sqlkit.Row) { counts[i] = int(r.Int(0)) }, s.match(recall.Stems, stems[i:i+1]), recall.MaxCount)
			if err != nil {
				return err
			}
			s.counts[stem] = counts[i]
		}
		return nil
	})
	return counts, int(min(s.documents, recall.MaxCount)), err
}

// Candidates implements recall.Index. The words of a question are in most documents of a large collection. So
// documents with rare words are read first, then those with all words. If these are not enough, it ranks
// some of the others or, if there is a filter, all of them.
func (s *documentSearch) Candidates(part recall.Part, terms []string, n int) ([]memory.Memory, error) {
	c := &documentCandidates{documentSearch: s, n: n, seen: make(map[string]bool)}
	most := int64(sqlkit.NoBound)
	if part == recall.Stems {
		rare, rest, err := s.rare(terms)
		if err != nil {
			return nil, err
		}
		if len(rest) > 0 && s.filter.IsZero() && n <= maxRanked {
			most = maxRanked
		}
		if len(rest) > 0 && len(rare) > 0 {
			err = c.add(s.match(part, rare), sqlkit.NoBound)
		}
		if err == nil && len(rest) > 1 {
			err = c.add(recallsql.MatchAll(s.terms.DB.Dialect(), recallsql.Terms(s.terms.prefix(), part, terms)), maxRanked)
		}
		if err != nil {
			return nil, err
		}
	}
	err := c.add(s.match(part, terms), most)
	return c.found, err
}

// rare returns the terms that so few documents contain that all of these can be ranked, and the others.
func (s *documentSearch) rare(terms []string) (rare, rest []string, err error) {
	if s.documents <= maxRanked {
		return terms, nil, nil
	}
	counts, _, err := s.Count(terms)
	order := make([]int, len(terms))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(counts[a], counts[b]) })
	sum := 0
	for _, i := range order {
		if sum += counts[i]; sum <= maxRanked {
			rare = append(rare, terms[i])
		} else {
			rest = append(rest, terms[i])
		}
	}
	return rare, rest, err
}

// documentCandidates are up to n documents.
type documentCandidates struct {
	*documentSearch
	n     int
	found []memory.Memory
	seen  map[string]bool
}

// add adds the best of the documents that match, of which it ranks up to a number. It filters each batch that it
// reads, and reads more until it has enough.
func (c *documentCandidates) add(match string, most int64) error {
	for size, offset := c.n, 0; len(c.found) < c.n; offset, size = offset+size, size*8 {
		var batch []memory.Memory
		read := 0
		err := c.terms.DB.Read(c.ctx, func(q sqlkit.Querier) error {
			batch, read = nil, 0
			return q.Query(c.index.candidates, func(r sqlkit.Row) error {
				read++
				if c.filter.IsZero() || c.filter.Match(jsonobject.Decode(r.Text(2))) {
					batch = append(batch, memory.Memory{ID: r.Text(0), Content: r.Text(1)})
				}
				return nil
			}, c.terms.args(match, size, offset, most)...)
		})
		if err != nil {
			return err
		}
		for _, m := range batch {
			if len(c.found) < c.n && !c.seen[m.ID] {
				c.seen[m.ID] = true
				c.found = append(c.found, m)
			}
		}
		if read < size {
			return nil
		}
	}
	return nil
}

// Statements returns the statements of the full-text index of documents.
func Statements(d sqlkit.Dialect) []sqlkit.Statement {
	x := documentIndexes[d]
	all := []sqlkit.Statement{
		{"documents: count with a word", x.count},
		{"documents: candidates", x.candidates},
	}
	if d == sqlkit.PostgreSQL {
		return append(all, sqlkit.Statement{"document: set terms", sqlSetTerms})
	}
	return append(all, sqlkit.Statement{"document: index", sqlIndexDocument}, sqlkit.Statement{"documents: remove from the index", sqlUnindexDocuments}, sqlkit.Statement{"documents: remove some from the index", sqlUnindexSome})
}
