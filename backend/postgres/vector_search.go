package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectordriver"
	"github.com/holdfast-dev/holdfast/store/vector/vectors"
	"github.com/holdfast-dev/holdfast/store/vector/vectorsql"
)

const (
	// minCandidates is the minimum number of documents that a search ranks. Their scores are computed
	// anew, so that they do not depend on the index.
	minCandidates = 64
	// scanFactor and maxScan limit the documents that a walk reads to find candidates that match a
	// filter. If it finds too few, all documents that match are compared.
	scanFactor, maxScan = 200, 40_000
	// maxEqual is the maximum number of documents of a group that are read because pgvector does not
	// distinguish their distances from the least distance in the group.
	maxEqual = 16
	// maxListSize is the limit of pgvector for hnsw.ef_search.
	maxListSize = 1000
)

// Search implements vector.Store.
func (s *vectorStore) Search(ctx context.Context, k vector.Key, p vector.SearchParams) ([]vector.Results, error) {
	k, p, err := vectordriver.CheckSearch(k, p)
	if err != nil {
		return nil, err
	}
	c, err := s.existing(ctx, k)
	if err != nil {
		return nil, err
	}
	nearest := func(ctx context.Context, embeddings [][]float32, p *vector.SearchParams, results []*vector.Results) error {
		search := vectorSearch{documents: s.Documents, kit: s.kit, k: k, c: c, p: p, exact: p.Exact || c.indexed == ""}
		for i, embedding := range embeddings {
			search.add(embedding, &results[i].Hits)
		}
		return search.run(ctx)
	}
	return vectors.Search(ctx, s.cfg.Embedder, &c.Collection, s.In(k.Owner, c.id, c.Documents), &p, nearest)
}

// vectorSearch runs the semantic queries of a search. Each pass is one round trip and one transaction.
type vectorSearch struct {
	documents *vectorsql.Documents
	kit       *kit
	k         vector.Key
	c         *collectionRow
	p         *vector.SearchParams
	exact     bool // compare all documents that match the filter
	pending   []*vectorQuery
}

// vectorQuery is a query that has not found its documents yet.
type vectorQuery struct {
	embedding []float32
	limit     int // of candidates
	found     []ranked
	hits      *[]vector.Hit
}

type ranked struct {
	row   *vectordriver.Row
	score float64
}

func (s *vectorSearch) add(embedding []float32, hits *[]vector.Hit) {
	s.exact = s.exact || s.c.half() && !fitsHalf(embedding)
	limit := s.p.Offset + s.p.Limit
	s.pending = append(s.pending, &vectorQuery{embedding: embedding, limit: max(minCandidates, limit+limit/4), hits: hits})
}

// run runs passes until all queries have their documents.
func (s *vectorSearch) run(ctx context.Context) error {
	if err := s.plan(ctx); err != nil {
		return err
	}
	for len(s.pending) > 0 {
		if err := s.pass(ctx); err != nil {
			return err
		}
		s.pending = slices.DeleteFunc(s.pending, func(q *vectorQuery) bool {
			hits := vectordriver.NewCollector(s.p)
			for _, f := range q.found {
				if !hits.Add(f.row, f.score, vector.Scores{}) {
					break
				}
			}
			if !hits.Full() && (len(q.found) == q.limit || !s.exact) {
				if s.exact {
					q.limit *= 4
				}
				return false
			}
			*q.hits = hits.Hits()
			return true
		})
		s.exact = true // an index may find too few
	}
	return nil
}

// plan sets exact if few documents match the filter. The index of attributes then finds these, and all of
// them are compared; a walk would read many documents that do not match.
func (s *vectorSearch) plan(ctx context.Context) error {
	part := indexed(&s.p.Filter)
	if s.exact || part == nil || len(s.pending) == 0 {
		return nil
	}
	b := s.filter()
	condition, err := b.condition(part)
	if err != nil {
		return err
	}
	few, n := few(s.c.Documents, s.pending[0].limit), int64(0)
	count := s.call(fmt.Sprintf(`SELECT count(*) FROM (SELECT 1 FROM {s}.vector_documents d WHERE`+whereDocuments+` AND %s LIMIT %d) s`, condition, few+1), b.args)
	count.row = func(r record) { n = r.int(0) }
	if err := s.transact(ctx, count); err != nil {
		return err
	}
	s.exact = n <= few
	return nil
}

// few returns the number of documents that can be compared in the time of a walk through a collection of
// n documents. The walk searches the given number of candidates among the documents that match.
func few(n int64, candidates int) int64 {
	return int64(2 * math.Sqrt(float64(n)*float64(candidates)))
}

// filter returns a translator of the filter with the arguments of whereDocuments.
func (s *vectorSearch) filter() *sqlFilter { return &sqlFilter{[]any{s.k.Owner, s.c.id}} }

