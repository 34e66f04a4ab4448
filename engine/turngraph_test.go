package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/cypher"
	"github.com/holdfast-dev/holdfast/store/graph/graphs"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
)

func TestGraphOfATurn(t *testing.T) {
	t.Parallel()
	attempts := 0
	s, task := onDocuments(t, engine.Contracts{}, func(ctx context.Context, turn *engine.Turn) error {
		attempts++
		g := graphs.For(turn.Contracts(), "people")
		if found, err := g.Neighbors(ctx, graph.NeighborParams{IDs: []string{"ravi"}, Depth: 1}); err != nil || len(found.Entities) > 0 {
			return fmt.Errorf("Neighbors() in an empty graph = %+v, %w", found, err)
		}
		entities, relationships, err := g.Write(ctx, graph.Batch{
			Entities:      []graph.Entity{{ID: "ravi", Label: "Person", Properties: map[string]any{"n": int64(1) << 60}}, {Label: "Project"}},
			Relationships: []graph.Relationship{{ID: "self", Source: "ravi", Target: "ravi", Type: "knows"}, {Source: "ravi", Target: "ravi", Type: "is"}},
		})
		if err != nil || entities[0] != "ravi" || !strings.HasPrefix(entities[1], "turn/") || relationships[0] != "self" || !strings.HasPrefix(relationships[1], "turn/") {
			return fmt.Errorf("Write() = %q, %q, %w", entities, relationships, err)
		}
		var e *graph.EndpointError
		_, _, err = g.Write(ctx, graph.Batch{Relationships: []graph.Relationship{{Source: entities[1], Target: "missing", Type: "needs"}}})
		if attempts == 1 && (!errors.As(err, &e) || e.Entity != "missing") || !errors.Is(err, graph.ErrEndpointNotFound) {
			return fmt.Errorf("Write() to a missing entity = %w", err)
		}
		if _, _, err := g.Write(ctx, graph.Batch{Relationships: []graph.Relationship{{ID: "self", Source: "ravi", Target: entities[1], Type: "knows"}}}); !errors.Is(err, graph.ErrConflict) {
			return fmt.Errorf("Write() with another target = %w", err)
		}
		if _, _, err := g.Write(ctx, graph.Batch{Ends: []graph.End{{ID: "missing"}}}); !errors.Is(err, graph.ErrRelationshipNotFound) {
			return fmt.Errorf("Write() with an unknown end = %w", err)
		}
		if _, _, err := g.Write(ctx, graph.Batch{Entities: []graph.Entity{{Label: "a b"}}}); a2a.CodeOf(err) != a2a.CodeInvalid {
			return fmt.Errorf("Write() of an invalid label = %w", err)
		}
		if _, _, err := g.Write(ctx, graph.Batch{Relationships: []graph.Relationship{{ID: "works", Source: "ravi", Target: entities[1], Type: "works_on"}}}); err != nil {
			return err
		}
		path, err := g.ShortestPath(ctx, graph.PathParams{From: entities[1], To: "ravi"})
		if err != nil || len(path.Entities) != 2 || path.Relationships[0].ID != "works" || fmt.Sprint(path.Entities[1].Properties["n"]) != "1152921504606846976" {
			return fmt.Errorf("ShortestPath() = %+v, %w", path, err)
		}
		r, err := cypher.Query(ctx, g, graph.CypherParams{
			Query:  `MATCH path = (p:Person {id: $id})-[w:works_on]->(x) RETURN p, w, path, [1, 2.0, null, true, {a: 'b'}] AS list, 1/0.0 AS infinite, p.n`,
			Params: map[string]any{"id": "ravi"},
		})
		if err != nil || len(r.Rows) != 1 {
			return fmt.Errorf("Query() = %+v, %w, want a row", r, err)
		}
		row := r.Rows[0]
		if e, ok := row[0].(graph.Entity); !ok || e.ID != "ravi" || fmt.Sprint(e.Properties["n"]) != "1152921504606846976" {
			return fmt.Errorf("Query() returned the entity %+v", row[0])
		}
		if w, ok := row[1].(graph.Relationship); !ok || w.ID != "works" || w.Version != 1 || w.RecordedAt.IsZero() {
			return fmt.Errorf("Query() returned the relationship %+v", row[1])
		}
		if p, ok := row[2].(graph.Path); !ok || len(p.Entities) != 2 || len(p.Relationships) != 1 {
			return fmt.Errorf("Query() returned the path %+v", row[2])
		}
		if got, want := fmt.Sprintf("%#v", row[3:]), fmt.Sprintf("%#v", []any{[]any{int64(1), 2.0, nil, true, map[string]any{"a": "b"}}, math.Inf(1), int64(1) << 60}); got != want {
			return fmt.Errorf("Query() returned %s, want %s", got, want)
		}
		if _, err := cypher.Query(ctx, g, graph.CypherParams{Query: "CREATE (n:X)"}); !errors.Is(err, graph.ErrCypherUnsupported) {
			return fmt.Errorf("Query() that writes = %w", err)
		}
		if _, err := cypher.Query(ctx, g, graph.CypherParams{Query: "RETURN"}); !errors.Is(err, graph.ErrCypher) {
			return fmt.Errorf("Query() of a malformed text = %w", err)
		}
		if _, err := cypher.Query(ctx, g, graph.CypherParams{Query: "UNWIND range(1, 1000) AS x RETURN x", MaxSteps: 10}); !errors.Is(err, graph.ErrBudget) {
			return fmt.Errorf("Query() above its steps = %w", err)
		}
		past := time.Now().Add(-time.Hour)
		if _, _, err := g.Write(ctx, graph.Batch{Relationships: []graph.Relationship{{ID: "works", Source: "ravi", Target: entities[1], Type: "works_on", ValidTo: past}}}); err != nil {
			return err
		}
		if _, _, err := g.Write(ctx, graph.Batch{Ends: []graph.End{{ID: "works"}}}); a2a.CodeOf(err) != a2a.CodeInvalid {
			return fmt.Errorf("Write() of an end after the end = %w", err)
		}
		if attempts == 1 {
			return engine.Retry(errors.New("again"))
		}
		return turn.Reply(a2a.TextPart{Text: "ok"})
	})
	if task.Status.State != a2a.StateCompleted {
		t.Fatalf("the task is %s: %+v", task.Status.State, task.Status.Message)
	}
	all, err := graphsql.Of(s, nil).Graphs(t.Context(), graph.ListParams{Owner: alice.ID})
	if want := (graph.Info{Name: "people", Entities: 2, Relationships: 3}); err != nil || len(all) != 1 || all[0] != want {
		t.Errorf("Graphs() = %+v, %v, want %+v", all, err, want)
	}
	report, err := engine.Forget(t.Context(), engine.ForgetParams{Store: s, Owner: alice.ID})
	if err != nil || report.Removed["entities"] != 2 || report.Removed["relationships"] != 3 {
		t.Errorf("Forget() = %+v, %v, want 2 entities and 3 relationships", report, err)
	}
	if all, err := graphsql.Of(s, nil).Graphs(t.Context(), graph.ListParams{Owner: alice.ID}); err != nil || len(all) > 0 {
		t.Errorf("Graphs() after Forget() = %+v, %v, want none", all, err)
	}
}
