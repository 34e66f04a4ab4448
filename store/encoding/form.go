package encoding

import (
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// form is the JSON form of stored values.
var form = newForm()

func newForm() *wire.Form {
	f := new(wire.Form)
	wire.Retag[a2a.Message, message](f)
	wire.Retag[a2a.Artifact, artifact](f)
	wire.Retag[a2a.TextPart, textPart](f)
	wire.Retag[a2a.FilePart, filePart](f)
	wire.Retag[a2a.DataPart, dataPart](f)
	wire.Retag[a2a.FileWithBytes, fileWithBytes](f)
	wire.Retag[a2a.FileWithURI, fileWithURI](f)
	wire.Retag[a2a.TaskStatus, taskStatus](f)
	wire.Retag[store.HistoryEntry, entry](f)
	wire.Retag[a2a.Principal, principal](f)
	wire.UnionIn(f, "kind", map[string]a2a.Part{"text": a2a.TextPart{}, "file": a2a.FilePart{}, "data": a2a.DataPart{}})
	wire.UnionIn(f, "", map[string]a2a.File{"bytes": a2a.FileWithBytes{}, "uri": a2a.FileWithURI{}})
	return f
}

// newForm uses the types below for the tags of their fields.

type message struct {
	_                struct{}       `wire:"const=kind:message"`
	ID               string         `json:"messageId"`
	ContextID        string         `json:"contextId,omitempty"`
	TaskID           string         `json:"taskId,omitempty"`
	Role             a2a.Role       `json:"role"`
	Parts            []a2a.Part     `json:"parts"`
	ReferenceTaskIDs []string       `json:"referenceTaskIds,omitempty"`
	Extensions       []string       `json:"extensions,omitempty"`
	Metadata         map[string]any `json:"metadata,omitempty"`
}

type principal struct {
	ID          string         `json:"id"`
	Name        string         `json:"name,omitempty"`
	Scopes      []a2a.Scope    `json:"scopes,omitzero"`
	Level       a2a.TrustLevel `json:"level,omitempty"`
	Schemes     []string       `json:"schemes,omitempty"`
	Roles       []string       `json:"roles,omitempty"`
	Permissions []string       `json:"permissions,omitzero"`
	DID         string         `json:"did,omitempty"`
	Client      string         `json:"client,omitempty"`
	Issuer      string         `json:"issuer,omitempty"`
	Proof       a2a.Proof      `json:"proof,omitempty"`
	Actor       string         `json:"actor,omitempty"`
	Credential  string         `json:"credential,omitempty"`
	Expires     time.Time      `json:"expires,omitempty"`
}

type artifact struct {
	ID          string         `json:"artifactId"`
	Name        string         `json:"name,omitempty"`
	Description string         `json:"description,omitempty"`
	Parts       []a2a.Part     `json:"parts"`
	Extensions  []string       `json:"extensions,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"`
	Append      bool           `json:"append,omitempty"`
	LastChunk   bool           `json:"lastChunk,omitempty"`
}

type textPart struct {
	_          struct{}       `wire:"const=kind:text"`
	Text       string         `json:"text"`
	Metadata   map[string]any `json:"metadata,omitempty"`
	Embeddings []float64      `json:"embeddings,omitempty"`
	Filename   string         `json:"filename,omitempty"`
	MediaType  string         `json:"mediaType,omitempty"`
}

type filePart struct {
	_          struct{}       `wire:"const=kind:file"`
	File       a2a.File       `json:"file"`
	Metadata   map[string]any `json:"metadata,omitempty"`
	Text       string         `json:"text,omitempty"`
	Embeddings []float64      `json:"embeddings,omitempty"`
}

type dataPart struct {
	_          struct{}       `wire:"const=kind:data"`
	Data       any            `json:"data"`
	Metadata   map[string]any `json:"metadata,omitempty"`
	Text       string         `json:"text,omitempty"`
	Embeddings []float64      `json:"embeddings,omitempty"`
	Filename   string         `json:"filename,omitempty"`
	MediaType  string         `json:"mediaType,omitempty"`
}

type fileWithBytes struct {
	Name       string    `json:"name,omitempty"`
	MimeType   string    `json:"mimeType,omitempty"`
	Bytes      []byte    `json:"bytes"`
	Embeddings []float64 `json:"embeddings,omitempty"`
}

type fileWithURI struct {
	Name       string    `json:"name,omitempty"`
	MimeType   string    `json:"mimeType,omitempty"`
	URI        string    `json:"uri"`
	Embeddings []float64 `json:"embeddings,omitempty"`
}

type taskStatus struct {
	State     a2a.TaskState `json:"state"`
	Message   *a2a.Message  `json:"message,omitempty"`
	Timestamp time.Time     `json:"timestamp"`
}

type entry struct {
	Seq      int64       `json:"seq"`
	Received bool        `json:"received,omitempty"`
	Message  a2a.Message `json:"message"`
}
