// Package codec encodes and decodes A2A 0.3 and 1.0 over gRPC.
//
// # Guarantees
//
// The rules of packages a2a/v03 and a2a/v10 apply; this package only converts between the model and protobuf. In
// addition, A2A 0.3 over gRPC has resource names such as tasks/{id}, a history length of 0 means the whole history,
// and only the states of A2A exist: other states are mapped as in A2A 1.0. Data that is not an object is shown
// within an object.
//
// The messages of both versions have the same structure and, with few exceptions, the same names. So this package
// reads and writes their fields by name: a field that a version lacks is absent when it is read, and ignored when it
// is written.
package codec

import (
	"encoding/json"
	"fmt"
	"strings"

	pb03 "github.com/a2aproject/a2a-go/a2apb"
	pb10 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/holdfast-dev/holdfast/a2a"
	jsonv03 "github.com/holdfast-dev/holdfast/a2a/v03"
	jsonv10 "github.com/holdfast-dev/holdfast/a2a/v10"
)

// Codec encodes and decodes one version of A2A. It implements rpc.BinaryCodec. It is safe for concurrent use.
type Codec struct {
	*version
	errors100 bool
}

// version is a version of A2A, with the names that the versions do not share.
type version struct {
	number  string
	v03     bool
	service protoreflect.ServiceDescriptor
	types   map[protoreflect.Name]protoreflect.MessageType
	// methods are the names of the methods in the service, by their names in package a2a.
	methods map[string]string
	// messageField is the field of a message in a stream response, statusField in a status, requestField in a request.
	messageField, statusField, requestField protoreflect.Name
	// config is the request that registers a webhook. configs is the start of the names of the messages that list
	// webhooks.
	config, configs protoreflect.Name
	files           fileNames
	contents        string // the alternatives for the content of a part, for error messages
}

// fileNames are the fields of a file.
type fileNames struct{ name, mediaType, bytes, uri protoreflect.Name }

var v03 = newVersion(pb03.File_a2a_proto, version{
	number: jsonv03.Codec{}.Version(), v03: true,
	methods: map[string]string{
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
	},
	messageField: "msg", statusField: "update", requestField: "request",
	config: "CreateTaskPushNotificationConfigRequest", configs: "ListTaskPushNotificationConfig",
	files: fileNames{"name", "mime_type", "file_with_bytes", "file_with_uri"}, contents: "text, file, data",
})

var v10 = newVersion(pb10.File_a2av1_proto, version{
	number: jsonv10.Codec{}.Version(), methods: methods10(),
	messageField: "message", statusField: "message", requestField: "message",
	config: "TaskPushNotificationConfig", configs: "ListTaskPushNotificationConfigs",
	files: fileNames{"filename", "media_type", "raw", "url"}, contents: "text, raw, url, data",
})

func methods10() map[string]string {
	names := make(map[string]string)
	for _, m := range a2a.Methods() {
		names[m.Name] = m.NameV10
	}
	return names
}

// newVersion returns v with the service and the messages of a file.
func newVersion(file protoreflect.FileDescriptor, v version) *version {
	v.service = file.Services().ByName("A2AService")
	v.types = make(map[protoreflect.Name]protoreflect.MessageType)
	for i := range file.Messages().Len() {
		m := file.Messages().Get(i)
		found, err := protoregistry.GlobalTypes.FindMessageByName(m.FullName())
		if err != nil {
			panic(err) // the generated code has registered it
		}
		v.types[m.Name()] = found
	}
	return &v
}

// V03 returns the codec of A2A 0.3, the service a2a.v1.A2AService.
func V03() Codec { return Codec{version: v03} }

// V10 returns the codec of A2A 1.0, the service lf.a2a.v1.A2AService. errors100 selects the status codes of errors in
// A2A 1.0.0 instead of those in 1.0.1: UNIMPLEMENTED for unsupported operations and versions.
func V10(errors100 bool) Codec { return Codec{v10, errors100} }

// Service describes the service.
func (c Codec) Service() protoreflect.ServiceDescriptor { return c.service }

// Version returns the protocol version on agent cards.
func (c Codec) Version() string { return c.number }

// MethodName returns the full name of a method, "" for methods that are not part of the version.
func (c Codec) MethodName(m *a2a.Method) string {
	name := c.methods[m.Name]
	if c.service.Methods().ByName(protoreflect.Name(name)) == nil {
		return ""
	}
	return "/" + string(c.service.FullName()) + "/" + name
}

// DecodeParams decodes the request of a method into the value that v points to. Errors have the code invalid_params
// and name the field of the model in Data["field"], or parse_error.
func (c Codec) DecodeParams(raw []byte, v any) error {
	err := c.decodeParams(raw, v)
	if !c.v03 {
		return jsonv10.CheckParams(v, err)
	}
	if p, ok := v.(interface{ Validate() error }); ok && err == nil {
		err = p.Validate()
	}
	return a2a.ParamsError(err)
}

