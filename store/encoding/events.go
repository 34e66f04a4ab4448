package encoding

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// event is the encoding of a [store.Event]. It omits values that most events repeat: the time
// of the first event of the row, the state working, and the ids of the log's task and context
// in messages.
type event struct {
	V     int           `json:"v,omitempty"` // only in the first event of a row
	Time  *time.Time    `json:"time,omitempty"`
	State a2a.TaskState `json:"state,omitempty"`
	// Bare marks messages that have no task or context id. DecodeEvents adds none.
	Bare      bool           `json:"bare,omitempty"`
	Message   *a2a.Message   `json:"message,omitempty"`
	Progress  bool           `json:"progress,omitempty"`
	Received  *a2a.Message   `json:"received,omitempty"`
	Sender    *a2a.Principal `json:"sender,omitempty"`
	Artifact  *a2a.Artifact  `json:"artifact,omitempty"`
	Append    bool           `json:"append,omitempty"`
	LastChunk bool           `json:"lastChunk,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`
}

// defaultState is the state of an encoded event without a state.
const defaultState = "working"

// Events encodes events that are committed together as a JSON array, for one row of a task's
// log. contextID is the task's context, or "" if the caller does not know it. [DecodeEvents]
// decodes it.
func Events(events []store.Event, task store.Key, contextID string) ([]byte, error) {
	buf := append(make([]byte, 0, 1024), '[')
	for i := range events {
		if i > 0 {
			buf = append(buf, ',')
		}
		e := &events[i]
		stored := event{
			Time: &e.Time, State: e.State, Message: e.Message, Progress: e.Progress, Received: e.Received, Sender: e.Sender,
			Artifact: e.Artifact, Append: e.Append, LastChunk: e.LastChunk, Metadata: e.Metadata,
		}
		if i > 0 && e.Time.Equal(events[0].Time) {
			stored.Time = nil
		}
		if stored.State == defaultState {
			stored.State = ""
		}
		if stored.Bare = missingIDs(e.Message) || missingIDs(e.Received); !stored.Bare {
			stored.Message, stored.Received = withoutIDs(e.Message, task, contextID), withoutIDs(e.Received, task, contextID)
		}
		var err error
		if buf, err = form.Append(buf, &stored); err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	return append(buf, ']'), nil
}

// Template is the encoding of an event before its time is known: Before, the time as
// [Template.At] writes it, and After.
type Template struct{ Before, After string }

// At returns the encoding of the event at a time, as [Events] does.
func (t *Template) At(at time.Time) string {
	return t.Before + at.UTC().Format(wire.TimeFormat) + t.After
}

// NewTemplate returns the encoding of an event of any time.
func NewTemplate(e store.Event) (t Template, err error) {
	e.Time = time.Date(9999, 12, 31, 23, 59, 59, 999_000_000, time.UTC) // no event has it
	data, err := Events([]store.Event{e}, store.Key{}, "")
	if err != nil {
		return t, err
	}
	at := e.Time.Format(wire.TimeFormat)
	t.Before, t.After, _ = strings.Cut(string(data), at)
	if strings.Contains(t.After, at) {
		return t, fmt.Errorf("event contains the time %s", at)
	}
	return t, nil
}

// DecodeEvents decodes a row of a task's log. first is the sequence of its first event.
// Long strings of the events share memory with data, which must not change afterwards.
func DecodeEvents(data []byte, first int64, task store.Key, contextID string) ([]store.Event, error) {
	var entries []event
	if err := form.UnmarshalShared(data, &entries); err != nil {
		return nil, err
	}
	events := make([]store.Event, len(entries))
	var at time.Time // of the first
	for i := range entries {
		stored := &entries[i]
		if err := check(stored.V); err != nil {
			return nil, err
		}
		if stored.Time == nil {
			stored.Time = &at
		}
		if i == 0 {
			at = *stored.Time
		}
		if stored.State == "" {
			stored.State = defaultState
		}
		if !stored.Bare {
			fillIDs(stored.Message, task, contextID)
			fillIDs(stored.Received, task, contextID)
		}
		events[i] = store.Event{
			Seq: first + int64(i), Time: *stored.Time, State: stored.State, Message: stored.Message, Progress: stored.Progress,
			Received: stored.Received, Sender: stored.Sender, Artifact: stored.Artifact, Append: stored.Append, LastChunk: stored.LastChunk, Metadata: stored.Metadata,
		}
	}
	return events, nil
}

func missingIDs(m *a2a.Message) bool { return m != nil && (m.TaskID == "" || m.ContextID == "") }

// withoutIDs returns a copy of a message without the ids of the given task and context.
func withoutIDs(m *a2a.Message, task store.Key, contextID string) *a2a.Message {
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
func fillIDs(m *a2a.Message, task store.Key, contextID string) {
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
