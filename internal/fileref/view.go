package fileref

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// MetadataError is the member of a file part's metadata with the reason why its content cannot be
// read.
const MetadataError = "fileError"

// inlineFiles is the total size of files within one value, as a multiple of Config.Inline. Further
// files are links.
const inlineFiles = 8

// ViewParams determine how a client gets files.
type ViewParams struct {
	// Owner is the owner of the task.
	Owner string
	// Base is the address of the agent for links; "" if it is not known.
	Base string
	// Links makes all references links.
	Links bool
	// Reserve, if not nil, is called before content is read, with its size in bytes. If it
	// returns an error, the files are links.
	Reserve func(ctx context.Context, bytes int64) error
}

// View returns values for clients: each reference becomes the content of the file or a link. It
// modifies no value that it gets, and returns values without references unchanged.
type View struct {
	f    *Files
	p    ViewParams
	left int64 // of the total size of files within the value
}

// View returns a view.
func (f *Files) View(p ViewParams) *View { return &View{f: f, p: p} }

// Task sets the files of a task for clients. The task may share its members with others.
func (v *View) Task(ctx context.Context, t *a2a.Task) error {
	if !taskHasRefs(t) {
		return nil
	}
	v.reserve(ctx, func(count func(parts []a2a.Part)) {
		if t.Status.Message != nil {
			count(t.Status.Message.Parts)
		}
		for i := range t.History {
			count(t.History[i].Parts)
		}
		for i := range t.Artifacts {
			count(t.Artifacts[i].Parts)
		}
	})
	var err error
	if t.Status.Message, err = v.message(ctx, t.Status.Message); err != nil {
		return err
	}
	t.History, t.Artifacts = slices.Clone(t.History), slices.Clone(t.Artifacts)
	for i := range t.History {
		if t.History[i].Parts, err = v.parts(ctx, t.History[i].Parts); err != nil {
			return err
		}
	}
	for i := range t.Artifacts {
		if t.Artifacts[i].Parts, err = v.parts(ctx, t.Artifacts[i].Parts); err != nil {
			return err
		}
	}
	return nil
}

// TaskContains reports whether a stored task has a reference.
func TaskContains(t *store.Task) bool {
	return t.Status.Message != nil && Contains(t.Status.Message.Parts) ||
		slices.ContainsFunc(t.History, func(e store.HistoryEntry) bool { return Contains(e.Message.Parts) }) ||
		slices.ContainsFunc(t.Artifacts, func(a a2a.Artifact) bool { return Contains(a.Parts) })
}

// TaskRefs returns the blobs that a task refers to, each once.
func TaskRefs(t *store.Task) (refs []string) {
	if t.Status.Message != nil {
		refs = Refs(refs, t.Status.Message.Parts)
	}
	for i := range t.History {
		refs = Refs(refs, t.History[i].Message.Parts)
	}
	for i := range t.Artifacts {
		refs = Refs(refs, t.Artifacts[i].Parts)
	}
	return refs
}

func taskHasRefs(t *a2a.Task) bool {
	return t.Status.Message != nil && Contains(t.Status.Message.Parts) ||
		slices.ContainsFunc(t.History, func(m a2a.Message) bool { return Contains(m.Parts) }) ||
		slices.ContainsFunc(t.Artifacts, func(a a2a.Artifact) bool { return Contains(a.Parts) })
}

// Message returns a message for clients. m may be nil.
func (v *View) Message(ctx context.Context, m *a2a.Message) (*a2a.Message, error) {
	if m == nil || !Contains(m.Parts) {
		return m, nil
	}
	v.reserve(ctx, func(count func(parts []a2a.Part)) { count(m.Parts) })
	return v.message(ctx, m)
}

func (v *View) message(ctx context.Context, m *a2a.Message) (*a2a.Message, error) {
	if m == nil || !Contains(m.Parts) {
		return m, nil
	}
	out := *m
	var err error
	out.Parts, err = v.parts(ctx, m.Parts)
	return &out, err
}

// Parts returns parts for clients.
func (v *View) Parts(ctx context.Context, parts []a2a.Part) ([]a2a.Part, error) {
	if !Contains(parts) {
		return parts, nil
	}
	v.reserve(ctx, func(count func(parts []a2a.Part)) { count(parts) })
	return v.parts(ctx, parts)
}

// reserve starts a value: it reserves the memory of the files that will be within it. each calls
// count for all parts of the value.
func (v *View) reserve(ctx context.Context, each func(count func(parts []a2a.Part))) {
	v.left = 0
	if v.p.Links || v.f == nil {
		return
	}
	var total int64
	v.left = inlineFiles * v.f.cfg.Inline
	each(func(parts []a2a.Part) {
		for _, p := range parts {
			if _, r, ok := refOf(p); ok && v.inline(r) {
				total += r.Size
				v.left -= r.Size
			}
		}
	})
	v.left = total
	if total > 0 && v.p.Reserve != nil && v.p.Reserve(ctx, total) != nil {
		v.left = 0
	}
}

// inline reports whether a file fits in the value.
func (v *View) inline(r Ref) bool { return r.Size <= v.f.cfg.Inline && r.Size <= v.left }

func (v *View) parts(ctx context.Context, parts []a2a.Part) ([]a2a.Part, error) {
	if v.f == nil || !Contains(parts) {
		return parts, nil
	}
	out := slices.Clone(parts)
	for i, p := range parts {
		file, r, ok := refOf(p)
		if !ok {
			continue
		}
		var err error
		if out[i], err = v.part(ctx, file, r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// part returns a file with its content or a link. If the content does not exist or is damaged, or the
// link cannot be signed, the metadata has the reason, and the task remains readable.
func (v *View) part(ctx context.Context, p a2a.FilePart, r Ref) (a2a.Part, error) {
	file := p.File.(a2a.FileWithURI)
	if v.inline(r) {
		data, err := v.f.Read(ctx, v.p.Owner, r)
		if err == nil {
			v.left -= r.Size
			return withContent(p, data), nil
		}
		if errors.Is(err, errMissing) || errors.Is(err, errDamaged) {
			setError(&p, err.Error())
		} else if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	var err error
	if file.URI, err = v.f.Link(ctx, v.p.Base, v.p.Owner, r.Blob); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		file.URI = address(v.p.Base, r.Blob)
		setError(&p, "the link to the file cannot be signed")
	}
	p.File = file
	return p, nil
}

// setError sets the reason why the content of a file cannot be read.
func setError(p *a2a.FilePart, reason string) {
	p.Metadata = maps.Clone(p.Metadata)
	if p.Metadata == nil {
		p.Metadata = make(map[string]any, 1)
	}
	p.Metadata[MetadataError] = reason
}
