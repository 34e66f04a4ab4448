package a2a_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
)

// protoTypes are the types to fuzz in the ProtoJSON of A2A 0.3, because their documents contain
// all its other types. Append new types at the end, as with roots.
var protoTypes = []reflect.Type{
	reflect.TypeFor[a2a.Event](), reflect.TypeFor[a2a.MessageSendParams](), reflect.TypeFor[a2a.ListTasksParams](), reflect.TypeFor[a2a.ListTasksResult](),
	reflect.TypeFor[a2a.ListTaskPushNotificationConfigResult](), reflect.TypeFor[a2a.GetTaskPushNotificationConfigParams](), reflect.TypeFor[a2a.TaskQueryParams](),
	reflect.TypeFor[a2a.Context](), reflect.TypeFor[a2a.Part](), reflect.TypeFor[a2a.TaskPushNotificationConfig](),
}

// Values of every type are the same after a round trip through the ProtoJSON of A2A 0.3.
func TestEveryTypeRoundTripsInProtoJSON(t *testing.T) {
	t.Parallel()
	cards := func(v any) bool {
		_, ok := v.(*a2a.AgentCard)
		return ok
	}
	checkRoundTrips(t, withoutSchemes, func(v any) ([]byte, error) {
		if cards(v) {
			return v03.ProtoCodec{}.AppendCard(nil, v.(*a2a.AgentCard))
		}
		return v03.ProtoCodec{}.EncodeParams(v)
	}, func(raw []byte, v any) error {
		if cards(v) {
			return v03.Codec{}.DecodeResult(raw, v)
		}
		return v03.ProtoCodec{}.DecodeResult(raw, v)
	})
}

// FuzzProtoJSON decodes any document as one of protoTypes. An accepted document must be encodable,
// and decoding the result must be the same.
func FuzzProtoJSON(f *testing.F) {
	for _, document := range []string{
		`{"message":{"messageId":"m","role":1,"content":[{"text":""},{"data":{"data":{"data":[]}}},{"file":{"fileWithBytes":"_-","mimeType":"a/b"}},{"file":{"file_with_uri":"a:b"}}]},"configuration":{"push_notification":{"url":"https://a","authentication":{}},"historyLength":0}}`,
		`{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"a"},{"kind":"data","data":{"data":1},"text":"c"},{"kind":"file","file":{"bytes":"AA==","uri":""}}]}}`,
	} {
		f.Add(uint8(1), []byte(document))
	}
	f.Add(uint8(9), []byte(`{"parent":"tasks/t","configId":"w","config":{"name":"tasks/t/pushNotificationConfigs/w","pushNotificationConfig":{"url":"https://a"}}}`))
	for _, v := range values(f) {
		if i := slices.Index(protoTypes, v.Type().Elem()); i >= 0 {
			document, err := v03.ProtoCodec{}.EncodeParams(v.Interface())
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), document)
		}
	}
	f.Fuzz(func(t *testing.T, root uint8, document []byte) {
		v := reflect.New(protoTypes[int(root)%len(protoTypes)])
		if (v03.ProtoCodec{}).DecodeParams(document, v.Interface()) == nil {
			checkStable(t, v, v03.ProtoCodec{}.EncodeParams, v03.ProtoCodec{}.DecodeResult)
		}
	})
}
