package a2a_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

// testdata/types_catalog.json describes every type of the protocol and its members. This file
// reads it and renames the members of documents. The tests in catalogue_types_test.go compare
// the Go types with it.

type catalogueField struct {
	Name, Snake, Type, Constraint string
	Required                      bool
}

type catalogueType struct {
	Type, Kind, Standard string
	Fields               []catalogueField
	Values               []any
}

func (t *catalogueType) field(name string) *catalogueField {
	for i := range t.Fields {
		if t.Fields[i].Name == name {
			return &t.Fields[i]
		}
	}
	return nil
}

// wireName returns the name of the field on the wire.
func (t *catalogueType) wireName(f *catalogueField) string {
	if name, ok := renamed[t.Type+"."+f.Name]; ok {
		return name
	}
	if t.Standard == "ap2" {
		return f.snake()
	}
	return f.Name
}

func (f *catalogueField) snake() string {
	if f.Snake != "" {
		return f.Snake
	}
	return f.Name
}

type catalogue struct {
	types    map[string]*catalogueType
	names    []string
	examples map[string]any
}

func readCatalogue(t testing.TB) *catalogue {
	t.Helper()
	var list []*catalogueType
	c := &catalogue{types: make(map[string]*catalogueType)}
	readJSON(t, "types_catalog.json", &list)
	readJSON(t, "types_examples.json", &c.examples)
	for _, entry := range list {
		c.types[entry.Type] = entry
		c.names = append(c.names, entry.Type)
	}
	return c
}

