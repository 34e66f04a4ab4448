package a2a

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

// Part is one piece of content: a [TextPart], a [FilePart] or a [DataPart]
// (A2A 0.3 section 6.5). No other type implements it.
type Part interface {
	// Kind returns the discriminator: "text", "file" or "data".
	Kind() PartKind
}

// PartKind is the type of a part.
type PartKind string

// The kinds of parts.
const (
	KindText PartKind = "text"
	KindFile PartKind = "file"
	KindData PartKind = "data"
)

// EnumValues returns the accepted values.
func (PartKind) EnumValues() []string { return []string{"text", "file", "data"} }

var _ = wire.Union("kind", map[string]Part{
	string(KindText): TextPart{}, string(KindFile): FilePart{}, string(KindData): DataPart{},
})

// TextPart is plain text; Text may be empty (A2A 0.3 section 6.5.1).
type TextPart struct {
	_        struct{}       `wire:"const=kind:text,required"`
	Text     string         `json:"text" wire:"required,text"`
	Metadata map[string]any `json:"metadata,omitempty"`
	// Embeddings, an extension, is a vector representation of the part for similarity
	// search. All values are finite.
	Embeddings []float64 `json:"embeddings,omitempty"`
	// Filename and MediaType (type/subtype) are of A2A 1.0.
	Filename  string `json:"-"`
	MediaType string `json:"-"`
}

// FilePart is a file, inline or by reference (A2A 0.3 section 6.5.2).
type FilePart struct {
	_        struct{}       `wire:"const=kind:file,required"`
	File     File           `json:"file" wire:"required"`
	Metadata map[string]any `json:"metadata,omitempty"`
	// Text, an extension, is a caption.
	Text string `json:"text,omitempty" wire:"text"`
	// Embeddings is as in [TextPart].
	Embeddings []float64 `json:"embeddings,omitempty"`
}

// DataPart is structured data (A2A 0.3 section 6.5.3). Any JSON value is kept unchanged,
// including its keys. A2A 0.3 requires an object: its codec shows others within one, and accepts
// only objects and arrays.
type DataPart struct {
	_        struct{}       `wire:"const=kind:data,required"`
	Data     any            `json:"data" wire:"required,nullable"`
	Metadata map[string]any `json:"metadata,omitempty"`
	// Text, an extension, is a caption.
	Text string `json:"text,omitempty" wire:"text"`
	// Embeddings is as in [TextPart].
	Embeddings []float64 `json:"embeddings,omitempty"`
	// Filename and MediaType are as in [TextPart].
	Filename  string `json:"-"`
	MediaType string `json:"-"`
}

// Kind returns [KindText].
func (TextPart) Kind() PartKind { return KindText }

// Kind returns [KindFile].
func (FilePart) Kind() PartKind { return KindFile }

// Kind returns [KindData].
func (DataPart) Kind() PartKind { return KindData }

// Decode stores the data in the value that v points to, as encoding/json does.
func (p DataPart) Decode(v any) error {
	raw, err := json.Marshal(p.Data)
	if err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		return fmt.Errorf("data part: %w", err)
	}
	return nil
}

// File is the content of a file part: a [FileWithBytes] or a [FileWithURI]. No
// other type implements it.
type File interface {
	// Info returns the file's name and media type; each may be "".
	Info() (name, mimeType string)
}

var _ = wire.UnionByMember(map[string]File{
	"bytes": FileWithBytes{}, "uri": FileWithURI{}, "url": FileWithURI{},
})

// FileWithBytes is an inline file. Bytes is the decoded content, which is base64 on the wire
// (A2A 0.3 section 6.6.1).
type FileWithBytes struct {
	Name     string `json:"name,omitempty"`
	MimeType string `json:"mimeType,omitempty" wire:"literal"` // type/subtype
	Bytes    []byte `json:"bytes" wire:"required"`
	// Embeddings is as in [TextPart].
	Embeddings []float64 `json:"embeddings,omitempty"`
}

// FileWithURI is a file to fetch from an absolute URI (A2A 0.3 section 6.6.2).
type FileWithURI struct {
	Name     string `json:"name,omitempty"`
	MimeType string `json:"mimeType,omitempty" wire:"literal"` // type/subtype
	URI      string `json:"uri" wire:"required,alias=url"`
	// Embeddings is as in [TextPart].
	Embeddings []float64 `json:"embeddings,omitempty"`
}

// Info returns the name and media type.
func (f FileWithBytes) Info() (name, mimeType string) { return f.Name, f.MimeType }

// Info returns the name and media type.
func (f FileWithURI) Info() (name, mimeType string) { return f.Name, f.MimeType }
