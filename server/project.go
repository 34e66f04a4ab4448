package server

import (
	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// task tells a task in A2A's words. historyLength is as in [v03.History].
func task(t *store.Task, historyLength *int) *a2a.Task {
	entries := t.History
	if historyLength != nil && len(entries) > *historyLength {
		entries = entries[len(entries)-*historyLength:]
	}
	messages := make([]a2a.Message, len(entries))
	for i := range entries {
		messages[i] = entries[i].Message
	}
	out := &a2a.Task{
		ID: t.Key.ID, ContextID: t.ContextID, Status: t.Status, Metadata: t.Metadata,
		History: v03.History(messages, historyLength),
	}
	if len(t.Artifacts) > 0 {
		out.Artifacts = t.Artifacts
	}
	return out
}

// update tells an item of a task's stream in A2A's words.
func update(u *engine.Update, id, contextID string, historyLength *int) a2a.Event {
	e := u.Event
	switch {
	case u.Task != nil:
		return task(u.Task, historyLength)
	case e.Artifact != nil:
		return &a2a.TaskArtifactUpdateEvent{
			TaskID: id, ContextID: contextID, Artifact: *e.Artifact,
			Append: e.Append, LastChunk: e.LastChunk, Metadata: e.Metadata,
		}
	}
	return &a2a.TaskStatusUpdateEvent{
		TaskID: id, ContextID: contextID, Final: u.Last, Metadata: statusMetadata(e),
		Status: a2a.TaskStatus{State: e.State, Message: e.Message, Timestamp: e.Time},
	}
}

// statusMetadata names the client's message that joined the task with an event.
func statusMetadata(e *store.Event) map[string]any {
	if e.Received == nil {
		return e.Metadata
	}
	m := make(map[string]any, len(e.Metadata)+1)
	for k, v := range e.Metadata {
		m[k] = v
	}
	m[v03.MetadataReceived] = e.Received.ID
	return m
}
