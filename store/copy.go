package store

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Copy returns a deep copy of t. Only strings, which are immutable, are shared. Stores
// that retain values in memory return copies.
func (t *Task) Copy() *Task {
	c := *t
	c.fold = nil
	c.Status.Message = copyMessage(t.Status.Message)
	c.Metadata = CopyMap(t.Metadata)
	c.Sender = copyPrincipal(t.Sender)
	c.History = slices.Clone(t.History)
	for i := range c.History {
		m := &c.History[i].Message
		*m = *copyMessage(m)
	}
	c.Artifacts = slices.Clone(t.Artifacts)
	for i := range c.Artifacts {
		a := &c.Artifacts[i]
		*a = copyArtifact(*a)
	}
	return &c
}

// Copy returns a deep copy of e.
func (e Event) Copy() Event {
	e.Message = copyMessage(e.Message)
	e.Received = copyMessage(e.Received)
	e.Sender = copyPrincipal(e.Sender)
	if e.Artifact != nil {
		a := copyArtifact(*e.Artifact)
		e.Artifact = &a
	}
	e.Metadata = CopyMap(e.Metadata)
	return e
}

func copyMessage(m *a2a.Message) *a2a.Message {
	if m == nil {
		return nil
	}
	c := *m
	c.Parts = copyParts(m.Parts)
	c.ReferenceTaskIDs = slices.Clone(m.ReferenceTaskIDs)
	c.Extensions = slices.Clone(m.Extensions)
	c.Metadata = CopyMap(m.Metadata)
	return &c
}

func copyPrincipal(p *a2a.Principal) *a2a.Principal {
	if p == nil {
		return nil
	}
	c := *p
	c.Scopes, c.Schemes, c.Roles, c.Permissions = slices.Clone(p.Scopes), slices.Clone(p.Schemes), slices.Clone(p.Roles), slices.Clone(p.Permissions)
	return &c
}

func copyArtifact(a a2a.Artifact) a2a.Artifact {
	a.Parts = copyParts(a.Parts)
	a.Extensions = slices.Clone(a.Extensions)
	a.Metadata = CopyMap(a.Metadata)
	return a
}

func copyParts(parts []a2a.Part) []a2a.Part {
	parts = slices.Clone(parts)
	for i, p := range parts {
		parts[i] = copyPart(p)
	}
	return parts
}

// copyPart returns p itself if it is immutable, such as a text in an interface value.
func copyPart(p a2a.Part) a2a.Part {
	switch p := p.(type) {
	case a2a.TextPart:
		if p.Metadata != nil || p.Embeddings != nil {
			p.Metadata, p.Embeddings = CopyMap(p.Metadata), slices.Clone(p.Embeddings)
			return p
		}
	case a2a.FilePart:
		p.File, p.Metadata, p.Embeddings = copyFile(p.File), CopyMap(p.Metadata), slices.Clone(p.Embeddings)
		return p
	case a2a.DataPart:
		p.Data, p.Metadata, p.Embeddings = copyValue(p.Data), CopyMap(p.Metadata), slices.Clone(p.Embeddings)
		return p
	}
	return p
}

func copyFile(f a2a.File) a2a.File {
	switch f := f.(type) {
	case a2a.FileWithBytes:
		f.Bytes, f.Embeddings = bytes.Clone(f.Bytes), slices.Clone(f.Embeddings)
		return f
	case a2a.FileWithURI:
		f.Embeddings = slices.Clone(f.Embeddings)
		return f
	}
	return f
}

// CopyMap returns a deep copy of a free-form map.
func CopyMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	c := maps.Clone(m)
	for k, v := range c {
		switch v.(type) {
		case string, bool, float64, nil:
		default:
			c[k] = copyValue(v)
		}
	}
	return c
}

// copyValue returns a deep copy of a free-form value. It converts a value of a type that
// is not decoded JSON by encoding and decoding it.
func copyValue(v any) any {
	switch v := v.(type) {
	case nil, bool, string, json.Number,
		float64, float32, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return v
	case map[string]any:
		return CopyMap(v)
	case []any:
		c := slices.Clone(v)
		for i := range c {
			c[i] = copyValue(c[i])
		}
		return c
	}
	data, err := json.Marshal(v)
	if err != nil {
		return v
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var plain any
	if err := d.Decode(&plain); err != nil {
		return v
	}
	return plain
}
