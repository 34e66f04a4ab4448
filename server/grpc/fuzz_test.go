package grpc_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	pb03 "github.com/a2aproject/a2a-go/a2apb"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-dev/holdfast/a2a"
	jsonv03 "github.com/holdfast-dev/holdfast/a2a/v03"
	jsonv10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server/grpc/internal/codec"
)

// params returns a value of each type of params.
func params() []any {
	return []any{
		new(a2a.MessageSendParams), new(a2a.TaskQueryParams), new(a2a.TaskIDParams), new(a2a.ListTasksParams), new(a2a.TaskPushNotificationConfig),
		new(a2a.GetTaskPushNotificationConfigParams), new(a2a.ListTaskPushNotificationConfigParams), new(a2a.DeleteTaskPushNotificationConfigParams),
	}
}

// fuzzRequests decodes any bytes as each request. A message that is valid is the same after it has
// been encoded and decoded again. message is its field number in the request.
func fuzzRequests(f *testing.F, codec rpc.Codec, message protowire.Number) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, p := range params() {
			var err error
			checkAllocations(t, raw, func() { err = codec.DecodeParams(raw, p) })
			var coded *a2a.Error
			if err != nil && (!errors.As(err, &coded) || coded.Code != a2a.CodeParse && coded.Code != a2a.CodeInvalid) {
				t.Fatalf("DecodeParams(%x, %T) = %v, want a coded error", raw, p, err)
			}
			send, ok := p.(*a2a.MessageSendParams)
			if !ok || err != nil {
				continue
			}
			event, err := codec.AppendEvent(nil, &send.Message)
			if err != nil {
				t.Fatalf("AppendEvent(%+v) = %v", send.Message, err)
			}
			_, _, tag := protowire.ConsumeTag(event)
			content, _ := protowire.ConsumeBytes(event[tag:])
			again := new(a2a.MessageSendParams)
			if err := codec.DecodeParams(protowire.AppendBytes(protowire.AppendTag(nil, message, protowire.BytesType), content), again); err != nil {
				t.Fatalf("DecodeParams of the encoded message %+v = %v", send.Message, err)
			}
			if diff := cmp.Diff(send.Message, again.Message, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("message after a round trip (-want +got):\n%s", diff)
			}
		}
	})
}

// checkAllocations fails the test if f, which decodes or encodes a document, allocates more than its
// size justifies.
func checkAllocations(t *testing.T, document []byte, f func()) {
	t.Helper()
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	f()
	metrics.Read(sample)
	// The first use of a type adds its plan, and other goroutines allocate too.
	const base, factor = 8 << 20, 200
	if got := sample[0].Value.Uint64() - before; got > base+factor*uint64(len(document)) {
		t.Errorf("%d bytes allocated %d bytes: %.100x", len(document), got, document)
	}
}

// A short message that declares large values allocates little.
func TestHostileLengthsAllocateLittle(t *testing.T) {
	var hostile [][]byte
	for _, size := range []uint64{1 << 20, 1 << 31, 1 << 62} {
		length := protowire.AppendVarint(nil, size)
		for field := protowire.Number(1); field <= 8; field++ {
			hostile = append(hostile, append(protowire.AppendTag(nil, field, protowire.BytesType), length...))
		}
	}
	// Many small parts, each of which is an object of the model, and values within values.
	part := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), nil)
	for range 20 {
		part = protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), part)
	}
	hostile = append(hostile, part, slices.Repeat([]byte{0x2a, 0}, 100_000))
	for _, codec := range []rpc.Codec{codec.V10(false), codec.V03()} {
		for _, raw := range hostile {
			for _, field := range []protowire.Number{1, 2} {
				for _, p := range params() {
					checkAllocations(t, raw, func() { _ = codec.DecodeParams(raw, p) })
					nested := protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), raw)
					checkAllocations(t, nested, func() { _ = codec.DecodeParams(nested, p) })
				}
			}
		}
	}
}

