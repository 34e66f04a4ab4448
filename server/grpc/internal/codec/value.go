package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

// at returns err with the path of its member below another member.
func at(path string, err error) error {
	var e *wire.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	if e.Path != "" && e.Path[0] != '[' {
		path += "."
	}
	return &wire.Error{Path: path + e.Path, Rule: e.Rule}
}

// atIndex is like at for an element of a list.
func atIndex(path string, i int, err error) error {
	if err == nil {
		return nil
	}
	return at(path+"["+strconv.Itoa(i)+"]", err)
}

// members returns the members of s, nil if there are none.
func members(s *structpb.Struct, depth int) (map[string]any, error) {
	fields := s.GetFields()
	if len(fields) == 0 {
		return nil, nil
	}
	if depth > wire.MaxDepth {
		return nil, tooDeep()
	}
	m := make(map[string]any, len(fields))
	for name, field := range fields {
		v, err := value(field, depth+1)
		if err != nil {
			return nil, at(name, err)
		}
		m[name] = v
	}
	return m, nil
}

// value returns the JSON value of v as package wire decodes it.
func value(v *structpb.Value, depth int) (any, error) {
	switch k := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		return nil, nil
	case *structpb.Value_BoolValue:
		return k.BoolValue, nil
	case *structpb.Value_StringValue:
		return k.StringValue, nil
	case *structpb.Value_NumberValue:
		if math.IsNaN(k.NumberValue) || math.IsInf(k.NumberValue, 0) {
			return nil, &wire.Error{Rule: "must be a finite number"}
		}
		return k.NumberValue, nil
	case *structpb.Value_StructValue:
		m, err := members(k.StructValue, depth)
		if m == nil && err == nil {
			m = map[string]any{}
		}
		return m, err
	case *structpb.Value_ListValue:
		if depth > wire.MaxDepth {
			return nil, tooDeep()
		}
		items := k.ListValue.GetValues()
		list := make([]any, len(items))
		for i, item := range items {
			var err error
			if list[i], err = value(item, depth+1); err != nil {
				return nil, atIndex("", i, err)
			}
		}
		return list, nil
	}
	return nil, &wire.Error{Rule: "must be a value, not an empty message"}
}

func tooDeep() error {
	return &wire.Error{Rule: fmt.Sprintf("is nested deeper than %d levels", wire.MaxDepth)}
}

// fromMap returns m as a message. Its values may have any type that can be encoded as JSON; numbers become float64.
func fromMap(m map[string]any) (*structpb.Struct, error) {
	s := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(m))}
	for name, v := range m {
		field, err := fromValue(v)
		if err != nil {
			return nil, at(name, err)
		}
		s.Fields[validText(name)] = field
	}
	return s, nil
}

// fromValue returns v as a message. See fromMap.
func fromValue(v any) (*structpb.Value, error) {
	switch v := v.(type) {
	case nil:
		return structpb.NewNullValue(), nil
	case bool:
		return structpb.NewBoolValue(v), nil
	case string:
		return structpb.NewStringValue(validText(v)), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, &wire.Error{Rule: "must be a finite number"}
		}
		return structpb.NewNumberValue(v), nil
	case int:
		return structpb.NewNumberValue(float64(v)), nil
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("number %s: %w", v, err)
		}
		return structpb.NewNumberValue(f), nil
	case map[string]any:
		s, err := fromMap(v)
		return structpb.NewStructValue(s), err
	case []any:
		list := &structpb.ListValue{Values: make([]*structpb.Value, len(v))}
		for i := range v {
			var err error
			if list.Values[i], err = fromValue(v[i]); err != nil {
				return nil, atIndex("", i, err)
			}
		}
		return structpb.NewListValue(list), nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var plain any
	if err := wire.Unmarshal(raw, &plain); err != nil {
		return nil, err
	}
	return fromValue(plain)
}
