package store

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// logEvent is the JSON encoding of an Event in a log. It omits values that most events
// repeat: the time of the first event of the row, the state working, and the ids of the
// log's task and context in messages.
type logEvent struct {
	Time  *time.Time `json:"time,omitempty"`
	State string     `json:"state,omitempty"` // possibly unknown to this program
	// Bare marks messages that have no task or context id. DecodeEvents adds none.
	Bare      bool           `json:"bare,omitempty"`
	Message   *a2a.Message   `json:"message,omitempty"`
	Progress  bool           `json:"progress,omitempty"`
	Received  *a2a.Message   `json:"received,omitempty"`
	Artifact  *a2a.Artifact  `json:"artifact,omitempty"`
	Append    bool           `json:"append,omitempty"`
	LastChunk bool           `json:"lastChunk,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`
}

// defaultState is the state of an encoded event without a state.
const defaultState = string(a2a.StateWorking)

// EncodeEvents encodes events that are committed together as a JSON array, for one row of
// a task's log. contextID is the task's context, or "" if the caller does not know it.
// [DecodeEvents] decodes it.
func EncodeEvents(events []Event, task Key, contextID string) ([]byte, error) {
	buf := append(make([]byte, 0, 1024), '[')
	for i := range events {
		if i > 0 {
			buf = append(buf, ',')
		}
		e := &events[i]
		entry := logEvent{
			Time: &e.Time, State: string(e.State), Message: e.Message, Progress: e.Progress, Received: e.Received,
			Artifact: e.Artifact, Append: e.Append, LastChunk: e.LastChunk, Metadata: e.Metadata,
		}
		if i > 0 && e.Time.Equal(events[0].Time) {
			entry.Time = nil
		}
		if entry.State == defaultState {
			entry.State = ""
		}
		if entry.Bare = missingIDs(e.Message) || missingIDs(e.Received); !entry.Bare {
			entry.Message, entry.Received = withoutIDs(e.Message, task, contextID), withoutIDs(e.Received, task, contextID)
		}
		var err error
		if buf, err = wire.Append(buf, &entry); err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	return append(buf, ']'), nil
}

// DecodeEvents decodes a row of a task's log. first is the sequence of its first event.
// Long strings of the events share memory with data, which must not change afterwards.
func DecodeEvents(data []byte, first int64, task Key, contextID string) ([]Event, error) {
	var entries []logEvent
	if err := wire.UnmarshalShared(data, &entries); err != nil {
		return nil, err
	}
	events := make([]Event, len(entries))
	var at time.Time // of the first
	for i := range entries {
		entry := &entries[i]
		if entry.Time == nil {
			entry.Time = &at
		}
		if i == 0 {
			at = *entry.Time
		}
		if entry.State == "" {
			entry.State = defaultState
		}
		if !entry.Bare {
			fillIDs(entry.Message, task, contextID)
			fillIDs(entry.Received, task, contextID)
		}
		events[i] = Event{
			Seq: first + int64(i), Time: *entry.Time, State: a2a.TaskState(entry.State), Message: entry.Message, Progress: entry.Progress,
			Received: entry.Received, Artifact: entry.Artifact, Append: entry.Append, LastChunk: entry.LastChunk, Metadata: entry.Metadata,
		}
	}
	return events, nil
}

func missingIDs(m *a2a.Message) bool { return m != nil && (m.TaskID == "" || m.ContextID == "") }

// withoutIDs returns a copy of a message without the ids of the given task and context.
func withoutIDs(m *a2a.Message, task Key, contextID string) *a2a.Message {
	if m == nil {
		return nil
	}
	short := *m
	if short.TaskID == task.ID {
		short.TaskID = ""
	}
	if short.ContextID == contextID {
		short.ContextID = ""
	}
	return &short
}

// fillIDs sets the ids that withoutIDs removed.
func fillIDs(m *a2a.Message, task Key, contextID string) {
	if m == nil {
		return
	}
	if m.TaskID == "" {
		m.TaskID = task.ID
	}
	if m.ContextID == "" {
		m.ContextID = contextID
	}
}
