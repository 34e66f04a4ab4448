package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// earlierAttempts is the data that earlier attempts of a turn stored.
type earlierAttempts struct {
	steps map[string]*doneStep
	// calls has the recorded calls on records, by scope.
	calls map[string][]callRecord
	// artifacts has the artifacts that earlier attempts wrote, by id. ids lists the ids in the
	// order of the first writes.
	artifacts map[string]*earlierArtifact
	ids       []string
	// replaced is content that recorded steps refer to and that has since been replaced.
	replaced map[generation]*store.Task
	// startArtifacts are the task's artifacts at the start of the turn.
	startArtifacts []a2a.Artifact
	// startMetadata is the task's metadata without the changes of these attempts. metadataChanged
	// is set if there are such changes.
	startMetadata   map[string]any
	metadataChanged bool
}

// doneStep is a recorded step.
type doneStep struct {
	result []byte
	stepRecord
}

// generation identifies the content of an artifact from one replacement to the next.
type generation struct {
	id string
	n  int // number of events of the turn that replaced the artifact, up to this content
}

// earlierArtifact is an artifact that earlier attempts wrote.
type earlierArtifact struct {
	artifact   *a2a.Artifact // nil if earlier attempts removed it again
	complete   bool          // its last chunk has been committed
	generation int
	atStart    *a2a.Artifact // at the start of the turn; nil if it did not exist
	rewritten  bool          // this attempt writes it too
}

// earlierReader reads the data that earlier attempts of a turn stored.
type earlierReader struct {
	*settings
	task  *store.Task      // at the start of this attempt
	entry store.QueueEntry // of this attempt
	found *earlierAttempts
}

// read sets found. It may be called again after an error.
func (r *earlierReader) read(ctx context.Context) error {
	e := &earlierAttempts{steps: make(map[string]*doneStep), calls: make(map[string][]callRecord), artifacts: make(map[string]*earlierArtifact), startArtifacts: r.task.Artifacts, startMetadata: r.task.Metadata}
	r.found = e
	if err := r.readSteps(ctx); err != nil {
		return err
	}
	if err := r.scan(ctx, r.entry.StartSeq, e.add); err != nil {
		return err
	}
	for i := range r.task.Artifacts {
		if earlier := e.artifacts[r.task.Artifacts[i].ID]; earlier != nil {
			earlier.artifact = &r.task.Artifacts[i]
		}
	}
	if err := r.readStart(ctx); err != nil {
		return err
	}
	return r.readReplaced(ctx)
}

func (r *earlierReader) readSteps(ctx context.Context) error {
	steps, err := r.cfg.Store.Steps(ctx, r.task.Key, r.entry.Turn)
	if err != nil {
		return fmt.Errorf("read steps: %w", err)
	}
	for _, s := range steps {
		if strings.HasPrefix(s.Name, callsPrefix) {
			if err := r.found.addCalls(&s); err != nil {
				return err
			}
			continue
		}
		done := &doneStep{result: s.Result}
		if len(s.Artifacts) > 0 {
			if err := wire.Unmarshal(s.Artifacts, &done.stepRecord); err != nil {
				return fmt.Errorf("step %s: artifacts: %w", a2a.Quote(s.Name), err)
			}
		}
		r.found.steps[s.Name] = done
	}
	return nil
}

// add records an event of the turn.
func (e *earlierAttempts) add(event *store.Event) {
	if event.Artifact == nil {
		e.metadataChanged = e.metadataChanged || len(event.Metadata) > 0 && event.Received == nil
		return
	}
	id := event.Artifact.ID
	earlier := e.artifacts[id]
	if earlier == nil {
		earlier = new(earlierArtifact)
		e.artifacts[id] = earlier
		e.ids = append(e.ids, id)
	}
	if !event.Append {
		earlier.generation++
		earlier.complete = false
	}
	earlier.complete = earlier.complete || event.LastChunk
}

// readStart reads the metadata and the artifacts that earlier attempts changed, in their state
// before the turn. The metadata of the turn's messages counts as set before the turn.
func (r *earlierReader) readStart(ctx context.Context) error {
	e := r.found
	if len(e.artifacts) == 0 && !e.metadataChanged {
		return nil
	}
	start := r.entry.StartSeq
	var before store.Task
	var metadata map[string]any
	err := r.scan(ctx, 0, func(event *store.Event) {
		if event.Seq <= start || event.Received != nil {
			metadata = store.MergePatch(metadata, event.Metadata)
		}
		if event.Seq <= start && event.Artifact != nil && e.artifacts[event.Artifact.ID] != nil {
			before.Apply(*event)
		}
	})
	if e.metadataChanged {
		e.startMetadata = metadata
	}
	for i := range before.Artifacts {
		e.artifacts[before.Artifacts[i].ID].atStart = &before.Artifacts[i]
	}
	e.startArtifacts = nil
	for _, a := range r.task.Artifacts {
		if earlier := e.artifacts[a.ID]; earlier == nil {
			e.startArtifacts = append(e.startArtifacts, a)
		} else if earlier.atStart != nil {
			e.startArtifacts = append(e.startArtifacts, *earlier.atStart)
		}
	}
	return err
}

