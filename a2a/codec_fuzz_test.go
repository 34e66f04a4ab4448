package a2a_test

import (
	"fmt"
	"reflect"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
)

// codec is what clients and servers use of a version.
type codec interface {
	DecodeParams(raw []byte, v any) error
	EncodeParams(params any) ([]byte, error)
	AppendResult(dst []byte, m *a2a.Method, result any) ([]byte, error)
	DecodeResult(raw []byte, v any) error
	AppendEvent(dst []byte, e a2a.Event) ([]byte, error)
	DecodeEvent(raw []byte) (a2a.Event, error)
	AppendError(dst []byte, e *a2a.Error, requestID, announced string) []byte
	DecodeError(raw []byte) (*a2a.Error, error)
	AppendCard(dst []byte, card *a2a.AgentCard) ([]byte, error)
}

// codecs are all codecs with every member of the model. Append new ones at the end.
var codecs = []codec{v03.Codec{}, v10.Codec{Extensions: true}, protoCodec{v03.ProtoCodec{Extensions: true}}}

// protoCodec has the errors and cards of JSON-RPC, of which HTTP+JSON has the members.
type protoCodec struct{ v03.ProtoCodec }

func (protoCodec) DecodeResult(raw []byte, v any) error {
	if card, ok := v.(*a2a.AgentCard); ok {
		return v03.Codec{}.DecodeResult(raw, card)
	}
	return v03.ProtoCodec{}.DecodeResult(raw, v)
}

func (protoCodec) DecodeError(raw []byte) (*a2a.Error, error) { return v03.Codec{}.DecodeError(raw) }

// exchanges are the params and results of methods. Append new ones at the end.
var exchanges = []struct {
	method         string
	params, result reflect.Type
}{
	{a2a.MethodSend, reflect.TypeFor[a2a.MessageSendParams](), reflect.TypeFor[a2a.Event]()},
	{a2a.MethodGet, reflect.TypeFor[a2a.TaskQueryParams](), reflect.TypeFor[a2a.Task]()},
	{a2a.MethodList, reflect.TypeFor[a2a.ListTasksParams](), reflect.TypeFor[a2a.ListTasksResult]()},
	{a2a.MethodCancel, reflect.TypeFor[a2a.TaskIDParams](), reflect.TypeFor[a2a.Task]()},
	{a2a.MethodPushSet, reflect.TypeFor[a2a.TaskPushNotificationConfig](), reflect.TypeFor[a2a.TaskPushNotificationConfig]()},
	{a2a.MethodPushGet, reflect.TypeFor[a2a.GetTaskPushNotificationConfigParams](), reflect.TypeFor[a2a.TaskPushNotificationConfig]()},
	{a2a.MethodPushList, reflect.TypeFor[a2a.ListTaskPushNotificationConfigParams](), reflect.TypeFor[a2a.ListTaskPushNotificationConfigResult]()},
	{a2a.MethodPushDelete, reflect.TypeFor[a2a.DeleteTaskPushNotificationConfigParams](), reflect.TypeFor[a2a.Task]()},
	{a2a.MethodContextsList, reflect.TypeFor[a2a.ListContextsParams](), reflect.TypeFor[a2a.ListContextsResult]()},
	{a2a.MethodContextsUpdate, reflect.TypeFor[a2a.UpdateContextParams](), reflect.TypeFor[a2a.Context]()},
	{a2a.MethodFeedback, reflect.TypeFor[a2a.TaskFeedbackParams](), reflect.TypeFor[a2a.TaskFeedback]()},
	{a2a.MethodFeedbackList, reflect.TypeFor[a2a.ListTaskFeedbackParams](), reflect.TypeFor[a2a.ListTaskFeedbackResult]()},
	{a2a.MethodPushAttempts, reflect.TypeFor[a2a.ListAttemptsParams](), reflect.TypeFor[a2a.ListAttemptsResult]()},
}

