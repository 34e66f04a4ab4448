package store

import "github.com/holdfast-dev/holdfast/a2a"

// Position is a position in the content of an artifact, between two chunks. Chunks only
// append content until the artifact is replaced.
type Position struct {
	// Parts is the number of parts before the position.
	Parts int
	// Text is the length in bytes of the last of these parts if it is [PlainText], else
	// -1. It is 0 if Parts is 0.
	Text int
}

// EndOf returns the position after all of parts.
func EndOf(parts []a2a.Part) Position { return Position{}.After(parts) }

// After returns the position after a chunk that is appended at p.
func (p Position) After(chunk []a2a.Part) Position {
	if p.Parts > 0 && isEmptyText(chunk) {
		return p
	}
	if p.Parts > 0 && p.Text >= 0 && len(chunk) > 0 && PlainText(chunk[0]) {
		p.Text += len(chunk[0].(a2a.TextPart).Text)
		chunk = chunk[1:]
	}
	if len(chunk) == 0 {
		return p
	}
	p.Parts, p.Text = p.Parts+len(chunk), -1
	if last := chunk[len(chunk)-1]; PlainText(last) {
		p.Text = len(last.(a2a.TextPart).Text)
	}
	return p
}

// Between returns the content between two positions of an artifact as one chunk. If the chunk
// is appended to an artifact that ends at from, the artifact then ends at to. ok is false if a
// position is not valid for parts, or from is after to.
func Between(parts []a2a.Part, from, to Position) (chunk []a2a.Part, ok bool) {
	if !from.in(parts) || !to.in(parts) || from.Parts > to.Parts {
		return nil, false
	}
	if from.Parts == to.Parts {
		if from.Text > to.Text {
			return nil, false
		}
		if from.Text < to.Text {
			chunk = []a2a.Part{cutText(parts[from.Parts-1], from.Text, to.Text)}
		}
		return chunk, true
	}
	if from.Parts > 0 && from.Text >= 0 {
		last := parts[from.Parts-1]
		rest := cutText(last, from.Text, len(last.(a2a.TextPart).Text))
		// The empty text keeps a following text from extending the last part.
		if rest.Text != "" || PlainText(parts[from.Parts]) {
			chunk = append(chunk, rest)
		}
	}
	chunk = append(chunk, parts[from.Parts:to.Parts]...)
	if to.Text >= 0 {
		chunk[len(chunk)-1] = cutText(parts[to.Parts-1], 0, to.Text)
	}
	return chunk, true
}

// in reports whether the position is valid for parts.
func (p Position) in(parts []a2a.Part) bool {
	switch {
	case p.Parts < 0 || p.Parts > len(parts):
		return false
	case p.Parts == 0:
		return p.Text == 0
	case !PlainText(parts[p.Parts-1]):
		return p.Text == -1
	}
	return p.Text >= 0 && p.Text <= len(parts[p.Parts-1].(a2a.TextPart).Text)
}

func cutText(p a2a.Part, from, to int) a2a.TextPart {
	return a2a.TextPart{Text: p.(a2a.TextPart).Text[from:to]}
}
