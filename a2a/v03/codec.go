package v03

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// Codec encodes and decodes A2A 0.3. The zero value follows the specification. Codecs are
// comparable.
type Codec struct {
	// Bindu selects the profile for clients of agents made with Bindu: the members of results
	// are in snake_case, except for mimeType; tasks/list returns the whole history of tasks by
	// default; and the error for unsupported webhooks has the number -32005.
	Bindu bool
}

// Version returns the protocol version on agent cards.
func (Codec) Version() string { return "0.3.0" }

// MethodName returns the JSON-RPC name of a method.
func (Codec) MethodName(m *a2a.Method) string { return m.Name }

// DecodeParams decodes the params of a method into the value that v points to. Absent params
// are an empty object. Errors have the code invalid_params and name the member in
// Data["field"]. A decoding error is reported alone. Otherwise all rules that Validate finds
// violated are reported, except advice, and Data["fields"] lists the members if there are
// several.
func (c Codec) DecodeParams(raw []byte, v any) error {
	if len(raw) == 0 || raw[0] == 'n' {
		raw = []byte("{}")
	}
	decode := params.UnmarshalStrict
	if c.Bindu {
		decode = wire.UnmarshalStrict
	}
	err := decode(raw, v)
	if p, ok := v.(interface{ Validate() error }); ok && err == nil {
		err = p.Validate()
	}
	if err = a2a.ParamsError(err); err != nil {
		return err
	}
	if list, ok := v.(*a2a.ListTasksParams); ok {
		c.applyListRules(list, raw)
	}
	return nil
}

// applyListRules sets what clients of a profile expect of tasks/list. Clients of Bindu expect the whole
// history, and the official Go client, which sends names in snake_case, expects the total.
func (c Codec) applyListRules(list *a2a.ListTasksParams, raw []byte) {
	if c.Bindu && list.HistoryLength == nil && list.Metadata["historyLength"] == nil && list.Metadata["history_length"] == nil {
		whole := math.MaxInt32
		list.HistoryLength = &whole
	}
	for _, name := range []string{`"context_id"`, `"page_size"`, `"page_token"`, `"history_length"`, `"last_updated_after"`, `"include_artifacts"`} {
		list.IncludeTotal = list.IncludeTotal || !c.Bindu && bytes.Contains(raw, []byte(name))
	}
}

// AppendResult appends the result of a method to dst. On error it returns dst unchanged.
func (c Codec) AppendResult(dst []byte, _ *a2a.Method, result any) ([]byte, error) {
	return c.append(dst, result)
}

// AppendEvent appends an item of a stream to dst. On error it returns dst unchanged.
func (c Codec) AppendEvent(dst []byte, e a2a.Event) ([]byte, error) { return c.append(dst, e) }

func (c Codec) append(dst []byte, v any) ([]byte, error) {
	if list, ok := v.(*a2a.ListTaskPushNotificationConfigResult); ok {
		v = list.Configs
	}
	if c.Bindu {
		return wire.AppendSnake(dst, v)
	}
	return results.Append(dst, v)
}

// AppendError appends the JSON-RPC error object of e to dst. If requestID is not empty, the object
// contains it so that the caller can report it to the operator. Clients that announce the version
// 0.3 also know A2A 1.0 and decode data only as A2A 1.0 has it: for them data is an array of one
// google.rpc.ErrorInfo. For other clients data is an object.
func (c Codec) AppendError(dst []byte, e *a2a.Error, requestID, announced string) []byte {
	number := e.Code.JSONRPC()
	if c.Bindu && e.Code == a2a.CodePushNotSupported {
		number = a2a.CodeContentType.JSONRPC()
	}
	dst = strconv.AppendInt(append(dst, `{"code":`...), int64(number), 10)
	dst = wire.AppendString(append(dst, `,"message":`...), e.Message)
	data := make(map[string]any, len(e.Data)+2)
	maps.Copy(data, e.Data)
	data["code"] = string(e.Code)
	if requestID != "" {
		data["requestId"] = requestID
	}
	dst = append(dst, `,"data":`...)
	var err error
	if !c.Bindu && KnowsV10(announced) {
		dst, err = wire.Append(dst, []errorInfo{{
			Reason: e.Code.Reason(), Domain: a2a.ErrorDomain, Metadata: (&a2a.Error{Code: e.Code, Data: data}).InfoMetadata(),
		}})
	} else {
		dst, err = wire.Append(dst, data)
	}
	if err != nil {
		dst = append(dst, "null"...)
	}
	return append(dst, '}')
}

// KnowsV10 reports whether a request with the given A2A-Version is from a client of A2A 0.3 that
// also knows A2A 1.0: only those announce 0.3.
func KnowsV10(announced string) bool {
	return announced == "0.3" || strings.HasPrefix(announced, "0.3.")
}

// errorInfo is a google.rpc.ErrorInfo in ProtoJSON.
type errorInfo struct {
	_        struct{}          `wire:"const=@type:type.googleapis.com/google.rpc.ErrorInfo"`
	Reason   string            `json:"reason"`
	Domain   string            `json:"domain"`
	Metadata map[string]string `json:"metadata"`
}

// AppendCard appends an agent card to dst. The profile does not change it.
func (c Codec) AppendCard(dst []byte, card *a2a.AgentCard) ([]byte, error) {
	out := *card
	out.ProtocolVersion = c.Version()
	return wire.Append(dst, &out)
}

// EncodeParams returns the JSON of a method's params.
func (Codec) EncodeParams(params any) ([]byte, error) { return wire.Marshal(params) }

// DecodeResult decodes the result of a method, or an agent card, into the value that v points
// to. A list of webhooks may be null, which some servers send for an empty one.
func (Codec) DecodeResult(raw []byte, v any) error {
	if list, ok := v.(*a2a.ListTaskPushNotificationConfigResult); ok {
		if string(raw) == "null" {
			*list = a2a.ListTaskPushNotificationConfigResult{}
			return nil
		}
		v = &list.Configs
	}
	return results.Unmarshal(raw, v)
}

// DecodeEvent decodes an item of a stream. It returns nil for a kind that A2A 0.3 does not
// define.
func (Codec) DecodeEvent(raw []byte) (a2a.Event, error) {
	var head struct {
		Kind string `json:"kind"`
	}
	if json.Unmarshal(raw, &head) == nil {
		switch head.Kind {
		case "", "task", "message", "status-update", "artifact-update":
		default:
			return nil, nil // documented
		}
	}
	var e a2a.Event
	err := results.Unmarshal(raw, &e)
	return e, err
}

// DecodeError decodes a JSON-RPC error object. The result has the code for its number. Data
// that is not an object becomes the member "data" of Data, an unknown number the member
// "jsonrpc".
func (Codec) DecodeError(raw []byte) (*a2a.Error, error) {
	var in struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	out := &a2a.Error{Code: a2a.CodeOfJSONRPC(in.Code), Message: in.Message}
	if out.Message == "" {
		out.Message = strings.ReplaceAll(string(out.Code), "_", " ")
	}
	if len(in.Data) > 0 && wire.Unmarshal(in.Data, &out.Data) != nil {
		var data any
		if wire.Unmarshal(in.Data, &data) == nil && data != nil {
			out.Data = map[string]any{"data": data}
		}
	}
	if out.Code.JSONRPC() != in.Code {
		if out.Data == nil {
			out.Data = map[string]any{}
		}
		out.Data["jsonrpc"] = float64(in.Code)
	}
	return out, nil
}