func FuzzRequestsOf10(f *testing.F) {
	f.Add([]byte{})
	for _, m := range []proto.Message{
		message("m", "hello"), &pb.GetTaskRequest{Id: "x", HistoryLength: proto.Int32(3)}, &pb.ListTasksRequest{Status: 2, PageSize: proto.Int32(5)},
		&pb.TaskPushNotificationConfig{TaskId: "x", Url: "https://example.com", Authentication: &pb.AuthenticationInfo{Scheme: "Bearer"}},
		&pb.SendMessageRequest{Message: &pb.Message{MessageId: "m", Role: 1, ReferenceTaskIds: []string{"a"}, Parts: []*pb.Part{{Content: &pb.Part_Raw{Raw: []byte{1}}, Filename: "f"}, {Content: &pb.Part_Url{Url: "https://example.com"}}}}},
	} {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	fuzzRequests(f, codec.V10(false), 2)
}

func FuzzRequestsOf03(f *testing.F) {
	f.Add([]byte{})
	for _, m := range []proto.Message{
		&pb03.SendMessageRequest{Request: &pb03.Message{MessageId: "m", Role: 1, Parts: []*pb03.Part{{Part: &pb03.Part_Text{Text: "hello"}}, {Part: &pb03.Part_Data{Data: &pb03.DataPart{}}}}}},
		&pb03.GetTaskRequest{Name: "tasks/x", HistoryLength: 3}, &pb03.DeleteTaskPushNotificationConfigRequest{Name: "tasks/x/pushNotificationConfigs/y"},
		&pb03.CreateTaskPushNotificationConfigRequest{Parent: "tasks/x", ConfigId: "y", Config: &pb03.TaskPushNotificationConfig{PushNotificationConfig: &pb03.PushNotificationConfig{Url: "https://example.com"}}},
	} {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	fuzzRequests(f, codec.V03(), 1)
}

// events are stream items in the JSON of A2A 1.0, for the corpus.
var events = []string{
	`{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING","timestamp":"2026-01-02T03:04:05.678Z"},"history":[{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"}]}],"metadata":{"holdfast.state":"resumed","n":1.5}}}`,
	`{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"data":[1,null,{"a":"b"}]}],"metadata":{"holdfast.role":"system"}}}}}`,
	`{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","name":"n","parts":[{"raw":"AAE=","filename":"f","mediaType":"a/b"},{"url":"https://example.com"}],"extensions":["e"]},"append":true,"lastChunk":true}}`,
	`{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"data":"text"},{"text":"","filename":"f"}],"referenceTaskIds":["r"]}}`,
}

// jsonCodec is the codec of a version for JSON.
type jsonCodec interface {
	AppendEvent(dst []byte, e a2a.Event) ([]byte, error)
	DecodeEvent(raw []byte) (a2a.Event, error)
}

// fuzzEvents encodes any stream item, and compares the message as the generated code decodes it
// with the JSON of the same item.
func fuzzEvents(f *testing.F, codec rpc.Codec, form jsonCodec, out proto.Message) {
	for _, e := range events {
		f.Add([]byte(e))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := jsonv10.Codec{}.DecodeEvent(text)
		if err != nil || e == nil {
			return
		}
		var raw []byte
		checkAllocations(t, text, func() { raw, err = codec.AppendEvent(nil, e) })
		if err != nil {
			if !strings.Contains(err.Error(), "number") && !strings.Contains(err.Error(), "range") {
				t.Fatalf("AppendEvent(%s) = %v", text, err)
			}
			return // a number that no float64 can represent
		}
		got := proto.Clone(out)
		if err := proto.Unmarshal(raw, got); err != nil {
			t.Fatalf("the generated code does not decode %x of %s: %v", raw, text, err)
		}
		protoText, err := protojson.Marshal(got)
		if err != nil {
			return // a time outside of the range of a Timestamp
		}
		want, err := form.AppendEvent(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := normal(t, form, want), normal(t, form, protoText); !reflect.DeepEqual(a, b) {
			t.Fatalf("%s\nis %s\nwant %s\n%s", text, protoText, want, cmp.Diff(a, b))
		}
	})
}

// normal decodes an item and returns its JSON with all numbers as float64.
func normal(t *testing.T, form jsonCodec, raw []byte) (v any) {
	e, err := form.DecodeEvent(raw)
	if err == nil {
		raw, err = form.AppendEvent(nil, e)
	}
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

func FuzzEventsOf10(f *testing.F) {
	fuzzEvents(f, codec.V10(false), jsonv10.Codec{}, new(pb.StreamResponse))
}

func FuzzEventsOf03(f *testing.F) {
	fuzzEvents(f, codec.V03(), jsonv03.ProtoCodec{}, new(pb03.StreamResponse))
}

func TestTextThatIsNotUTF8IsRepaired(t *testing.T) {
	bad := "a\xffb"
	list := []string{bad}
	task := &a2a.Task{ID: "t", Status: a2a.TaskStatus{State: a2a.StateWorking}, History: []a2a.Message{{
		ID: "m", Role: a2a.RoleAgent, Extensions: list, Metadata: map[string]any{bad: bad}, Parts: []a2a.Part{a2a.TextPart{Text: bad}},
	}}}
	get, _ := a2a.MethodByName(a2a.MethodGet)
	raw, err := codec.V10(false).AppendResult(nil, &get, task)
	var out pb.Task
	if err == nil {
		err = proto.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := out.History[0]
	if got := m.Parts[0].GetText(); got != "a\uFFFDb" || m.Metadata.Fields["a\uFFFDb"].GetStringValue() != got || m.Extensions[0] != got {
		t.Errorf("message = %v, want U+FFFD for what is not UTF-8", m)
	}
	if list[0] != bad {
		t.Error("encoding changed the model")
	}
}

func TestValuesOfHandlersAreEncoded(t *testing.T) {
	type own struct {
		N int `json:"n"`
	}
	for _, test := range []struct{ data, want any }{
		{own{7}, map[string]any{"n": 7.0}},
		{[]int{1, 2}, []any{1.0, 2.0}},
		{json.Number("12345678901234567890"), 12345678901234567890.0},
		{map[string]string{"a": "b"}, map[string]any{"a": "b"}},
		{int64(-3), -3.0},
		{nil, nil},
	} {
		raw, err := codec.V10(false).AppendEvent(nil, &a2a.Message{ID: "m", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.DataPart{Data: test.data}}})
		var out pb.StreamResponse
		if err == nil {
			err = proto.Unmarshal(raw, &out)
		}
		if err != nil {
			t.Errorf("%v: %v", test.data, err)
			continue
		}
		if got := out.GetMessage().GetParts()[0].GetData().AsInterface(); !reflect.DeepEqual(got, test.want) {
			t.Errorf("data %v = %v, want %v", test.data, got, test.want)
		}
	}
	for _, data := range []any{math.NaN(), json.Number("1e999"), make(chan int)} {
		part := a2a.DataPart{Data: map[string]any{"a": []any{data}}}
		if raw, err := codec.V10(false).AppendEvent([]byte("x"), &a2a.Message{Parts: []a2a.Part{part}}); err == nil || !slices.Equal(raw, []byte("x")) {
			t.Errorf("AppendEvent of %v = %q, %v, want an error and the buffer unchanged", data, raw, err)
		}
	}
}
