package engine

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// stepScope is a running step. Writes during the step belong to it and to the steps around it.
type stepScope struct {
	t      *Turn
	name   string // unique name of the step
	parent *stepScope

	writes []*artifactWrite // guarded by t.mu, like steps
	steps  []string         // names of nested steps
}

// turnSteps are the steps of this attempt of a turn. Callers of the methods hold Turn.mu, which guards the fields.
type turnSteps struct {
	running []*stepScope   // in start order
	uses    map[string]int // number of uses of each name
}

// artifactWrite is the effect of a step on one artifact. It covers a contiguous range of content; if
// from equals to, the step wrote no content.
type artifactWrite struct {
	w        *ArtifactWriter
	from, to store.Position
	flags    writeFlags
}

// writeFlags are the operations of a step on an artifact besides writing content.
type writeFlags uint8

const (
	wroteStart writeFlags = 1 << iota
	wroteDescription
	wroteEnd
)

type stepScopeKey struct{}

// scopeOf returns the innermost step of this turn that passed ctx to its function, or nil if
// there is none.
func (t *Turn) scopeOf(ctx context.Context) *stepScope {
	s, _ := ctx.Value(stepScopeKey{}).(*stepScope)
	if s == nil || s.t != t {
		return nil
	}
	return s
}

// enterStep starts a step and returns the context for its function.
func (t *Turn) enterStep(ctx context.Context, name string) (*stepScope, context.Context) {
	s := &stepScope{t: t, name: name, parent: t.scopeOf(ctx)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps.running = append(t.steps.running, s)
	return s, context.WithValue(ctx, stepScopeKey{}, s)
}

func (s *stepScope) leave() {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	running := s.t.steps.running
	i := slices.Index(running, s)
	s.t.steps.running = slices.Delete(running, i, i+1)
}

// scopeName returns the name of the step, "" for nil: outside of steps.
func (s *stepScope) scopeName() string {
	if s == nil {
		return ""
	}
	return s.name
}

// innermost returns the step that a write belongs to, nil outside of steps. It returns an
// error if the running steps are not nested in each other.
func (t *turnSteps) innermost() (*stepScope, error) {
	if len(t.running) == 0 {
		return nil, nil
	}
	inner, nested := t.running[len(t.running)-1], 0
	for s := inner; s != nil; s = s.parent {
		if slices.Contains(t.running, s) {
			nested++
		}
	}
	if nested < len(t.running) {
		return nil, a2a.Errorf(a2a.CodeInvalid, "an artifact cannot be written while several steps run at the same time; write it before or after them, or within nested steps")
	}
	return inner, nil
}

// addWrite records an operation on an artifact in a step and in the steps around it. The caller
// holds t.mu.
func (s *stepScope) addWrite(w *ArtifactWriter, from, to store.Position, flags writeFlags) {
	for ; s != nil; s = s.parent {
		m := s.extendable(w, from, to)
		if m == nil {
			m = &artifactWrite{w: w, from: from}
			s.writes = append(s.writes, m)
		}
		m.to = to
		m.flags |= flags
	}
}

// extendable returns the newest write to an artifact if content that starts at from can extend
// it. It returns nil if the extension would change the order in which artifacts get their first
// content.
func (s *stepScope) extendable(w *ArtifactWriter, from, to store.Position) *artifactWrite {
	for i, m := range slices.Backward(s.writes) {
		if m.w == w {
			if m.to != from || m.from == m.to && from != to && i < len(s.writes)-1 {
				return nil
			}
			return m
		}
	}
	return nil
}

// stepRecord is the content of store.Step.Artifacts: the effects of a step other than its
// result.
type stepRecord struct {
	Artifacts []writeRecord `json:"artifacts,omitempty"`
	// Steps are the names of the nested steps, one entry per use.
	Steps []string `json:"steps,omitempty"`
}

// writeRecord is the stored form of an artifactWrite. The content itself is in the log.
type writeRecord struct {
	ID string `json:"id" wire:"required"`
	// Explicit is set if the id was given instead of derived from the name.
	Explicit bool   `json:"explicit,omitempty"`
	Name     string `json:"name,omitempty"`
	// Starts is set if the step started the artifact, Ends if it completed it. Head is set if
	// the step described it.
	Starts bool  `json:"starts,omitempty"`
	Ends   bool  `json:"ends,omitempty"`
	Head   *head `json:"head,omitempty"`
	// Generation is the number of events of the turn that replaced the artifact. From and To are
	// positions (parts, text) in the content written since the last of these events.
	Generation int   `json:"gen,omitempty"`
	From       []int `json:"from,omitempty"`
	To         []int `json:"to,omitempty"`
}

// head is the description of an artifact without its name.
type head struct {
	Description string         `json:"description,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"`
	Extensions  []string       `json:"extensions,omitempty"`
}

// record returns the effects of the step that a later attempt must repeat.
func (s *stepScope) record() ([]byte, error) {
	s.t.mu.Lock()
	writes := slices.Clone(s.writes)
	out := stepRecord{Steps: slices.Clone(s.steps)}
	s.t.mu.Unlock()
	if len(writes) == 0 && len(out.Steps) == 0 {
		return nil, nil
	}
	for _, m := range writes {
		out.Artifacts = append(out.Artifacts, m.record())
	}
	return wire.Marshal(&out)
}

func (m *artifactWrite) record() writeRecord {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	out := writeRecord{
		ID: m.w.head.ID, Explicit: m.w.explicit, Name: m.w.head.Name, Starts: m.flags&wroteStart != 0, Ends: m.flags&wroteEnd != 0,
	}
	if m.flags&(wroteStart|wroteDescription) != 0 {
		out.Head = &head{Description: m.w.head.Description, Metadata: m.w.head.Metadata, Extensions: m.w.head.Extensions}
	}
	if m.from != m.to {
		out.Generation = m.w.generation
		out.From, out.To = []int{m.from.Parts, m.from.Text}, []int{m.to.Parts, m.to.Text}
	}
	return out
}

// positions returns from and to; ok is false if the step wrote no content.
func (w *writeRecord) positions() (from, to store.Position, ok bool) {
	if len(w.From) != 2 || len(w.To) != 2 {
		return from, to, false
	}
	return store.Position{Parts: w.From[0], Text: w.From[1]}, store.Position{Parts: w.To[0], Text: w.To[1]}, true
}
