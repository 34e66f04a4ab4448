package grpc_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	pb03 "github.com/a2aproject/a2a-go/a2apb"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-dev/holdfast/a2a"
	jsonv03 "github.com/holdfast-dev/holdfast/a2a/v03"
	jsonv10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server/grpc/internal/codec"
)

// generator makes random messages. Valid ones have a value in every field that A2A requires.
type generator struct {
	*rand.Rand
	valid bool
}

func (g *generator) text() string {
	return []string{"a", "größe", "x y", "\u2028 😀", "id-1", `quote"d`}[g.IntN(6)]
}

func (g *generator) value(depth int) any {
	switch n := g.IntN(7); {
	case n == 0:
		return nil
	case n == 1:
		return g.IntN(2) == 0
	case n == 2:
		return float64(g.IntN(2000)-1000) / 8
	case n == 3 && depth < 4:
		return []any{g.value(depth + 1), g.value(depth + 1)}
	case n == 4 && depth < 4:
		return map[string]any{g.text(): g.value(depth + 1), "snake_case": g.value(depth + 1)}
	default:
		return g.text()
	}
}

// fill sets fields of m at random, and exactly one field of each oneof.
func (g *generator) fill(m protoreflect.Message) {
	switch v := m.Interface().(type) {
	case *timestamppb.Timestamp:
		proto.Merge(v, timestamppb.New(time.UnixMilli(g.Int64N(4e12))))
		return
	case *structpb.Struct:
		s, _ := structpb.NewStruct(map[string]any{g.text(): g.value(0), "k": g.value(0)})
		proto.Merge(v, s)
		return
	case *structpb.Value:
		s, _ := structpb.NewValue(g.value(0))
		proto.Merge(v, s)
		return
	}
	desc := m.Descriptor()
	for i := range desc.Oneofs().Len() {
		if one := desc.Oneofs().Get(i); !one.IsSynthetic() && (g.valid || g.IntN(5) > 0) {
			g.set(m, one.Fields().Get(g.IntN(one.Fields().Len())))
		}
	}
	for i := range desc.Fields().Len() {
		field := desc.Fields().Get(i)
		if one := field.ContainingOneof(); (one == nil || one.IsSynthetic()) && (g.valid || g.IntN(3) > 0) {
			g.set(m, field)
		}
	}
}

func (g *generator) set(m protoreflect.Message, field protoreflect.FieldDescriptor) {
	switch {
	case field.IsMap():
	case field.IsList():
		for range 1 + g.IntN(2) {
			v := m.NewField(field).List().NewElement()
			m.Mutable(field).List().Append(g.scalar(field, v))
		}
	default:
		m.Set(field, g.scalar(field, m.NewField(field)))
	}
}

func (g *generator) scalar(field protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.MessageKind:
		g.fill(v.Message())
	case protoreflect.StringKind:
		switch {
		case field.Name() == "url" || field.Name() == "file_with_uri":
			return protoreflect.ValueOfString(fmt.Sprintf("https://example.com/%d", g.IntN(100)))
		case field.Name() == "media_type" || field.Name() == "mime_type":
			return protoreflect.ValueOfString("text/plain")
		}
		return protoreflect.ValueOfString(g.text())
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{0, 255, byte(g.IntN(256))})
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(g.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1 + protoreflect.EnumNumber(g.IntN(field.Enum().Values().Len()-1)))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(g.IntN(100)) + 1)
	}
	return v
}

// FuzzRandomEvents decodes a random stream item from its JSON, and encodes it as protobuf again.
func FuzzRandomEvents(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		for _, version := range []struct {
			event proto.Message
			form  jsonCodec
			codec rpc.Codec
		}{
			{new(pb.StreamResponse), jsonv10.Codec{}, codec.V10(false)},
			{new(pb03.StreamResponse), jsonv03.ProtoCodec{}, codec.V03()},
		} {
			g := generator{rand.New(rand.NewPCG(seed, 1)), true}
			g.fill(version.event.ProtoReflect())
			text, err := protojson.Marshal(version.event)
			if err != nil {
				t.Fatal(err)
			}
			e, err := version.form.DecodeEvent(text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if update, ok := version.event.(*pb03.StreamResponse); ok && update.GetStatusUpdate() != nil {
				e.(*a2a.TaskStatusUpdateEvent).Final = update.GetStatusUpdate().Final
			}
			raw, err := version.codec.AppendEvent(nil, e)
			if err != nil {
				t.Fatalf("AppendEvent(%s) = %v", text, err)
			}
			got := version.event.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(raw, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(version.event, got, protocmp.Transform()); diff != "" {
				t.Fatalf("%s after a round trip (-want +got):\n%s", text, diff)
			}
		}
	})
}

// FuzzRandomRequests decodes a random request of A2A 1.0 from protobuf and from its JSON: params and
// errors are the same.
func FuzzRandomRequests(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed, seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, valid bool) {
		for _, test := range []struct {
			request proto.Message
			params  any
		}{
			{new(pb.SendMessageRequest), a2a.MessageSendParams{}},
			{new(pb.GetTaskRequest), a2a.TaskQueryParams{}},
			{new(pb.CancelTaskRequest), a2a.TaskIDParams{}},
			{new(pb.SubscribeToTaskRequest), a2a.TaskIDParams{}},
			{new(pb.ListTasksRequest), a2a.ListTasksParams{}},
			{new(pb.TaskPushNotificationConfig), a2a.TaskPushNotificationConfig{}},
			{new(pb.GetTaskPushNotificationConfigRequest), a2a.GetTaskPushNotificationConfigParams{}},
			{new(pb.ListTaskPushNotificationConfigsRequest), a2a.ListTaskPushNotificationConfigParams{}},
			{new(pb.DeleteTaskPushNotificationConfigRequest), a2a.DeleteTaskPushNotificationConfigParams{}},
		} {
			g := generator{rand.New(rand.NewPCG(seed, 2)), valid}
			g.fill(test.request.ProtoReflect())
			text, err := protojson.Marshal(test.request)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := proto.Marshal(test.request)
			if err != nil {
				t.Fatal(err)
			}
			kind := reflect.TypeOf(test.params)
			want, got := reflect.New(kind).Interface(), reflect.New(kind).Interface()
			wantErr, gotErr := jsonv10.Codec{}.DecodeParams(text, want), codec.V10(false).DecodeParams(raw, got)
			if (wantErr == nil) != (gotErr == nil) || wantErr != nil && a2a.CodeOf(wantErr) != a2a.CodeOf(gotErr) {
				t.Fatalf("%s: error %v, want %v as for JSON", text, gotErr, wantErr)
			}
			if wantErr != nil {
				continue
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s: params differ from the params of JSON (-want +got):\n%s", text, diff)
			}
		}
	})
}
