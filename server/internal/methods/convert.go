package methods

import (
	"strconv"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/store"
)

// convertTask converts a task to A2A with its newest historyLength messages, or all messages if
// historyLength is nil. If the client requested a length, the history is not nil, even if it is
// empty.
func convertTask(c *rpc.Call, t *store.Task, historyLength *int) *a2a.Task {
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
	out := &a2a.Task{ID: t.Key.ID, ContextID: t.ContextID, Status: t.Status, Metadata: t.Metadata, History: messages, Generation: generation(c, t.Seq)}
	if len(t.Artifacts) > 0 {
		out.Artifacts = t.Artifacts
	}
	return out
}

// hasGenerations reports whether the client knows generations: from A2A 1.1 on.
func hasGenerations(c *rpc.Call) bool { return c.Minor >= 1 }

// generation returns the generation after an event, or 0 if the client does not know generations.
func generation(c *rpc.Call, seq int64) int64 {
	if !hasGenerations(c) {
		return 0
	}
	return seq
}

// convertUpdate converts an item of a task's stream to A2A.
func convertUpdate(c *rpc.Call, u *engine.Update, contextID string, historyLength *int) a2a.Event {
	e := u.Event
	switch {
	case u.Task != nil:
		return convertTask(c, u.Task, historyLength)
	case e.Artifact != nil:
		return &a2a.TaskArtifactUpdateEvent{
			TaskID: c.TaskID, ContextID: contextID, Artifact: *e.Artifact,
			Append: e.Append, LastChunk: e.LastChunk, Metadata: e.Metadata, Generation: generation(c, e.Seq),
		}
	}
	return &a2a.TaskStatusUpdateEvent{
		TaskID: c.TaskID, ContextID: contextID, Final: u.Last, Metadata: statusMetadata(e), Generation: generation(c, e.Seq),
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
