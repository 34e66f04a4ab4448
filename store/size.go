package store

import (
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// Size is roughly how many bytes the content of a task takes, as far as it was
// read.
func (t *Task) Size() (size int) {
	if m := t.Status.Message; m != nil {
		size += PartsSize(m.Parts)
	}
	for i := range t.History {
		size += PartsSize(t.History[i].Message.Parts)
	}
	for i := range t.Artifacts {
		size += PartsSize(t.Artifacts[i].Parts)
	}
	return size
}

// PartsSize is roughly how many bytes the content of parts takes.
func PartsSize(parts []a2a.Part) (size int) {
	for _, p := range parts {
		switch p := p.(type) {
		case a2a.TextPart:
			size += len(p.Text) + 8*len(p.Embeddings)
		case a2a.FilePart:
			if f, ok := p.File.(a2a.FileWithBytes); ok {
				size += len(f.Bytes)
			}
		case a2a.DataPart:
			raw, _ := wire.Marshal(p) // what cannot be encoded is refused elsewhere
			size += len(raw)
		}
	}
	return size
}

// Size is roughly how many bytes the content of an event takes.
func (e *Event) Size() (size int) {
	if e.Message != nil {
		size += PartsSize(e.Message.Parts)
	}
	if e.Received != nil {
		size += PartsSize(e.Received.Parts)
	}
	if e.Artifact != nil {
		size += PartsSize(e.Artifact.Parts)
	}
	return size
}
