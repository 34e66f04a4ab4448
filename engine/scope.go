package engine

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// scope is a step whose function runs. What is written meanwhile belongs to it, and
// to the steps around it.
type scope struct {
	t      *Turn
	parent *scope

	marks []*mark  // guarded by t.mu, as is steps
	steps []string // names of the steps within it
}

// mark is what a step did to one artifact: content that it added without anything
// else in between, if from and to differ.
type mark struct {
	w        *ArtifactWriter
	from, to store.Position
	did      deed
}

// deed is what was done to an artifact besides adding content.
type deed uint8

const (
	didStart deed = 1 << iota
	didDescribe
	didEnd
)

type scopeKey struct{}

// scopeOf returns the innermost step of the turn that ctx was given to.
func (t *Turn) scopeOf(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	if s == nil || s.t != t {
		return nil
	}
	return s
}

// enter starts a step; the context is for its function.
func (t *Turn) enter(ctx context.Context) (*scope, context.Context) {
	s := &scope{t: t, parent: t.scopeOf(ctx)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scopes = append(t.scopes, s)
	return s, context.WithValue(ctx, scopeKey{}, s)
}

func (s *scope) leave() {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	i := slices.Index(s.t.scopes, s)
	s.t.scopes = slices.Delete(s.t.scopes, i, i+1)
}

// scope returns the step that a write belongs to, nil outside of steps. Of steps that
// run at the same time each must run within the one before. The caller holds t.mu.
func (t *Turn) scope() (*scope, error) {
	if len(t.scopes) == 0 {
		return nil, nil
	}
	inner, nested := t.scopes[len(t.scopes)-1], 0
	for s := inner; s != nil; s = s.parent {
		if slices.Contains(t.scopes, s) {
			nested++
		}
	}
	if nested < len(t.scopes) {
		return nil, a2a.Errorf(a2a.CodeInvalid, "an artifact cannot be written while several steps run at the same time; write it before or after them, or within nested steps")
	}
	return inner, nil
}

// note adds what was done to an artifact to a step and those around it. The caller
// holds t.mu.
func (s *scope) note(w *ArtifactWriter, from, to store.Position, did deed) {
	for ; s != nil; s = s.parent {
		m := s.last(w, from, to)
		if m == nil {
			m = &mark{w: w, from: from}
			s.marks = append(s.marks, m)
		}
		m.to = to
		m.did |= did
	}
}

// last returns the newest mark of an artifact if it can be extended: its content goes on
// at from. The order in which artifacts get their first content is kept.
func (s *scope) last(w *ArtifactWriter, from, to store.Position) *mark {
	for i, m := range slices.Backward(s.marks) {
		if m.w == w {
			if m.to != from || m.from == m.to && from != to && i < len(s.marks)-1 {
				return nil
			}
			return m
		}
	}
	return nil
}

// stepRecord is store.Step.Artifacts: what a step did besides its result.
type stepRecord struct {
	Artifacts []written `json:"artifacts,omitempty"`
	// Steps are the names of the steps within it, as often as they were used.
	Steps []string `json:"steps,omitempty"`
}

// written is what a step did to one artifact. The content itself is in the log.
type written struct {
	ID string `json:"id" wire:"required"`
	// Explicit is set when the id was not made from the name.
	Explicit bool   `json:"explicit,omitempty"`
	Name     string `json:"name,omitempty"`
	// Starts is set when the artifact was started within the step, Ends when it was
	// completed there. Head is set when the step described it.
	Starts bool  `json:"starts,omitempty"`
	Ends   bool  `json:"ends,omitempty"`
	Head   *head `json:"head,omitempty"`
	// Generation counts the events of the turn that replaced the artifact. From and To
	// are positions in what was written since the last of them: parts, text.
	Generation int   `json:"gen,omitempty"`
	From       []int `json:"from,omitempty"`
	To         []int `json:"to,omitempty"`
}

// head is what describes an artifact besides its name.
type head struct {
	Description string         `json:"description,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"`
	Extensions  []string       `json:"extensions,omitempty"`
}

// record returns what a later attempt has to repeat when it gets the step's result.
func (s *scope) record() ([]byte, error) {
	s.t.mu.Lock()
	marks := slices.Clone(s.marks)
	out := stepRecord{Steps: slices.Clone(s.steps)}
	s.t.mu.Unlock()
	if len(marks) == 0 && len(out.Steps) == 0 {
		return nil, nil
	}
	for _, m := range marks {
		out.Artifacts = append(out.Artifacts, m.written())
	}
	return wire.Marshal(&out)
}

func (m *mark) written() written {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	out := written{
		ID: m.w.head.ID, Explicit: m.w.explicit, Name: m.w.head.Name, Starts: m.did&didStart != 0, Ends: m.did&didEnd != 0,
	}
	if m.did&(didStart|didDescribe) != 0 {
		out.Head = &head{Description: m.w.head.Description, Metadata: m.w.head.Metadata, Extensions: m.w.head.Extensions}
	}
	if m.from != m.to {
		out.Generation = m.w.generation
		out.From, out.To = []int{m.from.Parts, m.from.Text}, []int{m.to.Parts, m.to.Text}
	}
	return out
}

// positions returns from and to; ok is false when the step added no content.
func (w *written) positions() (from, to store.Position, ok bool) {
	if len(w.From) != 2 || len(w.To) != 2 {
		return from, to, false
	}
	return store.Position{Parts: w.From[0], Text: w.From[1]}, store.Position{Parts: w.To[0], Text: w.To[1]}, true
}
