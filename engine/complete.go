package engine

import (
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// complete makes the task's artifacts those of this attempt, the turn's last: it
// completes what the handler left open and reverts what only earlier attempts wrote. An
// event that cannot be added is missing for a reason that the end of the turn meets, too.
func (t *Turn) complete() {
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
		if event := t.earlier.left[id].revert(id); event != nil {
			_ = t.r.enqueue(*event)
		}
	}
	t.reorder()
}

// revert returns the event that makes an artifact what it was as the turn started, nil
// when it is that or belongs to this attempt.
func (l *leftover) revert(id string) *store.Event {
	switch {
	case l.claimed:
		return nil
	case l.before == nil && l.artifact == nil:
		return nil
	case l.before == nil:
		return withdrawal(l.artifact)
	case l.artifact != nil && l.last && equalHeads(l.before, l.artifact) && equalParts(l.before.Parts, l.artifact.Parts):
		return nil
	}
	return replacement(l.before)
}

func withdrawal(a *a2a.Artifact) *store.Event {
	gone := a2a.Artifact{ID: a.ID, Name: a.Name, Parts: []a2a.Part{}}
	return &store.Event{State: a2a.StateWorking, Artifact: &gone, LastChunk: true}
}

func replacement(a *a2a.Artifact) *store.Event {
	whole := *a
	return &store.Event{State: a2a.StateWorking, Artifact: &whole, LastChunk: true}
}

// reorder puts the artifacts in the order in which this attempt began them. That differs
// from the order in which they are stored only if earlier attempts began them in another.
func (t *Turn) reorder() {
	if slices.Equal(t.storedOrder(), t.wantedOrder()) {
		return
	}
	if err := t.r.insist(t.r.e.settling, new(runChange)); err != nil {
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
		_ = t.r.enqueue(*withdrawal(stored[id]))
	}
	for _, id := range want {
		_ = t.r.enqueue(*replacement(stored[id]))
	}
}

// storedOrder returns the ids of the artifacts in the order of the log with what is
// pending.
func (t *Turn) storedOrder() (ids []string) {
	known := make(map[string]bool)
	add := func(id string) {
		if l := t.earlier.left[id]; l != nil && !l.claimed && l.before == nil {
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
	for _, id := range slices.Concat(t.order, t.earlier.ids) {
		add(id)
	}
	return ids
}

// wantedOrder returns the ids of the artifacts as the turn started, then those that this
// attempt has begun.
func (t *Turn) wantedOrder() (ids []string) {
	known := make(map[string]bool)
	for _, a := range t.earlier.start {
		ids = append(ids, a.ID)
		known[a.ID] = true
	}
	for _, id := range t.order {
		if !known[id] {
			ids = append(ids, id)
		}
	}
	return ids
}
