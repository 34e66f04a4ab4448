package a2a

import "github.com/holdfast-dev/holdfast/internal/wire"

// RequestID is the id of a JSON-RPC request. In a request it is a string or an integer. In a
// response it is null, the zero value, if the request's id could not be read.
type RequestID = StringOrInt

// JSONRPCMessage has the common members of requests and responses (JSON-RPC 2.0).
type JSONRPCMessage struct {
	_  struct{}  `wire:"const=jsonrpc:2.0,required"`
	ID RequestID `json:"id" wire:"required"`
}

// JSONRPCRequest is a request of any method (A2A 0.3 section 6.11.1). It is for clients and
// tests; servers use package rpc.
type JSONRPCRequest struct {
	_      struct{}  `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID `json:"id" wire:"required"`
	Method string    `json:"method" wire:"required"`
	Params any       `json:"params,omitempty"`
}

// JSONRPCError is the error of a response (A2A 0.3 section 6.12). Code may be any number.
// The codes of the protocol are [ErrorCode] constants.
type JSONRPCError struct {
	Code    int    `json:"code" wire:"required"`
	Message string `json:"message" wire:"required"`
	// Data has details for programs.
	Data any `json:"data,omitempty"`
}

// Response is a JSON-RPC response with a result of type R. It has either a result or an
// error. A nil or zero Result is omitted.
type Response[R any] struct {
	_      struct{}      `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID     `json:"id" wire:"required,nullable"`
	Result R             `json:"result,omitzero"`
	Error  *JSONRPCError `json:"error,omitempty"`
}

// JSONRPCResponse is a response with any result (A2A 0.3 section 6.11.2).
type JSONRPCResponse = Response[any]

// A2AResponse is the response to one of the methods: a [Response] with the method's result
// type. A response does not identify its method, so [DecodeResponse] needs it.
type A2AResponse interface { //nolint:revive // the name of the protocol
	// Validate reports all violated rules as an [*InvalidError].
	Validate() error
	response()
}

func (Response[R]) response() {}

// responses maps each method to a function that returns an empty response.
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

// DecodeResponse decodes the response to a request of the given method, a JSON-RPC name of
// A2A 0.3. It returns a pointer to the method's response type.
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
