package push

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// eventTime is how times are told in events: ISO 8601 in UTC with microseconds.
const eventTime = "2006-01-02T15:04:05.000000+00:00"

// eventPayload is what is told as [a2a.PayloadEvent], in snake_case throughout.
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

// eventPart is an [a2a.TextPart], an [a2a.DataPart], which have the same members in
// both spellings, or an eventFilePart.
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

// told is an event of a task that a webhook is told of.
type told struct {
	id        string
	sequence  int64
	task      *store.Task // as it stood after the event; nil unless the payload needs it
	taskID    string
	contextID string
	event     *store.Event
}

// payload returns what is sent.
func (t *told) payload(format a2a.PayloadFormat) (body []byte, err error) {
	switch format {
	case a2a.PayloadTask:
		body, err = wire.Marshal(taskOf(t.task))
	case a2a.PayloadStreamResponse:
		body, err = t.streamResponse()
	default:
		body, err = wire.Marshal(t.envelope())
	}
	if err != nil {
		return nil, fmt.Errorf("event %d: %w", t.event.Seq, err)
	}
	return body, nil
}

// contentType returns the media type of payloads.
func contentType(format a2a.PayloadFormat) string {
	if format == a2a.PayloadStreamResponse {
		return "application/a2a+json"
	}
	return "application/json"
}

func (t *told) envelope() *eventPayload {
	e := t.event
	at := e.Time.UTC().Format(eventTime)
	out := &eventPayload{
		EventID: t.id, Sequence: t.sequence, Timestamp: at, Kind: "status-update", TaskID: t.taskID, ContextID: t.contextID,
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
		told := eventFilePart{Text: file.Text, Metadata: file.Metadata, Embeddings: file.Embeddings}
		told.File.Name, told.File.MimeType = file.File.Info()
		switch f := file.File.(type) {
		case a2a.FileWithBytes:
			told.File.Bytes, told.File.Embeddings = &f.Bytes, f.Embeddings
		case a2a.FileWithURI:
			told.File.URI, told.File.Embeddings = f.URI, f.Embeddings
		}
		out[i] = told
	}
	return out
}

func (t *told) streamResponse() ([]byte, error) {
	e := t.event
	if e.Artifact != nil {
		return v10.ArtifactUpdate(&a2a.TaskArtifactUpdateEvent{
			TaskID: t.taskID, ContextID: t.contextID, Artifact: *e.Artifact, Append: e.Append, LastChunk: e.LastChunk, Metadata: e.Metadata,
		})
	}
	return v10.StatusUpdate(&a2a.TaskStatusUpdateEvent{
		TaskID: t.taskID, ContextID: t.contextID, Metadata: e.Metadata,
		Status: a2a.TaskStatus{State: e.State, Message: e.Message, Timestamp: e.Time},
	})
}

// taskOf tells a task in A2A's words.
func taskOf(t *store.Task) *a2a.Task {
	out := &a2a.Task{ID: t.Key.ID, ContextID: t.ContextID, Status: t.Status, Metadata: t.Metadata, Artifacts: t.Artifacts}
	for i := range t.History {
		out.History = append(out.History, t.History[i].Message)
	}
	return out
}
