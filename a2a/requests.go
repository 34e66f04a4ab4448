package a2a

import "github.com/holdfast-dev/holdfast/internal/wire"

// A2ARequest is a JSON-RPC request of one of the methods; its member method identifies the
// type. Only the types below implement it.
type A2ARequest interface { //nolint:revive // the name of the protocol
	// RPCMethod returns the JSON-RPC name of the method in A2A 0.3.
	RPCMethod() string
	request()
}

var _ = wire.Union("method", map[string]A2ARequest{
	"message/send":                        SendMessageRequest{},
	"message/stream":                      StreamMessageRequest{},
	"tasks/get":                           GetTaskRequest{},
	"tasks/cancel":                        CancelTaskRequest{},
	"tasks/list":                          ListTasksRequest{},
	"tasks/feedback":                      TaskFeedbackRequest{},
	"contexts/list":                       ListContextsRequest{},
	"contexts/clear":                      ClearContextsRequest{},
	"tasks/pushNotificationConfig/set":    SetTaskPushNotificationRequest{},
	"tasks/pushNotificationConfig/get":    GetTaskPushNotificationRequest{},
	"tasks/resubscribe":                   ResubscribeTaskRequest{},
	"tasks/pushNotificationConfig/list":   ListTaskPushNotificationConfigRequest{},
	"tasks/pushNotificationConfig/delete": DeleteTaskPushNotificationConfigRequest{},
})

// SendMessageRequest is a request of message/send.
type SendMessageRequest struct {
	_      struct{}          `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID         `json:"id" wire:"required"`
	_      struct{}          `wire:"const=method:message/send,required"`
	Params MessageSendParams `json:"params" wire:"required"`
}

// StreamMessageRequest is a request of message/stream.
type StreamMessageRequest struct {
	_      struct{}          `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID         `json:"id" wire:"required"`
	_      struct{}          `wire:"const=method:message/stream,required"`
	Params MessageSendParams `json:"params" wire:"required"`
}

// GetTaskRequest is a request of tasks/get.
type GetTaskRequest struct {
	_      struct{}        `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID       `json:"id" wire:"required"`
	_      struct{}        `wire:"const=method:tasks/get,required"`
	Params TaskQueryParams `json:"params" wire:"required"`
}

// CancelTaskRequest is a request of tasks/cancel.
type CancelTaskRequest struct {
	_      struct{}     `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID    `json:"id" wire:"required"`
	_      struct{}     `wire:"const=method:tasks/cancel,required"`
	Params TaskIDParams `json:"params" wire:"required"`
}

// ListTasksRequest is a request of tasks/list, an extension.
type ListTasksRequest struct {
	_      struct{}        `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID       `json:"id" wire:"required"`
	_      struct{}        `wire:"const=method:tasks/list,required"`
	Params ListTasksParams `json:"params" wire:"required"`
}

// TaskFeedbackRequest is a request of tasks/feedback, an extension.
type TaskFeedbackRequest struct {
	_      struct{}           `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID          `json:"id" wire:"required"`
	_      struct{}           `wire:"const=method:tasks/feedback,required"`
	Params TaskFeedbackParams `json:"params" wire:"required"`
}

// ListContextsRequest is a request of contexts/list, an extension.
type ListContextsRequest struct {
	_      struct{}           `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID          `json:"id" wire:"required"`
	_      struct{}           `wire:"const=method:contexts/list,required"`
	Params ListContextsParams `json:"params" wire:"required"`
}

// ClearContextsRequest is a request of contexts/clear, an extension.
type ClearContextsRequest struct {
	_      struct{}        `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID       `json:"id" wire:"required"`
	_      struct{}        `wire:"const=method:contexts/clear,required"`
	Params ContextIDParams `json:"params" wire:"required"`
}

// SetTaskPushNotificationRequest is a request of tasks/pushNotificationConfig/set.
type SetTaskPushNotificationRequest struct {
	_      struct{}                   `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID                  `json:"id" wire:"required"`
	_      struct{}                   `wire:"const=method:tasks/pushNotificationConfig/set,required"`
	Params TaskPushNotificationConfig `json:"params" wire:"required"`
}

// GetTaskPushNotificationRequest is a request of tasks/pushNotificationConfig/get.
type GetTaskPushNotificationRequest struct {
	_      struct{}     `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID    `json:"id" wire:"required"`
	_      struct{}     `wire:"const=method:tasks/pushNotificationConfig/get,required"`
	Params TaskIDParams `json:"params" wire:"required"`
}

