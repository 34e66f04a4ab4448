package engine

import (
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// AdmitParams describes a message that is about to be stored, see [Turns.Admit].
type AdmitParams struct {
	// Principal sends the message.
	Principal a2a.Principal
	// Message has the ids of its task and context. It must not be modified.
	Message a2a.Message
	// Task is the task without the message, nil if the message starts a task. It must not be modified.
	Task *store.Task
}

// Admission is the decision to store a message. The zero value lets it run.
type Admission struct {
	// Pause, if not empty, is a state in which a task waits for its client, such as auth-required. The message is
	// stored, and the task pauses in this state instead of running. The handler gets the message together with the
	// one that ends the pause. A message to a task that runs or is queued is rejected instead.
	Pause a2a.TaskState
	// Explanation is the agent's message for the pause; it may be empty.
	Explanation []a2a.Part
	// Records are changed in the commit of the message. If a record does not have the expected version, the message
	// is admitted again.
	Records []store.RecordChange
}

// admit returns the decision about the message. task is nil if the message starts one. A message that repeats an
// accepted one is not admitted again: admit returns a *duplicateError.
func (s *sendCall) admit(ctx context.Context, task *store.Task) (Admission, error) {
	if s.e.cfg.Turns.Admit == nil {
		return Admission{}, nil
	}
	if task == nil { // checkAppend has compared a message to a task
		record, err := s.identity.previous(ctx)
		if err == nil && record != nil {
			err = &duplicateError{record: record}
		}
		if err != nil {
			return Admission{}, err
		}
	}
	a, err := s.e.cfg.Turns.Admit(ctx, AdmitParams{Principal: s.principal, Message: s.params.Message, Task: task})
	if err == nil && a.Pause != "" {
		err = checkPause(a.Pause, task)
	}
	if err != nil {
		return Admission{}, s.refuse(ctx, err)
	}
	return a, nil
}

// checkPause returns an error if a message cannot pause a task, which is nil if the message starts it.
func checkPause(state a2a.TaskState, task *store.Task) error {
	switch {
	case !state.Paused():
		return a2a.Errorf(a2a.CodeInternal, "Turns.Admit pauses a task in the state %s, in which tasks do not wait for their clients", state)
	case task != nil && task.Queue.Phase != store.PhaseIdle:
		return a2a.Errorf(a2a.CodeUnsupported, "task %s is %s, and the message requires that it waits (%s); send the message when the task waits for its client", a2a.Quote(task.Key.ID), task.Status.State, state)
	}
	return nil
}

// pauseEvent returns the event that pauses the task of a message.
func (s *sendCall) pauseEvent(a Admission) store.Event {
	event := store.Event{State: a.Pause}
	if len(a.Explanation) > 0 {
		m := &s.params.Message
		event.Message = &a2a.Message{ID: s.e.cfg.NewID(), TaskID: m.TaskID, ContextID: m.ContextID, Role: a2a.RoleAgent, Parts: a.Explanation}
	}
	return event
}

// sender returns the principal to store with the message, nil if only its id is known.
func (s *sendCall) sender() *a2a.Principal {
	if s.principal.Plain() {
		return nil
	}
	return &s.principal
}
