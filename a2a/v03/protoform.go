package v03

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// The forms of ProtoJSON: strict without the members of extensions, extended with them. Both
// decode them. Only params reject data that official clients cannot send.
var (
	protoStrict   = newProtoForm(false, func(any) error { return nil })
	protoExtended = newProtoForm(true, func(any) error { return nil })
	protoParams   = newProtoForm(true, checkData)
)

// The states and roles of the Protocol Buffers by their numbers.
var (
	protoStates = []a2a.TaskState{
		a2a.StateUnknown, a2a.StateSubmitted, a2a.StateWorking, a2a.StateCompleted, a2a.StateFailed,
		a2a.StateCanceled, a2a.StateInputRequired, a2a.StateRejected, a2a.StateAuthRequired,
	}
	protoStateNames = []string{
		"TASK_STATE_UNSPECIFIED", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED", "TASK_STATE_FAILED",
		"TASK_STATE_CANCELLED", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_REJECTED", "TASK_STATE_AUTH_REQUIRED",
	}
	protoRoles     = []a2a.Role{"", a2a.RoleUser, a2a.RoleAgent}
	protoRoleNames = []string{"ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"}
	protoEvents    = map[string]a2a.Event{
		"task": (*a2a.Task)(nil), "message": (*a2a.Message)(nil),
		"statusUpdate": (*a2a.TaskStatusUpdateEvent)(nil), "artifactUpdate": (*a2a.TaskArtifactUpdateEvent)(nil),
	}
)

// newProtoForm returns a form. The tags v03 of the model describe most differences from the JSON of
// [Codec]; the conversions here implement the others.
func newProtoForm(extended bool, check func(any) error) *wire.Form {
	f := wire.NewProtoForm("v03", extended)
	wire.EnumIn(f, protoStateNames, protoStates, a2a.TaskState("").EnumValues()...)
	wire.EnumIn(f, protoRoleNames, protoRoles, a2a.Role("").EnumValues()...)
	wire.WrapIn(f, map[string]a2a.SendMessageResult{"task": (*a2a.Task)(nil), "message": (*a2a.Message)(nil)})
	wire.WrapIn(f, protoEvents)
	wire.Convert(f, encodeProtoPart, func(w *protoPart, m *a2a.Part) error { return w.decode(m, check) })
	wire.Convert(f, encodeMessage, decodeMessage)
	wire.Convert(f, func(m, w *a2a.Task) {
		*w = *m
		v10.EncodeState(&w.Status.State, &w.Metadata)
	}, func(w, m *a2a.Task) error {
		*m = *w
		v10.DecodeState(&m.Status.State, &m.Metadata)
		return nil
	})
	wire.Convert(f, func(m, w *a2a.TaskStatusUpdateEvent) {
		*w = *m
		v10.EncodeState(&w.Status.State, &w.Metadata)
	}, func(w, m *a2a.TaskStatusUpdateEvent) error {
		*m = *w
		v10.DecodeState(&m.Status.State, &m.Metadata)
		return nil
	})
	convertProtoParams(f)
	convertProtoPush(f)
	return f
}

// protoPart is a Part, which has exactly one of Text, File and Data.
type protoPart struct {
	Text     *string        `json:"text,omitempty" wire:"text"`
	File     *protoFile     `json:"file,omitempty"`
	Data     *any           `json:"data,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`

	Caption    string    `json:"caption,omitempty" wire:"text,ext"`
	Embeddings []float64 `json:"embeddings,omitempty" wire:"ext"`
	Filename   string    `json:"filename,omitempty" wire:"ext"`
	MediaType  string    `json:"mediaType,omitempty" wire:"ext"`

	// Kind is only in the JSON of Codec, where Data is the data itself and the text of other
	// parts is their caption.
	Kind a2a.PartKind `json:"kind,omitempty"`

	// The values that the pointers refer to while a part is encoded.
	text string
	file protoFile
	data any
}

// protoFile is a FilePart, which has URI or Bytes. The aliases are of the JSON of Codec.
type protoFile struct {
	URI      *string `json:"fileWithUri,omitempty" wire:"alias=uri,alias=url"`
	Bytes    *[]byte `json:"fileWithBytes,omitempty" wire:"alias=bytes"`
	MimeType string  `json:"mimeType,omitempty"`
	Name     string  `json:"name,omitempty"`

	Embeddings []float64 `json:"embeddings,omitempty" wire:"ext"`

	uri   string
	bytes []byte
}

