package store

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/a2a"
)

// foldState records which memory of a task [Task.Apply] may modify in place. Without it,
// each chunk would cost a copy of all earlier chunks.
type foldState struct {
	// cloned is set when a clone shares the memory. It is atomic because concurrent
	// readers may clone a task.
	cloned atomic.Bool
	// ownsArtifacts allows changes of the elements of Artifacts in place.
	ownsArtifacts bool
	// index maps ids to positions in Artifacts. It is nil when outdated.
	index map[string]int
	tails map[string]*artifactTail
}

// artifactTail is the buffer for chunks that are appended to an artifact.
type artifactTail struct {
	// parts are the parts of the artifact, with spare capacity that is not shared.
	parts []a2a.Part
	// ownsLastPart allows changes of the last part in place.
	ownsLastPart bool
	// text contains the text of the last part if chunks have extended it.
	text *strings.Builder
}

// maxLinearSearch is the number of artifacts above which an index is built.
const maxLinearSearch = 16

// foldForUpdate returns t.fold for a change. If the task was cloned, nothing that the clone
// shares may be modified in place.
func (t *Task) foldForUpdate() *foldState {
	if t.fold == nil {
		t.fold = new(foldState)
	}
	f := t.fold
	if f.cloned.Swap(false) {
		f.ownsArtifacts = false
		for _, end := range f.tails {
			end.ownsLastPart = false
		}
	}
	return f
}

// find returns the index of the artifact with an id, or -1.
func (f *foldState) find(artifacts []a2a.Artifact, id string) int {
	if len(artifacts) <= maxLinearSearch {
		return slices.IndexFunc(artifacts, func(a a2a.Artifact) bool { return a.ID == id })
	}
	if f.index == nil {
		f.index = make(map[string]int, 2*len(artifacts))
		for i := range slices.Backward(artifacts) { // backward: the first artifact with an id wins
			f.index[artifacts[i].ID] = i
		}
	}
	if i, ok := f.index[id]; ok {
		return i
	}
	return -1
}

func (t *Task) applyArtifact(e *Event) {
	f := t.foldForUpdate()
	i := f.find(t.Artifacts, e.Artifact.ID)
	switch {
	case e.RemovesArtifact():
		if i >= 0 {
			delete(f.tails, e.Artifact.ID)
			f.index = nil
			t.Artifacts = slices.Delete(slices.Clone(t.Artifacts), i, i+1)
			f.ownsArtifacts = true
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
	if !f.ownsArtifacts {
		t.Artifacts, f.ownsArtifacts = slices.Clone(t.Artifacts), true
	}
	t.Artifacts[i] = next
}

// extend appends a chunk to an artifact. If the artifact ends and the chunk starts with
// plain text, the text is appended to the last part. So a text that is streamed in chunks
// is one part.
func (f *foldState) extend(a, chunk a2a.Artifact) a2a.Artifact {
	add := chunk.Parts
	if len(a.Parts) > 0 && isEmptyText(add) {
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

// tail returns the buffer for chunks of an artifact.
func (f *foldState) tail(a *a2a.Artifact) *artifactTail {
	if end := f.tails[a.ID]; end != nil {
		return end
	}
	if f.tails == nil {
		f.tails = make(map[string]*artifactTail)
	}
	end := &artifactTail{parts: slices.Clip(a.Parts)}
	f.tails[a.ID] = end
	return end
}

// add appends the parts of a chunk, which has at least one.
func (e *artifactTail) add(chunk []a2a.Part) {
	if n := len(e.parts); n > 0 && PlainText(e.parts[n-1]) && PlainText(chunk[0]) {
		if !e.ownsLastPart {
			// Spare capacity, so that the next parts can be appended without a copy.
			e.parts, e.ownsLastPart = append(make([]a2a.Part, 0, n+n/4+len(chunk)), e.parts...), true
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

// PlainText reports whether a part is a text without other members. The next chunk can extend
// such a part.
func PlainText(p a2a.Part) bool {
	text, ok := p.(a2a.TextPart)
	return ok && len(text.Metadata) == 0 && len(text.Embeddings) == 0 && text.Filename == "" && text.MediaType == ""
}

// isEmptyText reports whether a chunk is one empty text. Such a chunk marks the end of an
// artifact and adds no content.
func isEmptyText(chunk []a2a.Part) bool {
	return len(chunk) == 1 && PlainText(chunk[0]) && chunk[0].(a2a.TextPart).Text == ""
}
