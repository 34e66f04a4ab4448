package cypher

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

// Execute executes a query on a store. A store that is [graph.CypherCapable] executes it itself. Of others, Execute
// reads what the query visits into the process.
func Execute(ctx context.Context, r graph.Reader, k graph.Key, p graph.CypherParams) (graph.CypherResult, error) {
	if s, ok := r.(graph.CypherCapable); ok {
		return s.QueryCypher(ctx, k, p)
	}
	k, p, err := graphdriver.CheckCypher(k, p)
	if err != nil {
		return graph.CypherResult{}, err
	}
	q, err := Parse(p.Query)
	if err != nil {
		return graph.CypherResult{}, err
	}
	if p.Params, err = Params(p.Params); err != nil {
		return graph.CypherResult{}, err
	}
	result, err := q.Run(ctx, &reader{r, k}, p)
	if err != nil {
		return graph.CypherResult{}, err
	}
	for _, row := range result.Rows {
		for i := range row {
			row[i] = public(row[i])
		}
	}
	return graph.CypherResult{Columns: result.Columns, Rows: result.Rows, Truncated: result.Truncated}, nil
}

// Params returns a copy of params as queries see them: JSON values in which whole numbers are
// integers.
func Params(params map[string]any) (map[string]any, error) {
	text, err := jsonobject.Encode(params, graph.MaxQuery, graph.MaxPropertiesDepth)
	if err != nil {
		return nil, err
	}
	v, _ := normal(jsonobject.Decode(text))
	copied, _ := v.(map[string]any)
	return copied, nil
}

// reader is a Graph over a store.
type reader struct {
	store graph.Reader
	key   graph.Key
}

func (r *reader) Nodes(ctx context.Context, labels []string, after string, limit int) ([]*Node, error) {
	for _, l := range labels {
		if !graphdriver.IsLabel(l) {
			return nil, nil
		}
	}
	found, err := r.store.FindEntities(ctx, r.key, graph.FindParams{Labels: labels, After: after, Limit: limit})
	return nodesOf(found), err
}

func nodesOf(entities []graph.Entity) []*Node {
	nodes := make([]*Node, len(entities))
	for i := range entities {
		nodes[i] = newNode(entities[i])
	}
	return nodes
}

func newNode(e graph.Entity) *Node {
	n := &Node{ID: e.ID, Labels: []string{e.Label}, entity: e}
	n.Properties = propertiesWith(e.Properties)
	n.Properties[graph.PropertyID] = e.ID
	return n
}

// propertiesWith returns properties as queries see them, for more to be added.
func propertiesWith(of map[string]any) map[string]any {
	v, _ := normal(of)
	if m, ok := v.(map[string]any); ok {
		return m
	}
	return make(map[string]any)
}

func newRel(r graph.Relationship) *Rel {
	rel := &Rel{ID: r.ID, Type: r.Type, Source: r.Source, Target: r.Target, Properties: propertiesWith(r.Properties), relationship: r}
	rel.Properties[graph.PropertyID] = r.ID
	if !r.ValidFrom.IsZero() {
		rel.Properties[graph.PropertyValidFrom] = graph.FormatTime(r.ValidFrom)
	}
	if !r.ValidTo.IsZero() {
		rel.Properties[graph.PropertyValidTo] = graph.FormatTime(r.ValidTo)
	}
	rel.Properties[graph.PropertyRecordedAt] = graph.FormatTime(r.RecordedAt)
	return rel
}

func (r *reader) NodesByID(ctx context.Context, ids []string) ([]*Node, error) {
	valid := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		_, err := graphdriver.CheckIDs(r.key, id)
		return err != nil // no entity has such an id
	})
	var nodes []*Node
	for some := range slices.Chunk(valid, graph.MaxIDs) {
		found, err := r.store.Entities(ctx, r.key, some)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, nodesOf(found)...)
	}
	return nodes, nil
}

// Rels reads the relationships of entities, of fewer at once if there are too many.
func (r *reader) Rels(ctx context.Context, ids []string) ([]*Rel, []*Node, error) {
	found, err := r.store.Neighbors(ctx, r.key, graph.NeighborParams{
		IDs: ids, Depth: 1, Walk: graph.Walk{Moment: graph.Moment{AnyTime: true}},
		MaxEntities: graph.MaxEntities, MaxRelationships: graph.MaxRelationships,
	})
	if found.Truncated {
		err = graph.ErrTooLarge
	}
	if errors.Is(err, graph.ErrTooLarge) && len(ids) > 1 {
		rels, nodes, err := r.Rels(ctx, ids[:len(ids)/2])
		if err != nil {
			return nil, nil, err
		}
		more, moreNodes, err := r.Rels(ctx, ids[len(ids)/2:])
		return append(rels, more...), append(nodes, moreNodes...), err
	}
	if err != nil {
		return nil, nil, err
	}
	rels, nodes := make([]*Rel, len(found.Relationships)), make([]*Node, len(found.Entities))
	for i := range found.Relationships {
		rels[i] = newRel(found.Relationships[i])
	}
	for i := range found.Entities {
		nodes[i] = newNode(found.Entities[i].Entity)
	}
	return rels, nodes, nil
}

// public converts a value for callers.
func public(v any) any {
	switch v := v.(type) {
	case *Node:
		return v.entity
	case *Rel:
		return v.relationship
	case *Path:
		p := graph.Path{}
		for _, n := range v.Nodes {
			p.Entities = append(p.Entities, n.entity)
		}
		for _, r := range v.Rels {
			p.Relationships = append(p.Relationships, r.relationship)
		}
		return p
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = public(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = public(v[k])
		}
		return out
	default:
		return v
	}
}

// sizeOf estimates the size of a value as JSON.
func sizeOf(v any) int {
	size := 8
	switch v := v.(type) {
	case string:
		size += len(v)
	case []any:
		for _, item := range v {
			size += sizeOf(item)
		}
	case map[string]any:
		for k, item := range v {
			size += len(k) + sizeOf(item)
		}
	case *Node:
		size += sizeOf(v.Properties)
	case *Rel:
		size += sizeOf(v.Properties)
	case *Path:
		for _, n := range v.Nodes {
			size += sizeOf(n)
		}
		for _, r := range v.Rels {
			size += sizeOf(r)
		}
	}
	return size
}
