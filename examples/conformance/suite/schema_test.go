package suite_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/rpc"
)

// schemas are the official JSON schemas by version. A schema whose path is not in the environment
// is absent.
var schemas = sync.OnceValues(func() (map[string]*schema, error) {
	out := make(map[string]*schema)
	for variable, version := range map[string]string{"HOLDFAST_SCHEMA_V03": "0.3", "HOLDFAST_SCHEMA_V10": "1.0"} {
		name := os.Getenv(variable)
		if name == "" {
			continue
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s := new(schema)
		if err := json.Unmarshal(raw, s); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[version] = s
	}
	return out, nil
})

// resultTypes are the definitions of results by method, of A2A 0.3 and of 1.0.
var resultTypes = map[string][2]string{
	a2a.MethodSend:        {"SendMessageSuccessResponse.result", "Send Message Response"},
	a2a.MethodStream:      {"SendStreamingMessageSuccessResponse.result", "Stream Response"},
	a2a.MethodResubscribe: {"SendStreamingMessageSuccessResponse.result", "Stream Response"},
	a2a.MethodGet:         {"Task", "Task"},
	a2a.MethodCancel:      {"Task", "Task"},
	a2a.MethodList:        {"", "List Tasks Response"},
	a2a.MethodPushSet:     {"TaskPushNotificationConfig", "Task Push Notification Config"},
	a2a.MethodPushGet:     {"TaskPushNotificationConfig", "Task Push Notification Config"},
	a2a.MethodPushList:    {"ListTaskPushNotificationConfigSuccessResponse.result", "List Task Push Notification Configs Response"},
}

// checkSchema validates a result against the official schema, if its path is known.
func checkSchema(t *testing.T, codec rpc.Codec, method string, raw json.RawMessage) {
	t.Helper()
	name := resultTypes[method][1]
	switch codec.(type) {
	case v03.ProtoCodec:
		return // the schema is that of JSON-RPC
	case v03.Codec:
		name = resultTypes[method][0]
	}
	checkDefinition(t, codec, name, raw)
}

// checkDefinition validates a value against a definition of the official schema, or a property of
// one, if its path is known.
func checkDefinition(t *testing.T, codec rpc.Codec, name string, raw json.RawMessage) {
	t.Helper()
	all, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	version := codec.Version()[:len("0.3")]
	root := all[version]
	if root == nil || name == "" {
		return
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	name, member, _ := strings.Cut(name, ".")
	def, ok := root.Definitions[name]
	if !ok {
		t.Fatalf("the schema of A2A %s has no definition %q, only %v", version, name, slices.Sorted(maps.Keys(root.Definitions)))
	}
	if member != "" {
		def = def.Properties[member]
	}
	if problem := root.check(def, value, name); problem != "" {
		t.Errorf("%s = %s\nbreaks the schema of A2A %s: %s", name, raw, version, problem)
	}
}

// schema is the part of JSON schema that the official schemas use.
type schema struct {
	Ref         string             `json:"$ref"`
	Type        any                `json:"type"`
	Const       any                `json:"const"`
	Enum        []any              `json:"enum"`
	Pattern     string             `json:"pattern"`
	Required    []string           `json:"required"`
	Properties  map[string]*schema `json:"properties"`
	Additional  json.RawMessage    `json:"additionalProperties"`
	Items       *schema            `json:"items"`
	AnyOf       []*schema          `json:"anyOf"`
	OneOf       []*schema          `json:"oneOf"`
	AllOf       []*schema          `json:"allOf"`
	Definitions map[string]*schema `json:"definitions"`
}

// check returns how a value at a path breaks s, or "".
func (root *schema) check(s *schema, value any, path string) string {
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
func (root *schema) byFile(name string) (*schema, bool) {
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

func (root *schema) checkValue(s *schema, value any, path string) string {
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

func TestSchemaFindsProblems(t *testing.T) {
	t.Parallel()
	root := new(schema)
	err := json.Unmarshal([]byte(`{"definitions":{
		"Task":{"type":"object","additionalProperties":false,"required":["id"],"properties":{
			"id":{"type":"string"},"state":{"enum":["a","b"]},"kind":{"const":"task"},"n":{"anyOf":[{"type":"integer"},{"type":"string","pattern":"^[0-9]+$"}]},
			"parts":{"type":"array","items":{"$ref":"lf.a2a.v1.SomePart.jsonschema.json"}}}},
		"Some Part":{"type":"object","properties":{"text":{"type":["string","null"]}}}}}`), root)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"id":"t","state":"a","kind":"task","n":1,"parts":[{"text":"x"},{"text":null}]}`: "",
		`{}`:                                 "value lacks id",
		`{"id":1}`:                           "value.id is 1, want type string",
		`{"id":"t","x":1}`:                   "value has the unknown member x",
		`{"id":"t","state":"c"}`:             "value.state is c, want one of [a b]",
		`{"id":"t","kind":"message"}`:        "value.kind is message, want task",
		`{"id":"t","n":"x"}`:                 `value.n is x, want type integer; or value.n is "x", want ^[0-9]+$`,
		`{"id":"t","parts":[{"text":true}]}`: "value.parts[0].text is true, want type [string null]",
	} {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if got := root.check(root.Definitions["Task"], value, "value"); got != want {
			t.Errorf("check(%s) = %q, want %q", text, got, want)
		}
	}
}
