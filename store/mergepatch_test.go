package store_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// These are the examples of RFC 7396 appendix A with objects as target and patch.
func TestMergePatch(t *testing.T) {
	t.Parallel()
	parse := func(text string) (m map[string]any) {
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, test := range []struct{ target, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `null`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`{"a":"foo"}`, `{}`, `{"a":"foo"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`null`, `{"a":null}`, `null`},
		{`null`, `{"a":[null,{"b":null}]}`, `{"a":[null,{"b":null}]}`},
		{`{"a":{"x":1}}`, `{"a":{"y":2}}`, `{"a":{"x":1,"y":2}}`},
	} {
		target, patch := parse(test.target), parse(test.patch)
		if diff := cmp.Diff(parse(test.want), store.MergePatch(target, patch)); diff != "" {
			t.Errorf("MergePatch(%s, %s) (-want +got):\n%s", test.target, test.patch, diff)
		}
		if !cmp.Equal(target, parse(test.target)) || !cmp.Equal(patch, parse(test.patch)) {
			t.Errorf("MergePatch(%s, %s) changed its arguments to %v, %v", test.target, test.patch, target, patch)
		}
	}
}

func TestApplyMergesMetadata(t *testing.T) {
	t.Parallel()
	chunk := func(metadata map[string]any, more bool) store.Event {
		return store.Event{Seq: 1, State: a2a.StateWorking, Append: more, Metadata: metadata, Artifact: &a2a.Artifact{ID: "a", Parts: []a2a.Part{a2a.TextPart{Text: "t"}}, Metadata: metadata}}
	}
	var task store.Task
	task.Apply(chunk(map[string]any{"a": map[string]any{"x": 1.0, "z": 1.0}, "b": 1.0}, false))
	before := task.Clone()
	task.Apply(chunk(map[string]any{"a": map[string]any{"y": 2.0, "z": nil}, "b": nil}, true))
	want := map[string]any{"a": map[string]any{"x": 1.0, "y": 2.0}}
	if diff := cmp.Diff(want, task.Metadata) + cmp.Diff(want, task.Artifacts[0].Metadata); diff != "" {
		t.Errorf("Apply() (-want +got):\n%s", diff)
	}
	if len(before.Metadata) != 2 || before.Metadata["a"].(map[string]any)["z"] != 1.0 {
		t.Errorf("clone = %v after Apply() to the task, want it unchanged", before.Metadata)
	}
}