// pass runs the pending queries.
func (s *vectorSearch) pass(ctx context.Context) error {
	calls := make([]*call, len(s.pending))
	for i, q := range s.pending {
		text, args, err := s.text(q)
		if err != nil {
			return err
		}
		calls[i] = s.call(text, args)
		calls[i].row = func(r record) {
			d := s.documents.Scan(kitRow(r))
			q.found = append(q.found, ranked{d, s.c.Metric.Score(q.embedding, d.Embedding)})
		}
	}
	if err := s.transact(ctx, calls...); err != nil {
		return err
	}
	for _, q := range s.pending {
		slices.SortFunc(q.found, func(a, b ranked) int {
			return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.row.ID, b.row.ID))
		})
	}
	return nil
}

// text returns the statement of a query. Its subquery passes on large values without detoasting them.
func (s *vectorSearch) text(q *vectorQuery) (text string, args []any, err error) {
	b := s.filter()
	operand := b.arg(encodeEmbedding(q.embedding)) + "::text::{v}."
	condition, err := b.condition(&s.p.Filter)
	if err != nil {
		return "", nil, err
	}
	operator := " OPERATOR({v}." + metricNames[s.c.Metric].operator + ") "
	from := ` FROM {s}.vector_documents d WHERE` + whereDocuments + ` AND ` + condition
	limit := fmt.Sprintf(` LIMIT %d`, q.limit)
	switch {
	case !s.exact:
		kind := fmt.Sprintf("%s(%d)", s.c.indexed, s.c.Dimension)
		text = `SELECT d.*` + from + ` ORDER BY d.embedding::{v}.` + kind + operator + operand + kind + limit
	case s.p.GroupBy == "":
		text = `SELECT d.*` + from + ` ORDER BY d.embedding` + operator + operand + `vector, d.id` + limit
	default:
		m := b.member(s.p.GroupBy)
		text = `SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY grouped ORDER BY id) AS place FROM (
				SELECT *, min(distance) OVER (PARTITION BY grouped) AS nearest FROM (SELECT d.*,
					CASE WHEN jsonb_typeof(` + m + `) IN ('string', 'number', 'boolean') THEN ` + m + ` ELSE jsonb_build_array(d.id) END AS grouped,
					d.embedding` + operator + operand + `vector AS distance` + from + `) d) d
				WHERE d.distance - d.nearest <= ` + tolerance(s.c.Metric, operand+"vector") + `) d
			WHERE d.place <= ` + fmt.Sprint(maxEqual) + ` ORDER BY d.nearest, d.distance, d.id` + limit
	}
	return `SELECT` + vectorsql.Columns(sentEmbedding) + ` FROM (` + text + `) d`, b.args, nil
}

// tolerance returns the largest difference, as SQL, between distances that count as equal. They may differ because
// pgvector computes with float32.
func tolerance(m vector.Metric, query string) string {
	switch m {
	case vector.Dot:
		return `1e-5 * {v}.vector_norm(` + query + `) * {v}.vector_norm(d.embedding)`
	case vector.L2:
		return `1e-5 * d.nearest`
	default:
		return `1e-5`
	}
}

func (s *vectorSearch) call(text string, args []any) *call {
	return &call{statement: &statement{name: "search documents", text: text}, args: args, planned: true}
}

// Settings of the transaction of a search. The first column loads pgvector, which then checks the
// settings that follow. With custom plans, a statement can use an index of one collection.
const (
	sqlSearchSettings = `SELECT '[0]'::{v}.vector IS NULL, set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'on', true),
		set_config('enable_sort', $1::text, true), set_config('jit', 'off', true),
		set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.max_scan_tuples', $2::text, true), set_config('hnsw.ef_search', $3::text, true)`
	sqlCheckSettings = `SELECT current_setting('hnsw.iterative_scan') || ' ' || current_setting('hnsw.max_scan_tuples') || ' ' || current_setting('hnsw.ef_search')`
)

// transact runs calls in one transaction with the settings of a search, and checks that they applied.
// PostgreSQL only warns about invalid values of some settings; without an iterative scan, a search with
// a filter would find a part of its documents.
func (s *vectorSearch) transact(ctx context.Context, calls ...*call) error {
	limit := minCandidates
	for _, q := range s.pending {
		q.found, limit = nil, max(limit, q.limit)
	}
	sort := "on"
	if !s.exact {
		sort = "off" // read the index in its order
	}
	scan, list := fmt.Sprint(min(maxScan, scanFactor*limit)), fmt.Sprint(min(maxListSize, limit+limit/2))
	settings := s.call(sqlSearchSettings, []any{sort, scan, list})
	settings.row = func(record) {
		for _, q := range s.pending { // of an attempt that failed
			q.found = nil
		}
	}
	check, applied := s.call(sqlCheckSettings, nil), ""
	check.row = func(r record) { applied = r.text(0) }
	err := s.kit.readList(ctx, "search documents", func(ctx context.Context, c *pgx.Conn) error {
		return s.kit.exchange(ctx, c.PgConn(), false, slices.Concat([]*call{settings}, calls, []*call{check})...)
	})
	if want := "relaxed_order " + scan + " " + list; err == nil && applied != want {
		err = a2a.Errorf(a2a.CodeInternal, "vector: search: the settings of pgvector are %q, want %q", applied, want)
	}
	return err
}
