// Package jsonschema validates values against JSON schemas. It has the keywords that the official
// schemas of A2A use.
package jsonschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Schema is a schema, or a part of one.
type Schema struct {
	Ref         string             `json:"$ref"`
	Type        any                `json:"type"`
	Const       any                `json:"const"`
	Enum        []any              `json:"enum"`
	Pattern     string             `json:"pattern"`
	Required    []string           `json:"required"`
	Properties  map[string]*Schema `json:"properties"`
	Additional  json.RawMessage    `json:"additionalProperties"`
	Items       *Schema            `json:"items"`
	AnyOf       []*Schema          `json:"anyOf"`
	OneOf       []*Schema          `json:"oneOf"`
	AllOf       []*Schema          `json:"allOf"`
	Definitions map[string]*Schema `json:"definitions"`
}

// check returns how a value at a path breaks s, or "".
func (root *Schema) check(s *Schema, value any, path string) string {
	if s.Ref != "" {
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		def, ok := root.Definitions[name]
		if !ok {
			def, ok = root.byFile(name)
		}
		if !ok {
			return fmt.Sprintf("%s: unknown reference %s", path, s.Ref)
		}
		return root.check(def, value, path)
	}
	for _, each := range s.AllOf {
		if problem := root.check(each, value, path); problem != "" {
			return problem
		}
	}
	if alternatives := slices.Concat(s.AnyOf, s.OneOf); len(alternatives) > 0 {
		var problems []string
		for _, each := range alternatives {
			problem := root.check(each, value, path)
			if problem == "" {
				problems = nil
				break
			}
			problems = append(problems, problem)
		}
		if len(problems) > 0 {
			return strings.Join(problems, "; or ")
		}
	}
	return root.checkValue(s, value, path)
}

// byFile returns the definition of a reference by file name, as "lf.a2a.v1.Task.jsonschema.json".
func (root *Schema) byFile(name string) (*Schema, bool) {
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".json"), ".jsonschema")
	name = name[strings.LastIndex(name, ".")+1:]
	spaced := regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(name, "$1 $2")
	for _, each := range []string{name, spaced} {
		if def, ok := root.Definitions[each]; ok {
			return def, true
		}
	}
	return nil, false
}

func (root *Schema) checkValue(s *Schema, value any, path string) string {
	if s.Type != nil && !hasType(value, s.Type) {
		return fmt.Sprintf("%s is %v, want type %v", path, value, s.Type)
	}
	if s.Const != nil && !reflect.DeepEqual(value, s.Const) {
		return fmt.Sprintf("%s is %v, want %v", path, value, s.Const)
	}
	if s.Enum != nil && !slices.Contains(s.Enum, value) {
		return fmt.Sprintf("%s is %v, want one of %v", path, value, s.Enum)
	}
	if text, ok := value.(string); ok && s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(text) {
		return fmt.Sprintf("%s is %q, want %s", path, text, s.Pattern)
	}
	switch value := value.(type) {
	case []any:
		for i, each := range value {
			if s.Items == nil {
				break
			}
			if problem := root.check(s.Items, each, fmt.Sprintf("%s[%d]", path, i)); problem != "" {
				return problem
			}
		}
	case map[string]any:
		for _, name := range s.Required {
			if _, ok := value[name]; !ok {
				return fmt.Sprintf("%s lacks %s", path, name)
			}
		}
		for name, each := range value {
			member, ok := s.Properties[name]
			if !ok && string(s.Additional) == "false" {
				return fmt.Sprintf("%s has the unknown member %s", path, name)
			}
			if ok {
				if problem := root.check(member, each, path+"."+name); problem != "" {
					return problem
				}
			}
		}
	}
	return ""
}

// hasType reports whether a value has a type, or one of several types.
func hasType(value, kind any) bool {
	if list, ok := kind.([]any); ok {
		return slices.ContainsFunc(list, func(k any) bool { return hasType(value, k) })
	}
	switch value := value.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case float64:
		return kind == "number" || kind == "integer" && value == float64(int64(value))
	case []any:
		return kind == "array"
	default:
		return kind == "object"
	}
}

// Load reads the schema in a file.
func Load(name string) (*Schema, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	s := new(Schema)
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// Problem returns how a JSON document breaks a definition, or "". The parameter name is the name of
// a definition, or the names of a definition and one of its properties, as in "Response.result".
func (root *Schema) Problem(name string, document []byte) string {
	var value any
	if err := json.Unmarshal(document, &value); err != nil {
		return err.Error()
	}
	definition, member, _ := strings.Cut(name, ".")
	s, ok := root.Definitions[definition]
	if !ok {
		s, ok = root.byFile(definition)
	}
	if ok && member != "" {
		s, ok = s.Properties[member]
	}
	if !ok {
		return fmt.Sprintf("the schema has no definition %q, only %v", name, slices.Sorted(maps.Keys(root.Definitions)))
	}
	return root.check(s, value, definition)
}
