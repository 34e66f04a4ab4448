package v10

import (
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// streamResponse is a StreamResponse of A2A 1.0. Its only member identifies its type.
type streamResponse struct {
	StatusUpdate   *statusUpdate   `json:"statusUpdate,omitempty"`
	ArtifactUpdate *artifactUpdate `json:"artifactUpdate,omitempty"`
}

type statusUpdate struct {
	TaskID    string         `json:"taskId"`
	ContextID string         `json:"contextId"`
	Status    status         `json:"status"`
	Metadata  map[string]any `json:"metadata,omitempty"`
}

type status struct {
	State     string    `json:"state"`
	Message   *message  `json:"message,omitempty"`
	Timestamp time.Time `json:"timestamp,omitempty"`
}

type message struct {
	ID               string         `json:"messageId"`
	ContextID        string         `json:"contextId,omitempty"`
	TaskID           string         `json:"taskId,omitempty"`
	Role             string         `json:"role"`
	Parts            []part         `json:"parts"`
	Metadata         map[string]any `json:"metadata,omitempty"`
	Extensions       []string       `json:"extensions,omitempty"`
	ReferenceTaskIDs []string       `json:"referenceTaskIds,omitempty"`
}

type artifactUpdate struct {
	TaskID    string         `json:"taskId"`
	ContextID string         `json:"contextId"`
	Artifact  artifact       `json:"artifact"`
	Append    bool           `json:"append,omitempty"`
	LastChunk bool           `json:"lastChunk,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`
}

type artifact struct {
	ID          string         `json:"artifactId"`
	Name        string         `json:"name,omitempty"`
	Description string         `json:"description,omitempty"`
	Parts       []part         `json:"parts"`
	Metadata    map[string]any `json:"metadata,omitempty"`
	Extensions  []string       `json:"extensions,omitempty"`
}

// part has exactly one of Text, Raw, URL and Data.
type part struct {
	Text      *string        `json:"text,omitempty"`
	Raw       *[]byte        `json:"raw,omitempty"`
	URL       string         `json:"url,omitempty"`
	Data      *any           `json:"data,omitempty"`
	Filename  string         `json:"filename,omitempty"`
	MediaType string         `json:"mediaType,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`
}

// StatusUpdate returns a status update as a StreamResponse of A2A 1.0. Captions, embeddings
// and the final flag are omitted, because A2A 1.0 has no members for them.
func StatusUpdate(u *a2a.TaskStatusUpdateEvent) ([]byte, error) {
	out := statusUpdate{TaskID: u.TaskID, ContextID: u.ContextID, Status: status{Timestamp: u.Status.Timestamp}}
	out.Status.State, out.Metadata = State(u.Status.State, u.Metadata)
	if u.Status.Message != nil {
		out.Status.Message = newMessage(u.Status.Message)
	}
	return wire.Marshal(&streamResponse{StatusUpdate: &out})
}

// ArtifactUpdate returns an artifact or a chunk of one as a StreamResponse of A2A 1.0, like
// [StatusUpdate].
func ArtifactUpdate(u *a2a.TaskArtifactUpdateEvent) ([]byte, error) {
	a := u.Artifact
	return wire.Marshal(&streamResponse{ArtifactUpdate: &artifactUpdate{
		TaskID: u.TaskID, ContextID: u.ContextID, Append: u.Append, LastChunk: u.LastChunk, Metadata: u.Metadata,
		Artifact: artifact{
			ID: a.ID, Name: a.Name, Description: a.Description, Parts: newParts(a.Parts), Metadata: a.Metadata, Extensions: a.Extensions,
		},
	}})
}

func newMessage(m *a2a.Message) *message {
	out := &message{
		ID: m.ID, ContextID: m.ContextID, TaskID: m.TaskID, Parts: newParts(m.Parts),
		Extensions: m.Extensions, ReferenceTaskIDs: m.ReferenceTaskIDs,
	}
	out.Role, out.Metadata = Role(m.Role, m.Metadata)
	return out
}

func newParts(parts []a2a.Part) []part {
	out := make([]part, len(parts))
	for i, p := range parts {
		switch p := p.(type) {
		case a2a.TextPart:
			out[i] = part{Text: &p.Text, Metadata: p.Metadata}
		case a2a.DataPart:
			out[i] = part{Data: &p.Data, Metadata: p.Metadata}
		case a2a.FilePart:
			out[i].Metadata = p.Metadata
			out[i].Filename, out[i].MediaType = p.File.Info()
			switch f := p.File.(type) {
			case a2a.FileWithBytes:
				out[i].Raw = &f.Bytes
			case a2a.FileWithURI:
				out[i].URL = f.URI
			}
		}
	}
	return out
}
