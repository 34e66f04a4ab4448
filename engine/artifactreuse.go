package engine

import (
	"bytes"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// reuseEarlier records that this attempt starts the artifact. It returns the artifact with
// the same id that earlier attempts stored, or nil if there is none or this attempt has started
// it before. The caller holds w.mu.
func (w *ArtifactWriter) reuseEarlier() *earlierArtifact {
	if w.t.earlier == nil {
		return nil
	}
	id, started := w.head.ID, &w.t.artifacts
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	if !started.startedIDs[id] {
		if started.startedIDs == nil {
			started.startedIDs = make(map[string]bool)
		}
		started.startedIDs[id] = true
		started.startedOrder = append(started.startedOrder, id)
	}
	earlier := w.t.earlier.artifacts[id]
	if earlier == nil || earlier.rewritten {
		return nil
	}
	earlier.rewritten = true
	if earlier.artifact == nil {
		return nil
	}
	w.generation = earlier.generation
	return earlier
}

// countReplacement counts an event that replaces the artifact and returns the new
// generation. In the first attempt, an artifact with an id derived from its name is replaced
// only once, when it starts.
func (w *ArtifactWriter) countReplacement() int {
	id, t := w.head.ID, w.t
	if !w.explicit && t.earlier == nil {
		return 1
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.artifacts.generations == nil {
		t.artifacts.generations = make(map[string]int)
	}
	n, counted := t.artifacts.generations[id]
	if !counted && t.earlier != nil && t.earlier.artifacts[id] != nil {
		n = t.earlier.artifacts[id].generation
	}
	t.artifacts.generations[id] = n + 1
	return n + 1
}

// eventFor returns the event that makes the stored artifact equal to what w has written plus
// parts. It returns nil if no event is needed: the stored artifact already starts with that
// content or, if last is set, equals it.
func (earlier *earlierArtifact) eventFor(w *ArtifactWriter, parts []a2a.Part, last bool) *store.Event {
	stored := earlier.artifact.Parts
	same := w.started || equalHeads(&w.head, earlier.artifact)
	if same && containsAt(stored, w.pos, parts) {
		if !last || w.pos.After(parts) == store.EndOf(stored) {
			return nil
		}
	}
	all := parts
	if w.started {
		all, _ = store.Between(stored, store.Position{}, w.pos)
		all = appendParts(all, parts)
	}
	if same && !earlier.complete {
		if rest, ok := remainingChunk(all, stored); ok {
			return w.event(rest, true, last)
		}
	}
	return w.event(all, false, last)
}

// containsAt reports whether stored has the content of parts at a position.
func containsAt(stored []a2a.Part, at store.Position, parts []a2a.Part) bool {
	to := at.After(parts)
	if to == at {
		return true
	}
	if at.Parts > 0 && at.Text >= 0 {
		rest := stored[at.Parts-1].(a2a.TextPart).Text[at.Text:]
		text := ""
		if store.PlainText(parts[0]) {
			text, parts = parts[0].(a2a.TextPart).Text, parts[1:]
		}
		if len(parts) == 0 {
			return len(rest) >= len(text) && rest[:len(text)] == text
		}
		if rest != text {
			return false
		}
	}
	if at.Parts+len(parts) > len(stored) {
		return false
	}
	for i, p := range parts {
		s := stored[at.Parts+i]
		if i == len(parts)-1 && store.PlainText(p) && store.PlainText(s) {
			p, s := p.(a2a.TextPart).Text, s.(a2a.TextPart).Text
			return len(s) >= len(p) && s[:len(p)] == p
		}
		if !equalPart(p, s) {
			return false
		}
	}
	return true
}

// appendParts returns parts with a chunk appended.
func appendParts(parts, chunk []a2a.Part) []a2a.Part {
	t := &store.Task{Artifacts: []a2a.Artifact{{Parts: parts}}}
	t.Apply(store.Event{Artifact: &a2a.Artifact{Parts: chunk}, Append: true})
	return t.Artifacts[0].Parts
}

// remainingChunk returns the chunk that extends stored to all. ok is false if no chunk does.
func remainingChunk(all, stored []a2a.Part) (chunk []a2a.Part, ok bool) {
	end := store.EndOf(stored)
	start, ok := store.Between(all, store.Position{}, end)
	if !ok || !equalParts(start, stored) {
		return nil, false
	}
	chunk, ok = store.Between(all, end, store.EndOf(all))
	return chunk, ok && end.After(chunk) == store.EndOf(all)
}

func equalParts(a, b []a2a.Part) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equalPart(a[i], b[i]) {
			return false
		}
	}
	return true
}

// equalPart compares parts in their stored form.
func equalPart(a, b a2a.Part) bool {
	if store.PlainText(a) && store.PlainText(b) {
		return a.(a2a.TextPart).Text == b.(a2a.TextPart).Text
	}
	x, y := fileref.Canonical([]a2a.Part{a}), fileref.Canonical([]a2a.Part{b})
	return onlyV10(a) == onlyV10(b) && equalJSON(x[0], y[0])
}

// onlyV10 returns the members of a part that the JSON of A2A 0.3 lacks.
func onlyV10(p a2a.Part) [2]string {
	switch p := p.(type) {
	case a2a.TextPart:
		return [2]string{p.Filename, p.MediaType}
	case a2a.DataPart:
		return [2]string{p.Filename, p.MediaType}
	}
	return [2]string{}
}

// equalHeads compares artifacts without their content.
func equalHeads(a, b *a2a.Artifact) bool {
	x, y := *a, *b
	x.Parts, y.Parts = nil, nil
	return equalJSON(&x, &y)
}

func equalJSON(a, b any) bool {
	x, xerr := wire.Marshal(a)
	y, yerr := wire.Marshal(b)
	return xerr == nil && yerr == nil && bytes.Equal(x, y)
}
