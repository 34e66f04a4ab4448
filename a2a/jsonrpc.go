package a2a

import "github.com/holdfast-dev/holdfast/internal/wire"

// RequestID is the id of a JSON-RPC request. In a request it is a string or an
// integer; in a response it is null, the zero value, if that of the request could
// not be read.
type RequestID = StringOrInt

// JSONRPCMessage is what requests and responses have in common (JSON-RPC 2.0).
type JSONRPCMessage struct {
	_  struct{}  `wire:"const=jsonrpc:2.0,required"`
	ID RequestID `json:"id" wire:"required"`
}

// JSONRPCRequest is a request of any method (A2A 0.3 section 6.11.1). Package rpc
// reads what servers receive; this type is for clients and tests.
type JSONRPCRequest struct {
	_      struct{}  `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID `json:"id" wire:"required"`
	Method string    `json:"method" wire:"required"`
	Params any       `json:"params,omitempty"`
}

// JSONRPCError is the error of a response (A2A 0.3 section 6.12). Code may be any
// number; those of the protocol are of type [ErrorCode].
type JSONRPCError struct {
	Code    int    `json:"code" wire:"required"`
	Message string `json:"message" wire:"required"`
	// Data is more for machines.
	Data any `json:"data,omitempty"`
}

// Response is a JSON-RPC response with a result of type R: exactly one of Result
// and Error is there. A nil or zero Result is left out.
type Response[R any] struct {
	_      struct{}      `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID     `json:"id" wire:"required,nullable"`
	Result R             `json:"result,omitzero"`
	Error  *JSONRPCError `json:"error,omitempty"`
}

// JSONRPCResponse is a response with any result (A2A 0.3 section 6.11.2).
type JSONRPCResponse = Response[any]

// A2AResponse is the response to one of the methods: a [Response] of the result
// that the method has. Nothing in a response tells which that is:
// [DecodeResponse] goes by the request.
type A2AResponse interface { //nolint:revive // the name of the protocol
	// Validate reports every rule that the response breaks.
	Validate() error
	response()
}

func (Response[R]) response() {}

// responses makes an empty response for each method.
var responses = map[string]func() A2AResponse{
	MethodSend:        func() A2AResponse { return new(SendMessageResponse) },
	MethodStream:      func() A2AResponse { return new(StreamMessageResponse) },
	MethodGet:         func() A2AResponse { return new(GetTaskResponse) },
	MethodList:        func() A2AResponse { return new(ListTasksResponse) },
	MethodTasksDelete: func() A2AResponse { return new(DeleteTaskResponse) },
	MethodCancel:      func() A2AResponse { return new(CancelTaskResponse) },
	MethodResubscribe: func() A2AResponse { return new(ResubscribeTaskResponse) },
	MethodPushSet:     func() A2AResponse { return new(SetTaskPushNotificationResponse) },
	MethodPushGet:     func() A2AResponse { return new(GetTaskPushNotificationResponse) },
	MethodPushList:    func() A2AResponse { return new(ListTaskPushNotificationConfigResponse) },
	MethodPushDelete:  func() A2AResponse { return new(DeleteTaskPushNotificationConfigResponse) },

	MethodDeadLetters:  func() A2AResponse { return new(Response[*ListDeadLettersResult]) },
	MethodPushReplay:   func() A2AResponse { return new(Response[*ReplayResult]) },
	MethodPushAttempts: func() A2AResponse { return new(Response[*ListAttemptsResult]) },

	MethodContextsList:   func() A2AResponse { return new(ListContextsResponse) },
	MethodContextsGet:    func() A2AResponse { return new(Response[*Context]) },
	MethodContextsCreate: func() A2AResponse { return new(Response[*Context]) },
	MethodContextsUpdate: func() A2AResponse { return new(Response[*Context]) },
	MethodContextsClear:  func() A2AResponse { return new(ClearContextsResponse) },
	MethodFeedback:       func() A2AResponse { return new(TaskFeedbackResponse) },
	MethodFeedbackList:   func() A2AResponse { return new(Response[*ListTaskFeedbackResult]) },
}

// DecodeResponse reads the response to a request of the method, a JSON-RPC name
// of A2A 0.3. The result is a pointer to the method's response type.
func DecodeResponse(method string, data []byte) (A2AResponse, error) {
	empty, ok := responses[method]
	if !ok {
		return nil, Errorf(CodeMethodNotFound, "method %s has no response type", Quote(method))
	}
	r := empty()
	if err := wire.Unmarshal(data, r); err != nil {
		return nil, err
	}
	return r, nil
}
