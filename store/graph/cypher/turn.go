package cypher

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphs"
)

// Query executes a query on a graph of a turn, like [Execute]. It finds what the turn has written. A query that is
// malformed or not supported returns [graph.ErrCypher] or [graph.ErrCypherUnsupported], one that exceeds a limit
// [graph.ErrBudget]. The rows are stored with the turn until the task is deleted: return only those that the handler
// needs.
func Query(ctx context.Context, g *graphs.Graph, p graph.CypherParams) (graph.CypherResult, error) {
	var stored storedRows
	err := g.Read(ctx, "query", &stored, func(ctx context.Context, s graph.Store, k graph.Key) error {
		r, err := Execute(ctx, s, k, p)
		if err != nil {
			return err
		}
		stored, err = storeRows(&r)
		return err
	})
	if err != nil {
		return graph.CypherResult{}, err
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
	Part *storedPart `json:"g,omitempty"`
	Path bool        `json:"p,omitempty"`
}

// storedPart is a part of a graph. JSON would change the numbers of properties.
type storedPart struct {
	Entities      []storedEntity       `json:",omitempty"`
	Relationships []storedRelationship `json:",omitempty"`
	Truncated     bool                 `json:",omitempty"`
}

type storedEntity struct {
	graph.Entity
	Properties json.RawMessage
}

type storedRelationship struct {
	graph.Relationship
	Properties json.RawMessage
}

func storePart(entities []graph.Entity, relationships []graph.Relationship) (*storedPart, error) {
	p := new(storedPart)
	for _, e := range entities {
		properties, err := json.Marshal(e.Properties)
		if err != nil {
			return nil, err
		}
		e.Properties = nil
		p.Entities = append(p.Entities, storedEntity{e, properties})
	}
	for _, r := range relationships {
		properties, err := json.Marshal(r.Properties)
		if err != nil {
			return nil, err
		}
		r.Properties = nil
		p.Relationships = append(p.Relationships, storedRelationship{r, properties})
	}
	return p, nil
}

// path returns the part as a path.
func (p *storedPart) path() (path graph.Path) {
	path.Truncated = p.Truncated
	for _, e := range p.Entities {
		e.Entity.Properties = jsonobject.Decode(string(e.Properties))
		path.Entities = append(path.Entities, e.Entity)
	}
	for _, r := range p.Relationships {
		r.Relationship.Properties = jsonobject.Decode(string(r.Properties))
		path.Relationships = append(path.Relationships, r.Relationship)
	}
	return path
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
		s.Part, err = storePart([]graph.Entity{v}, nil)
	case graph.Relationship:
		s.Part, err = storePart(nil, []graph.Relationship{v})
	case graph.Path:
		if s.Part, err = storePart(v.Entities, v.Relationships); err == nil {
			s.Path, s.Part.Truncated = true, v.Truncated
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
		return s.Part.path(), nil
	case s.Part != nil && len(s.Part.Entities) > 0:
		return s.Part.path().Entities[0], nil
	case s.Part != nil:
		return s.Part.path().Relationships[0], nil
	}
	return nil, nil
}
