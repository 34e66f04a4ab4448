package v10

import (
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// Codec encodes and decodes A2A 1.0. The zero value follows the specification. Codecs are
// comparable.
type Codec struct {
	// Extensions adds the members of extensions to results. Encoded params always have these
	// members, and they are always accepted.
	Extensions bool
	// Tenant is sent in params, and declared on agent cards for the interface of the codec.
	Tenant string
	// Errors100 selects the HTTP statuses of errors in A2A 1.0.0 instead of those in 1.0.1: 409 for
	// a task that cannot be canceled, 415 for a media type, 502 for an invalid response of an agent,
	// and UNIMPLEMENTED for what the agent does not support.
	Errors100 bool
}

// version is the protocol version of the codec.
const version = "1.0"

// Version returns the protocol version on agent cards.
func (Codec) Version() string { return version }

// MethodName returns the JSON-RPC name of a method.
func (Codec) MethodName(m *a2a.Method) string { return m.NameV10 }

// pathParams changes the variables of a path of A2A 0.3 to the params of A2A 1.0.
var pathParams = strings.NewReplacer("/tasks/{id}/", "/tasks/{taskId}/", "{configId}", "{id}")

// Path returns the path of a method over HTTP+JSON, or "" if it has none. Its variables are
// params.
func (Codec) Path(m *a2a.Method) string {
	if m.Name == a2a.MethodExtendedCard {
		return "/extendedAgentCard"
	}
	return pathParams.Replace(strings.TrimPrefix(m.Path, "/v1"))
}

// Members returns the kinds of the members of a params type by the names in which the codec
// accepts them.
func (Codec) Members(params reflect.Type) map[string]reflect.Kind { return extended.Members(params) }

// DecodeParams decodes the params of a method into the value that v points to. Absent params
// are an empty object. Errors have the code invalid_params and name the member in
// Data["field"] as in A2A 1.0. A decoding error is reported alone. Otherwise all rules that
// Validate finds violated are reported, except advice, and Data["fields"] lists the members if
// there are several.
func (Codec) DecodeParams(raw []byte, v any) error {
	if len(raw) == 0 || raw[0] == 'n' {
		raw = []byte("{}")
	}
	return CheckParams(v, extended.UnmarshalStrict(raw, v))
}

// CheckParams sets the members of decoded params that A2A 1.0 requires, and validates the params. v
// points to the params, and err is the error of decoding them. It returns the same errors as
// [Codec.DecodeParams]. Other encodings of A2A 1.0 use it too.
func CheckParams(v any, err error) error {
	applyRules(v)
	if p, ok := v.(interface{ Validate() error }); ok && err == nil {
		err = p.Validate()
	}
	var invalid *a2a.InvalidError
	if errors.As(err, &invalid) {
		for i := range invalid.Problems {
			p := &invalid.Problems[i]
			switch v.(type) {
			case *a2a.GetTaskPushNotificationConfigParams, *a2a.ListTaskPushNotificationConfigParams, *a2a.DeleteTaskPushNotificationConfigParams:
				if p.Path == "id" {
					p.Path = "taskId"
				}
			}
			p.Path = fieldNames.Replace(p.Path)
		}
	}
	return a2a.ParamsError(err)
}

// applyRules sets the members of params that A2A 1.0 requires.
func applyRules(v any) {
	switch p := v.(type) {
	case *a2a.MessageSendParams:
		p.ExistingTask = true
		if c := p.Configuration; c != nil && c.PushNotificationConfig != nil {
			c.PushNotificationConfig.PayloadFormat = cmp.Or(c.PushNotificationConfig.PayloadFormat, a2a.PayloadStreamResponse)
		}
	case *a2a.TaskIDParams:
		p.UntilFinished = true
	case *a2a.TaskPushNotificationConfig:
		p.Config.PayloadFormat = cmp.Or(p.Config.PayloadFormat, a2a.PayloadStreamResponse)
	}
}

// fieldNames changes the path of a member in the model to its path in A2A 1.0.
var fieldNames = strings.NewReplacer(
	"configuration.pushNotificationConfig", "configuration.taskPushNotificationConfig",
	"pushNotificationConfigId", "id", "pushNotificationConfig.", "", "authentication.schemes[0]", "authentication.scheme",
	"authentication.schemes", "authentication.scheme", ".file.bytes", ".raw", ".file.uri", ".url", ".file.mimeType", ".mediaType",
)

// AppendResult appends the result of a method to dst. On error it returns dst unchanged.
func (c Codec) AppendResult(dst []byte, m *a2a.Method, result any) ([]byte, error) {
	switch r := result.(type) {
	case *a2a.AgentCard:
		return c.AppendCard(dst, r)
	case *a2a.DeletedPushNotificationConfig:
		return append(dst, "{}"...), nil
	case a2a.Event:
		if m.Name == a2a.MethodSend {
			return c.AppendEvent(dst, r)
		}
	}
	return c.form().Append(dst, result)
}

// AppendEvent appends an item of a stream to dst. On error it returns dst unchanged.
func (c Codec) AppendEvent(dst []byte, e a2a.Event) ([]byte, error) { return c.form().Append(dst, &e) }

func (c Codec) form() *wire.Form {
	if c.Extensions {
		return extended
	}
	return strict
}

// AppendCard appends an agent card to dst. The first supported interface is the interface of the
// codec, at the URL of the card; AdditionalInterfaces are the others. An interface without a
// version gets version 0.3.
func (c Codec) AppendCard(dst []byte, card *a2a.AgentCard) ([]byte, error) {
	out := *card
	own := a2a.AgentInterface{URL: card.URL, Transport: cmp.Or(card.PreferredTransport, "JSONRPC"), ProtocolVersion: version, Tenant: c.Tenant}
	out.AdditionalInterfaces = []a2a.AgentInterface{own}
	for _, other := range card.AdditionalInterfaces {
		if other.ProtocolVersion = cmp.Or(other.ProtocolVersion, "0.3"); other != own {
			out.AdditionalInterfaces = append(out.AdditionalInterfaces, other)
		}
	}
	return c.form().Append(dst, &out)
}

// EncodeParams returns the JSON of a method's params.
func (c Codec) EncodeParams(params any) ([]byte, error) {
	raw, err := extended.Append(nil, params)
	if err != nil || c.Tenant == "" {
		return raw, err
	}
	tenant := wire.AppendString([]byte(`"tenant":`), c.Tenant)
	if len(raw) > len("{}") {
		tenant = append(tenant, ',')
	}
	return slices.Insert(raw, 1, tenant...), nil
}

// DecodeResult decodes the result of a method, or an agent card, into the value that v points
// to.
func (Codec) DecodeResult(raw []byte, v any) error { return extended.Unmarshal(raw, v) }

// DecodeEvent decodes an item of a stream. It returns nil for a kind that A2A 1.0 does not
// define.
func (Codec) DecodeEvent(raw []byte) (a2a.Event, error) {
	var e a2a.Event
	err := extended.Unmarshal(raw, &e)
	if err != nil {
		var members map[string]json.RawMessage
		if wire.Unmarshal(raw, &members) == nil && len(members) == 1 {
			for name := range members {
				switch wire.Camel(name) {
				case "task", "message", "statusUpdate", "artifactUpdate":
				default:
					return nil, nil // documented
				}
			}
		}
		return nil, err
	}
	return e, nil
}
