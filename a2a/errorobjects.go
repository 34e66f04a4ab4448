package a2a

// ErrorCode is the number of a protocol error in JSON-RPC responses. Holdfast itself
// distinguishes errors by [Code]. A2A 1.0 uses -32008 and -32009 for other errors than the
// extensions here.
type ErrorCode int

// The error numbers.
const (
	ErrorJSONParse                              ErrorCode = -32700
	ErrorInvalidRequest                         ErrorCode = -32600
	ErrorMethodNotFound                         ErrorCode = -32601
	ErrorInvalidParams                          ErrorCode = -32602
	ErrorInternal                               ErrorCode = -32603
	ErrorTaskNotFound                           ErrorCode = -32001
	ErrorTaskNotCancelable                      ErrorCode = -32002
	ErrorPushNotificationNotSupported           ErrorCode = -32003
	ErrorUnsupportedOperation                   ErrorCode = -32004
	ErrorContentTypeNotSupported                ErrorCode = -32005
	ErrorInvalidAgentResponse                   ErrorCode = -32006
	ErrorAuthenticatedExtendedCardNotConfigured ErrorCode = -32007
	ErrorTaskImmutable                          ErrorCode = -32008
	ErrorAuthenticationRequired                 ErrorCode = -32009
	ErrorInvalidToken                           ErrorCode = -32010
	ErrorTokenExpired                           ErrorCode = -32011
	ErrorInvalidTokenSignature                  ErrorCode = -32012
	ErrorInsufficientPermissions                ErrorCode = -32013
	ErrorContextNotFound                        ErrorCode = -32020
	ErrorContextNotCancelable                   ErrorCode = -32021
	ErrorSkillNotFound                          ErrorCode = -32030
)

// EnumNumbers returns the accepted values.
func (ErrorCode) EnumNumbers() []int64 {
	return []int64{
		-32700, -32600, -32601, -32602, -32603, -32001, -32002, -32003, -32004, -32005, -32006,
		-32007, -32008, -32009, -32010, -32011, -32012, -32013, -32020, -32021, -32030,
	}
}

// ProtocolError is an error object of the protocol. Its type determines its code. Its
// message is for people, its data for programs.
type ProtocolError interface {
	// ErrorCode returns the error's number.
	ErrorCode() ErrorCode
}