func encodeProtoPart(m *a2a.Part, w *protoPart) {
	switch p := (*m).(type) {
	case a2a.TextPart:
		w.text, w.Text = p.Text, &w.text
		w.Metadata, w.Embeddings, w.Filename, w.MediaType = p.Metadata, p.Embeddings, p.Filename, p.MediaType
	case a2a.DataPart:
		WrapData(&p)
		w.data = map[string]any{"data": p.Data}
		w.Data, w.Metadata, w.Embeddings, w.Caption, w.Filename, w.MediaType = &w.data, p.Metadata, p.Embeddings, p.Text, p.Filename, p.MediaType
	case a2a.FilePart:
		w.File, w.Metadata, w.Embeddings, w.Caption = &w.file, p.Metadata, p.Embeddings, p.Text
		switch f := p.File.(type) {
		case a2a.FileWithBytes:
			w.file = protoFile{MimeType: f.MimeType, Name: f.Name, Embeddings: f.Embeddings, bytes: f.Bytes}
			w.file.Bytes = &w.file.bytes
		case a2a.FileWithURI:
			w.file = protoFile{MimeType: f.MimeType, Name: f.Name, Embeddings: f.Embeddings, uri: f.URI}
			w.file.URI = &w.file.uri
		}
	}
}

// decode sets m to the part. check checks the data of a part.
func (w *protoPart) decode(m *a2a.Part, check func(any) error) error {
	if w.Text != nil && (w.Kind == a2a.KindFile || w.Kind == a2a.KindData) {
		w.Caption, w.Text = *w.Text, nil
	}
	found := 0
	if w.Text != nil {
		found++
		*m = a2a.TextPart{Text: *w.Text, Metadata: w.Metadata, Embeddings: w.Embeddings, Filename: w.Filename, MediaType: w.MediaType}
	}
	if w.Data != nil {
		found++
		p := a2a.DataPart{Data: *w.Data, Metadata: w.Metadata, Text: w.Caption, Embeddings: w.Embeddings, Filename: w.Filename, MediaType: w.MediaType}
		if object, ok := p.Data.(map[string]any); ok && w.Kind == "" {
			if inner, ok := object["data"]; ok {
				p.Data = inner
			}
		}
		UnwrapData(&p)
		if err := check(p.Data); err != nil {
			return err
		}
		*m = p
	}
	if w.File != nil {
		found++
		file, err := w.File.decode()
		if err != nil {
			return err
		}
		*m = a2a.FilePart{File: file, Metadata: w.Metadata, Text: w.Caption, Embeddings: w.Embeddings}
	}
	if found != 1 {
		return &wire.Error{Rule: "must have exactly one of text, file, data"}
	}
	return nil
}

// decode returns the file. Some clients send an empty URI beside the bytes.
func (w *protoFile) decode() (a2a.File, error) {
	switch {
	case w.Bytes != nil && (w.URI == nil || *w.URI == ""):
		return a2a.FileWithBytes{Name: w.Name, MimeType: w.MimeType, Bytes: *w.Bytes, Embeddings: w.Embeddings}, nil
	case w.Bytes == nil && w.URI != nil:
		return a2a.FileWithURI{Name: w.Name, MimeType: w.MimeType, URI: *w.URI, Embeddings: w.Embeddings}, nil
	}
	return nil, &wire.Error{Path: "file", Rule: "must have exactly one of fileWithUri, fileWithBytes"}
}

