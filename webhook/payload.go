package webhook

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// eventTimeFormat is the format of times in events: ISO 8601 in UTC with microseconds.
const eventTimeFormat = "2006-01-02T15:04:05.000000+00:00"

// eventPayload is the body of [a2a.PayloadEvent], with all members in snake_case.
type eventPayload struct {
	EventID   string         `json:"event_id"`
	Sequence  int64          `json:"sequence"`
	Timestamp string         `json:"timestamp"`
	Kind      string         `json:"kind"`
	TaskID    string         `json:"task_id"`
	ContextID string         `json:"context_id"`
	Status    *eventStatus   `json:"status,omitempty"`
	Artifact  *eventArtifact `json:"artifact,omitempty"`
	Append    bool           `json:"append,omitempty"`
	LastChunk bool           `json:"last_chunk,omitempty"`
	Final     *bool          `json:"final,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`
}

type eventStatus struct {
	State     a2a.TaskState `json:"state"`
	Timestamp string        `json:"timestamp"`
	Message   *eventMessage `json:"message,omitempty"`
}

type eventMessage struct {
	Role             a2a.Role       `json:"role"`
	_                struct{}       `wire:"const=kind:message"`
	ID               string         `json:"message_id,omitempty"`
	TaskID           string         `json:"task_id,omitempty"`
	ContextID        string         `json:"context_id,omitempty"`
	Parts            []eventPart    `json:"parts"`
	ReferenceTaskIDs []string       `json:"reference_task_ids,omitempty"`
	Extensions       []string       `json:"extensions,omitempty"`
	Metadata         map[string]any `json:"metadata,omitempty"`
}

type eventArtifact struct {
	ID          string         `json:"artifact_id"`
	Name        string         `json:"name,omitempty"`
	Description string         `json:"description,omitempty"`
	Parts       []eventPart    `json:"parts"`
	Extensions  []string       `json:"extensions,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"`
}

// eventPart is an [a2a.TextPart], an [a2a.DataPart] or an eventFilePart. The members of the
// first two are the same in snake_case and camelCase.
type eventPart interface{ Kind() a2a.PartKind }

var _ = wire.Union("kind", map[string]eventPart{
	string(a2a.KindText): a2a.TextPart{}, string(a2a.KindData): a2a.DataPart{}, string(a2a.KindFile): eventFilePart{},
})

type eventFilePart struct {
	_          struct{}       `wire:"const=kind:file"`
	File       eventFile      `json:"file"`
	Text       string         `json:"text,omitempty"`
	Metadata   map[string]any `json:"metadata,omitempty"`
	Embeddings []float64      `json:"embeddings,omitempty"`
}

// eventFile has exactly one of Bytes and URI.
type eventFile struct {
	Name       string    `json:"name,omitempty"`
	MimeType   string    `json:"mime_type,omitempty"`
	Bytes      *[]byte   `json:"bytes,omitempty"`
	URI        string    `json:"uri,omitempty"`
	Embeddings []float64 `json:"embeddings,omitempty"`
}

// Kind returns [a2a.KindFile].
func (eventFilePart) Kind() a2a.PartKind { return a2a.KindFile }

// update is an event of a task to be sent to a webhook.
type update struct {
	id        string
	sequence  int64
	task      *a2a.Task // state after the event; nil unless the format is PayloadTask
	taskID    string
	contextID string
	event     *store.Event
}

// payload returns the request body in a format.
func (u *update) payload(format a2a.PayloadFormat) (body []byte, err error) {
	switch format {
	case a2a.PayloadTask:
		body, err = v03.Codec{}.AppendEvent(nil, u.task)
	case a2a.PayloadStreamResponse:
		body, err = u.streamResponse()
	default:
		body, err = wire.Marshal(u.envelope())
	}
	if err != nil {
		return nil, fmt.Errorf("event %d: %w", u.event.Seq, err)
	}
	return body, nil
}

// contentType returns the media type of bodies in a format.
func contentType(format a2a.PayloadFormat) string {
	if format == a2a.PayloadStreamResponse {
		return "application/a2a+json"
	}
	return "application/json"
}

func (u *update) envelope() *eventPayload {
	e := u.event
	at := e.Time.UTC().Format(eventTimeFormat)
	out := &eventPayload{
		EventID: u.id, Sequence: u.sequence, Timestamp: at, Kind: "status-update", TaskID: u.taskID, ContextID: u.contextID,
		Metadata: e.Metadata,
	}
	if e.Artifact != nil {
		out.Kind, out.Append, out.LastChunk = "artifact-update", e.Append, e.LastChunk
		out.Artifact = &eventArtifact{
			ID: e.Artifact.ID, Name: e.Artifact.Name, Description: e.Artifact.Description,
			Parts: eventParts(e.Artifact.Parts), Extensions: e.Artifact.Extensions, Metadata: e.Artifact.Metadata,
		}
		return out
	}
	final := e.State.Terminal()
	out.Final = &final
	out.Status = &eventStatus{State: e.State, Timestamp: at}
	if m := e.Message; m != nil {
		out.Status.Message = &eventMessage{
			Role: m.Role, ID: m.ID, TaskID: m.TaskID, ContextID: m.ContextID, Parts: eventParts(m.Parts),
			ReferenceTaskIDs: m.ReferenceTaskIDs, Extensions: m.Extensions, Metadata: m.Metadata,
		}
	}
	return out
}

func eventParts(parts []a2a.Part) []eventPart {
	out := make([]eventPart, len(parts))
	for i, p := range parts {
		out[i] = p
		file, ok := p.(a2a.FilePart)
		if !ok {
			continue
		}
		part := eventFilePart{Text: file.Text, Metadata: file.Metadata, Embeddings: file.Embeddings}
		part.File.Name, part.File.MimeType = file.File.Info()
		switch f := file.File.(type) {
		case a2a.FileWithBytes:
			part.File.Bytes, part.File.Embeddings = &f.Bytes, f.Embeddings
		case a2a.FileWithURI:
			part.File.URI, part.File.Embeddings = f.URI, f.Embeddings
		}
		out[i] = part
	}
	return out
}

func (u *update) streamResponse() ([]byte, error) {
	e := u.event
	var item a2a.Event = &a2a.TaskStatusUpdateEvent{
		TaskID: u.taskID, ContextID: u.contextID, Metadata: e.Metadata,
		Status: a2a.TaskStatus{State: e.State, Message: e.Message, Timestamp: e.Time},
	}
	if e.Artifact != nil {
		item = &a2a.TaskArtifactUpdateEvent{
			TaskID: u.taskID, ContextID: u.contextID, Artifact: *e.Artifact, Append: e.Append, LastChunk: e.LastChunk, Metadata: e.Metadata,
		}
	}
	return v10.Codec{}.AppendEvent(nil, item)
}

// taskOf converts a stored task to an A2A task.
func taskOf(t *store.Task) *a2a.Task {
	out := &a2a.Task{ID: t.Key.ID, ContextID: t.ContextID, Status: t.Status, Metadata: t.Metadata, Artifacts: t.Artifacts}
	for i := range t.History {
		out.History = append(out.History, t.History[i].Message)
	}
	return out
}
