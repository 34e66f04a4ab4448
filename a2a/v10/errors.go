package v10

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// The types of error details (google.rpc).
const (
	typeErrorInfo   = "type.googleapis.com/google.rpc.ErrorInfo"
	typeBadRequest  = "type.googleapis.com/google.rpc.BadRequest"
	typeRequestInfo = "type.googleapis.com/google.rpc.RequestInfo"
)

// rpcError is a JSON-RPC error object of A2A 1.0.
type rpcError struct {
	Code    int      `json:"code"`
	Message string   `json:"message"`
	Data    []detail `json:"data"`
}

// httpError is the body of an error response over HTTP+JSON (AIP-193).
type httpError struct {
	Error struct {
		Code    int      `json:"code"`
		Status  string   `json:"status"`
		Message string   `json:"message"`
		Details []detail `json:"details"`
	} `json:"error"`
}

// detail is an ErrorInfo, a BadRequest or a RequestInfo.
type detail struct {
	Type            string            `json:"@type" wire:"required"`
	Reason          string            `json:"reason,omitempty"`
	Domain          string            `json:"domain,omitempty"`
	Metadata        map[string]string `json:"metadata,omitempty"`
	FieldViolations []violation       `json:"fieldViolations,omitempty"`
	RequestID       string            `json:"requestId,omitempty"`
}

type violation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

// The JSON-RPC numbers of errors that have other numbers in A2A 0.3.
const (
	generationMismatch = -32010
	unauthenticated    = -32054
)

// number returns the JSON-RPC number of a code.
func number(code a2a.Code) int {
	switch code {
	case a2a.CodePushConfigNotFound: // A2A 1.0 has one error for tasks and configs
		return a2a.CodeTaskNotFound.JSONRPC()
	case a2a.CodeUnauthenticated:
		return unauthenticated
	case a2a.CodeGenerationMismatch:
		return generationMismatch
	default:
		return code.JSONRPC()
	}
}

// codeOf returns the code of a JSON-RPC number, or [a2a.CodeInternal] if the number is unknown.
func codeOf(number int) a2a.Code {
	switch number {
	case unauthenticated:
		return a2a.CodeUnauthenticated
	case generationMismatch:
		return a2a.CodeGenerationMismatch
	}
	return a2a.CodeOfJSONRPC(number)
}

// AppendError appends the JSON-RPC error object of e to dst. Its ErrorInfo has the members of
// e.Data as text. If requestID is not empty, the object contains it so that the caller can
// report it to the operator.
func (Codec) AppendError(dst []byte, e *a2a.Error, requestID, _ string) []byte {
	out := rpcError{Code: number(e.Code)}
	out.Message, out.Data = details(e, requestID)
	dst, _ = wire.Append(dst, &out) // it consists of strings
	return dst
}

// AppendHTTPError appends the body of an error response over HTTP+JSON to dst, with the details
// of AppendError. status is the HTTP status, usually the result of [Codec.HTTPStatus].
func (c Codec) AppendHTTPError(dst []byte, status int, e *a2a.Error, requestID string) []byte {
	var out httpError
	out.Error.Code = status
	out.Error.Status = StatusName(status, e.Code)
	if c.Errors100 && slices.Contains([]a2a.Code{a2a.CodePushNotSupported, a2a.CodeUnsupported, a2a.CodeVersionNotSupported}, e.Code) {
		out.Error.Status = "UNIMPLEMENTED"
	}
	out.Error.Message, out.Error.Details = details(e, requestID)
	dst, _ = wire.Append(dst, &out) // it consists of strings
	return dst
}

const failedPrecondition = "FAILED_PRECONDITION"

// precondition reports whether the status of a code in google.rpc.Code is FAILED_PRECONDITION
// (A2A 1.0.1).
func precondition(c a2a.Code) bool {
	return slices.Contains([]a2a.Code{
		a2a.CodeTaskNotCancelable, a2a.CodePushNotSupported, a2a.CodeUnsupported, a2a.CodeNoExtendedCard,
		a2a.CodeExtensionRequired, a2a.CodeVersionNotSupported, a2a.CodeContextNotCancelable,
	}, c)
}

// HTTPStatus returns the HTTP status of an error over HTTP+JSON.
func (c Codec) HTTPStatus(code a2a.Code) int {
	switch {
	case code == a2a.CodeNoExtendedCard || !c.Errors100 && (precondition(code) || code == a2a.CodeContentType):
		return http.StatusBadRequest
	case !c.Errors100 && code == a2a.CodeInvalidAgentResponse:
		return http.StatusInternalServerError
	}
	return code.HTTPStatus()
}

// StatusName returns the name in google.rpc.Code of an error that is sent with an HTTP status (A2A
// 1.0.1).
func StatusName(status int, c a2a.Code) string {
	if precondition(c) {
		return failedPrecondition
	}
	switch status {
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusMethodNotAllowed:
		return "UNIMPLEMENTED"
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusConflict:
		return "ABORTED"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusInternalServerError, http.StatusBadGateway:
		return "INTERNAL"
	default:
		return "INVALID_ARGUMENT"
	}
}

