package v03

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// ProtoCodec encodes and decodes A2A 0.3 as its HTTP+JSON binding does: in ProtoJSON, the JSON of
// the specification's Protocol Buffers. Input may also be in the JSON of [Codec]. Codecs are
// comparable.
//
// A history length of 0 means no limit, as in the Protocol Buffers. States and roles that the
// Protocol Buffers lack are replaced as in package v10, with the original in the metadata. Data
// that is not an object is wrapped as by [WrapData].
type ProtoCodec struct {
	// Extensions adds the members of extensions to results. Encoded params always have these
	// members, and they are always accepted.
	Extensions bool
	// BareWebhooks encodes the params that register a webhook as a TaskPushNotificationConfig,
	// which is the body in the specification. Without it they are a request with the config as a
	// member, which most servers require.
	BareWebhooks bool
}

// Version returns the protocol version on agent cards.
func (ProtoCodec) Version() string { return Codec{}.Version() }

// MethodName returns the JSON-RPC name of a method.
func (ProtoCodec) MethodName(m *a2a.Method) string { return m.Name }

// protoPathParams changes the variables of a path to params.
var protoPathParams = strings.NewReplacer("/tasks/{id}/", "/tasks/{taskId}/", "{configId}", "{pushNotificationConfigId}")

// Path returns the path of a method over HTTP+JSON, or "" if it has none. Its variables are
// params.
func (ProtoCodec) Path(m *a2a.Method) string { return protoPathParams.Replace(m.Path) }

// DecodeParams decodes the params of a method into the value that v points to, as
// [Codec.DecodeParams] does.
func (ProtoCodec) DecodeParams(raw []byte, v any) error {
	if len(raw) == 0 || raw[0] == 'n' {
		raw = []byte("{}")
	}
	err := protoParams.UnmarshalStrict(raw, v)
	if p, ok := v.(interface{ Validate() error }); ok && err == nil {
		err = p.Validate()
	}
	var invalid *a2a.InvalidError
	if errors.As(err, &invalid) {
		for i := range invalid.Problems {
			invalid.Problems[i].Path = protoFieldNames.Replace(invalid.Problems[i].Path)
		}
	}
	return a2a.ParamsError(err)
}

// protoFieldNames changes the path of a member in the model to its path in ProtoJSON.
var protoFieldNames = strings.NewReplacer(
	"message.parts", "message.content", "configuration.pushNotificationConfig", "configuration.pushNotification",
	".file.bytes", ".file.fileWithBytes", ".file.uri", ".file.fileWithUri",
)

// AppendResult appends the result of a method to dst. On error it returns dst unchanged.
func (c ProtoCodec) AppendResult(dst []byte, m *a2a.Method, result any) ([]byte, error) {
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
func (c ProtoCodec) AppendEvent(dst []byte, e a2a.Event) ([]byte, error) {
	return c.form().Append(dst, &e)
}

func (c ProtoCodec) form() *wire.Form {
	if c.Extensions {
		return protoExtended
	}
	return protoStrict
}

// AppendError appends the error object of e to dst as [Codec.AppendError] does.
func (ProtoCodec) AppendError(dst []byte, e *a2a.Error, requestID, announced string) []byte {
	return Codec{}.AppendError(dst, e, requestID, announced)
}

// AppendCard appends an agent card to dst as [Codec.AppendCard] does.
func (ProtoCodec) AppendCard(dst []byte, card *a2a.AgentCard) ([]byte, error) {
	return Codec{}.AppendCard(dst, card)
}

// protoStatus is the member error of an error response (AIP-193).
type protoStatus struct {
	Code    int         `json:"code"`
	Status  string      `json:"status"`
	Message string      `json:"message"`
	Details []errorInfo `json:"details"`
}

// AppendHTTPError appends the body of an error response over HTTP+JSON to dst. The specification
// does not define it, and official clients differ: some read the members of a JSON-RPC error
// object, others the member error in the form of AIP-193. The body has both. status is the
// HTTP status.
func (c ProtoCodec) AppendHTTPError(dst []byte, status int, e *a2a.Error, requestID string) []byte {
	dst = c.AppendError(dst, e, requestID, "")
	out := protoStatus{Code: status, Status: v10.StatusName(status, e.Code), Message: e.Message}
	out.Details = []errorInfo{{Reason: e.Code.Reason(), Domain: a2a.ErrorDomain, Metadata: e.InfoMetadata()}}
	dst = append(dst[:len(dst)-1], `,"error":`...)
	dst, _ = wire.Append(dst, &out) // it consists of strings
	return append(dst, '}')
}

// HTTPStatus returns the HTTP status of an error over HTTP+JSON.
func (ProtoCodec) HTTPStatus(c a2a.Code) int { return c.HTTPStatus() }

// Members returns the kinds of the members of a params type by the names in which the codec
// accepts them.
func (ProtoCodec) Members(params reflect.Type) map[string]reflect.Kind {
	return protoParams.Members(params)
}

// EncodeParams returns the JSON of a method's params. It has a member for each variable of the
// method's path.
func (c ProtoCodec) EncodeParams(params any) ([]byte, error) {
	if p, ok := params.(*a2a.TaskPushNotificationConfig); ok && p != nil {
		params = *p
	}
	p, ok := params.(a2a.TaskPushNotificationConfig)
	if !ok {
		return protoExtended.Append(nil, params)
	}
	if c.BareWebhooks {
		return protoExtended.Append(nil, &protoConfig{TaskID: p.TaskID, Name: "tasks/" + p.TaskID + configsSegment + p.Config.ID, Config: &p.Config, LongRunning: p.LongRunning})
	}
	config, err := protoExtended.Append(nil, &p)
	if err != nil {
		return nil, err
	}
	// In the specification the body is the config; most official servers require a request with the
	// config.
	return wire.Marshal(&protoSetRequest{TaskID: p.TaskID, Parent: "tasks/" + p.TaskID, ConfigID: p.Config.ID, Config: config})
}

// protoSetRequest is a CreateTaskPushNotificationConfigRequest.
type protoSetRequest struct {
	TaskID   string          `json:"taskId"` // for the path
	Parent   string          `json:"parent"`
	ConfigID string          `json:"configId,omitempty"`
	Config   json.RawMessage `json:"config"`
}

// DecodeHTTPError decodes the body of an error response over HTTP+JSON: the members of a JSON-RPC
// error object as [Codec.DecodeError] does, or the form of AIP-193. It returns an error for other
// bodies.
func (ProtoCodec) DecodeHTTPError(raw []byte) (*a2a.Error, error) {
	var head struct {
		Code    *int    `json:"code"`
		Message *string `json:"message"`
	}
	if err := wire.Unmarshal(raw, &head); err == nil && head.Code != nil && head.Message != nil {
		return Codec{}.DecodeError(raw)
	}
	return v10.Codec{}.DecodeHTTPError(raw)
}

// DecodeResult decodes the result of a method into the value that v points to.
func (ProtoCodec) DecodeResult(raw []byte, v any) error { return protoExtended.Unmarshal(raw, v) }

// DecodeEvent decodes an item of a stream. It returns nil for a kind that A2A 0.3 does not
// define.
func (ProtoCodec) DecodeEvent(raw []byte) (a2a.Event, error) {
	var e a2a.Event
	if err := protoExtended.Unmarshal(raw, &e); err != nil {
		var members map[string]json.RawMessage
		if wire.Unmarshal(raw, &members) != nil || len(members) != 1 {
			return nil, err
		}
		for name := range members {
			if _, known := protoEvents[wire.Camel(name)]; known {
				return nil, err
			}
		}
		return nil, nil // documented
	}
	return e, nil
}
