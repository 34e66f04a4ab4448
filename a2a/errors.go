package a2a

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

// Code classifies an error. Codes are stable: clients may rely on them. The numbers of all
// transports derive from them.
type Code string

// The codes.
const (
	CodeParse                Code = "parse_error"
	CodeInvalidRequest       Code = "invalid_request"
	CodeMethodNotFound       Code = "method_not_found"
	CodeInvalid              Code = "invalid_params"
	CodeInternal             Code = "internal"
	CodeTaskNotFound         Code = "task_not_found"
	CodePushConfigNotFound   Code = "push_config_not_found"
	CodeTaskNotCancelable    Code = "task_not_cancelable"
	CodePushNotSupported     Code = "push_notification_not_supported"
	CodeUnsupported          Code = "unsupported_operation"
	CodeContentType          Code = "content_type_not_supported"
	CodeInvalidAgentResponse Code = "invalid_agent_response"
	CodeNoExtendedCard       Code = "extended_card_not_configured"
	CodeExtensionRequired    Code = "extension_support_required"
	CodeVersionNotSupported  Code = "version_not_supported"
	CodeContextNotFound      Code = "context_not_found"
	CodeContextNotCancelable Code = "context_not_cancelable"
	CodeUnauthenticated      Code = "unauthenticated"
	CodeCredentialsExpired   Code = "credentials_expired"
	CodeInvalidSignature     Code = "invalid_signature"
	CodeDenied               Code = "permission_denied"
	CodeNotFound             Code = "not_found"
	CodeSkillNotFound        Code = "skill_not_found"
	CodeConflict             Code = "conflict"
	CodeGenerationMismatch   Code = "task_generation_mismatch"
	CodeTooLarge             Code = "too_large"
	CodeExhausted            Code = "resource_exhausted"
	CodeUnavailable          Code = "unavailable"
)

type codeInfo struct {
	code      Code
	jsonRPC   int
	http      int
	exit      int
	retryable bool
}

// codeTable maps codes to the numbers of the transports. A JSON-RPC number decodes to the
// first code that has it.
var codeTable = []codeInfo{
	{CodeInternal, -32603, http.StatusInternalServerError, 10, false},
	{CodeParse, -32700, http.StatusBadRequest, 3, false},
	{CodeInvalidRequest, -32600, http.StatusBadRequest, 3, false},
	{CodeMethodNotFound, -32601, http.StatusNotFound, 3, false},
	{CodeInvalid, -32602, http.StatusBadRequest, 3, false},
	{CodeTaskNotFound, -32001, http.StatusNotFound, 4, false},
	{CodeTaskNotCancelable, -32002, http.StatusConflict, 5, false},
	{CodePushNotSupported, -32003, http.StatusBadRequest, 5, false},
	{CodeUnsupported, -32004, http.StatusBadRequest, 5, false},
	{CodeContentType, -32005, http.StatusUnsupportedMediaType, 3, false},
	{CodeInvalidAgentResponse, -32006, http.StatusBadGateway, 10, false},
	{CodeNoExtendedCard, -32007, http.StatusNotFound, 5, false},
	{CodeExtensionRequired, -32008, http.StatusBadRequest, 3, false},
	{CodeVersionNotSupported, -32009, http.StatusBadRequest, 3, false},
	{CodeUnauthenticated, -32010, http.StatusUnauthorized, 6, false},
	{CodeCredentialsExpired, -32011, http.StatusUnauthorized, 6, false},
	{CodeInvalidSignature, -32012, http.StatusUnauthorized, 6, false},
	{CodeDenied, -32013, http.StatusForbidden, 6, false},
	{CodeContextNotFound, -32020, http.StatusNotFound, 4, false},
	{CodeContextNotCancelable, -32021, http.StatusConflict, 5, false},
	{CodePushConfigNotFound, -32022, http.StatusNotFound, 4, false},
	{CodeNotFound, -32023, http.StatusNotFound, 4, false},
	{CodeSkillNotFound, -32030, http.StatusNotFound, 4, false},
	{CodeConflict, -32050, http.StatusConflict, 5, false},
	{CodeGenerationMismatch, -32055, http.StatusConflict, 5, false},
	{CodeTooLarge, -32051, http.StatusRequestEntityTooLarge, 3, false},
	{CodeExhausted, -32052, http.StatusTooManyRequests, 7, true},
	{CodeUnavailable, -32053, http.StatusServiceUnavailable, 7, true},
}

