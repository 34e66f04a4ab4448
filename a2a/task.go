package a2a

import (
	"time"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

// TaskStatus is a state, the time at which the task entered it, and the agent's message about
// it (A2A 0.3 section 6.2).
type TaskStatus struct {
	State     TaskState `json:"state" wire:"required"`
	Message   *Message  `json:"message,omitempty"`
	Timestamp time.Time `json:"timestamp,omitempty"`
}

// Task is a unit of work and its results (A2A 0.3 section 6.1). Nil History and Artifacts are
// omitted on the wire.
type Task struct {
	_         struct{}       `wire:"const=kind:task,required"`
	ID        string         `json:"id" wire:"required"`
	ContextID string         `json:"contextId" wire:"required" v10:",optional,omitempty" v03:",optional,omitempty"`
	Status    TaskStatus     `json:"status" wire:"required"`
	History   []Message      `json:"history,omitzero" v10:",omitempty"`
	Artifacts []Artifact     `json:"artifacts,omitzero"`
	Metadata  map[string]any `json:"metadata,omitempty"`
	// Generation, of A2A 1.1, is the number of the task's newest event, 0 if it is not known. The
	// first event creates the task; each change is one event.
	Generation int64 `json:"-" v10:"generation,omitempty,quoted"`
}

// Event is an item of a task's stream: a [*Task], a [*Message], a
// [*TaskStatusUpdateEvent] or a [*TaskArtifactUpdateEvent].
type Event interface{ streamEvent() }

var _ = wire.Union("kind", map[string]Event{
	"task": (*Task)(nil), "message": (*Message)(nil),
	"status-update": (*TaskStatusUpdateEvent)(nil), "artifact-update": (*TaskArtifactUpdateEvent)(nil),
})

func (*Task) streamEvent()                    {}
func (*Message) streamEvent()                 {}
func (*TaskStatusUpdateEvent) streamEvent()   {}
func (*TaskArtifactUpdateEvent) streamEvent() {}

// MetadataReceived is the member of a status update's metadata with the id of the client's
// message that the update added to the task, an extension.
const MetadataReceived = "receivedMessageId"

// TaskStatusUpdateEvent reports a new status (A2A 0.3 section 7.2.2).
type TaskStatusUpdateEvent struct {
	_         struct{}   `wire:"const=kind:status-update,required"`
	TaskID    string     `json:"taskId" wire:"required"`
	ContextID string     `json:"contextId" wire:"required"`
	Status    TaskStatus `json:"status" wire:"required"`
	// Final is set on the last event of a stream.
	Final    bool           `json:"final" wire:"required" v10:"-" v03:",optional"`
	Metadata map[string]any `json:"metadata,omitempty"`
	// Generation, of A2A 1.1, is the number of this event, 0 if it is not known.
	Generation int64 `json:"-" v10:"generation,omitempty,quoted"`
}

// TaskArtifactUpdateEvent reports an artifact or a chunk of one (A2A 0.3 section
// 7.2.3).
type TaskArtifactUpdateEvent struct {
	_         struct{} `wire:"const=kind:artifact-update,required"`
	TaskID    string   `json:"taskId" wire:"required"`
	ContextID string   `json:"contextId" wire:"required"`
	Artifact  Artifact `json:"artifact" wire:"required"`
	// Append means that the parts continue the artifact with the same id instead of replacing it.
	Append bool `json:"append,omitempty"`
	// LastChunk is set on the chunk that completes the artifact.
	LastChunk bool           `json:"lastChunk,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`
	// Generation is as in [TaskStatusUpdateEvent].
	Generation int64 `json:"-" v10:"generation,omitempty,quoted"`
}

// DecodeEvent decodes one stream item by its kind.
func DecodeEvent(data []byte) (Event, error) {
	var head struct {
		Kind string `json:"kind" wire:"required"`
	}
	if err := wire.Unmarshal(data, &head); err != nil {
		return nil, err
	}
	var e Event
	switch head.Kind {
	case "task":
		e = new(Task)
	case "message":
		e = new(Message)
	case "status-update":
		e = new(TaskStatusUpdateEvent)
	case "artifact-update":
		e = new(TaskArtifactUpdateEvent)
	default:
		return nil, &wire.Error{Path: "kind", Rule: "is not the kind of a stream event"}
	}
	return e, wire.Unmarshal(data, e)
}
