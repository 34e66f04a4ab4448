package fileref

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// MapEvent returns a copy of e with the results of f as its parts. It does not modify e.
func MapEvent(e store.Event, f func(parts []a2a.Part) ([]a2a.Part, error)) (_ store.Event, err error) {
	if e.Message, err = mapMessage(e.Message, f); err != nil {
		return e, err
	}
	if e.Received, err = mapMessage(e.Received, f); err != nil {
		return e, err
	}
	if e.Artifact != nil {
		a := *e.Artifact
		a.Parts, err = f(a.Parts)
		e.Artifact = &a
	}
	return e, err
}

// MapTask returns a copy of a task with the results of f as its parts.
func MapTask(t *store.Task, f func(parts []a2a.Part) ([]a2a.Part, error)) (_ *store.Task, err error) {
	t = t.Copy()
	for i := range t.History {
		if t.History[i].Message.Parts, err = f(t.History[i].Message.Parts); err != nil {
			return nil, err
		}
	}
	for i := range t.Artifacts {
		if t.Artifacts[i].Parts, err = f(t.Artifacts[i].Parts); err != nil {
			return nil, err
		}
	}
	if t.Status.Message != nil {
		t.Status.Message.Parts, err = f(t.Status.Message.Parts)
	}
	return t, err
}

func mapMessage(m *a2a.Message, f func(parts []a2a.Part) ([]a2a.Part, error)) (*a2a.Message, error) {
	if m == nil {
		return nil, nil
	}
	out := *m
	var err error
	out.Parts, err = f(m.Parts)
	return &out, err
}

// EventRefs appends the blobs that an event refers to, each once.
func EventRefs(dst []string, e *store.Event) []string {
	if e.Message != nil {
		dst = Refs(dst, e.Message.Parts)
	}
	if e.Received != nil {
		dst = Refs(dst, e.Received.Parts)
	}
	if e.Artifact != nil {
		dst = Refs(dst, e.Artifact.Parts)
	}
	return dst
}

// CanonicalEvent returns an event in the form that [Canonical] gives its parts.
func CanonicalEvent(e store.Event) store.Event {
	e, _ = MapEvent(e, func(parts []a2a.Part) ([]a2a.Part, error) { return Canonical(parts), nil }) // never fails
	return e
}

// Expand returns parts with the content of all files up to a size. It returns an error if a file is
// larger or cannot be read.
func (f *Files) Expand(ctx context.Context, owner string, limit int64, parts []a2a.Part) ([]a2a.Part, error) {
	if !Contains(parts) {
		return parts, nil
	}
	out := slices.Clone(parts)
	for i, p := range parts {
		file, r, ok := refOf(p)
		if !ok {
			continue
		}
		if r.Size > limit {
			return nil, a2a.Errorf(a2a.CodeTooLarge, "a file of %d bytes exceeds the limit of %d bytes", r.Size, limit)
		}
		data, err := f.Read(ctx, owner, r)
		if err != nil {
			return nil, err
		}
		out[i] = withContent(file, data)
	}
	return out, nil
}

// withContent returns a part with the content instead of a reference.
func withContent(p a2a.FilePart, data []byte) a2a.FilePart {
	file := p.File.(a2a.FileWithURI)
	p.File = a2a.FileWithBytes{Name: file.Name, MimeType: file.MimeType, Bytes: data, Embeddings: file.Embeddings}
	return p
}
