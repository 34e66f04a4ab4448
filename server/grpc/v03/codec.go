package v03

import (
	"encoding/json"
	"fmt"

	pb "github.com/a2aproject/a2a-go/a2apb"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-dev/holdfast/a2a"
	jsonv03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/server/grpc/internal/message"
)

// Codec encodes and decodes A2A 0.3 over gRPC. It implements rpc.BinaryCodec.
type Codec struct{}

// Service is the name of the service.
const Service = "a2a.v1.A2AService"

// Descriptor is the file that describes the service.
var Descriptor = pb.File_a2a_proto

// names are the names of methods in the service.
var names = map[string]string{
	a2a.MethodSend:         "SendMessage",
	a2a.MethodStream:       "SendStreamingMessage",
	a2a.MethodGet:          "GetTask",
	a2a.MethodList:         "ListTasks",
	a2a.MethodCancel:       "CancelTask",
	a2a.MethodResubscribe:  "TaskSubscription",
	a2a.MethodPushSet:      "CreateTaskPushNotificationConfig",
	a2a.MethodPushGet:      "GetTaskPushNotificationConfig",
	a2a.MethodPushList:     "ListTaskPushNotificationConfig",
	a2a.MethodPushDelete:   "DeleteTaskPushNotificationConfig",
	a2a.MethodExtendedCard: "GetAgentCard",
}

// Version returns the protocol version on agent cards.
func (Codec) Version() string { return jsonv03.Codec{}.Version() }

// MethodName returns the full name of a method, "" for methods that are not part of A2A 0.3.
func (Codec) MethodName(m *a2a.Method) string {
	name := names[m.Name]
	if name == "" {
		return ""
	}
	return "/" + Service + "/" + name
}

// DecodeParams decodes the request of a method into the value that v points to. Errors have the
// code invalid_params and name the field of the model in Data["field"], or parse_error.
func (Codec) DecodeParams(raw []byte, v any) error {
	err := decodeParams(raw, v)
	if p, ok := v.(interface{ Validate() error }); ok && err == nil {
		err = p.Validate()
	}
	return a2a.ParamsError(err)
}

func decodeParams(raw []byte, v any) error {
	switch p := v.(type) {
	case *a2a.MessageSendParams:
		return message.Decode(raw, p, sendParams)
	case *a2a.TaskQueryParams:
		return message.Decode(raw, p, queryParams)
	case *a2a.ListTasksParams:
		return message.Decode(raw, p, listParams)
	case *a2a.TaskIDParams:
		return message.Decode(raw, p, idParams)
	case *a2a.TaskPushNotificationConfig:
		return message.Decode(raw, p, pushParams)
	case *a2a.GetTaskPushNotificationConfigParams:
		return message.Decode(raw, p, func(m *pb.GetTaskPushNotificationConfigRequest, p *a2a.GetTaskPushNotificationConfigParams) (err error) {
			p.TaskID, p.ConfigID, err = configName(m.GetName())
			return err
		})
	case *a2a.ListTaskPushNotificationConfigParams:
		return message.Decode(raw, p, func(m *pb.ListTaskPushNotificationConfigRequest, p *a2a.ListTaskPushNotificationConfigParams) (err error) {
			p.TaskID, err = taskName("parent", m.GetParent())
			return err
		})
	case *a2a.DeleteTaskPushNotificationConfigParams:
		return message.Decode(raw, p, func(m *pb.DeleteTaskPushNotificationConfigRequest, p *a2a.DeleteTaskPushNotificationConfigParams) (err error) {
			p.TaskID, p.ConfigID, err = configName(m.GetName())
			return err
		})
	}
	return message.Unmarshal(raw, new(pb.GetAgentCardRequest)) // the method without params
}

// AppendResult appends the response of a method to dst. On error it returns dst unchanged.
func (c Codec) AppendResult(dst []byte, m *a2a.Method, result any) ([]byte, error) {
	switch r := result.(type) {
	case json.RawMessage:
		if m.Name == a2a.MethodExtendedCard { // in JSON
			return appendCard(dst, r)
		}
		return append(dst, r...), nil
	case *a2a.DeletedPushNotificationConfig:
		return dst, nil // google.protobuf.Empty
	case *a2a.TaskPushNotificationConfig:
		return message.Append(dst, fromPushConfig(r))
	case *a2a.ListTaskPushNotificationConfigResult:
		out := new(pb.ListTaskPushNotificationConfigResponse)
		for i := range r.Configs {
			out.Configs = append(out.Configs, fromPushConfig(&r.Configs[i]))
		}
		return message.Append(dst, out)
	case *a2a.TasksPage[json.RawMessage]:
		page := &pb.ListTasksResponse{NextPageToken: r.NextPageToken}
		if r.TotalSize != nil {
			page.TotalSize = int32(*r.TotalSize)
		}
		return message.Append(append(dst, r.Tasks...), page)
	case a2a.Event:
		if task, ok := r.(*a2a.Task); ok && m.Name != a2a.MethodSend {
			out, err := fromTask(task)
			if err != nil {
				return dst, err
			}
			return message.Append(dst, out)
		}
		return c.AppendEvent(dst, r) // SendMessageResponse has the fields of StreamResponse
	}
	return dst, fmt.Errorf("result of %s has type %T", m.Name, result)
}

// AppendItem appends an encoded task as an item of a list to dst.
func (Codec) AppendItem(dst, task []byte) []byte { return message.AppendTask(dst, task) }

// Canonical returns the same text for requests of a method that have the same content.
func (Codec) Canonical(method string, raw []byte) []byte { return message.Canonical(method, raw) }

// AppendEvent appends an item of a stream to dst. On error it returns dst unchanged.
func (Codec) AppendEvent(dst []byte, e a2a.Event) ([]byte, error) {
	out, err := fromEvent(e)
	if err != nil {
		return dst, err
	}
	return message.Append(dst, out)
}

// AppendError appends the google.rpc.Status of an error to dst. Clients of A2A 0.3 read
// UNIMPLEMENTED where A2A 1.0 has FAILED_PRECONDITION for what the agent does not support. Those that
// announce their version read the latter.
func (Codec) AppendError(dst []byte, e *a2a.Error, requestID, announced string) []byte {
	code := codes.OK // means the code of A2A 1.0
	switch e.Code {
	case a2a.CodeUnsupported, a2a.CodePushNotSupported, a2a.CodeVersionNotSupported:
		if !jsonv03.KnowsV10(announced) {
			code = codes.Unimplemented
		}
	default:
	}
	return message.AppendStatus(dst, code, e, requestID)
}
