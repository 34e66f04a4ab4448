package a2a

import "slices"

// TaskState is the state of a task, in its A2A 0.3 spelling.
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

// moves is the one table of allowed state changes. A state that is not a key
// never moves. A task that stays in its state (progress while working) is not a
// move.
var moves = map[TaskState][]TaskState{
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
	// outcomes are the states in which a run can leave a task.
	outcomes = []TaskState{
		StateCompleted, StateFailed, StateRejected, StateCanceled,
		StateInputRequired, StateAuthRequired, StatePaymentRequired,
		StateTrustVerificationRequired, StateSuspended,
	}
	afterSubmitted = append([]TaskState{StateBidSubmitted}, outcomes...)
	// resume leaves a pause: by a new message, or for good.
	resume = []TaskState{StateSubmitted, StateWorking, StateCanceled, StateFailed, StateRejected}
)

// States lists every known state.
func States() []TaskState {
	return []TaskState{
		StateSubmitted, StateWorking, StateInputRequired, StateCompleted, StateCanceled,
		StateFailed, StateRejected, StateAuthRequired, StateUnknown, StatePaymentRequired,
		StateTrustVerificationRequired, StatePending, StateSuspended, StateResumed,
		StateBidSubmitted, StateBidLost, StateBidWon,
	}
}

// EnumValues lists the values accepted on input.
func (TaskState) EnumValues() []string {
	var values []string
	for _, s := range States() {
		values = append(values, string(s))
	}
	return values
}

// Known reports whether s is one of the states of this package.
func (s TaskState) Known() bool { return slices.Contains(States(), s) }

// Terminal reports whether s is final: a task in it never changes again.
func (s TaskState) Terminal() bool {
	switch s {
	case StateCompleted, StateCanceled, StateFailed, StateRejected, StateBidLost:
		return true
	default:
		return false
	}
}

// Paused reports whether a task in s waits for its client: nothing runs until a
// new message arrives.
func (s TaskState) Paused() bool {
	switch s {
	case StateInputRequired, StateAuthRequired, StatePaymentRequired,
		StateTrustVerificationRequired, StateSuspended:
		return true
	default:
		return false
	}
}

// Final reports whether an event stream of A2A 0.3 ends at s: the task is over
// or waits for its client (section 7.2).
func (s TaskState) Final() bool { return s.Terminal() || s.Paused() }

// CanMove reports whether a task in s may change to next. Staying in a state
// that is not terminal is allowed.
func (s TaskState) CanMove(next TaskState) bool {
	if s == next {
		return !s.Terminal() && s.Known()
	}
	return slices.Contains(moves[s], next)
}
