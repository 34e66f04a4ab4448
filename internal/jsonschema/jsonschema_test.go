package jsonschema

import (
	"encoding/json"
	"testing"
)

func TestSchemaFindsProblems(t *testing.T) {
	t.Parallel()
	root := new(Schema)
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
		`{}`:                                 "Task lacks id",
		`{"id":1}`:                           "Task.id is 1, want type string",
		`{"id":"t","x":1}`:                   "Task has the unknown member x",
		`{"id":"t","state":"c"}`:             "Task.state is c, want one of [a b]",
		`{"id":"t","kind":"message"}`:        "Task.kind is message, want task",
		`{"id":"t","n":"x"}`:                 `Task.n is x, want type integer; or Task.n is "x", want ^[0-9]+$`,
		`{"id":"t","parts":[{"text":true}]}`: "Task.parts[0].text is true, want type [string null]",
	} {
		if got := root.Problem("Task", []byte(text)); got != want {
			t.Errorf("Problem(%s) = %q, want %q", text, got, want)
		}
	}
	for _, name := range []string{"Absent", "Task.absent"} {
		if got := root.Problem(name, []byte(`{}`)); got == "" {
			t.Errorf("Problem of %s = %q, want that it is unknown", name, got)
		}
	}
	if got := root.Problem("SomePart.text", []byte(`1`)); got == "" {
		t.Error("Problem of a property = none, want the wrong type")
	}
}
