package memorysql

import (
	"context"
	"math"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
	"github.com/holdfast-dev/holdfast/store/memory/recall"
	"github.com/holdfast-dev/holdfast/store/memory/recall/recallsql"
)

const (
	sqlRecent = `SELECT` + factColumns + ` FROM {s}.memory_facts f WHERE` + whereScope + whereFound + ` AND f.replaced_at = 0
		AND f.updated_at <= $6::bigint AND (f.updated_at < $6::bigint OR f.id < $7::text)
		ORDER BY f.updated_at DESC, f.id DESC LIMIT $8::bigint`
	sqlCountScope = `SELECT count(*) FROM (SELECT 1 FROM {s}.memory_facts f WHERE` + whereScope + whereFound + ` AND f.replaced_at = 0 LIMIT $6::bigint) s`
)

// Search implements memory.LongTerm.
func (l *LongTerm) Search(ctx context.Context, scope memory.Scope, p memory.SearchParams) (found memory.Results, err error) {
	scope, err = memorydriver.CheckScope(scope)
	if err == nil {
		p, err = memorydriver.CheckSearch(p)
	}
	if err != nil {
		return found, err
	}
	plan, err := l.embeddings.Plan(ctx, p)
	if err != nil {
		return found, err
	}
	now := l.now()
	if p.AsOf.IsZero() {
		p.AsOf = now
	}
	err = l.readSnapshot(ctx, func(q sqlkit.Querier) (err error) {
		s := factSearch{q: q, text: l.text, cache: l.cache, indexOnly: l.IndexOnly, scope: scope, now: now.UnixMilli(), at: p.AsOf.UnixMilli(), p: p}
		if p.Query == "" {
			found.Facts, err = s.recent()
		} else {
			if plan.Embedding != nil {
				s.model = plan.Embedding.Model
			}
			found, err = recall.SearchFacts(&s, p, plan)
		}
		return err
	})
	return found, err
}

// readSnapshot is DB.Read, with one snapshot for all statements if the database has snapshots.
func (l *LongTerm) readSnapshot(ctx context.Context, f func(q sqlkit.Querier) error) error {
	if s, ok := l.db.(sqlkit.SnapshotReader); ok {
		return s.ReadSnapshot(ctx, f)
	}
	return l.db.Read(ctx, f)
}

// factSearch is one search. It implements recall.FactIndex.
type factSearch struct {
	q       sqlkit.Querier
	text    *textIndex
	cache   *embeddingCache
	scope   memory.Scope
	now, at int64
	p       memory.SearchParams
	model   string             // of the query's embedding, "" if embeddings are not compared
	read    *visibleFacts      // nil before visible
	byTerm  map[string][]int64 // the keys of the facts with each term of the index that was read
	// contents are all facts of the scope if it is small, else nil.
	contents  *scopeContents
	indexOnly bool // see LongTerm
}

// args returns the arguments of whereScope and whereFound, and more.
func (s *factSearch) args(more ...any) []any {
	return append([]any{s.scope.Owner, s.scope.Agent, s.scope.Namespace, s.now, s.at}, more...)
}

// recent returns the newest facts.
func (s *factSearch) recent() (found []memory.Memory, err error) {
	size := s.p.Limit
	if !s.p.Filter.IsZero() {
		size = max(size, sqlkit.FirstBatch)
	}
	before, after := int64(math.MaxInt64), ""
	for ; ; size *= 8 {
		read := 0
		err := s.q.Query(sqlRecent, func(r sqlkit.Row) error {
			read++
			m := scanFact(s.scope, r).Memory
			before, after = m.UpdatedAt.UnixMilli(), m.ID
			if len(found) < s.p.Limit && s.p.Filter.Match(m.Metadata) {
				m.Score = 1
				found = append(found, m)
			}
			return nil
		}, s.args(before, after, size)...)
		if err != nil || read < size || len(found) == s.p.Limit {
			return found, err
		}
	}
}

// Count implements recall.Index.
func (s *factSearch) Count(stems []string) (counts []int, all int, err error) {
	if s.text.terms != "" {
		return s.countTerms(stems)
	}
	counts = make([]int, len(stems))
	for i, t := range recallsql.Terms(scopePrefix(s.scope), recall.Stems, stems) {
		if counts[i], err = s.count(s.text.count, recallsql.MatchAny(sqlkit.PostgreSQL, []string{t}), recall.MaxCount); err != nil {
			return nil, 0, err
		}
	}
	all, err = s.count(sqlCountScope, recall.MaxCount)
	return counts, all, err
}

// count runs a statement that counts facts.
func (s *factSearch) count(text string, more ...any) (n int, err error) {
	err = s.q.Query(text, func(r sqlkit.Row) error {
		n = int(r.Int(0))
		return nil
	}, s.args(more...)...)
	return n, err
}

// Candidates implements recall.Index. It filters each batch that it reads, and reads more until
// it has enough.
func (s *factSearch) Candidates(part recall.Part, terms []string, n int) (found []memory.Memory, err error) {
	terms = recallsql.Terms(scopePrefix(s.scope), part, terms)
	if s.text.terms != "" {
		return s.withTerms(part, terms, n)
	}
	match, seen := recallsql.MatchAny(sqlkit.PostgreSQL, terms), make(map[string]bool)
	for size, offset := n, 0; ; offset, size = offset+size, size*8 {
		read := 0
		err := s.q.Query(s.text.candidates, func(r sqlkit.Row) error {
			read++
			m := scanFact(s.scope, r).Memory
			if len(found) < n && !seen[m.ID] && s.p.Filter.Match(m.Metadata) {
				seen[m.ID] = true
				found = append(found, m)
			}
			return nil
		}, s.args(match, size, offset)...)
		if err != nil || read < size || len(found) == n {
			return found, err
		}
	}
}

var _ recall.FactIndex = (*factSearch)(nil)
