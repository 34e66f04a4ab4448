package a2a

// ErrorCode is the number of an error of the protocol, as JSON-RPC responses
// carry it. [Code] is what Holdfast itself tells errors apart by. A2A 1.0 gives
// -32008 and -32009 other meanings than the extensions here.
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

// EnumNumbers lists the values accepted on input.
func (ErrorCode) EnumNumbers() []int64 {
	return []int64{
		-32700, -32600, -32601, -32602, -32603, -32001, -32002, -32003, -32004, -32005, -32006,
		-32007, -32008, -32009, -32010, -32011, -32012, -32013, -32020, -32021, -32030,
	}
}

// ProtocolError is an error object of the protocol: its code is fixed by its
// type, its message is for people, its data for machines.
type ProtocolError interface {
	// ErrorCode returns the number of the type.
	ErrorCode() ErrorCode
}

// JSONParseError says that the body is not JSON.
type JSONParseError struct {
	_       struct{} `wire:"number=code:-32700,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// InvalidRequestError says that the body is no JSON-RPC request.
type InvalidRequestError struct {
	_       struct{} `wire:"number=code:-32600,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// MethodNotFoundError says that there is no such method.
type MethodNotFoundError struct {
	_       struct{} `wire:"number=code:-32601,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// InvalidParamsError says that the params break a rule.
type InvalidParamsError struct {
	_       struct{} `wire:"number=code:-32602,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// InternalError says that something unexpected failed.
type InternalError struct {
	_       struct{} `wire:"number=code:-32603,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// TaskNotFoundError says that the task is absent or someone else's.
type TaskNotFoundError struct {
	_       struct{} `wire:"number=code:-32001,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// TaskNotCancelableError says that the task is over.
type TaskNotCancelableError struct {
	_       struct{} `wire:"number=code:-32002,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// PushNotificationNotSupportedError says that the agent sends no notifications.
type PushNotificationNotSupportedError struct {
	_       struct{} `wire:"number=code:-32003,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// UnsupportedOperationError says that the agent does not offer the operation.
type UnsupportedOperationError struct {
	_       struct{} `wire:"number=code:-32004,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// ContentTypeNotSupportedError says that a media type is refused.
type ContentTypeNotSupportedError struct {
	_       struct{} `wire:"number=code:-32005,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// InvalidAgentResponseError says that the agent's output is malformed.
type InvalidAgentResponseError struct {
	_       struct{} `wire:"number=code:-32006,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// AuthenticatedExtendedCardNotConfiguredError says that there is no extended card.
type AuthenticatedExtendedCardNotConfiguredError struct {
	_       struct{} `wire:"number=code:-32007,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// TaskImmutableError says that a message addresses a task that is over, an extension.
type TaskImmutableError struct {
	_       struct{} `wire:"number=code:-32008,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// AuthenticationRequiredError says that there is no token, an extension.
type AuthenticationRequiredError struct {
	_       struct{} `wire:"number=code:-32009,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// InvalidTokenError says that the token is malformed or unknown, an extension.
type InvalidTokenError struct {
	_       struct{} `wire:"number=code:-32010,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// TokenExpiredError says that the token has expired, an extension.
type TokenExpiredError struct {
	_       struct{} `wire:"number=code:-32011,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// InvalidTokenSignatureError says that the token's signature is wrong, an extension.
type InvalidTokenSignatureError struct {
	_       struct{} `wire:"number=code:-32012,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// InsufficientPermissionsError says that scope or trust of the caller are too low, an extension.
type InsufficientPermissionsError struct {
	_       struct{} `wire:"number=code:-32013,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// ContextNotFoundError says that the context is absent or someone else's, an extension.
type ContextNotFoundError struct {
	_       struct{} `wire:"number=code:-32020,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// ContextNotCancelableError says that the context is closed or has running tasks, an extension.
type ContextNotCancelableError struct {
	_       struct{} `wire:"number=code:-32021,required"`
	Message string   `json:"message" wire:"required"`
	Data    any      `json:"data,omitempty"`
}

// SkillNotFoundError says that there is no such skill, an extension.
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
