package cypher

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/store/graph"
)

// A value is nil, bool, int64, float64, string, []any, map[string]any, *Node, *Rel or *Path.

// Node is an entity during the execution of a query. Its properties include the fields that
// queries read as properties.
type Node struct {
	ID         string
	Labels     []string
	Properties map[string]any
	entity     graph.Entity
}

// Rel is a relationship during the execution of a query.
type Rel struct {
	ID             string
	Type           string
	Source, Target string
	Properties     map[string]any
	relationship   graph.Relationship
}

// Path is a path during the execution of a query. It has one relationship less than nodes.
type Path struct {
	Nodes []*Node
	Rels  []*Rel
}

// normal converts a JSON value to a value of queries: whole numbers are integers. ok is false if
// it is no JSON value.
func normal(v any) (value any, ok bool) {
	switch v := v.(type) {
	case nil, bool, string, int64:
		return v, true
	case int:
		return int64(v), true
	case float64:
		if v == math.Trunc(v) && v >= -1<<63 && v < 1<<63 {
			return int64(v), true
		}
		return v, true
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i, true
		}
		f, err := v.Float64() // infinite if it is out of range
		return f, err == nil || errors.Is(err, strconv.ErrRange)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			if out[i], ok = normal(v[i]); !ok {
				return nil, false
			}
		}
		return out, true
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			if out[k], ok = normal(v[k]); !ok {
				return nil, false
			}
		}
		return out, true
	default:
		return nil, false
	}
}

func compareStrings(a, b string) int { return strings.Compare(a, b) }

// truth is a value of three-valued logic.
type truth int

const (
	no truth = iota
	unknown
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

func (t truth) value() any {
	if t == unknown {
		return nil
	}
	return t == yes
}

func (t truth) not() truth { return yes - t }

// equal compares values as the operator = does.
func (x *execution) equal(a, b any) (truth, error) {
	if err := x.step(1); err != nil {
		return no, err
	}
	if a == nil || b == nil {
		return unknown, nil
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return no, nil
		}
		return x.allEqual(len(a), func(i int) (any, any) { return a[i], b[i] })
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return no, nil
		}
		keys := slices.Sorted(maps.Keys(a))
		for _, k := range keys {
			if _, ok := b[k]; !ok {
				return no, nil
			}
		}
		return x.allEqual(len(a), func(i int) (any, any) { return a[keys[i]], b[keys[i]] })
	}
	return truthOf(scalarsEqual(a, b)), nil
}

func (x *execution) allEqual(n int, pair func(i int) (any, any)) (truth, error) {
	result := yes
	for i := range n {
		t, err := x.equal(pair(i))
		if err != nil || t == no {
			return no, err
		}
		result = min(result, t)
	}
	return result, nil
}

func scalarsEqual(a, b any) bool {
	switch a := a.(type) {
	case int64, float64:
		c, ok := compareNumbers(a, b)
		return ok && c == 0
	case *Node:
		b, ok := b.(*Node)
		return ok && a.ID == b.ID
	case *Rel:
		b, ok := b.(*Rel)
		return ok && a.ID == b.ID
	case *Path:
		b, ok := b.(*Path)
		return ok && a.same(b)
	default:
		switch b.(type) {
		case []any, map[string]any:
			return false
		}
		return a == b
	}
}

func (p *Path) same(q *Path) bool {
	return p.Nodes[0].ID == q.Nodes[0].ID && slices.EqualFunc(p.Rels, q.Rels, func(a, b *Rel) bool { return a.ID == b.ID })
}

// compareNumbers returns false if one is no number or NaN.
func compareNumbers(a, b any) (int, bool) {
	if i, ok := a.(int64); ok {
		switch b := b.(type) {
		case int64:
			return cmp.Compare(i, b), true
		case float64:
			return compareIntFloat(i, b)
		}
		return 0, false
	}
	f, ok := a.(float64)
	if !ok {
		return 0, false
	}
	switch b := b.(type) {
	case int64:
		c, ok := compareIntFloat(b, f)
		return -c, ok
	case float64:
		return cmp.Compare(f, b), !math.IsNaN(f) && !math.IsNaN(b)
	}
	return 0, false
}

func compareIntFloat(i int64, f float64) (int, bool) {
	switch {
	case math.IsNaN(f):
		return 0, false
	case f >= 1<<63:
		return -1, true
	case f < -1<<63:
		return 1, true
	}
	whole := math.Floor(f)
	if c := cmp.Compare(i, int64(whole)); c != 0 {
		return c, true
	}
	return cmp.Compare(whole, f), true
}

// compare compares values as < does. known is false if they are not comparable.
func (x *execution) compare(a, b any) (c int, known bool, err error) {
	if err := x.step(1); err != nil {
		return 0, false, err
	}
	switch a := a.(type) {
	case int64, float64:
		c, known = compareNumbers(a, b)
		return c, known, nil
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b), true, nil
		}
	case bool:
		if b, ok := b.(bool); ok {
			return compareBools(a, b), true, nil
		}
	case []any:
		if b, ok := b.([]any); ok {
			return x.compareLists(a, b)
		}
	}
	return 0, false, nil
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

func (x *execution) compareLists(a, b []any) (int, bool, error) {
	for i := range min(len(a), len(b)) {
		c, known, err := x.compare(a[i], b[i])
		if err != nil || !known || c != 0 {
			return c, known, err
		}
	}
	return cmp.Compare(len(a), len(b)), true, nil
}

// rank is the place of a value's type in the order of all values.
func rank(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return 0
	case *Node:
		return 1
	case *Rel:
		return 2
	case []any:
		return 3
	case *Path:
		return 4
	case string:
		return 5
	case bool:
		return 6
	case float64:
		if math.IsNaN(v) {
			return 8
		}
		return 7
	case int64:
		return 7
	default:
		return 9
	}
}

// order compares values as ORDER BY does.
func (x *execution) order(a, b any) (int, error) {
	if err := x.step(1); err != nil {
		return 0, err
	}
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c, nil
	}
	switch a := a.(type) {
	case map[string]any:
		return x.orderMaps(a, b.(map[string]any)) // of the same rank
	case *Node:
		return strings.Compare(a.ID, b.(*Node).ID), nil // of the same rank
	case *Rel:
		return strings.Compare(a.ID, b.(*Rel).ID), nil // of the same rank
	case *Path:
		b := b.(*Path) // of the same rank
		if c := strings.Compare(a.Nodes[0].ID, b.Nodes[0].ID); c != 0 {
			return c, nil
		}
		return slices.CompareFunc(a.Rels, b.Rels, func(r, s *Rel) int { return strings.Compare(r.ID, s.ID) }), nil
	case []any:
		return x.orderLists(a, b.([]any)) // of the same rank
	case string:
		return strings.Compare(a, b.(string)), nil // of the same rank
	case bool:
		return compareBools(a, b.(bool)), nil // of the same rank
	}
	c, _ := compareNumbers(a, b)
	return c, nil
}

func (x *execution) orderLists(a, b []any) (int, error) {
	for i := range min(len(a), len(b)) {
		if c, err := x.order(a[i], b[i]); err != nil || c != 0 {
			return c, err
		}
	}
	return cmp.Compare(len(a), len(b)), nil
}

func (x *execution) orderMaps(a, b map[string]any) (int, error) {
	ka, kb := slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))
	if c := slices.Compare(ka, kb); c != 0 {
		return c, nil
	}
	for _, k := range ka {
		if c, err := x.order(a[k], b[k]); err != nil || c != 0 {
			return c, err
		}
	}
	return 0, nil
}
