package v10

import (
	"encoding/json"
	"fmt"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/holdfast-dev/holdfast/a2a"
	jsonv10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/server/grpc/internal/message"
)

// Codec encodes and decodes A2A 1.0 over gRPC. It implements rpc.BinaryCodec.
type Codec struct {
	// Errors100 selects the status codes of errors in A2A 1.0.0 instead of those in 1.0.1:
	// UNIMPLEMENTED for unsupported operations and versions.
	Errors100 bool
}

// Service is the name of the service.
const Service = "lf.a2a.v1.A2AService"

// Descriptor is the file that describes the service.
var Descriptor = pb.File_a2av1_proto

// Version returns the protocol version on agent cards.
func (Codec) Version() string { return jsonv10.Codec{}.Version() }

// MethodName returns the full name of a method, "" for methods that are not part of A2A 1.0.
func (Codec) MethodName(m *a2a.Method) string {
	if pb.File_a2av1_proto.Services().ByName("A2AService").Methods().ByName(protoName(m)) == nil {
		return ""
	}
	return "/" + Service + "/" + m.NameV10
}

// DecodeParams decodes the request of a method into the value that v points to. It returns the
// errors of package a2a/v10.
func (Codec) DecodeParams(raw []byte, v any) error {
	return jsonv10.CheckParams(v, decodeParams(raw, v))
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
		return message.Decode(raw, p, func(m *pb.TaskPushNotificationConfig, p *a2a.TaskPushNotificationConfig) error {
			p.TaskID, p.Config = m.GetTaskId(), pushConfig(m)
			return nil
		})
	case *a2a.GetTaskPushNotificationConfigParams:
		return message.Decode(raw, p, func(m *pb.GetTaskPushNotificationConfigRequest, p *a2a.GetTaskPushNotificationConfigParams) error {
			if p.TaskID, p.ConfigID = m.GetTaskId(), m.GetId(); p.ConfigID == "" {
				return &wire.Error{Path: "id", Rule: "is required"}
			}
			return nil
		})
	case *a2a.ListTaskPushNotificationConfigParams:
		return message.Decode(raw, p, func(m *pb.ListTaskPushNotificationConfigsRequest, p *a2a.ListTaskPushNotificationConfigParams) error {
			p.TaskID, p.PageSize, p.PageToken = m.GetTaskId(), int(m.GetPageSize()), m.GetPageToken()
			return nil
		})
	case *a2a.DeleteTaskPushNotificationConfigParams:
		return message.Decode(raw, p, func(m *pb.DeleteTaskPushNotificationConfigRequest, p *a2a.DeleteTaskPushNotificationConfigParams) error {
			p.TaskID, p.ConfigID = m.GetTaskId(), m.GetId()
			return nil
		})
	}
	return message.Unmarshal(raw, new(pb.GetExtendedAgentCardRequest)) // the method without params
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
		out := &pb.ListTaskPushNotificationConfigsResponse{NextPageToken: r.NextPageToken}
		for i := range r.Configs {
			out.Configs = append(out.Configs, fromPushConfig(&r.Configs[i]))
		}
		return message.Append(dst, out)
	case *a2a.TasksPage[json.RawMessage]:
		page := &pb.ListTasksResponse{NextPageToken: r.NextPageToken, PageSize: int32(r.PageSize)}
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

// AppendError appends the google.rpc.Status of an error to dst.
func (c Codec) AppendError(dst []byte, e *a2a.Error, requestID, _ string) []byte {
	code := codes.OK // means the code of A2A 1.0.1
	switch e.Code {
	case a2a.CodeUnsupported, a2a.CodePushNotSupported, a2a.CodeVersionNotSupported:
		if c.Errors100 {
			code = codes.Unimplemented
		}
	default:
	}
	return message.AppendStatus(dst, code, e, requestID)
}

// AppendCard appends an agent card to dst. On error it returns dst unchanged.
func (Codec) AppendCard(dst []byte, card *a2a.AgentCard) ([]byte, error) {
	raw, err := jsonv10.Codec{}.AppendCard(nil, card)
	if err != nil {
		return dst, err
	}
	return appendCard(dst, raw)
}

// appendCard appends an agent card to dst. raw is its JSON with the members of A2A 1.0.
func appendCard(dst, raw []byte) ([]byte, error) {
	var out pb.AgentCard
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &out); err != nil {
		return dst, err
	}
	return message.Append(dst, &out)
}