func readJSON(t testing.TB, name string, v any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// members returns the object types that a type expression includes.
func (c *catalogue) members(expr string) []*catalogueType {
	var types []*catalogueType
	if inner, ok := generic(expr, "union"); ok {
		for name := range strings.SplitSeq(inner, "|") {
			types = append(types, c.members(name)...)
		}
		return types
	}
	t, ok := c.types[expr]
	switch {
	case !ok || t.Kind == "enum":
		return nil
	case t.Kind == "union":
		for _, name := range t.Values {
			types = append(types, c.members(name.(string))...)
		}
		return types
	default:
		return []*catalogueType{t}
	}
}

// generic returns the argument of the type expression name<argument>.
func generic(expr, name string) (inner string, ok bool) {
	inner, ok = strings.CutPrefix(expr, name+"<")
	return strings.TrimSuffix(inner, ">"), ok
}

// matches reports whether v can be of type t: literals are equal and required members are
// present under the names that nameOf returns.
func (t *catalogueType) matches(v map[string]any, nameOf func(*catalogueType, *catalogueField) string) bool {
	for i := range t.Fields {
		f := &t.Fields[i]
		value, ok := v[nameOf(t, f)]
		literal, isLiteral := generic(f.Type, "literal")
		switch {
		case !ok && f.Required && lenient[t.Type+"."+f.Name] == "":
			return false
		case ok && isLiteral && fmt.Sprintf("%q", value) != literal && fmt.Sprint(value) != literal:
			return false
		}
	}
	return true
}

type nameFunc = func(*catalogueType, *catalogueField) string

func ownName(_ *catalogueType, f *catalogueField) string   { return f.Name }
func snakeName(_ *catalogueType, f *catalogueField) string { return f.snake() }
func wireName(t *catalogueType, f *catalogueField) string  { return t.wireName(f) }

// rename returns a copy of a document in which the members of typed objects have the names of
// to instead of from. Free-form values are unchanged.
func (c *catalogue) rename(expr string, v any, from, to nameFunc) any {
	if inner, ok := generic(expr, "array"); ok {
		list, _ := v.([]any)
		out := make([]any, len(list))
		for i := range list {
			out[i] = c.rename(inner, list[i], from, to)
		}
		return out
	}
	if inner, ok := generic(expr, "map"); ok {
		return c.renameMap(strings.TrimPrefix(inner, "string,"), v, from, to)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for _, t := range c.members(expr) {
		if t.matches(object, from) {
			return c.renameObject(t, object, from, to)
		}
	}
	return v
}

func (c *catalogue) renameMap(elem string, v any, from, to nameFunc) any {
	if elem == "any" {
		return v
	}
	out := make(map[string]any)
	for k, item := range v.(map[string]any) {
		out[k] = c.rename(elem, item, from, to)
	}
	return out
}

func (c *catalogue) renameObject(t *catalogueType, object map[string]any, from, to nameFunc) any {
	out := maps.Clone(object)
	for i := range t.Fields {
		delete(out, from(t, &t.Fields[i]))
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if value, ok := object[from(t, f)]; ok {
			out[to(t, f)] = c.rename(f.Type, value, from, to)
		}
	}
	return out
}

// normalize removes default values and normalizes times in a document, in place.
func (c *catalogue) normalize(expr string, v any) {
	switch v := v.(type) {
	case []any:
		inner, _ := generic(expr, "array")
		for _, item := range v {
			c.normalize(inner, item)
		}
	case map[string]any:
		if inner, ok := generic(expr, "map"); ok {
			for _, item := range v {
				c.normalize(strings.TrimPrefix(inner, "string,"), item)
			}
			return
		}
		for _, t := range c.members(expr) {
			if t.matches(v, ownName) {
				c.normalizeObject(t, v)
				return
			}
		}
	}
}

func (c *catalogue) normalizeObject(t *catalogueType, object map[string]any) {
	for i := range t.Fields {
		f := &t.Fields[i]
		key := t.Type + "." + f.Name
		value, ok := object[f.Name]
		if !ok {
			continue
		}
		c.normalize(f.Type, value)
		if absent, ok := defaults[key]; ok && reflect.DeepEqual(value, absent) {
			delete(object, f.Name)
		}
		if at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(value)); err == nil && timeMembers[key] {
			object[f.Name] = at.UTC().Format(time.RFC3339Nano)
		}
	}
}

// diff returns the difference between two documents, "" if they are equal after settle. got
// has the names of the wire format.
func (c *catalogue) diff(expr string, got, want any) string {
	got, want = c.rename(expr, got, wireName, ownName), c.rename(expr, want, ownName, ownName)
	c.normalize(expr, got)
	c.normalize(expr, want)
	if !reflect.DeepEqual(got, want) {
		return fmt.Sprintf("got  %s\nwant %s", text(got), text(want))
	}
	return ""
}

func text(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// fullExample returns the example of an object type extended by values for all other members.
func (c *catalogue) fullExample(t *catalogueType) map[string]any {
	object := maps.Clone(c.examples[t.Type].(map[string]any))
	for _, f := range t.Fields {
		if _, ok := object[f.Name]; !ok {
			object[f.Name] = c.sample(f.Type)
		}
	}
	return object
}

// freeForm returns a free-form value.
func freeForm() map[string]any {
	return map[string]any{
		"snake_key": 1.0, "camelKey": map[string]any{"in_ner": nil, "context_id": "x", "contextId": "y"},
		"": []any{true, "kind", map[string]any{"message_id": 1e-7}},
	}
}

func (c *catalogue) sample(expr string) any {
	if inner, ok := generic(expr, "array"); ok {
		return []any{c.sample(inner)}
	}
	if inner, ok := generic(expr, "map"); ok && inner != "string,any" {
		return map[string]any{"snake_key": c.sample(strings.TrimPrefix(inner, "string,"))}
	}
	if inner, ok := generic(expr, "union"); ok {
		name, _, _ := strings.Cut(inner, "|")
		return c.sample(name)
	}
	switch expr {
	case "bool":
		return true
	case "int":
		return 3.0
	case "float":
		return 0.25
	case "string":
		return "text"
	case "uuid":
		return "77777777-7777-4777-8777-777777777777"
	case "any", "map<string,any>":
		return freeForm()
	}
	t := c.types[expr]
	if t.Kind == "enum" {
		return t.Values[0]
	}
	return c.examples[expr]
}

// scalars returns the values for a union: one for each type and all values of enums.
func (c *catalogue) scalars(union string) (values []any) {
	for name := range strings.SplitSeq(union, "|") {
		switch t := c.types[name]; {
		case name == "null":
			values = append(values, nil)
		case t == nil:
			values = append(values, c.sample(name))
		default:
			values = append(values, t.Values...)
		}
	}
	return values
}

// decode decodes a document into the Go type with the catalogue's name and returns the
// encoded result.
func (c *catalogue) decode(name string, document any) (emitted any, err error) {
	v := reflect.New(goTypes[name])
	if err := wire.Unmarshal(text(document), v.Interface()); err != nil {
		return nil, err
	}
	out, err := wire.Marshal(v.Interface())
	if err == nil {
		err = json.Unmarshal(out, &emitted)
	}
	return emitted, err
}

func (c *catalogue) each(t *testing.T, kind string, f func(*testing.T, *catalogueType)) {
	t.Helper()
	for _, name := range c.names {
		if entry := c.types[name]; entry.Kind == kind {
			t.Run(name, func(t *testing.T) {
				if goTypes[name] == nil {
					t.Fatalf("the catalogue's type %s has no Go type", name)
				}
				f(t, entry)
			})
		}
	}
}

func TestEveryTypeOfTheCatalogueHasAGoType(t *testing.T) {
	t.Parallel()
	c := readCatalogue(t)
	if len(c.names) != 138 {
		t.Errorf("the catalogue has %d types, want 138", len(c.names))
	}
	for _, name := range c.names {
		if goTypes[name] == nil {
			t.Errorf("the catalogue's type %s has no Go type", name)
			continue
		}
		want := name
		if other, ok := goNames[name]; ok {
			want = other
		}
		if got := goTypes[name].Name(); got != want && !strings.HasPrefix(got, "Response[") {
			t.Errorf("the catalogue's type %s is %s in Go, want %s", name, got, want)
		}
	}
	for name := range goTypes {
		if c.types[name] == nil {
			t.Errorf("%s is not in the catalogue", name)
		}
	}
	exceptions := slices.Concat(slices.Collect(maps.Keys(lenient)), slices.Collect(maps.Keys(renamed)), slices.Collect(maps.Keys(defaults)), slices.Collect(maps.Keys(timeMembers)))
	for _, key := range exceptions {
		name, field, _ := strings.Cut(key, ".")
		if c.types[name] == nil || c.types[name].field(field) == nil {
			t.Errorf("the exception %s names a member that is not in the catalogue", key)
		}
	}
}
