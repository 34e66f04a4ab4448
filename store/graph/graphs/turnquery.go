package graphs

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/graph"
)

// Query executes a query in openCypher that reads, as of [graph.CypherCapable]: it finds
// what the turn has written. A query that is malformed or not supported returns
// [graph.ErrCypher] or [graph.ErrCypherUnsupported], one that exceeds a limit [graph.ErrBudget]. The
// rows are stored with the turn until the task is deleted: return only those that the handler needs.
func (g *Graph) Query(ctx context.Context, p graph.CypherParams) (result graph.CypherResult, err error) {
	s, _, err := g.store()
	if err != nil {
		return result, err
	}
	c, ok := s.(graph.CypherCapable)
	if !ok {
		return result, a2a.Errorf(a2a.CodeUnsupported, "the agent has no store of graphs with queries in openCypher")
	}
	var stored storedRows
	err = g.t.Call(ctx, contract.Call{Op: "graph.query", Result: &stored, Read: func(ctx context.Context) error {
		r, err := c.QueryCypher(ctx, g.key(), p)
		if err != nil {
			return err
		}
		stored, err = storeRows(&r)
		return err
	}})
	if err != nil {
		return result, err
	}
	return stored.result()
}

// storedRows is the result of a query.
type storedRows struct {
	Columns   []string
	Rows      [][]storedValue `json:",omitempty"`
	Truncated bool            `json:",omitempty"`
}

// storedValue is a value of a result. JSON would keep neither the type of a number nor the type
// of an entity. One member is set; if none is set, the value is null.
type storedValue struct {
	Bool  *bool                   `json:"b,omitempty"`
	Int   *int64                  `json:"i,omitempty"`
	Float string                  `json:"f,omitempty"` // as text, since it may be infinite
	Text  *string                 `json:"t,omitempty"`
	List  *[]storedValue          `json:"l,omitempty"`
	Map   *map[string]storedValue `json:"m,omitempty"`
	// Part has an entity, a relationship or, with Path, a path.
	Part *storedGraph `json:"g,omitempty"`
	Path bool         `json:"p,omitempty"`
}

func storeRows(r *graph.CypherResult) (s storedRows, err error) {
	s = storedRows{Columns: r.Columns, Truncated: r.Truncated}
	for _, row := range r.Rows {
		values, err := storeValues(row)
		if err != nil {
			return s, err
		}
		s.Rows = append(s.Rows, values)
	}
	return s, nil
}

func storeValues(all []any) ([]storedValue, error) {
	stored := make([]storedValue, len(all))
	for i, v := range all {
		var err error
		if stored[i], err = storeValue(v); err != nil {
			return nil, err
		}
	}
	return stored, nil
}

func storeValue(v any) (s storedValue, err error) {
	switch v := v.(type) {
	case nil:
	case bool:
		s.Bool = &v
	case int64:
		s.Int = &v
	case float64:
		s.Float = strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		s.Text = &v
	case []any:
		list, err := storeValues(v)
		s.List = &list
		return s, err
	case map[string]any:
		members := make(map[string]storedValue, len(v))
		for name, member := range v {
			if members[name], err = storeValue(member); err != nil {
				return s, err
			}
		}
		s.Map = &members
	case graph.Entity:
		s.Part = new(storedGraph)
		err = s.Part.addEntity(v, 0)
	case graph.Relationship:
		s.Part = new(storedGraph)
		err = s.Part.addRelationships([]graph.Relationship{v})
	case graph.Path:
		s.Path, s.Part = true, &storedGraph{Truncated: v.Truncated}
		if err = s.Part.addEntities(v.Entities, nil); err == nil {
			err = s.Part.addRelationships(v.Relationships)
		}
	default:
		err = fmt.Errorf("graph: query: result has a %T", v)
	}
	return s, err
}

func (s *storedRows) result() (r graph.CypherResult, err error) {
	r = graph.CypherResult{Columns: s.Columns, Truncated: s.Truncated}
	for _, stored := range s.Rows {
		row, err := valuesOf(stored)
		if err != nil {
			return r, err
		}
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

func valuesOf(stored []storedValue) ([]any, error) {
	all := make([]any, len(stored))
	for i := range stored {
		var err error
		if all[i], err = stored[i].value(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s *storedValue) value() (any, error) {
	switch {
	case s.Bool != nil:
		return *s.Bool, nil
	case s.Int != nil:
		return *s.Int, nil
	case s.Float != "":
		return strconv.ParseFloat(s.Float, 64)
	case s.Text != nil:
		return *s.Text, nil
	case s.List != nil:
		return valuesOf(*s.List)
	case s.Map != nil:
		members := make(map[string]any, len(*s.Map))
		for name, member := range *s.Map {
			v, err := member.value()
			if err != nil {
				return nil, err
			}
			members[name] = v
		}
		return members, nil
	case s.Path:
		return graph.Path{Entities: s.Part.entities(), Relationships: s.Part.relationships(), Truncated: s.Part.Truncated}, nil
	case s.Part != nil && len(s.Part.Entities) > 0:
		return s.Part.entities()[0], nil
	case s.Part != nil:
		return s.Part.relationships()[0], nil
	}
	return nil, nil
}
