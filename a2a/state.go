package a2a

import "slices"

// TaskState is the state of a task, as A2A 0.3 writes it.
type TaskState string

// The task states. The first nine are A2A 0.3 (section 6.3), the others are
// extensions.
const (
	StateSubmitted     TaskState = "submitted"
	StateWorking       TaskState = "working"
	StateInputRequired TaskState = "input-required"
	StateCompleted     TaskState = "completed"
	StateCanceled      TaskState = "canceled"
	StateFailed        TaskState = "failed"
	StateRejected      TaskState = "rejected"
	StateAuthRequired  TaskState = "auth-required"
	StateUnknown       TaskState = "unknown"

	StatePaymentRequired           TaskState = "payment-required"
	StateTrustVerificationRequired TaskState = "trust-verification-required"
	StatePending                   TaskState = "pending"
	StateSuspended                 TaskState = "suspended"
	StateResumed                   TaskState = "resumed"
	StateBidSubmitted              TaskState = "negotiation-bid-submitted"
	StateBidLost                   TaskState = "negotiation-bid-lost"
	StateBidWon                    TaskState = "negotiation-bid-won"
)

// transitions has the allowed state changes. A state that is not a key never changes. Staying in a
// state, such as progress while working, is not a change.
var transitions = map[TaskState][]TaskState{
	StatePending:   {StateSubmitted, StateCanceled, StateRejected, StateFailed},
	StateSubmitted: append([]TaskState{StateWorking}, afterSubmitted...),
	StateWorking:   append([]TaskState{StateSubmitted}, outcomes...),
	StateResumed:   append([]TaskState{StateSubmitted}, outcomes...),

	StateInputRequired:             resume,
	StateAuthRequired:              resume,
	StatePaymentRequired:           resume,
	StateTrustVerificationRequired: resume,
	StateSuspended:                 append([]TaskState{StateResumed}, resume...),

	StateBidSubmitted: {StateBidWon, StateBidLost, StateCanceled, StateFailed},
	StateBidWon:       {StateSubmitted, StateCanceled, StateFailed},
}

var (
	// outcomes are the states in which an execution can leave a task.
	outcomes = []TaskState{
		StateCompleted, StateFailed, StateRejected, StateCanceled,
		StateInputRequired, StateAuthRequired, StatePaymentRequired,
		StateTrustVerificationRequired, StateSuspended,
	}
	afterSubmitted = append([]TaskState{StateBidSubmitted}, outcomes...)
	// resume are the states that can follow a pause.
	resume = []TaskState{StateSubmitted, StateWorking, StateCanceled, StateFailed, StateRejected}
)

// States returns all known states.
func States() []TaskState {
	return []TaskState{
		StateSubmitted, StateWorking, StateInputRequired, StateCompleted, StateCanceled,
		StateFailed, StateRejected, StateAuthRequired, StateUnknown, StatePaymentRequired,
		StateTrustVerificationRequired, StatePending, StateSuspended, StateResumed,
		StateBidSubmitted, StateBidLost, StateBidWon,
	}
}

// EnumValues returns the accepted values.
func (TaskState) EnumValues() []string {
	var values []string
	for _, s := range States() {
		values = append(values, string(s))
	}
	return values
}

// Known reports whether s is one of the states of this package.
func (s TaskState) Known() bool { return slices.Contains(States(), s) }

// Terminal reports whether s is final: the task never changes again.
func (s TaskState) Terminal() bool {
	switch s {
	case StateCompleted, StateCanceled, StateFailed, StateRejected, StateBidLost:
		return true
	default:
		return false
	}
}

// Paused reports whether a task in state s waits for its client: it does not run until a new
// message arrives.
func (s TaskState) Paused() bool {
	switch s {
	case StateInputRequired, StateAuthRequired, StatePaymentRequired,
		StateTrustVerificationRequired, StateSuspended:
		return true
	default:
		return false
	}
}

// Final reports whether an A2A 0.3 event stream ends at s because the task is finished or
// waits for its client (section 7.2).
func (s TaskState) Final() bool { return s.Terminal() || s.Paused() }

// CanMove reports whether a task may change from s to next. Staying in a state that is not
// terminal is allowed.
func (s TaskState) CanMove(next TaskState) bool {
	if s == next {
		return !s.Terminal() && s.Known()
	}
	return slices.Contains(transitions[s], next)
}