// directions are what a fuzzed byte selects for a document to be.
const (
	asParams = iota
	asResult
	asEvent
	asError
	asCard
	directions
)

// FuzzCodecs decodes any document by each codec, as what clients send and as what servers send. An
// accepted document must be encodable, and the result must be decoded as the same value. Decoding
// must not allocate more than a multiple of the document.
func FuzzCodecs(f *testing.F) {
	for c := range codecs {
		seedCodec(f, uint8(c))
	}
	for _, document := range []string{
		`{"kind":"task","id":"","contextId":"","status":{"state":"payment-required","timestamp":"2026-01-02T03:04:05.1234567+01:00"},"history":[{"role":"user","messageId":"","parts":[{"kind":"data","data":{"value":null},"metadata":{"holdfast.data":"value"}}],"metadata":{"holdfast.role":"system"}}],"metadata":{"holdfast.state":"x"}}`,
		`{"kind":"task","id":"t","contextId":"c","status":{"state":"working"},"artifacts":[{"artifactId":"a","parts":[{"kind":"data","data":[1e400,-0,1e-7,12345678901234567890]}]}]}`,
	} {
		f.Add(uint8(0), uint8(asEvent), uint8(0), []byte(document))
	}
	for _, document := range []string{
		`{"task":{"id":"","status":{"state":"TASK_STATE_INPUT_REQUIRED","timestamp":"2026-01-02T03:04:05Z"},"metadata":{"holdfast.state":"payment-required"},"history":[{"messageId":"","role":"ROLE_AGENT","parts":[{"data":null,"filename":"f"},{"raw":"-_8","metadata":{}}],"metadata":{"holdfast.role":"system"}}]}}`,
		`{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":6,"message":{"messageId":"m","role":2,"parts":[{"url":""},{"text":""}]}}}}`,
	} {
		f.Add(uint8(1), uint8(asEvent), uint8(0), []byte(document))
	}
	for _, document := range []string{
		`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a","mediaType":"text/plain"}]},"configuration":{"historyLength":"0","taskPushNotificationConfig":{"url":"https://a","authentication":{"scheme":""}}}}`,
		`{"status":3,"states":["TASK_STATE_UNSPECIFIED",1],"pageSize":"5","statusTimestampAfter":"0001-01-01T00:00:00Z"}`,
	} {
		f.Add(uint8(1), uint8(asParams), uint8(0), []byte(document))
		f.Add(uint8(1), uint8(asParams), uint8(2), []byte(document))
	}
	f.Fuzz(func(t *testing.T, which, direction, method uint8, document []byte) {
		c, x := codecs[int(which)%len(codecs)], exchanges[int(method)%len(exchanges)]
		m, _ := a2a.MethodByName(x.method)
		switch direction % directions {
		case asParams:
			roundTrip(t, document, x.params,
				func(raw []byte, v any) error { return c.DecodeParams(raw, v) },
				func(v any) ([]byte, error) { return c.EncodeParams(v) })
		case asResult:
			roundTrip(t, document, x.result, c.DecodeResult, func(v any) ([]byte, error) {
				if e, ok := v.(*a2a.Event); ok {
					v = *e
				}
				return c.AppendResult(nil, &m, v)
			})
		case asEvent:
			roundTrip(t, document, reflect.TypeFor[a2a.Event](), func(raw []byte, v any) error {
				e, err := c.DecodeEvent(raw)
				if err == nil && e == nil {
					err = fmt.Errorf("unknown kind")
				}
				*v.(*a2a.Event) = e
				return err
			}, func(v any) ([]byte, error) { return c.AppendEvent(nil, *v.(*a2a.Event)) })
		case asError:
			roundTrip(t, document, reflect.TypeFor[a2a.Error](), func(raw []byte, v any) error {
				e, err := c.DecodeError(raw)
				if err == nil {
					*v.(*a2a.Error) = a2a.Error{Code: e.Code, Message: e.Message}
				}
				return err
			}, func(v any) ([]byte, error) { return c.AppendError(nil, v.(*a2a.Error), "", ""), nil })
		case asCard:
			roundTrip(t, document, reflect.TypeFor[a2a.AgentCard](), c.DecodeResult,
				func(v any) ([]byte, error) { return c.AppendCard(nil, v.(*a2a.AgentCard)) })
		}
	})
}

