package store

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// logEvent is an Event as the JSON of a log holds it. What most events repeat is left out: a
// time that is that of the first event of the row, the state working, and the ids of
// messages that name the task and the context to which the log belongs.
type logEvent struct {
	Time  *time.Time `json:"time,omitempty"`
	State string     `json:"state,omitempty"` // may be one that this program does not know
	// Bare marks messages without the id of a task or a context, which have none when read.
	Bare      bool           `json:"bare,omitempty"`
	Message   *a2a.Message   `json:"message,omitempty"`
	Progress  bool           `json:"progress,omitempty"`
	Received  *a2a.Message   `json:"received,omitempty"`
	Artifact  *a2a.Artifact  `json:"artifact,omitempty"`
	Append    bool           `json:"append,omitempty"`
	LastChunk bool           `json:"lastChunk,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`
}

// usualState is the state of events that name none.
const usualState = string(a2a.StateWorking)

// EncodeEvents returns events that are committed together as a JSON array, for a row of the
// log of a task. contextID is the task's context, "" where the caller does not know it.
// [DecodeEvents] reads it.
func EncodeEvents(events []Event, task Key, contextID string) ([]byte, error) {
	buf := append(make([]byte, 0, 1024), '[')
	for i := range events {
		if i > 0 {
			buf = append(buf, ',')
		}
		e := &events[i]
		kept := logEvent{
			Time: &e.Time, State: string(e.State), Message: e.Message, Progress: e.Progress, Received: e.Received,
			Artifact: e.Artifact, Append: e.Append, LastChunk: e.LastChunk, Metadata: e.Metadata,
		}
		if i > 0 && e.Time.Equal(events[0].Time) {
			kept.Time = nil
		}
		if kept.State == usualState {
			kept.State = ""
		}
		if kept.Bare = lacksIDs(e.Message) || lacksIDs(e.Received); !kept.Bare {
			kept.Message, kept.Received = withoutIDs(e.Message, task, contextID), withoutIDs(e.Received, task, contextID)
		}
		var err error
		if buf, err = wire.Append(buf, &kept); err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	return append(buf, ']'), nil
}

// DecodeEvents reads a row of the log of a task of a context. Its first event has the given
// sequence. Long strings of the events share memory with data, which must not change afterwards.
func DecodeEvents(data []byte, first int64, task Key, contextID string) ([]Event, error) {
	var kept []logEvent
	if err := wire.UnmarshalShared(data, &kept); err != nil {
		return nil, err
	}
	events := make([]Event, len(kept))
	var at time.Time // of the first
	for i := range kept {
		k := &kept[i]
		if k.Time == nil {
			k.Time = &at
		}
		if i == 0 {
			at = *k.Time
		}
		if k.State == "" {
			k.State = usualState
		}
		if !k.Bare {
			fillIDs(k.Message, task, contextID)
			fillIDs(k.Received, task, contextID)
		}
		events[i] = Event{
			Seq: first + int64(i), Time: *k.Time, State: a2a.TaskState(k.State), Message: k.Message, Progress: k.Progress,
			Received: k.Received, Artifact: k.Artifact, Append: k.Append, LastChunk: k.LastChunk, Metadata: k.Metadata,
		}
	}
	return events, nil
}

func lacksIDs(m *a2a.Message) bool { return m != nil && (m.TaskID == "" || m.ContextID == "") }

// withoutIDs returns a message without the ids that are those of the task and its context.
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

// fillIDs sets the ids that withoutIDs has left out.
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