// details returns the message of e with the names of A2A 1.0, and its details.
func details(e *a2a.Error, requestID string) (message string, all []detail) {
	info := detail{Type: typeErrorInfo, Reason: e.Code.Reason(), Domain: a2a.ErrorDomain, Metadata: e.InfoMetadata()}
	delete(info.Metadata, "field") // they follow as violations
	delete(info.Metadata, "fields")
	all = []detail{info}
	message, violations := violations(e.Message, e.Data)
	if len(violations) > 0 {
		all = append(all, detail{Type: typeBadRequest, FieldViolations: violations})
	}
	if requestID != "" {
		all = append(all, detail{Type: typeRequestInfo, RequestID: requestID})
	}
	return message, all
}

// violations returns the fields that data lists with their rules from the message, and the message
// with the names of A2A 1.0.
func violations(message string, data map[string]any) (renamed string, all []violation) {
	fields, ok := data["fields"].([]any)
	if field, one := data["field"].(string); one && !ok {
		fields = []any{field}
	}
	rules := strings.SplitN(message, "; ", max(len(fields), 1))
	for i, field := range fields {
		path, _ := field.(string)
		v := violation{Field: fieldNames.Replace(path), Description: message}
		if i < len(rules) {
			v.Description = rules[i]
			if rule, ok := strings.CutPrefix(rules[i], path+" "); ok {
				v.Description, rules[i] = rule, v.Field+" "+rule
			}
		}
		all = append(all, v)
	}
	return strings.Join(rules, "; "), all
}

// DecodeError decodes a JSON-RPC error object. The code of the result is the code that the details
// name, otherwise the code of the number. Data has the metadata of the ErrorInfo, and the members
// field, fields and requestId. Other data becomes the member "data", an unknown number the member
// "jsonrpc".
func (Codec) DecodeError(raw []byte) (*a2a.Error, error) {
	var in struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := wire.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	out := &a2a.Error{Code: codeOf(in.Code), Message: in.Message}
	known := out.Code != a2a.CodeInternal || in.Code == a2a.CodeInternal.JSONRPC()
	if !decodeDetails(out, in.Data) && !known {
		out.Data["jsonrpc"] = float64(in.Code)
	}
	return out, nil
}

// DecodeHTTPError decodes the body of an error response over HTTP+JSON. The code of the result is
// the code that the details name, otherwise the code of the status, otherwise [a2a.CodeInternal].
// Data is as in DecodeError. It returns an error if the body has no member error.
func (Codec) DecodeHTTPError(raw []byte) (*a2a.Error, error) {
	var in struct {
		Error *struct {
			Status  string          `json:"status"`
			Message string          `json:"message"`
			Details json.RawMessage `json:"details"`
		} `json:"error"`
	}
	if err := wire.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	if in.Error == nil {
		return nil, &wire.Error{Path: "error", Rule: "is missing"}
	}
	out := &a2a.Error{Code: codeOfStatus(in.Error.Status), Message: in.Error.Message}
	decodeDetails(out, in.Error.Details)
	return out, nil
}

// codeOfStatus returns the code for a name of google.rpc.Code.
func codeOfStatus(name string) a2a.Code {
	switch name {
	case "INVALID_ARGUMENT":
		return a2a.CodeInvalid
	case "FAILED_PRECONDITION":
		return a2a.CodeUnsupported
	case "UNIMPLEMENTED":
		return a2a.CodeMethodNotFound
	case "NOT_FOUND":
		return a2a.CodeTaskNotFound
	case "UNAUTHENTICATED":
		return a2a.CodeUnauthenticated
	case "PERMISSION_DENIED":
		return a2a.CodeDenied
	case "ABORTED":
		return a2a.CodeConflict
	case "RESOURCE_EXHAUSTED":
		return a2a.CodeExhausted
	case "UNAVAILABLE":
		return a2a.CodeUnavailable
	}
	return a2a.CodeInternal
}

// decodeDetails adds the details of an error to e and reports whether they name a code. Other
// data becomes the member "data".
func decodeDetails(e *a2a.Error, raw []byte) (known bool) {
	e.Data = map[string]any{}
	var details []detail
	if len(raw) > 0 && wire.Unmarshal(raw, &details) != nil {
		var data any
		if wire.Unmarshal(raw, &data) == nil {
			e.Data["data"] = data
		}
	}
	for i := range details {
		known = details[i].decode(e) || known
	}
	if e.Message == "" {
		e.Message = strings.ReplaceAll(string(e.Code), "_", " ")
	}
	return known
}

// decode adds a detail to e and reports whether it names a code.
func (d *detail) decode(e *a2a.Error) (known bool) {
	switch d.Type {
	case typeErrorInfo:
		for _, code := range a2a.Codes() {
			if d.Domain == a2a.ErrorDomain && code.Reason() == d.Reason && !known {
				e.Code, known = code, true
			}
		}
		for key, value := range d.Metadata {
			e.Data[key] = value
		}
		if code := a2a.Code(d.Metadata["code"]); slices.Contains(a2a.Codes(), code) {
			e.Code, known = code, true
		}
	case typeBadRequest:
		var fields []any
		for _, v := range d.FieldViolations {
			fields = append(fields, v.Field)
		}
		if len(fields) > 0 {
			e.Data["field"] = fields[0]
		}
		if len(fields) > 1 {
			e.Data["fields"] = fields
		}
	case typeRequestInfo:
		e.Data["requestId"] = d.RequestID
	}
	return known
}
