package engine

import (
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// completeArtifacts leaves the task with the artifacts of this attempt, which is the last one
// of the turn. It closes artifacts that the handler left open and reverts artifacts that only
// earlier attempts wrote. It ignores errors, because the commit that ends the turn then fails
// for the same reason.
func (t *Turn) completeArtifacts() {
	t.mu.Lock()
	writers := slices.Clone(t.writers)
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
			_ = t.r.out.enqueue(*event)
		}
	}
	t.reorder()
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

// reorder puts the artifacts in the order in which this attempt started them. The stored order
// differs only if earlier attempts started them in another order.
func (t *Turn) reorder() {
	if slices.Equal(t.storedOrder(), t.wantedOrder()) {
		return
	}
	if err := t.r.out.commitWithRetry(t.r.e.commitCtx, new(runChange)); err != nil {
		return
	}
	task, _ := t.r.l.snapshot()
	if task == nil { // the run has ended
		return
	}
	stored := make(map[string]*a2a.Artifact, len(task.Artifacts))
	for i := range task.Artifacts {
		stored[task.Artifacts[i].ID] = &task.Artifacts[i]
	}
	want := slices.DeleteFunc(t.wantedOrder(), func(id string) bool { return stored[id] == nil })
	for len(want) > 0 && len(task.Artifacts) > 0 && want[0] == task.Artifacts[0].ID {
		want = want[1:]
		task = &store.Task{Artifacts: task.Artifacts[1:]}
	}
	for _, id := range want {
		_ = t.r.out.enqueue(*withdrawEvent(stored[id]))
	}
	for _, id := range want {
		_ = t.r.out.enqueue(*replaceEvent(stored[id]))
	}
}

// storedOrder returns the ids of the artifacts in the order of the log, including pending
// events.
func (t *Turn) storedOrder() (ids []string) {
	known := make(map[string]bool)
	add := func(id string) {
		if earlier := t.earlier.artifacts[id]; earlier != nil && !earlier.rewritten && earlier.atStart == nil {
			return // withdrawn
		}
		if !known[id] {
			known[id] = true
			ids = append(ids, id)
		}
	}
	for _, a := range t.task.Artifacts {
		add(a.ID)
	}
	for _, id := range slices.Concat(t.startedOrder, t.earlier.ids) {
		add(id)
	}
	return ids
}

// wantedOrder returns the ids of the artifacts at the start of the turn, followed by those that
// this attempt has started.
func (t *Turn) wantedOrder() (ids []string) {
	known := make(map[string]bool)
	for _, a := range t.earlier.startArtifacts {
		ids = append(ids, a.ID)
		known[a.ID] = true
	}
	for _, id := range t.startedOrder {
		if !known[id] {
			ids = append(ids, id)
		}
	}
	return ids
}
