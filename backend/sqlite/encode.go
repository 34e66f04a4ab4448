package sqlite

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// snapshot is the stored part of a task that is not in task_rows.
type snapshot struct {
	Status    status               `json:"status"`
	History   []store.HistoryEntry `json:"history,omitempty"`
	Artifacts []a2a.Artifact       `json:"artifacts,omitempty"`
	Metadata  map[string]any       `json:"metadata,omitempty"`
}

// outline is a snapshot read without its artifacts.
type outline struct {
	Status   status               `json:"status"`
	History  []store.HistoryEntry `json:"history,omitempty"`
	Metadata map[string]any       `json:"metadata,omitempty"`
}

// status is an a2a.TaskStatus whose state may be unknown to this program.
type status struct {
	State     string       `json:"state"`
	Message   *a2a.Message `json:"message,omitempty"`
	Timestamp time.Time    `json:"timestamp"`
}

func (s *status) status() a2a.TaskStatus {
	return a2a.TaskStatus{State: a2a.TaskState(s.State), Message: s.Message, Timestamp: s.Timestamp}
}

// encodeEvent returns the JSON of an event without messages.
func encodeEvent(e store.Event) (string, error) {
	data, err := store.EncodeEvents([]store.Event{e}, store.Key{}, "")
	return jsonText(data), err
}

// encodeSnapshot returns the snapshot of a task after a change that adds bytes to the
// log, "" if a snapshot is not worth storing.
func encodeSnapshot(t *store.Task, added int) (string, error) {
	if t == nil || added == 0 || !t.SnapshotDue(added) {
		return "", nil
	}
	buf, err := wire.Append(make([]byte, 0, 2048), &snapshot{
		status{string(t.Status.State), t.Status.Message, t.Status.Timestamp}, t.History, t.Artifacts, t.Metadata,
	})
	if err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	if !t.SnapshotPays(added, len(buf)) {
		return "", nil
	}
	return jsonText(buf), nil
}

// millis returns t in milliseconds since 1970, 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
