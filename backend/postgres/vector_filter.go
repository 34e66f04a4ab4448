package postgres

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store/filter"
)

// lowCharacters replaces NUL, which jsonb cannot store, and the characters 1 and 2 by sequences of the
// characters 1 and 2. The sequences sort like the characters that they replace, and no sequence occurs
// across the border of two others. So texts keep their order, prefixes and parts.
var lowCharacters = strings.NewReplacer("\x00", "\x01\x01\x01\x02", "\x01", "\x01\x01\x02\x02", "\x02", "\x01\x02\x02\x02")

// attribute returns a value of metadata as the column attributes has it.
func attribute(v any) any {
	switch v := v.(type) {
	case string:
		return lowCharacters.Replace(v)
	case map[string]any:
		m := make(map[string]any, len(v))
		for name, member := range v {
			m[lowCharacters.Replace(name)] = attribute(member)
		}
		return m
	case []any:
		all := make([]any, len(v))
		for i, element := range v {
			all[i] = attribute(element)
		}
		return all
	case nil, bool:
		return v
	}
	n, ok := filter.Number(v)
	if !ok { // beyond float64: it exists, but equals nothing
		return []any{}
	}
	return json.Number(n)
}

// attributesOf returns the column attributes of metadata.
func attributesOf(metadata string) string {
	m := jsonobject.Decode(metadata)
	if m == nil {
		return "{}"
	}
	return encodeAttribute(attribute(m))
}

func encodeAttribute(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // of values that were decoded or checked
	}
	return string(text)
}

// sqlFilter translates a filter to conditions on the column attributes of d. Conditions are true or
// false, never null.
type sqlFilter struct {
	args []any // also the arguments before the filter
}

// errFilter reports an operator that cannot be translated: ignoring it would disclose documents.
func errFilter(f *filter.Filter) error {
	return a2a.Errorf(a2a.CodeUnsupported, "vector: filter: op: %s is not supported by this store", a2a.Quote(string(f.Op)))
}

func (b *sqlFilter) arg(v any) string {
	b.args = append(b.args, v)
	return fmt.Sprintf("$%d", len(b.args))
}

func (b *sqlFilter) condition(f *filter.Filter) (string, error) {
	switch f.Op {
	case "":
		return "true", nil
	case filter.OpAnd:
		return b.combine(f.Filters, " AND ", "true")
	case filter.OpOr:
		return b.combine(f.Filters, " OR ", "false")
	case filter.OpNot:
		text, err := b.condition(&f.Filters[0])
		return "NOT " + text, err
	case filter.OpEq:
		return b.equals(f), nil
	case filter.OpNe:
		return "NOT " + b.equals(f), nil
	case filter.OpIn:
		return b.in(f), nil
	case filter.OpNotIn:
		return "NOT " + b.in(f), nil
	case filter.OpExists:
		return "(" + b.member(f.Path) + " IS NOT NULL)", nil
	case filter.OpContains:
		return b.contains(f), nil
	case filter.OpStartsWith:
		return b.onText(f.Path, "starts_with(%s, "+b.arg(operandText(f.Value))+"::text)"), nil
	case filter.OpGt, filter.OpGte, filter.OpLt, filter.OpLte:
		return b.ordered(f), nil
	}
	return "", errFilter(f)
}

func (b *sqlFilter) combine(operands []filter.Filter, operator, empty string) (string, error) {
	if len(operands) == 0 {
		return empty, nil
	}
	parts := make([]string, len(operands))
	for i := range operands {
		var err error
		if parts[i], err = b.condition(&operands[i]); err != nil {
			return "", err
		}
	}
	return "(" + strings.Join(parts, operator) + ")", nil
}

// member returns the member at a path, null if it does not exist. The operator of PostgreSQL for paths
// would also read elements of arrays.
func (b *sqlFilter) member(path string) string {
	text := "d.attributes"
	for _, name := range filter.Names(path) {
		text += " -> " + b.arg(lowCharacters.Replace(name)) + "::text"
	}
	return "(" + text + ")"
}

// at returns the JSON of an object with a value at a path. Objects with the value contain it.
func at(path string, value any) string {
	names := filter.Names(path)
	for i := len(names) - 1; i >= 0; i-- {
		value = map[string]any{lowCharacters.Replace(names[i]): value}
	}
	return encodeAttribute(value)
}

func (b *sqlFilter) equals(f *filter.Filter) string {
	return "(d.attributes @> " + b.arg(at(f.Path, attribute(f.Value))) + "::text::jsonb)"
}

func (b *sqlFilter) in(f *filter.Filter) string {
	values := make([]string, len(f.Values))
	for i, v := range f.Values {
		values[i] = at(f.Path, attribute(v))
	}
	return "(d.attributes @> ANY (" + b.arg(values) + "::text[]::jsonb[]))"
}

func (b *sqlFilter) contains(f *filter.Filter) string {
	element := "d.attributes @> " + b.arg(at(f.Path, []any{attribute(f.Value)})) + "::text::jsonb"
	if _, ok := f.Value.(string); !ok {
		return "(" + element + ")"
	}
	return "(" + element + " OR " + b.onText(f.Path, "strpos(%s, "+b.arg(operandText(f.Value))+"::text) > 0") + ")"
}

// onText returns a condition on a member that is a string, false for others.
func (b *sqlFilter) onText(path, condition string) string {
	m := b.member(path)
	return "(" + m + " IS NOT NULL AND jsonb_typeof(" + m + ") = 'string' AND " + fmt.Sprintf(condition, "("+m+` #>> '{}') COLLATE "C"`) + ")"
}

func (b *sqlFilter) ordered(f *filter.Filter) string {
	operator := map[filter.Op]string{filter.OpGt: ">", filter.OpGte: ">=", filter.OpLt: "<", filter.OpLte: "<="}[f.Op]
	if _, ok := f.Value.(string); ok {
		return b.onText(f.Path, "%s "+operator+" "+b.arg(operandText(f.Value))+"::text")
	}
	m := b.member(f.Path)
	return "(" + m + " IS NOT NULL AND jsonb_typeof(" + m + ") = 'number' AND " + m + " " + operator + " " + b.arg(encodeAttribute(attribute(f.Value))) + "::text::jsonb)"
}

func operandText(v any) string {
	text, _ := v.(string)
	return lowCharacters.Replace(text)
}

// indexed returns the part of a filter that the index of attributes can select, and that selects at
// least what the filter does. It is nil if no part can.
func indexed(f *filter.Filter) *filter.Filter {
	switch f.Op {
	case filter.OpEq, filter.OpIn:
		return f
	case filter.OpContains:
		if _, ok := f.Value.(string); !ok {
			return f
		}
	case filter.OpAnd:
		part := filter.And()
		for i := range f.Filters {
			if p := indexed(&f.Filters[i]); p != nil {
				part.Filters = append(part.Filters, *p)
			}
		}
		if len(part.Filters) > 0 {
			return &part
		}
	case filter.OpOr:
		part := filter.Or()
		for i := range f.Filters {
			p := indexed(&f.Filters[i])
			if p == nil {
				return nil
			}
			part.Filters = append(part.Filters, *p)
		}
		return &part
	default:
	}
	return nil
}
