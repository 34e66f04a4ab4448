package a2a_test

import (
	"bytes"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// roots are the types to fuzz, because their documents contain all other types. A fuzzed byte
// selects one. Append new types at the end, so that the corpus keeps its meaning.
var roots = []string{
	"A2ARequest", "Part", "Message", "Task", "TaskStatusUpdateEvent", "TaskArtifactUpdateEvent", "AgentCard", "SecurityScheme",
	"TaskPushNotificationConfig", "Context", "NegotiationContext", "ExecutionRequest", "ExecutionResponse", "AgentIdentity",
	"SendMessageResponse", "StreamMessageResponse", "ResubscribeTaskResponse", "ListTasksResponse", "JSONRPCRequest", "JSONRPCResponse",
	"CartMandate", "PaymentMandate", "IntentMandate", "TaskSendParams", "TaskNotFoundError", "GetAuthenticatedExtendedCardRequest",
}

// FuzzTypes decodes any document as one of the roots. An accepted document must be encodable,
// and decoding the result must be the same. Validate must not panic.
func FuzzTypes(f *testing.F) {
	c := readCatalogue(f)
	for i, name := range roots {
		f.Add(uint8(i), text(c.examples[name]))
	}
	f.Fuzz(func(t *testing.T, root uint8, document []byte) {
		name := roots[int(root)%len(roots)]
		v := reflect.New(goTypes[name])
		if err := wire.Unmarshal(document, v.Interface()); err != nil {
			return
		}
		validate(v)
		once, err := wire.Marshal(v.Interface())
		if err != nil {
			t.Fatalf("%s: Marshal of the decoded document %q: %v", name, document, err)
		}
		again := reflect.New(goTypes[name])
		if err := wire.Unmarshal(once, again.Interface()); err != nil {
			t.Fatalf("%s: Unmarshal of the encoded document %s: %v", name, once, err)
		}
		if twice, err := wire.Marshal(again.Interface()); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s: encoded as %s, then as %s (%v)", name, once, twice, err)
		}
	})
}

// validate calls the Validate method of v, a pointer, if it has one.
func validate(v reflect.Value) {
	if v.Elem().Kind() == reflect.Interface && !v.Elem().IsNil() {
		v = v.Elem()
	}
	switch v := v.Interface().(type) {
	case interface{ Validate() error }:
		_ = v.Validate()
	case interface{ Validate(time.Time) error }:
		_ = v.Validate(time.Unix(1767225720, 0))
	}
}

// Params with the maximum number of values per byte need memory for the values only.
func TestV10ParamsNeedLittleMemory(t *testing.T) {
	const n = 1 << 20
	message := func(part string) string {
		return `{"message":{"messageId":"m","role":1,"parts":[` + strings.Repeat(part+",", n/len(part)) + part + `]}}`
	}
	for text, v := range map[string]any{
		message(`{"text":""}`): new(a2a.MessageSendParams), message(`{"data":0}`): new(a2a.MessageSendParams), message(`{"url":""}`): new(a2a.MessageSendParams),
		message(`{"raw":""}`): new(a2a.MessageSendParams), `{"states":[` + strings.Repeat("2,", n/2) + `2]}`: new(a2a.ListTasksParams),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_ = v10.Codec{}.DecodeParams([]byte(text), v)
		runtime.ReadMemStats(&after)
		if times := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(text)); times > 50 {
			t.Errorf("DecodeParams(%.70s...) allocated %.1f times the size of its input, want at most 50", text, times)
		}
	}
}

// With quadratic time, this test would take minutes.
func TestDecodingIsLinear(t *testing.T) {
	t.Parallel()
	const n = 1 << 20
	many := func(open, item, shut string) []byte {
		return []byte(open + strings.Repeat(item+",", n/len(item)) + item + shut)
	}
	documents := map[string]map[string][]byte{
		"Message": {
			"parts":         many(`{"role":"user","messageId":"m","parts":[`, `{"kind":"text","text":""}`, `]}`),
			"files":         many(`{"role":"user","messageId":"m","parts":[`, `{"file":{"uri":"a:b"},"kind":"file"}`, `]}`),
			"kinds":         many(`{"role":"user","messageId":"m","parts":[{`, `"kind":"text"`, `,"text":""}]}`),
			"unknown":       many(`{"role":"user","messageId":"m","parts":[{"kind":"text","text":""}],`, `"x":{}`, `}`),
			"bad parts":     many(`{"role":"user","messageId":"m","parts":[`, `{"kind":"file","file":{"uri":"x"}}`, `]}`),
			"nested":        []byte(`{"metadata":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`),
			"escapes":       []byte(`{"messageId":"` + strings.Repeat(`\ud800`, n/6) + `"}`),
			"long numbers":  []byte(`{"metadata":{"n":` + strings.Repeat("9", n) + `},"messageId":"m","role":"user","parts":[]}`),
			"long fraction": []byte(`{"metadata":{"n":0.` + strings.Repeat("1", n) + `},"messageId":"m","role":"user","parts":[]}`),
		},
		"A2ARequest": {
			"method last": many(`{"jsonrpc":"2.0","id":1,"params":{"metadata":{"a":[`, `{"message_id":1}`, `]}},"method":"tasks/list"}`),
			"ids":         []byte(`{"jsonrpc":"2.0","method":"tasks/list","params":{},"id":` + strings.Repeat("1", n) + `}`),
		},
		"AgentCard": {
			"skills": many(`{"skills":[`, `{"id":"","name":"","description":"","tags":[]}`, `],"protocolVersion":"","name":"","description":"","url":"","version":"","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[]}`),
		},
		"PaymentRequest": {
			"amounts": many(`{"methodData":[],"details":{"id":"","total":{"label":"","amount":{"currency":"USD","value":1}},"displayItems":[`, `{"label":"","amount":{"currency":"USD","value":0.001}}`, `]}}`),
			"digits":  []byte(`{"methodData":[],"details":{"id":"","displayItems":[],"total":{"label":"","amount":{"currency":"USD","value":1e` + strings.Repeat("9", n) + `}}}}`),
		},
		"NegotiationContext": {
			"agents": many(`{"contextId":"","status":"ongoing","proposals":[],"participants":[`, `"did:a:b"`, `]}`),
		},
	}
	for _, name := range slices.Sorted(maps.Keys(documents)) {
		for what, document := range documents[name] {
			start := time.Now()
			v := reflect.New(goTypes[name])
			_ = wire.Unmarshal(document, v.Interface())
			validate(v)
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("%s with %s: %d bytes took %v", name, what, len(document), took)
			}
		}
	}
}