// seedCodec adds a document of each kind.
func seedCodec(f *testing.F, which uint8) {
	f.Helper()
	c := codecs[which]
	samples := map[reflect.Type]any{}
	for _, v := range values(f) {
		samples[v.Type().Elem()] = v.Interface()
	}
	var task a2a.Event = samples[reflect.TypeFor[a2a.Task]()].(*a2a.Task)
	for i, x := range exchanges {
		m, _ := a2a.MethodByName(x.method)
		if v := samples[x.params]; v != nil {
			raw, err := c.EncodeParams(v)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(which, uint8(asParams), uint8(i), raw)
		}
		v := samples[x.result]
		if x.result == reflect.TypeFor[a2a.Event]() {
			v = task
		}
		if v == nil {
			continue
		}
		raw, err := c.AppendResult(nil, &m, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(which, uint8(asResult), uint8(i), raw)
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[a2a.Task](), reflect.TypeFor[a2a.Message](), reflect.TypeFor[a2a.TaskStatusUpdateEvent](), reflect.TypeFor[a2a.TaskArtifactUpdateEvent](),
	} {
		raw, err := c.AppendEvent(nil, samples[typ].(a2a.Event))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(which, uint8(asEvent), uint8(0), raw)
	}
	f.Add(which, uint8(asError), uint8(0), c.AppendError(nil, a2a.Invalid("message.parts", "must not be empty"), "id", "0.3"))
	raw, err := c.AppendCard(nil, samples[reflect.TypeFor[a2a.AgentCard]()].(*a2a.AgentCard))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(which, uint8(asCard), uint8(0), raw)
}

// sameModel compares values as they are on the wire, which has milliseconds.
var sameModel = []cmp.Option{
	cmpopts.EquateEmpty(),
	cmp.Exporter(func(reflect.Type) bool { return true }),
	cmp.Comparer(func(x, y time.Time) bool { return x.Truncate(time.Millisecond).Equal(y.Truncate(time.Millisecond)) }),
}

// roundTrip decodes a document into a value of typ. It fails the test if that is encoded and
// decoded as another value.
func roundTrip(t *testing.T, document []byte, typ reflect.Type, decode func([]byte, any) error, encode func(any) ([]byte, error)) {
	t.Helper()
	first := reflect.New(typ)
	var err error
	checkAllocations(t, document, func() { err = decode(document, first.Interface()) })
	if err != nil {
		return
	}
	raw, err := encode(first.Interface())
	if err != nil {
		t.Fatalf("encoding %+v of %s: %v", first.Elem(), document, err)
	}
	second := reflect.New(typ)
	if err := decode(raw, second.Interface()); err != nil {
		t.Fatalf("decoding %s, which %s became: %v", raw, document, err)
	}
	if diff := cmp.Diff(first.Interface(), second.Interface(), sameModel...); diff != "" {
		t.Fatalf("%s became %s (-decoded +decoded again)\n%s", document, raw, diff)
	}
}

// checkAllocations fails the test if f allocates more than a document justifies.
func checkAllocations(t *testing.T, document []byte, f func()) {
	t.Helper()
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	f()
	metrics.Read(sample)
	// The first use of a type adds its plan.
	const base, factor = 8 << 20, 200
	if got := sample[0].Value.Uint64() - before; got > base+factor*uint64(len(document)) {
		t.Errorf("decoding %d bytes allocated %d bytes: %.200s", len(document), got, document)
	}
}