// ResubscribeTaskRequest is a request of tasks/resubscribe.
type ResubscribeTaskRequest struct {
	_      struct{}     `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID    `json:"id" wire:"required"`
	_      struct{}     `wire:"const=method:tasks/resubscribe,required"`
	Params TaskIDParams `json:"params" wire:"required"`
}

// ListTaskPushNotificationConfigRequest is a request of tasks/pushNotificationConfig/list.
type ListTaskPushNotificationConfigRequest struct {
	_      struct{}                             `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID                            `json:"id" wire:"required"`
	_      struct{}                             `wire:"const=method:tasks/pushNotificationConfig/list,required"`
	Params ListTaskPushNotificationConfigParams `json:"params" wire:"required"`
}

// DeleteTaskPushNotificationConfigRequest is a request of tasks/pushNotificationConfig/delete.
type DeleteTaskPushNotificationConfigRequest struct {
	_      struct{}                               `wire:"const=jsonrpc:2.0,required"`
	ID     RequestID                              `json:"id" wire:"required"`
	_      struct{}                               `wire:"const=method:tasks/pushNotificationConfig/delete,required"`
	Params DeleteTaskPushNotificationConfigParams `json:"params" wire:"required"`
}

// GetAuthenticatedExtendedCardRequest is a request of agent/getAuthenticatedExtendedCard. It has no params and is not
// an [A2ARequest].
type GetAuthenticatedExtendedCardRequest struct {
	_  struct{}  `wire:"const=jsonrpc:2.0,required"`
	ID RequestID `json:"id" wire:"required"`
	_  struct{}  `wire:"const=method:agent/getAuthenticatedExtendedCard,required"`
}

// RPCMethod returns "message/send".
func (SendMessageRequest) RPCMethod() string { return "message/send" }

// RPCMethod returns "message/stream".
func (StreamMessageRequest) RPCMethod() string { return "message/stream" }

// RPCMethod returns "tasks/get".
func (GetTaskRequest) RPCMethod() string { return "tasks/get" }

// RPCMethod returns "tasks/cancel".
func (CancelTaskRequest) RPCMethod() string { return "tasks/cancel" }

// RPCMethod returns "tasks/list".
func (ListTasksRequest) RPCMethod() string { return "tasks/list" }

// RPCMethod returns "tasks/feedback".
func (TaskFeedbackRequest) RPCMethod() string { return "tasks/feedback" }

// RPCMethod returns "contexts/list".
func (ListContextsRequest) RPCMethod() string { return "contexts/list" }

// RPCMethod returns "contexts/clear".
func (ClearContextsRequest) RPCMethod() string { return "contexts/clear" }

// RPCMethod returns "tasks/pushNotificationConfig/set".
func (SetTaskPushNotificationRequest) RPCMethod() string { return "tasks/pushNotificationConfig/set" }

// RPCMethod returns "tasks/pushNotificationConfig/get".
func (GetTaskPushNotificationRequest) RPCMethod() string { return "tasks/pushNotificationConfig/get" }

// RPCMethod returns "tasks/resubscribe".
func (ResubscribeTaskRequest) RPCMethod() string { return "tasks/resubscribe" }

// RPCMethod returns "tasks/pushNotificationConfig/list".
func (ListTaskPushNotificationConfigRequest) RPCMethod() string {
	return "tasks/pushNotificationConfig/list"
}

// RPCMethod returns "tasks/pushNotificationConfig/delete".
func (DeleteTaskPushNotificationConfigRequest) RPCMethod() string {
	return "tasks/pushNotificationConfig/delete"
}

func (SendMessageRequest) request()                      {}
func (StreamMessageRequest) request()                    {}
func (GetTaskRequest) request()                          {}
func (CancelTaskRequest) request()                       {}
func (ListTasksRequest) request()                        {}
func (TaskFeedbackRequest) request()                     {}
func (ListContextsRequest) request()                     {}
func (ClearContextsRequest) request()                    {}
func (SetTaskPushNotificationRequest) request()          {}
func (GetTaskPushNotificationRequest) request()          {}
func (ResubscribeTaskRequest) request()                  {}
func (ListTaskPushNotificationConfigRequest) request()   {}
func (DeleteTaskPushNotificationConfigRequest) request() {}
