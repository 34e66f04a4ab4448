package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// earlier is what earlier attempts of a turn have stored.
type earlier struct {
	steps map[string]*doneStep
	// left has the artifacts that they wrote, by id, and ids the ids in the order of
	// the first writes.
	left map[string]*leftover
	ids  []string
	// replaced is content that steps refer to and that has been replaced since.
	replaced map[generation]*store.Task
	// start is the task's artifacts as the turn started.
	start []a2a.Artifact
}

// doneStep is a step that is recorded.
type doneStep struct {
	result []byte
	stepRecord
}

// generation names the content of an artifact from one replacement to the next.
type generation struct {
	id string
	n  int // the events of the turn that replaced the artifact, this one included
}

// leftover is an artifact that earlier attempts wrote.
type leftover struct {
	artifact   *a2a.Artifact // nil when they withdrew it
	last       bool          // its last chunk has been committed
	generation int
	before     *a2a.Artifact // as the turn started; nil if there was none
	claimed    bool          // this attempt writes it, too
}

// readEarlier reads what earlier attempts of the turn have stored. While the store
// fails in a way that may pass it tries again. If the memory budget is used up it returns
// errNoMemory.
func (r *run) readEarlier(ctx context.Context, task *store.Task) (*earlier, error) {
	for pause := settlePause; ; pause = min(2*pause, settleMax) {
		e, err := r.tryReadEarlier(ctx, task)
		if err == nil {
			return e, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		switch code := a2a.CodeOf(err); {
		case code == a2a.CodeExhausted: // another run may wait for what this one holds
			return nil, errNoMemory
		case !code.Retryable():
			return nil, unstored(err)
		}
		r.e.log.Warn("read events of earlier attempts, trying again", "task", r.l.key.ID, "in", pause, "error", err)
		r.e.sleep(ctx, pause)
	}
}

func (r *run) tryReadEarlier(ctx context.Context, task *store.Task) (*earlier, error) {
	e := &earlier{steps: make(map[string]*doneStep), left: make(map[string]*leftover), start: task.Artifacts}
	steps, err := r.e.cfg.Store.Steps(ctx, task.Key, r.queue.Turn)
	if err != nil {
		return nil, fmt.Errorf("read steps: %w", err)
	}
	for _, s := range steps {
		done := &doneStep{result: s.Result}
		if len(s.Artifacts) > 0 {
			if err := wire.Unmarshal(s.Artifacts, &done.stepRecord); err != nil {
				return nil, fmt.Errorf("step %s: artifacts: %w", a2a.Quote(s.Name), err)
			}
		}
		e.steps[s.Name] = done
	}
	if err := r.scan(ctx, r.queue.StartSeq, task.Seq, e.add); err != nil {
		return nil, err
	}
	for i := range task.Artifacts {
		if l := e.left[task.Artifacts[i].ID]; l != nil {
			l.artifact = &task.Artifacts[i]
		}
	}
	if err := r.readStart(ctx, e, task); err != nil {
		return nil, err
	}
	return e, r.readReplaced(ctx, e, task)
}

// add notes an event of the turn.
func (e *earlier) add(event *store.Event) {
	id := event.Artifact.ID
	l := e.left[id]
	if l == nil {
		l = new(leftover)
		e.left[id] = l
		e.ids = append(e.ids, id)
	}
	if !event.Append {
		l.generation++
		l.last = false
	}
	l.last = l.last || event.LastChunk
}

// readStart finds out how the artifacts that earlier attempts wrote were before the turn.
func (r *run) readStart(ctx context.Context, e *earlier, task *store.Task) error {
	if len(e.left) == 0 {
		return nil
	}
	var before store.Task
	err := r.scan(ctx, 0, r.queue.StartSeq, func(event *store.Event) {
		if e.left[event.Artifact.ID] != nil {
			before.Apply(*event)
		}
	})
	for i := range before.Artifacts {
		e.left[before.Artifacts[i].ID].before = &before.Artifacts[i]
	}
	e.start = nil
	for _, a := range task.Artifacts {
		if l := e.left[a.ID]; l == nil {
			e.start = append(e.start, a)
		} else if l.before != nil {
			e.start = append(e.start, *l.before)
		}
	}
	return err
}

// readReplaced reads content that steps refer to and that the task does not have any more.
func (r *run) readReplaced(ctx context.Context, e *earlier, task *store.Task) error {
	for _, done := range e.steps {
		for _, w := range done.Artifacts {
			g := generation{w.ID, w.Generation}
			if l := e.left[g.id]; l != nil && g.n > 0 && g.n < l.generation {
				if e.replaced == nil {
					e.replaced = make(map[generation]*store.Task)
				}
				e.replaced[g] = new(store.Task)
			}
		}
	}
	if e.replaced == nil {
		return nil
	}
	at := make(map[string]int)
	return r.scan(ctx, r.queue.StartSeq, task.Seq, func(event *store.Event) {
		id := event.Artifact.ID
		if !event.Append {
			at[id]++
		}
		if t := e.replaced[generation{id, at[id]}]; t != nil {
			t.Apply(*event)
		}
	})
}

// scan reads the artifact events of the task after a sequence, up to another.
func (r *run) scan(ctx context.Context, after, until int64, see func(*store.Event)) error {
	err := store.WalkLog(ctx, r.e.cfg.Store, r.e.cfg.Memory, r.l.key, after, until, func(page []store.Event) bool {
		for i := range page {
			if page[i].Artifact != nil {
				see(&page[i])
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	return nil
}

// content returns what a step added to an artifact.
func (e *earlier) content(w *written) ([]a2a.Part, error) {
	from, to, ok := w.positions()
	if !ok {
		return nil, nil
	}
	var parts []a2a.Part
	if t := e.replaced[generation{w.ID, w.Generation}]; t != nil && len(t.Artifacts) == 1 {
		parts = t.Artifacts[0].Parts
	} else if l := e.left[w.ID]; l != nil && l.artifact != nil && l.generation == w.Generation {
		parts = l.artifact.Parts
	}
	chunk, ok := store.Between(parts, from, to)
	if !ok {
		return nil, fmt.Errorf("artifact %s: the log does not have what a step wrote", a2a.Quote(w.ID))
	}
	return chunk, nil
}

// repeat does what a recorded step did besides its result.
func (t *Turn) repeat(ctx context.Context, done *doneStep) error {
	in := t.scopeOf(ctx)
	t.mu.Lock()
	for _, name := range done.Steps {
		t.countStep(in, name)
	}
	t.mu.Unlock()
	for i := range done.Artifacts {
		if err := t.rewrite(in, &done.Artifacts[i]); err != nil {
			return err
		}
	}
	return nil
}

// rewrite writes again what a recorded step wrote to an artifact.
func (t *Turn) rewrite(in *scope, did *written) error {
	parts, err := t.earlier.content(did)
	if err != nil {
		return err
	}
	w := t.rewriter(in, did)
	w.mu.Lock()
	defer w.mu.Unlock()
	if did.Head != nil && !w.begun {
		w.head.Description, w.head.Metadata, w.head.Extensions = did.Head.Description, did.Head.Metadata, did.Head.Extensions
		t.mu.Lock()
		in.note(w, w.pos, w.pos, didDescribe)
		t.mu.Unlock()
	}
	switch {
	case len(parts) > 0:
		if err := t.r.account(did.Name, parts); err != nil {
			return err
		}
		w.closed = w.closed || did.Ends
		return w.chunk(in, parts, did.Ends)
	case did.Ends && w.begun:
		return w.close(in)
	case did.Ends:
		w.closed = true // it was refused what it was to hold
	}
	return nil
}

// rewriter returns the artifact that a recorded step wrote to.
func (t *Turn) rewriter(in *scope, did *written) *ArtifactWriter {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !did.Starts {
		if w := t.newest(did); w != nil {
			return w
		}
	}
	w := t.newWriter(a2a.Artifact{ID: did.ID, Name: did.Name}, true)
	deeds := didStart
	if did.Starts {
		if id := t.artifactID(did.Name); !did.Explicit {
			w.head.ID, w.explicit = id, false
		}
	}
	if did.Ends {
		deeds |= didEnd
	} else {
		t.keepOpen(w)
	}
	in.note(w, w.pos, w.pos, deeds)
	return w
}

// newest returns the newest artifact that has the id of one that a step wrote to, or its
// name if this attempt has none of the id. The caller holds t.mu.
func (t *Turn) newest(did *written) (named *ArtifactWriter) {
	for _, w := range slices.Backward(t.writers) {
		if w.head.ID == did.ID {
			return w
		}
		if named == nil && w.head.Name == did.Name {
			named = w
		}
	}
	return named
}