// readReplaced reads content that recorded steps refer to and that the task no longer has.
func (r *earlierReader) readReplaced(ctx context.Context) error {
	e := r.found
	for _, done := range e.steps {
		for _, w := range done.Artifacts {
			g := generation{w.ID, w.Generation}
			if earlier := e.artifacts[g.id]; earlier != nil && g.n > 0 && g.n < earlier.generation {
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
	return r.scan(ctx, r.entry.StartSeq, func(event *store.Event) {
		if event.Artifact == nil {
			return
		}
		id := event.Artifact.ID
		if !event.Append {
			at[id]++
		}
		if t := e.replaced[generation{id, at[id]}]; t != nil {
			t.Apply(*event)
		}
	})
}

// scan calls visit for the task's events after a sequence, up to the start of this attempt.
func (r *earlierReader) scan(ctx context.Context, after int64, visit func(*store.Event)) error {
	err := store.WalkLog(ctx, r.cfg.Store, r.cfg.Memory, r.task.Key, after, r.task.Seq, func(page []store.Event) bool {
		for i := range page {
			visit(&page[i])
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	return nil
}

// content returns the content that a step added to an artifact.
func (e *earlierAttempts) content(w *writeRecord) ([]a2a.Part, error) {
	from, to, ok := w.positions()
	if !ok {
		return nil, nil
	}
	var parts []a2a.Part
	if t := e.replaced[generation{w.ID, w.Generation}]; t != nil && len(t.Artifacts) == 1 {
		parts = t.Artifacts[0].Parts
	} else if earlier := e.artifacts[w.ID]; earlier != nil && earlier.artifact != nil && earlier.generation == w.Generation {
		parts = earlier.artifact.Parts
	}
	chunk, ok := store.Between(parts, from, to)
	if !ok {
		return nil, fmt.Errorf("artifact %s: content written by a step is missing in the log", a2a.Quote(w.ID))
	}
	return chunk, nil
}

// stepReplay repeats the effects of a recorded step other than its result.
type stepReplay struct {
	t  *Turn
	in *stepScope // the running step around it, nil if there is none
}

func (s stepReplay) run(done *doneStep) error {
	s.t.mu.Lock()
	for _, name := range done.Steps {
		s.t.steps.count(s.in, name)
	}
	s.t.mu.Unlock()
	for i := range done.Artifacts {
		if err := s.write(&done.Artifacts[i]); err != nil {
			return err
		}
	}
	return nil
}

// write repeats a write of the step to an artifact.
func (s stepReplay) write(record *writeRecord) error {
	t := s.t
	parts, err := t.earlier.content(record)
	if err != nil {
		return err
	}
	w := s.writer(record)
	w.mu.Lock()
	defer w.mu.Unlock()
	if record.Head != nil && !w.started {
		w.head.Description, w.head.Metadata, w.head.Extensions = record.Head.Description, record.Head.Metadata, record.Head.Extensions
		t.mu.Lock()
		s.in.addWrite(w, w.pos, w.pos, wroteDescription)
		t.mu.Unlock()
	}
	switch {
	case len(parts) > 0:
		if err := t.r.out.countArtifactBytes(record.Name, parts); err != nil {
			return err
		}
		w.closed = w.closed || record.Ends
		return w.writeChunk(s.in, parts, record.Ends)
	case record.Ends:
		return w.close(s.in)
	}
	return nil
}

// writer returns the artifact that the step wrote to.
func (s stepReplay) writer(record *writeRecord) *ArtifactWriter {
	t := s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if !record.Starts {
		if w := t.artifacts.newest(record); w != nil {
			return w
		}
	}
	w := t.artifacts.newWriter(t, a2a.Artifact{ID: record.ID, Name: record.Name}, true)
	flags := wroteStart
	if record.Starts {
		if id := t.artifacts.nextID(record.Name); !record.Explicit {
			w.head.ID, w.explicit = id, false
		}
	}
	if record.Ends {
		flags |= wroteEnd
	} else {
		t.artifacts.setOpen(w)
	}
	s.in.addWrite(w, w.pos, w.pos, flags)
	return w
}

// newest returns the newest artifact with the id of a recorded write, or with its name if
// this attempt has none with the id.
func (a *turnArtifacts) newest(record *writeRecord) (named *ArtifactWriter) {
	for _, w := range slices.Backward(a.writers) {
		if w.head.ID == record.ID {
			return w
		}
		if named == nil && w.head.Name == record.Name {
			named = w
		}
	}
	return named
}
