package codec

import (
	"cmp"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-dev/holdfast/a2a"
	jsonv03 "github.com/holdfast-dev/holdfast/a2a/v03"
	jsonv10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

func (v *version) decodeParams(raw []byte, params any) error {
	o := object{v.types[v.requestOf(params)].New()}
	if err := unmarshal(raw, o.Interface()); err != nil {
		return err
	}
	switch p := params.(type) {
	case *a2a.MessageSendParams:
		return v.sendParams(o, p)
	case *a2a.TaskQueryParams:
		p.HistoryLength = o.int("history_length")
		if !v.v03 {
			p.CurrentGeneration = o.later(currentGeneration)
		}
		return v.taskID(o, &p.ID)
	case *a2a.ListTasksParams:
		return v.listParams(o, p)
	case *a2a.TaskIDParams:
		if err := v.taskID(o, &p.ID); err != nil {
			return err
		}
		var err error
		p.Metadata, err = o.members("metadata")
		return err
	case *a2a.TaskPushNotificationConfig:
		return v.configParams(o, p)
	case *a2a.GetTaskPushNotificationConfigParams:
		if err := v.configID(o, &p.TaskID, &p.ConfigID); err != nil || v.v03 || p.ConfigID != "" {
			return err
		}
		return fieldError("id", "is required")
	case *a2a.ListTaskPushNotificationConfigParams:
		return v.listConfigsParams(o, p)
	case *a2a.DeleteTaskPushNotificationConfigParams:
		return v.configID(o, &p.TaskID, &p.ConfigID)
	}
	return nil // the method without params
}

// requestOf returns the name of the request with params. Resubscribe requests have the same fields as cancel requests.
func (v *version) requestOf(params any) protoreflect.Name {
	switch params.(type) {
	case *a2a.MessageSendParams:
		return "SendMessageRequest"
	case *a2a.TaskQueryParams:
		return "GetTaskRequest"
	case *a2a.ListTasksParams:
		return "ListTasksRequest"
	case *a2a.TaskIDParams:
		return "CancelTaskRequest"
	case *a2a.TaskPushNotificationConfig:
		return v.config
	case *a2a.GetTaskPushNotificationConfigParams:
		return "GetTaskPushNotificationConfigRequest"
	case *a2a.ListTaskPushNotificationConfigParams:
		return v.configs + "Request"
	case *a2a.DeleteTaskPushNotificationConfigParams:
		return "DeleteTaskPushNotificationConfigRequest"
	}
	return protoreflect.Name(v.methods[a2a.MethodExtendedCard] + "Request")
}

const (
	tasksPrefix   = "tasks/"
	configsMiddle = "/pushNotificationConfigs/"
)

// taskName returns the id in the resource name of a task.
func taskName(field, name string) (id string, err error) {
	id, ok := strings.CutPrefix(name, tasksPrefix)
	if !ok || id == "" {
		return "", fieldError(field, "is "+a2a.Quote(name)+", want tasks/{id}")
	}
	return id, nil
}

// configName returns the ids in the resource name of a webhook. config is "" if the name is the name of a task.
func configName(name string) (task, config string, err error) {
	if i := strings.LastIndex(name, configsMiddle); i >= 0 {
		name, config = name[:i], name[i+len(configsMiddle):]
	}
	if task, err = taskName("name", name); err != nil {
		err = fieldError("name", "must be tasks/{id}/pushNotificationConfigs/{id}")
	}
	return task, config, err
}

func fieldError(field, rule string) error { return &wire.Error{Path: field, Rule: rule} }

// taskID decodes the id of the task that a request names.
func (v *version) taskID(o object, id *string) (err error) {
	if v.v03 {
		*id, err = taskName("name", o.text("name"))
		return err
	}
	*id = o.text("id")
	return nil
}

// configID decodes the ids of the webhook that a request names.
func (v *version) configID(o object, task, config *string) (err error) {
	if v.v03 {
		*task, *config, err = configName(o.text("name"))
		return err
	}
	*task, *config = o.text("task_id"), o.text("id")
	return nil
}

func (v *version) sendParams(o object, p *a2a.MessageSendParams) error {
	if !o.has(v.requestField) {
		return fieldError("message", "is required")
	}
	if err := v.decodeMessage(o.object(v.requestField), &p.Message); err != nil {
		return at("message", err)
	}
	if !v.v03 {
		p.Configuration = &a2a.MessageSendConfiguration{Blocking: true}
	}
	if o.has("configuration") {
		p.Configuration = v.sendConfiguration(o.object("configuration"))
	}
	var err error
	p.Metadata, err = o.members("metadata")
	return err
}

func (v *version) sendConfiguration(o object) *a2a.MessageSendConfiguration {
	c := &a2a.MessageSendConfiguration{
		AcceptedOutputModes: o.texts("accepted_output_modes"), Blocking: o.flag("blocking"), HistoryLength: o.int("history_length"),
	}
	push := protoreflect.Name("push_notification")
	if !v.v03 {
		c.Blocking, c.IfGenerationMatch = !o.flag("return_immediately"), o.later(ifGenerationMatch)
		push = "task_push_notification_config"
	}
	if o.has(push) {
		config := v.decodeConfig(o.object(push))
		c.PushNotificationConfig = &config
	}
	return c
}

// listParams decodes a ListTasksRequest. Official clients send the page size 0 for the default.
func (v *version) listParams(o object, p *a2a.ListTasksParams) error {
	p.ContextID, p.PageToken = o.text("context_id"), o.text("page_token")
	p.PageSize, p.HistoryLength = o.nonZero("page_size"), o.int("history_length")
	p.IncludeArtifacts, p.IncludeTotal = o.flag("include_artifacts"), true
	if n := o.enum("status"); n != 0 {
		if n < 0 || n >= len(states) {
			return fieldError("status", fmt.Sprintf("is %d, which is not a TaskState", n))
		}
		p.States = jsonv10.ShownAs(states[n])
	}
	field, path := protoreflect.Name("status_timestamp_after"), "statusTimestampAfter"
	if v.v03 {
		field, path = "last_updated_time", "lastUpdatedTime"
	}
	if !o.has(field) {
		return nil
	}
	t := o.object(field).Interface().(*timestamppb.Timestamp)
	if t.CheckValid() != nil {
		return fieldError(path, "must be a time from year 1 to 9999")
	}
	p.StatusAfter = t.AsTime()
	return nil
}

// configParams decodes a webhook to register. In A2A 0.3 its id is a field of the request or of the webhook.
func (v *version) configParams(o object, p *a2a.TaskPushNotificationConfig) (err error) {
	if !v.v03 {
		p.TaskID, p.Config = o.text("task_id"), v.decodeConfig(o)
		return nil
	}
	if p.TaskID, err = taskName("parent", o.text("parent")); err != nil {
		return err
	}
	p.Config = v.decodeConfig(o.object("config").object("push_notification_config"))
	p.Config.ID = cmp.Or(o.text("config_id"), p.Config.ID)
	return nil
}

func (v *version) listConfigsParams(o object, p *a2a.ListTaskPushNotificationConfigParams) (err error) {
	if v.v03 {
		p.TaskID, err = taskName("parent", o.text("parent"))
		return err
	}
	p.TaskID, p.PageToken = o.text("task_id"), o.text("page_token")
	if n := o.int("page_size"); n != nil {
		p.PageSize = *n
	}
	return nil
}

func (v *version) decodeConfig(o object) a2a.PushNotificationConfig {
	c := a2a.PushNotificationConfig{ID: o.text("id"), URL: o.text("url"), Token: o.text("token")}
	if o.has("authentication") {
		auth := o.object("authentication")
		info := a2a.PushNotificationAuthenticationInfo{Schemes: auth.texts("schemes"), Credentials: auth.text("credentials")}
		if !v.v03 {
			info.Schemes = []string{auth.text("scheme")}
		}
		c.Authentication = info
	}
	return c
}

func (v *version) decodeMessage(o object, m *a2a.Message) (err error) {
	role := o.enum("role")
	if role < 0 || role >= len(roles) {
		return fieldError("role", fmt.Sprintf("is %d, which is not a Role", role))
	}
	*m = a2a.Message{
		ID: o.text("message_id"), ContextID: o.text("context_id"), TaskID: o.text("task_id"), Role: roles[role],
		Extensions: o.texts("extensions"), ReferenceTaskIDs: o.texts("reference_task_ids"),
	}
	if m.Metadata, err = o.members("metadata"); err != nil {
		return err
	}
	jsonv10.DecodeRole(&m.Role, &m.Metadata)
	list := o.Get(o.field("parts")).List()
	if list.Len() > 0 {
		m.Parts = make([]a2a.Part, list.Len())
	}
	for i := range m.Parts {
		if m.Parts[i], err = v.decodePart(object{list.Get(i).Message()}); err != nil {
			return atIndex("parts", i, err)
		}
	}
	return nil
}

func (v *version) decodePart(o object) (a2a.Part, error) {
	metadata, err := o.members("metadata")
	if err != nil {
		return nil, err
	}
	content := o.content()
	if content == nil {
		return nil, &wire.Error{Rule: "must have exactly one of " + v.contents}
	}
	name, mediaType := o.text("filename"), o.text("media_type")
	switch content.Name() {
	case "text":
		return a2a.TextPart{Text: o.text("text"), Metadata: metadata, Filename: name, MediaType: mediaType}, nil
	case "data":
		if v.v03 {
			return decodeData03(o, metadata)
		}
		data, err := value(o.object("data").Interface().(*structpb.Value), 1)
		return a2a.DataPart{Data: data, Metadata: metadata, Filename: name, MediaType: mediaType}, at("data", err)
	case "file":
		file, err := v.decodeFile(o.object("file"))
		return a2a.FilePart{File: file, Metadata: metadata}, at("file", err)
	default:
		file, err := v.decodeFile(o)
		return a2a.FilePart{File: file, Metadata: metadata}, err
	}
}

// decodeData03 decodes the data of a part of A2A 0.3, which is an object.
func decodeData03(o object, metadata map[string]any) (a2a.Part, error) {
	data, err := o.object("data").members("data")
	if err != nil {
		return nil, err
	}
	if data == nil {
		data = map[string]any{}
	}
	part := a2a.DataPart{Data: data, Metadata: metadata}
	jsonv03.UnwrapData(&part)
	return part, nil
}

func (v *version) decodeFile(o object) (a2a.File, error) {
	name, mediaType, content := o.text(v.files.name), o.text(v.files.mediaType), o.content()
	switch {
	case content == nil:
		return nil, &wire.Error{Rule: fmt.Sprintf("must have exactly one of %s, %s", v.files.bytes, v.files.uri)}
	case content.Name() == v.files.bytes:
		return a2a.FileWithBytes{Name: name, MimeType: mediaType, Bytes: o.Get(content).Bytes()}, nil
	default:
		return a2a.FileWithURI{Name: name, MimeType: mediaType, URI: o.text(v.files.uri)}, nil
	}
}

// The states and roles of the model by the numbers of the enums.
var (
	states = []a2a.TaskState{
		a2a.StateUnknown, a2a.StateSubmitted, a2a.StateWorking, a2a.StateCompleted, a2a.StateFailed,
		a2a.StateCanceled, a2a.StateInputRequired, a2a.StateRejected, a2a.StateAuthRequired,
	}
	roles = []a2a.Role{"", a2a.RoleUser, a2a.RoleAgent}
)
