package a2a

import "strings"

// Role is the sender of a message.
type Role string

// The roles. RoleSystem is an extension.
const (
	RoleUser   Role = "user"
	RoleAgent  Role = "agent"
	RoleSystem Role = "system"
)

// EnumValues returns the accepted values.
func (Role) EnumValues() []string { return []string{"user", "agent", "system"} }

// Message is one message of a conversation (A2A 0.3 section 6.4). Its kind is always written
// but optional on input.
type Message struct {
	_                struct{}       `wire:"const=kind:message"`
	ID               string         `json:"messageId" wire:"required"`
	ContextID        string         `json:"contextId,omitempty"`
	TaskID           string         `json:"taskId,omitempty"`
	Role             Role           `json:"role" wire:"required"`
	Parts            []Part         `json:"parts" wire:"required" v03:"content,alias=parts"`
	ReferenceTaskIDs []string       `json:"referenceTaskIds,omitempty"`
	Extensions       []string       `json:"extensions,omitempty"`
	Metadata         map[string]any `json:"metadata,omitempty"`
}

// Text returns the text parts, joined by line breaks.
func (m Message) Text() string { return partsText(m.Parts) }

// Files returns the file parts in order.
func (m Message) Files() []FilePart {
	var files []FilePart
	for _, p := range m.Parts {
		if f, ok := p.(FilePart); ok {
			files = append(files, f)
		}
	}
	return files
}

// Data returns the data parts in order.
func (m Message) Data() []DataPart {
	var data []DataPart
	for _, p := range m.Parts {
		if d, ok := p.(DataPart); ok {
			data = append(data, d)
		}
	}
	return data
}

// Artifact is an output of a task (A2A 0.3 section 6.7). Append and LastChunk are an
// extension: A2A has them in [TaskArtifactUpdateEvent].
type Artifact struct {
	ID          string         `json:"artifactId" wire:"required"`
	Name        string         `json:"name,omitempty"`
	Description string         `json:"description,omitempty"`
	Parts       []Part         `json:"parts"`
	Extensions  []string       `json:"extensions,omitempty"` // URIs
	Metadata    map[string]any `json:"metadata,omitempty"`
	// Append means that the parts continue an earlier chunk with the same id.
	Append bool `json:"append,omitempty" wire:"ext"`
	// LastChunk means that no more chunks follow.
	LastChunk bool `json:"lastChunk,omitempty" wire:"ext"`
}

// Text returns the text parts, joined by line breaks.
func (a Artifact) Text() string { return partsText(a.Parts) }

func partsText(parts []Part) string {
	var texts []string
	for _, p := range parts {
		if t, ok := p.(TextPart); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n")
}
