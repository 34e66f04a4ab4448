package transfer

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// Kept are the stores of data that agents keep besides tasks. A nil store is left out.
type Kept struct {
	History history.Provider
	Facts   memory.LongTermStore
	Blobs   blob.Store
	// Documents lists its documents ([vector.Lister]) if they shall be exported.
	Documents vector.Store
	// Graphs lists its graphs and their versions ([graph.Lister], [graph.Historian]) if they shall be
	// exported.
	Graphs graph.Store
	// State has session states that are not records of the store of tasks.
	State memory.ShortTerm
}

// The lines of a document with data that an agent keeps for an owner.
const (
	typeKept         lineType = "kept"
	typeSession      lineType = "session"
	typeMessage      lineType = "message"
	typeFact         lineType = "fact"
	typeDocument     lineType = "document"
	typeEntity       lineType = "entity"
	typeRelationship lineType = "relationship"
	typeBlob         lineType = "blob"
	typeChunk        lineType = "chunk"
	typeState        lineType = "state"
)

// keptID is the id of the context of such a document, which no context has.
const keptID = "\x00kept"

type keptHeadLine struct {
	_     struct{} `wire:"const=type:kept,required"`
	Owner string   `json:"owner" wire:"required"`
}

type sessionLine struct {
	_         struct{}  `wire:"const=type:session,required"`
	Agent     string    `json:"agent" wire:"required"`
	Session   string    `json:"session" wire:"required"`
	CreatedAt time.Time `json:"createdAt" wire:"required"`
	UpdatedAt time.Time `json:"updatedAt" wire:"required"`
	ExpiresAt time.Time `json:"expiresAt,omitempty"`
}

type messageLine struct {
	_         struct{}  `wire:"const=type:message,required"`
	Seq       int64     `json:"seq" wire:"required"`
	Run       string    `json:"run,omitempty"`
	Role      string    `json:"role,omitempty"`
	CreatedAt time.Time `json:"createdAt" wire:"required"`
	// Body is the message, or Bytes if it has line breaks.
	Body        json.RawMessage `json:"body,omitempty"`
	Bytes       []byte          `json:"bodyBase64,omitempty"`
	ToolCalls   []string        `json:"toolCalls,omitempty"`
	ToolResults []string        `json:"toolResults,omitempty"`
}

type factLine struct {
	_         struct{}      `wire:"const=type:fact,required"`
	Agent     string        `json:"agent" wire:"required"`
	Namespace string        `json:"namespace" wire:"required"`
	ID        string        `json:"id" wire:"required"`
	Key       string        `json:"key,omitempty"`
	ExpiresAt time.Time     `json:"expiresAt,omitempty"`
	Versions  []factVersion `json:"versions" wire:"required"`
}

type factVersion struct {
	Version    int64          `json:"version" wire:"required"`
	Content    string         `json:"content" wire:"required"`
	Metadata   map[string]any `json:"metadata,omitempty"`
	Entities   []string       `json:"entities,omitempty"`
	CreatedAt  time.Time      `json:"createdAt" wire:"required"`
	UpdatedAt  time.Time      `json:"updatedAt" wire:"required"`
	ReplacedAt time.Time      `json:"replacedAt,omitempty"`
	ValidFrom  time.Time      `json:"validFrom,omitempty"`
	ValidTo    time.Time      `json:"validTo,omitempty"`
}

type documentLine struct {
	_          struct{}       `wire:"const=type:document,required"`
	Collection string         `json:"collection" wire:"required"`
	Metric     string         `json:"metric" wire:"required"`
	Embedder   string         `json:"embedder,omitempty"`
	ID         string         `json:"id" wire:"required"`
	Text       string         `json:"text,omitempty"`
	Metadata   map[string]any `json:"metadata,omitempty"`
	// Blocks are the blocks as JSON. Embedding has a float32 per component, little-endian.
	Blocks    []byte `json:"blocks,omitempty"`
	Embedding []byte `json:"embedding,omitempty"`
}

func documentLineOf(c *vector.Collection, d *vector.Document) *documentLine {
	l := &documentLine{Collection: c.Name, Metric: string(c.Metric), Embedder: c.Embedder, ID: d.ID, Text: d.Text, Metadata: d.Metadata, Blocks: d.Blocks}
	for _, x := range d.Embedding {
		l.Embedding = binary.LittleEndian.AppendUint32(l.Embedding, math.Float32bits(x))
	}
	return l
}