// AppendResult appends the response of a method to dst. On error it returns dst unchanged.
func (c Codec) AppendResult(dst []byte, m *a2a.Method, result any) ([]byte, error) {
	switch r := result.(type) {
	case json.RawMessage:
		if m.Name == a2a.MethodExtendedCard { // in JSON
			return c.appendCard(dst, r, nil)
		}
		return append(dst, r...), nil
	case *a2a.DeletedPushNotificationConfig:
		return dst, nil // google.protobuf.Empty
	case *a2a.TaskPushNotificationConfig:
		return c.write(dst, "TaskPushNotificationConfig", c.webhook(r))
	case *a2a.ListTaskPushNotificationConfigResult:
		return c.write(dst, c.configs+"Response", func(w writer) error {
			w.text("next_page_token", r.NextPageToken)
			for i := range r.Configs {
				_ = w.message("configs", c.webhook(&r.Configs[i])) // it has no error
			}
			return nil
		})
	case *a2a.TasksPage[json.RawMessage]:
		return c.write(append(dst, r.Tasks...), "ListTasksResponse", func(w writer) error {
			w.text("next_page_token", r.NextPageToken)
			w.int("page_size", r.PageSize)
			if r.TotalSize != nil {
				w.int("total_size", *r.TotalSize)
			}
			return nil
		})
	case a2a.Event:
		if task, ok := r.(*a2a.Task); ok && m.Name != a2a.MethodSend {
			return c.write(dst, "Task", c.task(task))
		}
		return c.AppendEvent(dst, r) // SendMessageResponse has the fields of StreamResponse
	}
	return dst, fmt.Errorf("result of %s has type %T", m.Name, result)
}

// AppendItem appends an encoded task to dst as an item of a list, where tasks have the field number
// 1.
func (Codec) AppendItem(dst, task []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, 1, protowire.BytesType), task)
}

// Canonical returns an encoding of a request that does not depend on the order in which the client encoded its fields.
// method is the full name of the method.
func (c Codec) Canonical(method string, raw []byte) []byte {
	m := c.service.Methods().ByName(protoreflect.Name(method[strings.LastIndexByte(method, '/')+1:]))
	if m == nil {
		return raw
	}
	request := c.types[m.Input().Name()].New().Interface()
	if unmarshal(raw, request) != nil {
		return raw
	}
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return raw
	}
	return out
}

// AppendEvent appends an item of a stream to dst. On error it returns dst unchanged.
func (c Codec) AppendEvent(dst []byte, e a2a.Event) ([]byte, error) {
	return c.write(dst, "StreamResponse", func(w writer) error {
		switch e := e.(type) {
		case *a2a.Task:
			return w.message("task", c.task(e))
		case *a2a.Message:
			return w.message(c.messageField, c.message(e))
		case *a2a.TaskStatusUpdateEvent:
			return w.message("status_update", c.statusUpdate(e))
		case *a2a.TaskArtifactUpdateEvent:
			return w.message("artifact_update", c.artifactUpdate(e))
		}
		return nil
	})
}

// AppendError appends the google.rpc.Status of an error to dst. Clients of A2A 0.3 and 1.0.0 read UNIMPLEMENTED where
// A2A 1.0.1 has FAILED_PRECONDITION for what the agent does not support. Clients of A2A 0.3 that also know A2A 1.0 read
// FAILED_PRECONDITION.
func (c Codec) AppendError(dst []byte, e *a2a.Error, requestID, announced string) []byte {
	code := codes.OK // means the code of A2A 1.0.1
	switch e.Code {
	case a2a.CodeUnsupported, a2a.CodePushNotSupported, a2a.CodeVersionNotSupported:
		if c.errors100 || c.v03 && !jsonv03.KnowsV10(announced) {
			code = codes.Unimplemented
		}
	default:
	}
	return appendStatus(dst, code, e, requestID)
}

// AppendCard appends an agent card to dst. On error it returns dst unchanged.
func (c Codec) AppendCard(dst []byte, card *a2a.AgentCard) ([]byte, error) {
	raw, err := jsonv10.Codec{}.AppendCard(nil, card)
	if err != nil {
		return dst, err
	}
	return c.appendCard(dst, raw, card)
}

// appendCard appends an agent card to dst. raw is its JSON. If raw lacks the members of A2A 0.3, card has them. Members
// that both versions have are in the form of A2A 1.0, because in Protocol Buffers both versions have the same structure,
// except for the name of the security requirements.
func (c Codec) appendCard(dst, raw []byte, card *a2a.AgentCard) ([]byte, error) {
	if c.v03 {
		var members map[string]any
		if err := json.Unmarshal(raw, &members); err != nil {
			return dst, err
		}
		if card != nil {
			addMembers03(members, card)
		}
		renameSecurity(members)
		skills, _ := members["skills"].([]any)
		for _, skill := range skills {
			renameSecurity(skill)
		}
		var err error
		if raw, err = json.Marshal(members); err != nil {
			return dst, err
		}
	}
	out := c.types["AgentCard"].New().Interface()
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, out); err != nil {
		return dst, err
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, out)
}

// addMembers03 adds the members that only A2A 0.3 has.
func addMembers03(members map[string]any, card *a2a.AgentCard) {
	members["protocolVersion"], members["url"], members["preferredTransport"] = v03.number, card.URL, card.PreferredTransport
	members["supportsAuthenticatedExtendedCard"] = card.SupportsAuthenticatedExtendedCard
	var interfaces []any
	for _, i := range card.AdditionalInterfaces {
		interfaces = append(interfaces, map[string]any{"url": i.URL, "transport": i.Transport})
	}
	members["additionalInterfaces"] = interfaces
}

// renameSecurity gives the security requirements of a card or of a skill their name in A2A 0.3.
func renameSecurity(object any) {
	if m, ok := object.(map[string]any); ok {
		m["security"] = m["securityRequirements"]
	}
}
