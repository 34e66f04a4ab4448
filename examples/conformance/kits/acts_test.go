package main

import (
	"encoding/json"
	"testing"
)

func TestMatchersOfACTS(t *testing.T) {
	t.Parallel()
	const document = `{"id":"t-1","n":2,"type":"x","empty":[],"list":[{"a":"one"},{"a":"two"}],"state":"DONE"}`
	var got any
	if err := json.Unmarshal([]byte(document), &got); err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	for _, tt := range []struct {
		want  any
		match bool
	}{
		{object{"id": "t-1", "n": 2, "type": "x"}, true},
		{object{"id": "t-2"}, false},
		{object{"id": object{"type": "string"}, "type": object{"type": "string"}}, true},
		{object{"n": object{"type": "string"}}, false},
		{object{"missing": object{"absent": true}, "id": object{"exists": true}}, true},
		{object{"missing": object{"exists": true}}, false},
		{object{"id": object{"absent": true}}, false},
		{object{"state": object{"one_of": []any{"DONE", "FAILED"}}}, true},
		{object{"state": object{"one_of": []any{"FAILED"}}}, false},
		{object{"any_of": []any{object{"error": object{"exists": true}}, object{"id": object{"starts_with": "t-"}}}}, true},
		{object{"id": object{"all_of": []any{object{"contains": "-"}, object{"matches": "^t-[0-9]$"}}}}, true},
		{object{"id": object{"all_of": []any{object{"contains": "-"}, object{"matches": "^x"}}}}, false},
		{object{"list": object{"count_gte": 2, "items": object{"a": object{"type": "string"}}}}, true},
		{object{"list": object{"items": []any{object{"a": "one"}}}}, true},
		{object{"list": object{"items": []any{object{"a": "two"}}}}, false},
		{object{"list": object{"count": 1}}, false},
		{object{"empty": object{"count_lte": 0, "type": "array"}}, true},
	} {
		if problem := match(tt.want, got); (problem == "") != tt.match {
			t.Errorf("match(%v) = %q, want a match: %t", tt.want, problem, tt.match)
		}
	}
	if found := find(got, "list[*].a"); len(found) != 2 || found[1] != "two" {
		t.Errorf("find(list[*].a) = %v, want both", found)
	}
	if found := find(got, "list[1].a"); len(found) != 1 || found[0] != "two" {
		t.Errorf("find(list[1].a) = %v, want the second", found)
	}
	if !holds("state in [FAILED, DONE]", got) || holds("state == FAILED", got) || !holds("state == DONE", got) {
		t.Error("holds() does not evaluate conditions")
	}
}
