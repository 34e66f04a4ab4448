package age

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/cypher"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

// ageSession starts the transaction of a query. The cast loads the library of AGE, because the next
// statement needs its hooks; only superusers may use LOAD. The settings for the store's own statements
// do not suit the joins of queries.
const ageSession = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
	SET LOCAL search_path = ag_catalog, pg_catalog; SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on;
	SET LOCAL enable_mergejoin = on; SET LOCAL enable_sort = on; SET LOCAL plan_cache_mode = auto; SET LOCAL statement_timeout = %d;
	SELECT '0'::ag_catalog.agtype`

// ageQuote encloses the text of a query. [cypher.Statement.AGE] returns no text that contains it.
const ageQuote = "$holdfast$"

// QueryCypher implements graph.CypherCapable. AGE executes the language of package cypher, except what
// [cypher.Statement.AGE] rejects; then MaxSteps has no effect, and the server limits the time. Package
// cypher executes queries on a graph without a copy, and all queries without Config.Copy.
func (a *Graphs) QueryCypher(ctx context.Context, k graph.Key, p graph.CypherParams) (graph.CypherResult, error) {
	if !a.store.copy {
		return cypher.Execute(ctx, a.Complete, k, p)
	}
	k, p, err := graphdriver.CheckCypher(k, p)
	if err != nil {
		return graph.CypherResult{}, err
	}
	q, err := cypher.Parse(p.Query)
	if err != nil {
		return graph.CypherResult{}, err
	}
	text, err := q.AGE()
	if err != nil {
		return graph.CypherResult{}, err
	}
	params, err := cypher.Params(p.Params)
	if err != nil {
		return graph.CypherResult{}, err
	}
	for _, name := range q.Parameters() {
		if _, ok := params[name]; !ok {
			return graph.CypherResult{}, &graph.CypherError{Rule: "parameter $" + name + " is missing"}
		}
	}
	run := &ageQuery{text: a.statement(k, q, text, p.MaxRows), name: a.Name(k), params: cypher.Value(params), p: p}
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, graph.ErrBudget)
	defer cancel()
	err = a.store.ReadOn(ctx, "cypher", run.run)
	if err != nil && (ctx.Err() != nil && errors.Is(context.Cause(ctx), graph.ErrBudget)) {
		return graph.CypherResult{}, graph.ErrBudget
	}
	switch {
	case err != nil:
		return graph.CypherResult{}, err
	case run.failure != nil:
		return graph.CypherResult{}, run.failure
	case !run.found: // the graph is empty
		return cypher.Execute(ctx, a.Complete, k, p)
	}
	return a.result(ctx, k, q, run)
}

// statement returns the statement that executes a query.
func (a *Graphs) statement(k graph.Key, q *cypher.Statement, text string, rows int) string {
	var values, columns []string
	for i := range q.Columns() {
		name := "c" + strconv.Itoa(i)
		values = append(values, fmt.Sprintf(ageText, name))
		columns = append(columns, name+" ag_catalog.agtype")
	}
	return `SELECT ` + strings.Join(values, ", ") + ` FROM ag_catalog.cypher('` + a.Name(k) + `', ` + ageQuote + text + ageQuote + `, $1) AS (` +
		strings.Join(columns, ", ") + `) LIMIT ` + strconv.Itoa(rows+1)
}

// ageQuery is one execution of a query.
type ageQuery struct {
	text, name, params string
	p                  graph.CypherParams

	found     bool // the copy exists
	rows      [][]any
	truncated bool
	failure   error // a result of the query, which is not repeated
}

func (q *ageQuery) run(ctx context.Context, c *pgx.Conn) error {
	q.rows, q.found, q.truncated, q.failure = nil, false, false, nil
	conn := c.PgConn()
	if _, err := conn.Exec(ctx, fmt.Sprintf(ageSession, q.p.Timeout.Milliseconds()+1)).ReadAll(); err != nil {
		return err
	}
	defer func() {
		if _, err := conn.Exec(ctx, "ROLLBACK").ReadAll(); err != nil {
			_ = conn.Close(ctx)
		}
	}()
	reader := conn.ExecParams(ctx, `SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1`, [][]byte{[]byte(q.name)}, nil, nil, nil)
	q.found = reader.NextRow()
	if _, err := reader.Close(); err != nil || !q.found {
		return err
	}
	err := q.read(conn.ExecParams(ctx, q.text, [][]byte{[]byte(q.params)}, nil, nil, nil))
	q.failure = ageFailure(err)
	if q.failure != nil {
		return nil
	}
	return err
}

// read reads the rows of the result.
func (q *ageQuery) read(reader *pgconn.ResultReader) error {
	size := 0
	var failure error
	for reader.NextRow() {
		if len(q.rows) == q.p.MaxRows {
			q.truncated = true
			continue
		}
		row := make([]any, len(reader.Values()))
		for i, text := range reader.Values() {
			if size += len(text); size > graph.MaxResult {
				failure = graph.ErrTooLarge
				break
			}
			if text == nil {
				continue
			}
			v, err := cypher.ParseAGE(string(text))
			if err != nil {
				failure = err
			}
			row[i] = v
		}
		if failure == nil {
			q.rows = append(q.rows, row)
		}
	}
	_, err := reader.Close()
	if err == nil {
		err = failure
	}
	return err
}

// ageFailure returns the error for a query that AGE does not execute, nil for other errors.
func ageFailure(err error) error {
	var e *pgconn.PgError
	if errors.Is(err, graph.ErrTooLarge) {
		return err
	}
	if !errors.As(err, &e) {
		return nil
	}
	switch {
	case e.Code == "57014", strings.HasPrefix(e.Code, "54"): // canceled, or a limit of the program
		return graph.ErrBudget
	case strings.HasPrefix(e.Code, "42"), strings.HasPrefix(e.Code, "0A"):
		return &graph.CypherError{Rule: "Apache AGE: " + e.Message, Unsupported: true}
	case strings.HasPrefix(e.Code, "22"), e.Code == "XX000":
		return &graph.CypherError{Rule: "Apache AGE: " + e.Message}
	}
	return nil
}

// result replaces vertices and edges by entities and relationships.
func (a *Graphs) result(ctx context.Context, k graph.Key, q *cypher.Statement, run *ageQuery) (graph.CypherResult, error) {
	b := &ageElements{entities: make(map[string]graph.Entity), relationships: make(map[string]graph.Relationship)}
	for _, row := range run.rows {
		for _, v := range row {
			b.collect(v)
		}
	}
	if err := b.load(ctx, a, k); err != nil {
		return graph.CypherResult{}, err
	}
	for _, row := range run.rows {
		for i := range row {
			row[i] = b.replace(row[i])
		}
	}
	return graph.CypherResult{Columns: q.Columns(), Rows: run.rows, Truncated: run.truncated}, nil
}

// ageElements are the entities and relationships of a result.
type ageElements struct {
	entities      map[string]graph.Entity
	relationships map[string]graph.Relationship
}

func (b *ageElements) collect(v any) {
	switch v := v.(type) {
	case cypher.AGEElement:
		if v.Vertex {
			b.entities[v.ID] = graph.Entity{ID: v.ID}
		} else {
			b.relationships[v.ID] = graph.Relationship{ID: v.ID}
		}
	case cypher.AGEPath:
		for _, e := range v {
			b.collect(e)
		}
	case []any:
		for _, item := range v {
			b.collect(item)
		}
	case map[string]any:
		for _, item := range v {
			b.collect(item)
		}
	}
}

// load reads the entities and relationships. Those that were removed after the query keep their ids only.
func (b *ageElements) load(ctx context.Context, a *Graphs, k graph.Key) error {
	for ids := range chunks(b.entities) {
		found, err := a.Entities(ctx, k, ids)
		if err != nil {
			return err
		}
		for _, e := range found {
			b.entities[e.ID] = e
		}
	}
	for ids := range chunks(b.relationships) {
		found, err := a.Relationships(ctx, k, ids)
		if err != nil {
			return err
		}
		for _, r := range found {
			b.relationships[r.ID] = r
		}
	}
	return nil
}

func (b *ageElements) replace(v any) any {
	switch v := v.(type) {
	case cypher.AGEElement:
		if v.Vertex {
			return b.entities[v.ID]
		}
		return b.relationships[v.ID]
	case cypher.AGEPath:
		p := graph.Path{}
		for _, e := range v {
			if e.Vertex {
				p.Entities = append(p.Entities, b.entities[e.ID])
			} else {
				p.Relationships = append(p.Relationships, b.relationships[e.ID])
			}
		}
		return p
	case []any:
		for i := range v {
			v[i] = b.replace(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = b.replace(v[k])
		}
	}
	return v
}

// chunks returns the keys of a map, up to graph.MaxIDs at a time.
func chunks[T any](of map[string]T) iter.Seq[[]string] {
	return slices.Chunk(slices.Sorted(maps.Keys(of)), graph.MaxIDs)
}
