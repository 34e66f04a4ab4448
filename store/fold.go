package store

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/a2a"
)

// folding is what a task that events are applied to has of its own: without it each
// chunk would cost a copy of all that came before.
type folding struct {
	// cloned is set when a clone may share what was written so far. Concurrent readers
	// clone a task that nobody changes.
	cloned atomic.Bool
	// own is set when the elements of Artifacts may be changed in place.
	own bool
	// index finds artifacts by id. It is nil when it is not up to date.
	index map[string]int
	tails map[string]*tail
}

// tail is the end of an artifact that chunks are being added to.
type tail struct {
	// parts are those of the artifact, with room that nobody else knows of.
	parts []a2a.Part
	// own is set when the last part may be changed in place.
	own bool
	// text has the text of the last part if it is one that chunks have extended.
	text *strings.Builder
}

// fewArtifacts is the number of artifacts up to which they are searched.
const fewArtifacts = 16

// folded returns t.fold as it is to be used by a change: what clones share is not
// changed in place any more.
func (t *Task) folded() *folding {
	if t.fold == nil {
		t.fold = new(folding)
	}
	f := t.fold
	if f.cloned.Swap(false) {
		f.own = false
		for _, end := range f.tails {
			end.own = false
		}
	}
	return f
}

// find returns the place of an artifact, -1 when there is none.
func (f *folding) find(artifacts []a2a.Artifact, id string) int {
	if len(artifacts) <= fewArtifacts {
		return slices.IndexFunc(artifacts, func(a a2a.Artifact) bool { return a.ID == id })
	}
	if f.index == nil {
		f.index = make(map[string]int, 2*len(artifacts))
		for i := range slices.Backward(artifacts) { // the first of an id counts
			f.index[artifacts[i].ID] = i
		}
	}
	if i, ok := f.index[id]; ok {
		return i
	}
	return -1
}

func (t *Task) applyArtifact(e *Event) {
	f := t.folded()
	i := f.find(t.Artifacts, e.Artifact.ID)
	switch {
	case e.Withdraws():
		if i >= 0 {
			delete(f.tails, e.Artifact.ID)
			f.index = nil
			t.Artifacts = slices.Delete(slices.Clone(t.Artifacts), i, i+1)
			f.own = true
		}
		return
	case i < 0:
		if f.index != nil {
			f.index[e.Artifact.ID] = len(t.Artifacts)
		}
		t.Artifacts = append(t.Artifacts, *e.Artifact)
		return
	}
	next := *e.Artifact
	if e.Append {
		next = f.extend(t.Artifacts[i], next)
	} else {
		delete(f.tails, next.ID)
	}
	if !f.own {
		t.Artifacts, f.own = slices.Clone(t.Artifacts), true
	}
	t.Artifacts[i] = next
}

// extend adds a chunk to an artifact. A chunk that begins with plain text where
// the artifact ends with plain text goes on with it, so that a text streamed in
// chunks is one part.
func (f *folding) extend(a, chunk a2a.Artifact) a2a.Artifact {
	add := chunk.Parts
	if len(a.Parts) > 0 && completes(add) {
		add = nil
	}
	if len(add) > 0 {
		end := f.tail(&a)
		end.add(add)
		a.Parts = slices.Clip(end.parts)
	}
	if chunk.Name != "" {
		a.Name = chunk.Name
	}
	if chunk.Description != "" {
		a.Description = chunk.Description
	}
	a.Metadata = MergePatch(a.Metadata, chunk.Metadata)
	return a
}

// tail returns the end of an artifact.
func (f *folding) tail(a *a2a.Artifact) *tail {
	if end := f.tails[a.ID]; end != nil {
		return end
	}
	if f.tails == nil {
		f.tails = make(map[string]*tail)
	}
	end := &tail{parts: slices.Clip(a.Parts)}
	f.tails[a.ID] = end
	return end
}

// add adds the parts of a chunk, of which there is at least one.
func (e *tail) add(chunk []a2a.Part) {
	if n := len(e.parts); n > 0 && PlainText(e.parts[n-1]) && PlainText(chunk[0]) {
		if !e.own {
			// A copy with room, so that what is added next needs none.
			e.parts, e.own = append(make([]a2a.Part, 0, n+n/4+len(chunk)), e.parts...), true
		}
		if e.text == nil {
			e.text = new(strings.Builder)
			e.text.WriteString(e.parts[n-1].(a2a.TextPart).Text)
		}
		e.text.WriteString(chunk[0].(a2a.TextPart).Text)
		e.parts[n-1] = a2a.TextPart{Text: e.text.String()}
		chunk = chunk[1:]
	}
	if len(chunk) > 0 {
		e.parts, e.text = append(e.parts, chunk...), nil
	}
}

// PlainText reports whether a part is nothing but a text, which the next chunk can
// extend.
func PlainText(p a2a.Part) bool {
	text, ok := p.(a2a.TextPart)
	return ok && len(text.Metadata) == 0 && len(text.Embeddings) == 0
}

// completes reports whether a chunk only says that its artifact is complete.
func completes(chunk []a2a.Part) bool {
	return len(chunk) == 1 && PlainText(chunk[0]) && chunk[0].(a2a.TextPart).Text == ""
}
