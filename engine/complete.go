package engine

import (
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// completeArtifacts leaves the task with the artifacts of t, the last attempt of its turn. It closes
// artifacts that the handler left open and reverts artifacts that only earlier attempts wrote. It
// ignores errors, because the commit that ends the turn then fails for the same reason.
func (r *run) completeArtifacts(t *Turn) {
	t.mu.Lock()
	writers, started := slices.Clone(t.artifacts.writers), slices.Clone(t.artifacts.startedOrder)
	t.mu.Unlock()
	for _, w := range writers {
		w.mu.Lock()
		_ = w.close(nil)
		w.mu.Unlock()
	}
	if t.earlier == nil {
		return
	}
	for _, id := range t.earlier.ids {
		if event := t.earlier.artifacts[id].revert(id); event != nil {
			_ = r.out.enqueue(*event)
		}
	}
	if want := t.earlier.wantedOrder(started); !slices.Equal(t.earlier.storedOrder(t.task.Artifacts, started), want) {
		r.reorderArtifacts(want)
	}
}

// revert returns the event that restores an artifact to its state at the start of the turn. It
// returns nil if nothing changed or this attempt wrote the artifact.
func (earlier *earlierArtifact) revert(id string) *store.Event {
	switch {
	case earlier.rewritten:
		return nil
	case earlier.atStart == nil && earlier.artifact == nil:
		return nil
	case earlier.atStart == nil:
		return withdrawEvent(earlier.artifact)
	case earlier.artifact != nil && equalHeads(earlier.atStart, earlier.artifact) && equalParts(earlier.atStart.Parts, earlier.artifact.Parts):
		return nil
	}
	return replaceEvent(earlier.atStart)
}

func withdrawEvent(a *a2a.Artifact) *store.Event {
	withdrawn := a2a.Artifact{ID: a.ID, Name: a.Name, Parts: []a2a.Part{}}
	return &store.Event{State: a2a.StateWorking, Artifact: &withdrawn, LastChunk: true}
}

func replaceEvent(a *a2a.Artifact) *store.Event {
	whole := *a
	return &store.Event{State: a2a.StateWorking, Artifact: &whole, LastChunk: true}
}

// reorderArtifacts puts the artifacts in the order in which the last attempt started them. The stored
// order differs only if earlier attempts started them in another order.
func (r *run) reorderArtifacts(want []string) {
	if err := r.out.commitWithRetry(r.e.commitCtx, new(runChange)); err != nil {
		return
	}
	task, _ := r.l.snapshot()
	if task == nil { // the run has ended
		return
	}
	stored := make(map[string]*a2a.Artifact, len(task.Artifacts))
	for i := range task.Artifacts {
		stored[task.Artifacts[i].ID] = &task.Artifacts[i]
	}
	want = slices.DeleteFunc(want, func(id string) bool { return stored[id] == nil })
	for len(want) > 0 && len(task.Artifacts) > 0 && want[0] == task.Artifacts[0].ID {
		want = want[1:]
		task = &store.Task{Artifacts: task.Artifacts[1:]}
	}
	for _, id := range want {
		_ = r.out.enqueue(*withdrawEvent(stored[id]))
	}
	for _, id := range want {
		_ = r.out.enqueue(*replaceEvent(stored[id]))
	}
}

// storedOrder returns the ids of the artifacts in the order of the log, including pending
// events. atStart are the artifacts at the start of this attempt, which has started others.
func (e *earlierAttempts) storedOrder(atStart []a2a.Artifact, started []string) (ids []string) {
	known := make(map[string]bool)
	add := func(id string) {
		if earlier := e.artifacts[id]; earlier != nil && !earlier.rewritten && earlier.atStart == nil {
			return // withdrawn
		}
		if !known[id] {
			known[id] = true
			ids = append(ids, id)
		}
	}
	for _, a := range atStart {
		add(a.ID)
	}
	for _, id := range slices.Concat(started, e.ids) {
		add(id)
	}
	return ids
}

// wantedOrder returns the ids of the artifacts at the start of the turn, followed by those that
// this attempt has started.
func (e *earlierAttempts) wantedOrder(started []string) (ids []string) {
	known := make(map[string]bool)
	for _, a := range e.startArtifacts {
		ids = append(ids, a.ID)
		known[a.ID] = true
	}
	for _, id := range started {
		if !known[id] {
			ids = append(ids, id)
		}
	}
	return ids
}