func (l *documentLine) document() (*keptDocument, error) {
	if len(l.Embedding)%4 != 0 {
		return nil, &wire.Error{Path: "embedding", Rule: "must have four bytes per component"}
	}
	d := vector.Document{ID: l.ID, Text: l.Text, Blocks: l.Blocks, Metadata: l.Metadata}
	for b := l.Embedding; len(b) > 0; b = b[4:] {
		d.Embedding = append(d.Embedding, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return &keptDocument{vector.Collection{Name: l.Collection, Metric: vector.Metric(l.Metric), Dimension: len(d.Embedding), Embedder: l.Embedder}, d}, nil
}

type blobLine struct {
	_           struct{}  `wire:"const=type:blob,required"`
	Ref         string    `json:"ref" wire:"required"`
	Size        int64     `json:"size" wire:"required"`
	SHA256      string    `json:"sha256" wire:"required"`
	ContentType string    `json:"contentType" wire:"required"`
	Name        string    `json:"name,omitempty"`
	CreatedAt   time.Time `json:"createdAt" wire:"required"`
	ExpiresAt   time.Time `json:"expiresAt,omitempty"`
	TTL         int64     `json:"ttlMilliseconds" wire:"required"`
	Holders     []string  `json:"holders,omitempty"`
}

type chunkLine struct {
	_    struct{} `wire:"const=type:chunk,required"`
	Data []byte   `json:"data" wire:"required"`
}

type stateLine struct {
	_       struct{}       `wire:"const=type:state,required"`
	Agent   string         `json:"agent" wire:"required"`
	Session string         `json:"session" wire:"required"`
	Values  map[string]any `json:"values" wire:"required"`
}

func (l *sessionLine) session(owner string) history.Session {
	return history.Session{
		Key:       history.Key{Owner: owner, Agent: l.Agent, Session: l.Session},
		CreatedAt: store.Time(l.CreatedAt), UpdatedAt: store.Time(l.UpdatedAt), ExpiresAt: store.Time(l.ExpiresAt),
	}
}

func messageLineOf(m *history.Message) *messageLine {
	l := &messageLine{Seq: m.Seq, Run: m.Run, Role: m.Role, CreatedAt: m.CreatedAt, ToolCalls: m.ToolCalls, ToolResults: m.ToolResults}
	if bytes.ContainsAny(m.Body, "\n\r") {
		l.Bytes = m.Body
	} else {
		l.Body = m.Body
	}
	return l
}

func (l *messageLine) message() history.Message {
	m := history.Message{Seq: l.Seq, Run: l.Run, Role: l.Role, CreatedAt: store.Time(l.CreatedAt), Body: l.Body, ToolCalls: l.ToolCalls, ToolResults: l.ToolResults}
	if len(l.Bytes) > 0 {
		m.Body = l.Bytes
	}
	return m
}

// factLineOf returns the line of a fact with all its versions.
func factLineOf(versions []memory.Memory) *factLine {
	first := &versions[0]
	l := &factLine{Agent: first.Scope.Agent, Namespace: first.Scope.Namespace, ID: first.ID, Key: first.Key, ExpiresAt: first.ExpiresAt}
	for i := range versions {
		v := &versions[i]
		l.Versions = append(l.Versions, factVersion{v.Version, v.Content, v.Metadata, v.Entities, v.CreatedAt, v.UpdatedAt, v.ReplacedAt, v.ValidFrom, v.ValidTo})
	}
	return l
}

func (l *factLine) fact(owner string) (versions []memory.Memory) {
	for _, v := range l.Versions {
		versions = append(versions, memory.Memory{
			ID: l.ID, Scope: memory.Scope{Owner: owner, Namespace: l.Namespace, Agent: l.Agent}, Key: l.Key, Content: v.Content, Metadata: v.Metadata, Entities: v.Entities,
			Version: v.Version, CreatedAt: store.Time(v.CreatedAt), UpdatedAt: store.Time(v.UpdatedAt), ReplacedAt: store.Time(v.ReplacedAt),
			ValidFrom: store.Time(v.ValidFrom), ValidTo: store.Time(v.ValidTo), ExpiresAt: store.Time(l.ExpiresAt),
		})
	}
	return versions
}

func blobLineOf(b *blob.Info) *blobLine {
	return &blobLine{
		Ref: b.Ref, Size: b.Size, SHA256: b.Digest.String(), ContentType: b.ContentType, Name: b.Name, CreatedAt: b.Created, ExpiresAt: b.Expires,
		TTL: b.TTL.Milliseconds(), Holders: b.Holders,
	}
}

func (l *blobLine) blob() (b blob.Info, err error) {
	b = blob.Info{
		Ref: l.Ref, Size: l.Size, ContentType: l.ContentType, Name: l.Name, Created: store.Time(l.CreatedAt), Expires: store.Time(l.ExpiresAt),
		TTL: time.Duration(l.TTL) * time.Millisecond, Holders: l.Holders,
	}
	if n, err := hex.Decode(b.Digest[:], []byte(l.SHA256)); err != nil || n != len(b.Digest) || len(l.SHA256) != 2*len(b.Digest) {
		return b, &wire.Error{Path: "sha256", Rule: "must be 64 hexadecimal digits"}
	}
	if l.Size < 0 {
		return b, &wire.Error{Path: "size", Rule: "must not be negative"}
	}
	return b, nil
}