func convertProtoParams(f *wire.Form) {
	noLimit := func(length *int) *int {
		if length != nil && *length == 0 {
			return nil
		}
		return length
	}
	wire.Convert(f, func(m, w *a2a.TaskQueryParams) { *w = *m }, func(w, m *a2a.TaskQueryParams) error {
		*m = *w
		m.HistoryLength = noLimit(m.HistoryLength)
		return nil
	})
	wire.Convert(f, func(m, w *a2a.MessageSendConfiguration) { *w = *m }, func(w, m *a2a.MessageSendConfiguration) error {
		*m = *w
		m.HistoryLength = noLimit(m.HistoryLength)
		return nil
	})
	// A filter by a state of the Protocol Buffers selects all states that are mapped to it.
	wire.Convert(f, func(m, w *a2a.ListTasksParams) {
		*w = *m
		w.States = nil
		for _, s := range m.States {
			if s = v10.Standard(s); !slices.Contains(w.States, s) {
				w.States = append(w.States, s)
			}
		}
		if m.Status != "" {
			w.Status = v10.Standard(m.Status)
		}
	}, func(w, m *a2a.ListTasksParams) error {
		*m = *w
		m.States, m.Status = nil, ""
		given := w.States
		if w.Status != "" {
			given = append([]a2a.TaskState{w.Status}, given...)
		}
		for _, s := range given {
			shown := v10.ShownAs(s)
			if len(shown) == 0 {
				shown = []a2a.TaskState{s}
			}
			for _, s := range shown {
				if !slices.Contains(m.States, s) {
					m.States = append(m.States, s)
				}
			}
		}
		return nil
	})
}

// protoAuthentication is an AuthenticationInfo.
type protoAuthentication struct {
	Schemes     []string `json:"schemes,omitempty"`
	Credentials string   `json:"credentials,omitempty"`
}

// protoConfig is a TaskPushNotificationConfig. Name is tasks/ID/pushNotificationConfigs/ID.
type protoConfig struct {
	Name        string                      `json:"name,omitempty"`
	Config      *a2a.PushNotificationConfig `json:"pushNotificationConfig,omitempty"`
	LongRunning bool                        `json:"longRunning,omitempty" wire:"ext"`

	// The following members are of requests: of a CreateTaskPushNotificationConfigRequest, and
	// TaskID of the JSON of Codec.

	Parent   string       `json:"parent,omitempty"`
	ConfigID string       `json:"configId,omitempty"`
	Request  *protoConfig `json:"config,omitempty"`
	TaskID   string       `json:"taskId,omitempty" wire:"alias=id"`
}

func convertProtoPush(f *wire.Form) {
	wire.Convert(f, func(m *a2a.PushAuthentication, w *protoAuthentication) {
		switch a := (*m).(type) {
		case a2a.PushNotificationAuthenticationInfo:
			w.Schemes, w.Credentials = a.Schemes, a.Credentials
		case a2a.HTTPAuthSecurityScheme:
			w.Schemes = []string{a.Scheme}
		case a2a.SecurityScheme:
			w.Schemes = []string{a.SchemeType()}
		}
	}, func(w *protoAuthentication, m *a2a.PushAuthentication) error {
		*m = nil
		if len(w.Schemes) > 0 || w.Credentials != "" {
			*m = a2a.PushNotificationAuthenticationInfo{Schemes: w.Schemes, Credentials: w.Credentials}
		}
		return nil
	})
	wire.Convert(f, func(m *a2a.TaskPushNotificationConfig, w *protoConfig) {
		w.Name = "tasks/" + m.TaskID + configsSegment + m.Config.ID
		w.Config, w.LongRunning = &m.Config, m.LongRunning
	}, (*protoConfig).decode)
}

const configsSegment = "/pushNotificationConfigs/"

func (w *protoConfig) decode(m *a2a.TaskPushNotificationConfig) error {
	given, path := w, "pushNotificationConfig"
	if w.Request != nil && w.Config == nil {
		given, path = w.Request, "config.pushNotificationConfig"
	}
	if given.Config == nil {
		return &wire.Error{Path: path, Rule: "is required"}
	}
	*m = a2a.TaskPushNotificationConfig{TaskID: w.TaskID, Config: *given.Config, LongRunning: given.LongRunning}
	named, configID, _ := strings.Cut(strings.TrimPrefix(cmp.Or(given.Name, w.Parent), "tasks/"), configsSegment)
	if m.TaskID = cmp.Or(m.TaskID, named); m.TaskID == "" {
		return &wire.Error{Path: "name", Rule: "is required"}
	}
	if named != "" && named != m.TaskID {
		return &wire.Error{Path: "name", Rule: "names another task than the path"}
	}
	m.Config.ID = cmp.Or(m.Config.ID, w.ConfigID, configID)
	return nil
}
