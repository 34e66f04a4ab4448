package v10

import (
	"maps"

	"github.com/holdfast-dev/holdfast/a2a"
)

// The members of metadata with a state or a role that A2A 1.0 lacks, as in package a2a.
const (
	MetadataState = "holdfast.state"
	MetadataRole  = "holdfast.role"
)

type stateName struct {
	state a2a.TaskState
	name  string
}

// states are the states of A2A 1.0.
var states = []stateName{
	{a2a.StateUnknown, "TASK_STATE_UNSPECIFIED"},
	{a2a.StateSubmitted, "TASK_STATE_SUBMITTED"},
	{a2a.StateWorking, "TASK_STATE_WORKING"},
	{a2a.StateInputRequired, "TASK_STATE_INPUT_REQUIRED"},
	{a2a.StateCompleted, "TASK_STATE_COMPLETED"},
	{a2a.StateCanceled, "TASK_STATE_CANCELED"},
	{a2a.StateFailed, "TASK_STATE_FAILED"},
	{a2a.StateRejected, "TASK_STATE_REJECTED"},
	{a2a.StateAuthRequired, "TASK_STATE_AUTH_REQUIRED"},
}

// standard maps extension states to states of A2A. Terminal states map to terminal ones,
// paused states to paused ones.
var standard = map[a2a.TaskState]a2a.TaskState{
	a2a.StatePaymentRequired:           a2a.StateInputRequired,
	a2a.StateTrustVerificationRequired: a2a.StateAuthRequired,
	a2a.StatePending:                   a2a.StateSubmitted,
	a2a.StateSuspended:                 a2a.StateInputRequired,
	a2a.StateResumed:                   a2a.StateWorking,
	a2a.StateBidSubmitted:              a2a.StateSubmitted,
	a2a.StateBidWon:                    a2a.StateSubmitted,
	a2a.StateBidLost:                   a2a.StateRejected,
}

// Standard returns the A2A state for s: s itself if A2A has it, the mapped state of an
// extension state, and unknown for all others.
func Standard(s a2a.TaskState) a2a.TaskState {
	if mapped, ok := standard[s]; ok {
		return mapped
	}
	if !s.Known() {
		return a2a.StateUnknown
	}
	return s
}

// State returns the name of s in A2A 1.0 and the metadata to send with it: the given metadata
// or, if the name does not identify s, a copy with [MetadataState].
func State(s a2a.TaskState, metadata map[string]any) (name string, out map[string]any) {
	shown := Standard(s)
	for _, row := range states {
		if row.state == shown {
			name = row.name
		}
	}
	if shown == s || !s.Known() {
		return name, without(metadata, MetadataState)
	}
	return name, with(metadata, MetadataState, string(s))
}

// ParseState is the reverse of [State]. It uses the state in the metadata only if that maps to
// the name, so that metadata cannot contradict the name. The returned metadata has no
// [MetadataState].
func ParseState(name string, metadata map[string]any) (a2a.TaskState, map[string]any, error) {
	for _, row := range states {
		if row.name != name {
			continue
		}
		s := row.state
		if text, ok := metadata[MetadataState].(string); ok && Standard(a2a.TaskState(text)) == s && a2a.TaskState(text).Known() {
			s = a2a.TaskState(text)
		}
		return s, without(metadata, MetadataState), nil
	}
	return "", metadata, a2a.Invalid("state", "is %s, which is not a state of A2A 1.0", a2a.Quote(name))
}

// Role returns the name of r in A2A 1.0 and the metadata to send with it, like [State]. The
// system role is mapped to that of the agent.
func Role(r a2a.Role, metadata map[string]any) (name string, out map[string]any) {
	switch r {
	case a2a.RoleUser:
		return "ROLE_USER", without(metadata, MetadataRole)
	case a2a.RoleAgent:
		return "ROLE_AGENT", without(metadata, MetadataRole)
	case a2a.RoleSystem:
		return "ROLE_AGENT", with(metadata, MetadataRole, string(r))
	default:
		return "ROLE_UNSPECIFIED", without(metadata, MetadataRole)
	}
}

// ParseRole is the reverse of [Role]. The returned metadata has no [MetadataRole].
func ParseRole(name string, metadata map[string]any) (a2a.Role, map[string]any, error) {
	rest := without(metadata, MetadataRole)
	switch name {
	case "ROLE_USER":
		return a2a.RoleUser, rest, nil
	case "ROLE_AGENT":
		if metadata[MetadataRole] == string(a2a.RoleSystem) {
			return a2a.RoleSystem, rest, nil
		}
		return a2a.RoleAgent, rest, nil
	default:
		return "", metadata, a2a.Invalid("role", "is %s, want ROLE_USER or ROLE_AGENT", a2a.Quote(name))
	}
}

func with(m map[string]any, key, value string) map[string]any {
	c := make(map[string]any, len(m)+1)
	maps.Copy(c, m)
	c[key] = value
	return c
}

// without returns m without key. It returns m itself if it does not have the key, and nil
// instead of an empty copy.
func without(m map[string]any, key string) map[string]any {
	if _, ok := m[key]; !ok {
		return m
	}
	if len(m) == 1 {
		return nil
	}
	c := maps.Clone(m)
	delete(c, key)
	return c
}
