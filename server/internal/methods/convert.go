package methods

import (
	"strconv"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// convertTask converts a task to A2A with its newest historyLength messages, or all if that is
// nil. The history is not nil, even if empty, when the client requested a length.
func convertTask(t *store.Task, historyLength *int) *a2a.Task {
	entries := t.History
	if historyLength != nil && len(entries) > *historyLength {
		entries = entries[len(entries)-*historyLength:]
	}
	var messages []a2a.Message
	if len(entries) > 0 || historyLength != nil {
		messages = make([]a2a.Message, len(entries))
	}
	for i := range entries {
		messages[i] = entries[i].Message
	}
	out := &a2a.Task{ID: t.Key.ID, ContextID: t.ContextID, Status: t.Status, Metadata: t.Metadata, History: messages}
	if len(t.Artifacts) > 0 {
		out.Artifacts = t.Artifacts
	}
	return out
}

// convertUpdate converts an item of a task's stream to A2A.
func convertUpdate(u *engine.Update, id, contextID string, historyLength *int) a2a.Event {
	e := u.Event
	switch {
	case u.Task != nil:
		return convertTask(u.Task, historyLength)
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

// statusMetadata adds the ID of the client's message that an event added to the task.
func statusMetadata(e *store.Event) map[string]any {
	if e.Received == nil {
		return e.Metadata
	}
	m := make(map[string]any, len(e.Metadata)+1)
	for k, v := range e.Metadata {
		m[k] = v
	}
	m[a2a.MetadataReceived] = e.Received.ID
	return m
}

// convertContext converts a context to A2A. The member tasks is present even if it is empty.
func convertContext(c *store.Context, history []a2a.Message) *a2a.Context {
	out := &a2a.Context{
		ID: c.Key.ID, Name: c.Name, Description: c.Description, Role: c.Role, Status: c.Status, Tags: c.Tags,
		Tasks: c.TaskIDs, TaskCount: c.TaskCount, History: history, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
		Metadata: c.Metadata, ParentID: c.ParentID, ReferenceIDs: c.ReferenceIDs, Extensions: c.Extensions,
	}
	if out.Tasks == nil {
		out.Tasks = []string{}
	}
	return out
}

// convertFeedback converts feedback to A2A.
func convertFeedback(f *store.Feedback) a2a.TaskFeedback {
	out := a2a.TaskFeedback{ID: f.ID, TaskID: f.Key.ID, Feedback: f.Text, Metadata: f.Metadata, CreatedAt: f.CreatedAt}
	if f.Rating != 0 {
		out.Rating = &f.Rating
	}
	return out
}

// convertFeedbackSummary converts a summary to A2A.
func convertFeedbackSummary(s store.FeedbackSummary) a2a.FeedbackSummary {
	out := a2a.FeedbackSummary{Count: s.Count(), Ratings: make(map[string]int, 5)}
	for rating := 1; rating < len(s.Ratings); rating++ {
		out.Rated += s.Ratings[rating]
		out.Ratings[strconv.Itoa(rating)] = s.Ratings[rating]
	}
	if out.Rated > 0 {
		average := s.Average()
		out.Average = &average
	}
	return out
}