// Codes returns all codes.
func Codes() []Code {
	codes := make([]Code, len(codeTable))
	for i, row := range codeTable {
		codes[i] = row.code
	}
	return codes
}

func (c Code) info() codeInfo {
	for _, row := range codeTable {
		if row.code == c {
			return row
		}
	}
	return codeTable[0]
}

// JSONRPC returns the JSON-RPC error number (A2A 0.3 section 8).
func (c Code) JSONRPC() int { return c.info().jsonRPC }

// HTTPStatus returns the HTTP status for transports that use it for errors.
func (c Code) HTTPStatus() int { return c.info().http }

// ExitCode returns the exit code of the command line program.
func (c Code) ExitCode() int { return c.info().exit }

// Retryable reports whether the same request may succeed later.
func (c Code) Retryable() bool { return c.info().retryable }

// ErrorDomain is the domain of the google.rpc.ErrorInfo of errors.
const ErrorDomain = "a2a-protocol.org"

// Reason returns the reason of the code in a google.rpc.ErrorInfo. A2A has one reason for tasks
// and for push notification configs that do not exist.
func (c Code) Reason() string {
	switch c {
	case CodePushConfigNotFound:
		return CodeTaskNotFound.Reason()
	case CodeNoExtendedCard:
		return "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
	default:
		return strings.ToUpper(string(c))
	}
}

// CodeOfJSONRPC returns the code of a JSON-RPC error number, or [CodeInternal] if the number
// is unknown.
func CodeOfJSONRPC(number int) Code {
	for _, row := range codeTable {
		if row.jsonRPC == number {
			return row.code
		}
	}
	return CodeInternal
}

// Error is an error with a code and a message for the caller. Message has no internal
// details. They are in the wrapped Err, which is only for the log.
type Error struct {
	Code    Code
	Message string
	Data    map[string]any // details for programs; may be nil
	Err     error          // cause; may be nil
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// InfoMetadata returns the metadata of a google.rpc.ErrorInfo: the code, and the members of Data
// as text.
func (e *Error) InfoMetadata() map[string]string {
	metadata := make(map[string]string, len(e.Data)+2)
	for key, value := range e.Data {
		text, ok := value.(string)
		if !ok {
			raw, _ := wire.Marshal(value)
			text = string(raw)
		}
		metadata[key] = text
	}
	metadata["code"] = string(e.Code)
	return metadata
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an *Error with the same code and without a message, so that
// errors.Is(err, a2a.ErrTaskNotFound) is true for any task.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Message == ""
}

// Errors for use with errors.Is.
var (
	ErrTaskNotFound    = &Error{Code: CodeTaskNotFound}
	ErrContextNotFound = &Error{Code: CodeContextNotFound}
	ErrExhausted       = &Error{Code: CodeExhausted}
	ErrUnavailable     = &Error{Code: CodeUnavailable}
	ErrConflict        = &Error{Code: CodeConflict}
)

// Errorf returns an *Error without a cause.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Refusef returns an *Error without a cause. Programs read its reason in Data["reason"].
func Refusef(code Code, reason, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Data: map[string]any{"reason": reason}}
}

// Wrap returns an *Error with the cause err. The caller sees only the message.
func Wrap(code Code, err error, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Err: err}
}

// CodeOf returns the code of the first *Error in err's chain. For a malformed document it
// returns [CodeInvalid] or [CodeParse], and otherwise [CodeInternal].
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	var w *wire.Error
	if errors.As(err, &w) {
		if w.Syntax {
			return CodeParse
		}
		return CodeInvalid
	}
	return CodeInternal
}

// TaskNotFound returns the error for a task that does not exist or has another owner.
func TaskNotFound(id string) *Error {
	return Errorf(CodeTaskNotFound, "task %s not found", Quote(id))
}

// ContextNotFound returns the error for a context that does not exist or has another owner.
func ContextNotFound(id string) *Error {
	return Errorf(CodeContextNotFound, "context %s not found", Quote(id))
}

// Invalid returns the error for an invalid field. field is its path in camelCase.
func Invalid(field, format string, args ...any) *Error {
	e := Errorf(CodeInvalid, "%s %s", field, fmt.Sprintf(format, args...))
	e.Data = map[string]any{"field": field}
	return e
}

// Quote returns s quoted for an error message, shortened if it is long.
func Quote(s string) string {
	const limit = 64
	if len(s) > limit {
		s = s[:limit] + "..."
	}
	return fmt.Sprintf("%q", s)
}
