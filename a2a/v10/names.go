package v10

import (
	"maps"

	"github.com/holdfast-dev/holdfast/a2a"
)

// The members of metadata that hold a state or a role that A2A 1.0 lacks, in its
// spelling in package a2a.
const (
	MetadataState = "holdfast.state"
	MetadataRole  = "holdfast.role"
)

type stateName struct {
	state a2a.TaskState
	name  string
}

// states are the names of A2A 1.0.
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

// standard is the projection of the states that are an extension. A terminal
// state stays terminal, a paused one paused.
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

// Standard returns the state of A2A that s is shown as to those who do not know
// the extensions: s itself if A2A has it, unknown if nothing has.
func Standard(s a2a.TaskState) a2a.TaskState {
	if projected, ok := standard[s]; ok {
		return projected
	}
	if !s.Known() {
		return a2a.StateUnknown
	}
	return s
}

// State returns the name of s in A2A 1.0 and the metadata to send with it: that
// which was given or, if the name does not tell all, a copy with [MetadataState].
func State(s a2a.TaskState, metadata map[string]any) (name string, kept map[string]any) {
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

// ParseState is the reverse of [State]. The metadata counts only if its state is
// projected on the name, so a peer cannot pass a state off as another. The
// returned metadata is without [MetadataState].
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
	return "", metadata, a2a.Invalid("state", "is %s, which is no state of A2A 1.0", a2a.Quote(name))
}

// Role returns the name of r in A2A 1.0 and the metadata to send with it, as
// [State] does. A system message is shown as one of the agent.
func Role(r a2a.Role, metadata map[string]any) (name string, kept map[string]any) {
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

// ParseRole is the reverse of [Role]; the returned metadata is without
// [MetadataRole].
func ParseRole(name string, metadata map[string]any) (a2a.Role, map[string]any, error) {
	kept := without(metadata, MetadataRole)
	switch name {
	case "ROLE_USER":
		return a2a.RoleUser, kept, nil
	case "ROLE_AGENT":
		if metadata[MetadataRole] == string(a2a.RoleSystem) {
			return a2a.RoleSystem, kept, nil
		}
		return a2a.RoleAgent, kept, nil
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

// without returns m itself when there is nothing to leave out, and nil rather
// than an empty copy.
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
