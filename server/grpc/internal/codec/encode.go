package codec

import (
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-dev/holdfast/a2a"
	jsonv03 "github.com/holdfast-dev/holdfast/a2a/v03"
	jsonv10 "github.com/holdfast-dev/holdfast/a2a/v10"
)

// The numbers of fields of A2A 1.1, which the messages of A2A 1.0 lack.
const (
	taskGeneration     = 7
	statusGeneration   = 5
	artifactGeneration = 7
	currentGeneration  = 4 // of GetTaskRequest
	ifGenerationMatch  = 5 // of SendMessageConfiguration
)

// generation sets the generation of a task, which A2A 0.3 never has.
func (v *version) generation(w writer, number protowire.Number, generation int64) {
	if !v.v03 {
		w.later(number, generation)
	}
}

func (v *version) task(t *a2a.Task) func(writer) error {
	return func(w writer) error {
		w.text("id", t.ID)
		w.text("context_id", t.ContextID)
		v.generation(w, taskGeneration, t.Generation)
		if err := v.encodeStatus(w, t.Status, t.Metadata); err != nil {
			return err
		}
		for i := range t.History {
			if err := w.message("history", v.message(&t.History[i])); err != nil {
				return atIndex("history", i, err)
			}
		}
		for i := range t.Artifacts {
			if err := w.message("artifacts", v.artifact(&t.Artifacts[i])); err != nil {
				return atIndex("artifacts", i, err)
			}
		}
		return nil
	}
}

// encodeStatus writes a status and the metadata of its task or event. If A2A lacks the state, the
// metadata has it.
func (v *version) encodeStatus(w writer, s a2a.TaskStatus, metadata map[string]any) error {
	jsonv10.EncodeState(&s.State, &metadata)
	if err := w.members("metadata", metadata); err != nil {
		return err
	}
	return w.message("status", v.status(&s))
}

// status writes a status with a state that A2A has.
func (v *version) status(s *a2a.TaskStatus) func(writer) error {
	return func(w writer) error {
		w.int("state", max(0, slices.Index(states, s.State)))
		if !s.Timestamp.IsZero() { // with milliseconds, as A2A requires
			if err := w.proto("timestamp", timestamppb.New(s.Timestamp.Truncate(time.Millisecond))); err != nil {
				return err
			}
		}
		if s.Message == nil {
			return nil
		}
		return at("status", w.message(v.statusField, v.message(s.Message)))
	}
}

func (v *version) artifact(a *a2a.Artifact) func(writer) error {
	return func(w writer) error {
		w.text("artifact_id", a.ID)
		w.text("name", a.Name)
		w.text("description", a.Description)
		w.texts("extensions", a.Extensions)
		parts, metadata := a.Parts, a.Metadata
		if !v.v03 {
			jsonv10.EncodeParts(&parts, &metadata)
		}
		if err := w.members("metadata", metadata); err != nil {
			return err
		}
		return v.encodeParts(w, parts)
	}
}

func (v *version) statusUpdate(e *a2a.TaskStatusUpdateEvent) func(writer) error {
	return func(w writer) error {
		w.text("task_id", e.TaskID)
		w.text("context_id", e.ContextID)
		w.flag("final", e.Final)
		v.generation(w, statusGeneration, e.Generation)
		return v.encodeStatus(w, e.Status, e.Metadata)
	}
}

func (v *version) artifactUpdate(e *a2a.TaskArtifactUpdateEvent) func(writer) error {
	return func(w writer) error {
		w.text("task_id", e.TaskID)
		w.text("context_id", e.ContextID)
		w.flag("append", e.Append)
		w.flag("last_chunk", e.LastChunk)
		v.generation(w, artifactGeneration, e.Generation)
		if err := w.members("metadata", e.Metadata); err != nil {
			return err
		}
		return w.message("artifact", v.artifact(&e.Artifact))
	}
}

func (v *version) message(m *a2a.Message) func(writer) error {
	return func(w writer) error {
		w.text("message_id", m.ID)
		w.text("context_id", m.ContextID)
		w.text("task_id", m.TaskID)
		w.texts("extensions", m.Extensions)
		w.texts("reference_task_ids", m.ReferenceTaskIDs)
		role, metadata := m.Role, m.Metadata
		jsonv10.EncodeRole(&role, &metadata)
		w.int("role", max(0, slices.Index(roles, role)))
		if err := w.members("metadata", metadata); err != nil {
			return err
		}
		return v.encodeParts(w, m.Parts)
	}
}

func (v *version) encodeParts(w writer, parts []a2a.Part) error {
	for i, p := range parts {
		if err := w.message("parts", v.part(p)); err != nil {
			return atIndex("parts", i, err)
		}
	}
	return nil
}

func (v *version) part(p a2a.Part) func(writer) error {
	return func(w writer) error {
		switch p := p.(type) {
		case a2a.TextPart:
			w.putText("text", p.Text)
			w.text("filename", p.Filename)
			w.text("media_type", p.MediaType)
			return w.members("metadata", p.Metadata)
		case a2a.DataPart:
			return v.encodeData(w, p)
		case a2a.FilePart:
			file := func(w writer) error { v.encodeFile(w, p.File); return nil }
			if v.v03 {
				_ = w.message("file", file)
			} else {
				_ = file(w)
			}
			return w.members("metadata", p.Metadata)
		}
		return nil
	}
}

// encodeData writes the data of a part: in A2A 0.3 an object within a message, later any value.
func (v *version) encodeData(w writer, p a2a.DataPart) error {
	if v.v03 {
		jsonv03.WrapData(&p)
	}
	data, err := fromValue(p.Data)
	switch {
	case err != nil:
		return err
	case v.v03:
		err = w.message("data", func(w writer) error { return w.proto("data", data.GetStructValue()) })
	default:
		err = w.proto("data", data)
	}
	if err != nil {
		return err
	}
	w.text("filename", p.Filename)
	w.text("media_type", p.MediaType)
	return w.members("metadata", p.Metadata)
}

func (v *version) encodeFile(w writer, file a2a.File) {
	name, mediaType := file.Info()
	w.text(v.files.name, name)
	w.text(v.files.mediaType, mediaType)
	switch f := file.(type) {
	case a2a.FileWithBytes:
		w.putBytes(v.files.bytes, f.Bytes)
	case a2a.FileWithURI:
		w.putText(v.files.uri, f.URI)
	}
}

func (v *version) webhook(c *a2a.TaskPushNotificationConfig) func(writer) error {
	config := func(w writer) error {
		w.text("id", c.Config.ID)
		w.text("task_id", c.TaskID)
		w.text("url", c.Config.URL)
		w.text("token", c.Config.Token)
		schemes, credentials := authentication(c.Config.Authentication)
		if len(schemes) == 0 {
			return nil
		}
		return w.message("authentication", func(w writer) error {
			w.texts("schemes", schemes)
			w.text("scheme", schemes[0])
			w.text("credentials", credentials)
			return nil
		})
	}
	if !v.v03 {
		return config
	}
	return func(w writer) error {
		w.text("name", tasksPrefix+c.TaskID+configsMiddle+c.Config.ID)
		return w.message("push_notification_config", config)
	}
}

// authentication returns the schemes and the credentials of a webhook.
func authentication(a a2a.PushAuthentication) (schemes []string, credentials string) {
	switch a := a.(type) {
	case a2a.PushNotificationAuthenticationInfo:
		return a.Schemes, a.Credentials
	case a2a.HTTPAuthSecurityScheme:
		return []string{a.Scheme}, ""
	case a2a.SecurityScheme:
		return []string{a.SchemeType()}, ""
	}
	return nil, ""
}
