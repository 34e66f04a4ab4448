package a2a_test

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// v10Types are the types to fuzz in A2A 1.0, because their documents contain all its other types.
// Append new types at the end, as with roots.
var v10Types = []reflect.Type{
	reflect.TypeFor[a2a.Event](), reflect.TypeFor[a2a.MessageSendParams](), reflect.TypeFor[a2a.ListTasksParams](), reflect.TypeFor[a2a.ListTasksResult](),
	reflect.TypeFor[a2a.AgentCard](), reflect.TypeFor[a2a.ListTaskPushNotificationConfigResult](), reflect.TypeFor[a2a.GetTaskPushNotificationConfigParams](),
	reflect.TypeFor[a2a.TaskQueryParams](), reflect.TypeFor[a2a.Context](), reflect.TypeFor[a2a.Part](), reflect.TypeFor[a2a.SecurityScheme](),
	reflect.TypeFor[a2a.ListTaskPushNotificationConfigParams](),
}

// encodeV10 encodes the value that v points to with all members of extensions.
func encodeV10(v any) ([]byte, error) {
	if card, ok := v.(*a2a.AgentCard); ok {
		return v10.Codec{Extensions: true}.AppendCard(nil, card)
	}
	return v10.Codec{Extensions: true}.EncodeParams(v)
}

// Values of every type, as they are in A2A 0.3, are the same after a round trip through A2A 1.0.
func TestEveryTypeRoundTripsInV10(t *testing.T) {
	t.Parallel()
	checkRoundTrips(t, withoutLoss, encodeV10, v10.Codec{}.DecodeResult)
}

// checkRoundTrips checks that the values of every type are the same after encoding and decoding.
// change removes what the JSON cannot express.
func checkRoundTrips(t *testing.T, change func(any), encode func(any) ([]byte, error), decode func([]byte, any) error) {
	t.Helper()
	checked := 0
	for _, v := range values(t) {
		if name := v.Type().Elem().Name(); strings.HasSuffix(name, "Request") || strings.HasSuffix(name, "Error") || strings.HasPrefix(name, "Response[") || strings.HasPrefix(name, "JSONRPC") {
			continue // envelopes belong to JSON-RPC of A2A 0.3
		}
		want := v.Interface()
		change(want)
		text, err := encode(want)
		if err != nil {
			t.Errorf("encoding %T: %v", want, err)
			continue
		}
		got := reflect.New(v.Type().Elem()).Interface()
		if err := decode(text, got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%T: %v\ngot  %s\nwant %s\nas   %s", want, err, mustEncode(t, got), mustEncode(t, want), text)
		}
		checked++
	}
	if checked < 80 {
		t.Errorf("%d values were checked, want 80 or more", checked)
	}
}

func mustEncode(t *testing.T, v any) []byte {
	t.Helper()
	out, err := wire.Marshal(v)
	if err != nil {
		t.Error(err)
	}
	return out
}

// withoutLoss changes what A2A 1.0 cannot express.
func withoutLoss(v any) {
	withoutSchemes(v)
	switch v := v.(type) {
	case *a2a.ListTasksParams:
		v.IncludeTotal = true
	case *a2a.OAuthFlows:
		*v = a2a.OAuthFlows{AuthorizationCode: v.AuthorizationCode}
	case *a2a.AgentCard:
		own := a2a.AgentInterface{URL: v.URL, Transport: v.PreferredTransport, ProtocolVersion: "1.0"}
		v.ProtocolVersion = own.ProtocolVersion
		for i := range v.AdditionalInterfaces {
			v.AdditionalInterfaces[i].ProtocolVersion = "0.3"
		}
		v.AdditionalInterfaces = append([]a2a.AgentInterface{own}, v.AdditionalInterfaces...)
	}
}

// withoutSchemes replaces the security scheme of a webhook by its name.
func withoutSchemes(v any) {
	replace := func(c *a2a.PushNotificationConfig) {
		if http, ok := c.Authentication.(a2a.HTTPAuthSecurityScheme); ok {
			c.Authentication = a2a.PushNotificationAuthenticationInfo{Schemes: []string{http.Scheme}}
		}
	}
	switch v := v.(type) {
	case *a2a.PushNotificationConfig:
		replace(v)
	case *a2a.TaskPushNotificationConfig:
		replace(&v.Config)
	}
}

// FuzzV10 decodes any document as one of v10Types. An accepted document must be encodable, and
// decoding the result must be the same.
func FuzzV10(f *testing.F) {
	f.Add(uint8(0), []byte(`{"task":{"id":"t","status":{"state":3},"history":[{"messageId":"m","role":1,"parts":[{"text":""},{"data":null},{"raw":"_-"},{"url":""}]}]}}`))
	f.Add(uint8(4), []byte(`{"name":"","description":"","version":"","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[],"supportedInterfaces":[{"url":""}],"securityRequirements":[{"schemes":{"a":{"list":["b"]}}}]}`))
	for _, v := range values(f) {
		if i := slices.Index(v10Types, v.Type().Elem()); i >= 0 {
			document, err := encodeV10(v.Interface())
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), document)
		}
	}
	f.Fuzz(func(t *testing.T, root uint8, document []byte) {
		typ := v10Types[int(root)%len(v10Types)]
		v := reflect.New(typ)
		if (v10.Codec{}).DecodeParams(document, v.Interface()) != nil {
			return
		}
		checkV10(t, v)
	})
}

// FuzzV03ToV10 decodes any document of A2A 0.3 and encodes the value in A2A 1.0.
func FuzzV03ToV10(f *testing.F) {
	c := readCatalogue(f)
	for i, name := range []string{"Task", "MessageSendParams", "ListTasksParams", "", "AgentCard", "", "", "TaskQueryParams", "Context", "TextPart", "APIKeySecurityScheme"} {
		if name != "" {
			f.Add(uint8(i), text(c.fullExample(c.types[name])))
		}
	}
	f.Fuzz(func(t *testing.T, root uint8, document []byte) {
		v := reflect.New(v10Types[int(root)%len(v10Types)])
		if wire.Unmarshal(document, v.Interface()) != nil {
			return
		}
		if p, ok := v.Interface().(*a2a.GetTaskPushNotificationConfigParams); ok && p.ConfigID == "" {
			return // A2A 1.0 requires it
		}
		checkV10(t, v)
	})
}

// checkV10 is checkStable in A2A 1.0.
func checkV10(t *testing.T, v reflect.Value) {
	t.Helper()
	checkStable(t, v, encodeV10, v10.Codec{}.DecodeResult)
}

// checkStable checks that the encoded form of the value that v points to is decoded and encoded
// the same.
func checkStable(t *testing.T, v reflect.Value, encode func(any) ([]byte, error), decode func([]byte, any) error) {
	t.Helper()
	once, err := encode(v.Interface())
	if err != nil {
		t.Fatalf("%s: encoding: %v", v.Type(), err)
	}
	again := reflect.New(v.Type().Elem())
	if err := decode(once, again.Interface()); err != nil {
		t.Fatalf("%s: decoding %s: %v", v.Type(), once, err)
	}
	if twice, err := encode(again.Interface()); err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("%s: encoded as %s, then as %s (%v)\n%s", v.Type(), once, twice, err, cmp.Diff(string(once), string(twice)))
	}
}
