package v10

import (
	"maps"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Keys in metadata. MetadataState and MetadataRole have a state or a role of package a2a that A2A
// 1.0 lacks.
const (
	MetadataState = "holdfast.state"
	MetadataRole  = "holdfast.role"
	// MetadataWithdrawn is a key in the metadata of an artifact that is withdrawn, see EncodeParts.
	MetadataWithdrawn = "holdfast.withdrawn"
)

// The states and roles of A2A 1.0 by their numbers.
var (
	states = []a2a.TaskState{
		a2a.StateUnknown, a2a.StateSubmitted, a2a.StateWorking, a2a.StateCompleted, a2a.StateFailed,
		a2a.StateCanceled, a2a.StateInputRequired, a2a.StateRejected, a2a.StateAuthRequired,
	}
	stateNames = []string{
		"TASK_STATE_UNSPECIFIED", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED", "TASK_STATE_FAILED",
		"TASK_STATE_CANCELED", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_REJECTED", "TASK_STATE_AUTH_REQUIRED",
	}
	roles     = []a2a.Role{"", a2a.RoleUser, a2a.RoleAgent}
	roleNames = []string{"ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"}
)

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
	if slices.Contains(states, s) {
		return s
	}
	if mapped, ok := standard[s]; ok {
		return mapped
	}
	return a2a.StateUnknown
}

// ShownAs returns the states that Standard maps to s.
func ShownAs(s a2a.TaskState) (all []a2a.TaskState) {
	for _, from := range a2a.States() {
		if Standard(from) == s {
			all = append(all, from)
		}
	}
	return all
}

// EncodeState replaces a state by the corresponding state of A2A, and stores the original in the
// metadata. It copies metadata that it changes.
func EncodeState(s *a2a.TaskState, metadata *map[string]any) {
	*metadata = without(*metadata, MetadataState)
	if _, extension := standard[*s]; extension {
		*metadata = with(*metadata, MetadataState, string(*s))
	}
	*s = Standard(*s)
}

// DecodeState is the reverse of EncodeState. It uses the state in the metadata only if that state
// maps to s, so that metadata cannot contradict s.
func DecodeState(s *a2a.TaskState, metadata *map[string]any) {
	original, _ := (*metadata)[MetadataState].(string)
	if mapped, ok := standard[a2a.TaskState(original)]; ok && mapped == *s {
		*s = a2a.TaskState(original)
	}
	*metadata = without(*metadata, MetadataState)
}

// EncodeRole is like EncodeState for roles. The system role is mapped to the user role, as in
// A2A 0.3, because only clients send it.
func EncodeRole(r *a2a.Role, metadata *map[string]any) {
	*metadata = without(*metadata, MetadataRole)
	if *r == a2a.RoleSystem {
		*metadata = with(*metadata, MetadataRole, string(*r))
		*r = a2a.RoleUser
	}
}

// DecodeRole is the reverse of EncodeRole.
func DecodeRole(r *a2a.Role, metadata *map[string]any) {
	if (*metadata)[MetadataRole] == string(a2a.RoleSystem) && *r == a2a.RoleUser {
		*r = a2a.RoleSystem
	}
	*metadata = without(*metadata, MetadataRole)
}

// EncodeParts gives an artifact without parts, which withdraws it, an empty text, because A2A 1.0
// requires a part. The metadata of the artifact has [MetadataWithdrawn] then.
func EncodeParts(parts *[]a2a.Part, metadata *map[string]any) {
	*metadata = without(*metadata, MetadataWithdrawn)
	if len(*parts) == 0 {
		*metadata = with(*metadata, MetadataWithdrawn, true)
		*parts = []a2a.Part{a2a.TextPart{}}
	}
}

// DecodeParts is the reverse of EncodeParts.
func DecodeParts(parts *[]a2a.Part, metadata *map[string]any) {
	if (*metadata)[MetadataWithdrawn] == true {
		*parts = []a2a.Part{}
	}
	*metadata = without(*metadata, MetadataWithdrawn)
}

func with(m map[string]any, key string, value any) map[string]any {
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
