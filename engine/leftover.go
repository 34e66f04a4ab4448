package engine

import (
	"bytes"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// claimEarlier returns what earlier attempts stored of the artifact that w begins to
// write, nil if there is nothing to compare with. The caller holds w.mu.
func (t *Turn) claimEarlier(w *ArtifactWriter) *leftover {
	if t.earlier == nil {
		return nil
	}
	id := w.head.ID
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.wrote[id] {
		if t.wrote == nil {
			t.wrote = make(map[string]bool)
		}
		t.wrote[id] = true
		t.order = append(t.order, id)
	}
	l := t.earlier.left[id]
	if l == nil || l.claimed {
		return nil
	}
	l.claimed = true
	if l.artifact == nil {
		return nil
	}
	w.generation = l.generation
	return l
}

// replaced counts an event that replaces the artifact of w. An artifact whose id is
// made from its name is replaced once in the first attempt: when it begins.
func (t *Turn) replaced(w *ArtifactWriter) int {
	if !w.explicit && t.earlier == nil {
		return 1
	}
	id := w.head.ID
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.generations == nil {
		t.generations = make(map[string]int)
	}
	n, counted := t.generations[id]
	if !counted && t.earlier != nil && t.earlier.left[id] != nil {
		n = t.earlier.left[id].generation
	}
	t.generations[id] = n + 1
	return n + 1
}

// continued returns the event after which the artifact is what w has written, with
// parts; nil when what is stored begins with that, or is just that and complete.
func (l *leftover) continued(w *ArtifactWriter, parts []a2a.Part, last bool) *store.Event {
	stored := l.artifact.Parts
	same := w.begun || equalHeads(&w.head, l.artifact)
	if same && hasAt(stored, w.pos, parts) {
		atEnd := w.pos.After(parts) == store.EndOf(stored)
		switch {
		case !last, atEnd && l.last:
			return nil
		case atEnd:
			return w.event([]a2a.Part{a2a.TextPart{}}, true, true)
		}
	}
	all := parts
	if w.begun {
		all, _ = store.Between(stored, store.Position{}, w.pos)
		all = added(all, parts)
	}
	if same && !l.last {
		if rest, ok := restOf(all, stored); ok {
			return w.event(rest, true, last)
		}
	}
	return w.event(all, false, last)
}

// hasAt reports whether content that begins with what parts add at a position is
// stored.
func hasAt(stored []a2a.Part, at store.Position, parts []a2a.Part) bool {
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

// added returns parts with a chunk.
func added(parts, chunk []a2a.Part) []a2a.Part {
	t := &store.Task{Artifacts: []a2a.Artifact{{Parts: parts}}}
	t.Apply(store.Event{Artifact: &a2a.Artifact{Parts: chunk}, Append: true})
	return t.Artifacts[0].Parts
}

// restOf returns the chunk that makes all of what is stored; ok is false when there is
// none.
func restOf(all, stored []a2a.Part) (chunk []a2a.Part, ok bool) {
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

// equalPart compares parts as they are stored.
func equalPart(a, b a2a.Part) bool {
	if store.PlainText(a) && store.PlainText(b) {
		return a.(a2a.TextPart).Text == b.(a2a.TextPart).Text
	}
	return equalJSON(a, b)
}

// equalHeads compares artifacts apart from their content.
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
