package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server"
)

// valuesTurn writes data of all kinds.
func valuesTurn(_ context.Context, t *engine.Turn) error {
	type point struct{ X, Y int }
	for i, data := range []any{[]any{1.0, "a"}, "text", 3.0, true, []int{4}, point{5, 6}, map[string]any{"value": 7.0}} {
		if err := t.AddArtifact(a2a.Artifact{ID: fmt.Sprint("a", i), Parts: []a2a.Part{a2a.DataPart{Data: data, Metadata: map[string]any{"k": "v"}}}}); err != nil {
			return err
		}
	}
	return t.Reply(a2a.DataPart{Data: []any{"done"}})
}

// The message of valuesRequest has data that is an array and the role system.
const valuesRequest = `{"message":{"kind":"message","messageId":"m-1","role":"system","parts":[{"kind":"data","data":["sent"]}]},"configuration":{"blocking":true}}`

// partData returns the data of all parts in a task, in order, as JSON.
func partData(t *testing.T, raw []byte) (all []string) {
	t.Helper()
	var task struct {
		Artifacts, History []struct {
			Parts []struct{ Data json.RawMessage }
		}
	}
	if err := json.Unmarshal(raw, &task); err != nil {
		t.Fatalf("task %s: %v", raw, err)
	}
	for _, list := range [][]struct {
		Parts []struct{ Data json.RawMessage }
	}{task.Artifacts, task.History} {
		for _, item := range list {
			for _, part := range item.Parts {
				all = append(all, string(part.Data))
			}
		}
	}
	return all
}

func TestResponsesHaveOnlyValuesOfTheSpecification(t *testing.T) {
	t.Parallel()
	e := start(t, valuesTurn, nil)
	sent := e.call(a2a.MethodSend, valuesRequest)
	id := sent.task(t).ID
	want := []string{
		`{"value":[1,"a"]}`, `{"value":"text"}`, `{"value":3}`, `{"value":true}`, `{"value":[4]}`, `{"X":5,"Y":6}`, `{"value":7}`,
		`{"value":["sent"]}`, `{"value":["done"]}`,
	}
	get := fmt.Sprintf(`{"id":%q}`, id)
	for name, got := range map[string]reply{
		"message/send": sent, "tasks/get": e.call(a2a.MethodGet, get), "tasks/get from the cache": e.call(a2a.MethodGet, get),
	} {
		if diff := cmp.Diff(want, partData(t, got.Result)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		text := string(got.Result)
		if strings.Contains(text, `"role":"system"`) || !strings.Contains(text, `"role":"user"`) || !strings.Contains(text, `"holdfast.role":"system"`) {
			t.Errorf("%s = %s, want the role user with the original in metadata", name, text)
		}
	}
	list := string(e.call(a2a.MethodList, `{"historyLength":9,"includeArtifacts":true}`).Result)
	if strings.Contains(list, `"data":[`) || strings.Contains(list, `"role":"system"`) {
		t.Errorf("tasks/list = %s, want only objects and the role user", list)
	}
	for _, item := range e.open(a2a.MethodResubscribe, get, "Last-Event-ID", "0").rest() {
		if text := string(item.Data.Result); strings.Contains(text, `"data":[`) || strings.Contains(text, `"role":"system"`) {
			t.Errorf("event = %s, want only objects and the role user", text)
		}
	}
	var task a2a.Task
	if err := (v03.Codec{}).DecodeResult(e.call(a2a.MethodGet, get).Result, &task); err != nil {
		t.Fatal(err)
	}
	if data := task.Artifacts[0].Parts[0].(a2a.DataPart); !cmp.Equal(data.Data, any([]any{1.0, "a"})) || !cmp.Equal(data.Metadata, map[string]any{"k": "v"}) {
		t.Errorf("decoded part = %+v, want the data of the handler", data)
	}
	if data := task.Artifacts[6].Parts[0].(a2a.DataPart).Data; !cmp.Equal(data, any(map[string]any{"value": 7.0})) {
		t.Errorf("decoded data = %v, want the object of the handler", data)
	}
	if m := task.History[0]; m.Role != a2a.RoleSystem || m.Metadata != nil || !cmp.Equal(m.Parts[0].(a2a.DataPart).Data, any([]any{"sent"})) {
		t.Errorf("decoded message = %+v, want the message that was sent", m)
	}
}

func TestBinduProfileKeepsAllValues(t *testing.T) {
	t.Parallel()
	e := start(t, valuesTurn, func(c *server.Config) { c.Codecs = []rpc.Codec{v03.Codec{Bindu: true}} })
	text := string(e.call(a2a.MethodSend, valuesRequest).Result)
	for _, want := range []string{`"data":["sent"]`, `"data":[1,"a"]`, `"data":3`, `"role":"system"`} {
		if !strings.Contains(text, want) {
			t.Errorf("task = %s, want %s", text, want)
		}
	}
}

func TestDataMustNotBeAScalar(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	for _, data := range []string{`"x"`, `1`, `1e400`, `true`} {
		got := e.call(a2a.MethodSend, `{"message":{"messageId":"m-1","role":"user","parts":[{"kind":"text","text":"a"},{"kind":"data","data":`+data+`}]}}`)
		if got.code() != -32602 || got.Error.Data["field"] != "message.parts[1].data" {
			t.Errorf("message with the data %s = %s, want -32602 for the member", data, got.Body)
		}
	}
}