// JSONParseError reports that the body is not JSON.
type JSONParseError struct {
	_       struct{} `wire:"number=code:-32700,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// InvalidRequestError reports that the body is not a JSON-RPC request.
type InvalidRequestError struct {
	_       struct{} `wire:"number=code:-32600,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// MethodNotFoundError reports that the method does not exist.
type MethodNotFoundError struct {
	_       struct{} `wire:"number=code:-32601,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// InvalidParamsError reports that the params are invalid.
type InvalidParamsError struct {
	_       struct{} `wire:"number=code:-32602,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// InternalError reports an unexpected failure.
type InternalError struct {
	_       struct{} `wire:"number=code:-32603,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// TaskNotFoundError reports that the task does not exist or belongs to another owner.
type TaskNotFoundError struct {
	_       struct{} `wire:"number=code:-32001,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// TaskNotCancelableError reports that the task is finished.
type TaskNotCancelableError struct {
	_       struct{} `wire:"number=code:-32002,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// PushNotificationNotSupportedError reports that the agent does not support webhooks.
type PushNotificationNotSupportedError struct {
	_       struct{} `wire:"number=code:-32003,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// UnsupportedOperationError reports that the agent does not support the operation.
type UnsupportedOperationError struct {
	_       struct{} `wire:"number=code:-32004,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// ContentTypeNotSupportedError reports that a media type is not supported.
type ContentTypeNotSupportedError struct {
	_       struct{} `wire:"number=code:-32005,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// InvalidAgentResponseError reports that the agent's output is malformed.
type InvalidAgentResponseError struct {
	_       struct{} `wire:"number=code:-32006,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// AuthenticatedExtendedCardNotConfiguredError reports that the agent has no extended card.
type AuthenticatedExtendedCardNotConfiguredError struct {
	_       struct{} `wire:"number=code:-32007,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// TaskImmutableError reports that the task of a message is finished, an extension.
type TaskImmutableError struct {
	_       struct{} `wire:"number=code:-32008,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// AuthenticationRequiredError reports that the request has no token, an extension.
type AuthenticationRequiredError struct {
	_       struct{} `wire:"number=code:-32009,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// InvalidTokenError reports that the token is malformed or unknown, an extension.
type InvalidTokenError struct {
	_       struct{} `wire:"number=code:-32010,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// TokenExpiredError reports that the token has expired, an extension.
type TokenExpiredError struct {
	_       struct{} `wire:"number=code:-32011,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// InvalidTokenSignatureError reports that the token's signature is invalid, an extension.
type InvalidTokenSignatureError struct {
	_       struct{} `wire:"number=code:-32012,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// InsufficientPermissionsError reports that the caller's scope or trust level is too low, an extension.
type InsufficientPermissionsError struct {
	_       struct{} `wire:"number=code:-32013,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// ContextNotFoundError reports that the context does not exist or belongs to another owner, an extension.
type ContextNotFoundError struct {
	_       struct{} `wire:"number=code:-32020,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// ContextNotCancelableError reports that the context is closed or has running tasks, an extension.
type ContextNotCancelableError struct {
	_       struct{} `wire:"number=code:-32021,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// SkillNotFoundError reports that the skill does not exist, an extension.
type SkillNotFoundError struct {
	_       struct{} `wire:"number=code:-32030,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// ErrorCode returns -32700.
func (JSONParseError) ErrorCode() ErrorCode { return ErrorJSONParse }

// ErrorCode returns -32600.
func (InvalidRequestError) ErrorCode() ErrorCode { return ErrorInvalidRequest }

// ErrorCode returns -32601.
func (MethodNotFoundError) ErrorCode() ErrorCode { return ErrorMethodNotFound }

// ErrorCode returns -32602.
func (InvalidParamsError) ErrorCode() ErrorCode { return ErrorInvalidParams }

// ErrorCode returns -32603.
func (InternalError) ErrorCode() ErrorCode { return ErrorInternal }

// ErrorCode returns -32001.
func (TaskNotFoundError) ErrorCode() ErrorCode { return ErrorTaskNotFound }

// ErrorCode returns -32002.
func (TaskNotCancelableError) ErrorCode() ErrorCode { return ErrorTaskNotCancelable }

// ErrorCode returns -32003.
func (PushNotificationNotSupportedError) ErrorCode() ErrorCode {
	return ErrorPushNotificationNotSupported
}

// ErrorCode returns -32004.
func (UnsupportedOperationError) ErrorCode() ErrorCode { return ErrorUnsupportedOperation }

// ErrorCode returns -32005.
func (ContentTypeNotSupportedError) ErrorCode() ErrorCode { return ErrorContentTypeNotSupported }

// ErrorCode returns -32006.
func (InvalidAgentResponseError) ErrorCode() ErrorCode { return ErrorInvalidAgentResponse }

// ErrorCode returns -32007.
func (AuthenticatedExtendedCardNotConfiguredError) ErrorCode() ErrorCode {
	return ErrorAuthenticatedExtendedCardNotConfigured
}

// ErrorCode returns -32008.
func (TaskImmutableError) ErrorCode() ErrorCode { return ErrorTaskImmutable }

// ErrorCode returns -32009.
func (AuthenticationRequiredError) ErrorCode() ErrorCode { return ErrorAuthenticationRequired }

// ErrorCode returns -32010.
func (InvalidTokenError) ErrorCode() ErrorCode { return ErrorInvalidToken }

// ErrorCode returns -32011.
func (TokenExpiredError) ErrorCode() ErrorCode { return ErrorTokenExpired }

// ErrorCode returns -32012.
func (InvalidTokenSignatureError) ErrorCode() ErrorCode { return ErrorInvalidTokenSignature }

// ErrorCode returns -32013.
func (InsufficientPermissionsError) ErrorCode() ErrorCode { return ErrorInsufficientPermissions }

// ErrorCode returns -32020.
func (ContextNotFoundError) ErrorCode() ErrorCode { return ErrorContextNotFound }

// ErrorCode returns -32021.
func (ContextNotCancelableError) ErrorCode() ErrorCode { return ErrorContextNotCancelable }

// ErrorCode returns -32030.
func (SkillNotFoundError) ErrorCode() ErrorCode { return ErrorSkillNotFound }
