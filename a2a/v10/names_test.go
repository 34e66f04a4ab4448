package v10_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
)

func TestStatesRoundTrip(t *testing.T) {
	t.Parallel()
	names := map[a2a.TaskState]string{
		a2a.StateSubmitted: "TASK_STATE_SUBMITTED", a2a.StateWorking: "TASK_STATE_WORKING",
		a2a.StateInputRequired: "TASK_STATE_INPUT_REQUIRED", a2a.StateCompleted: "TASK_STATE_COMPLETED",
		a2a.StateCanceled: "TASK_STATE_CANCELED", a2a.StateFailed: "TASK_STATE_FAILED",
		a2a.StateRejected: "TASK_STATE_REJECTED", a2a.StateAuthRequired: "TASK_STATE_AUTH_REQUIRED",
		a2a.StateUnknown:         "TASK_STATE_UNSPECIFIED",
		a2a.StatePaymentRequired: "TASK_STATE_INPUT_REQUIRED", a2a.StateTrustVerificationRequired: "TASK_STATE_AUTH_REQUIRED",
		a2a.StatePending: "TASK_STATE_SUBMITTED", a2a.StateSuspended: "TASK_STATE_INPUT_REQUIRED", a2a.StateResumed: "TASK_STATE_WORKING",
		a2a.StateBidSubmitted: "TASK_STATE_SUBMITTED", a2a.StateBidWon: "TASK_STATE_SUBMITTED", a2a.StateBidLost: "TASK_STATE_REJECTED",
	}
	before := map[string]any{"k": "v"}
	for _, s := range a2a.States() {
		name, metadata := v10.State(s, before)
		if name != names[s] {
			t.Errorf("State(%s) = %s, want %s", s, name, names[s])
		}
		if _, found := metadata[v10.MetadataState]; found != (v10.Standard(s) != s) {
			t.Errorf("State(%s): original in the metadata = %t, want %t", s, found, !found)
		}
		back, rest, err := v10.ParseState(name, metadata)
		if err != nil || back != s || !cmp.Equal(rest, before) {
			t.Errorf("ParseState(%s, %v) = %s, %v, %v, want %s", name, metadata, back, rest, err, s)
		}
		if shown := v10.Standard(s); shown.Terminal() != s.Terminal() || shown.Paused() != s.Paused() {
			t.Errorf("Standard(%s) = %s, want equal Terminal and Paused", s, shown)
		}
	}
	if len(before) != 1 {
		t.Errorf("metadata was changed: %v", before)
	}
}

func TestParseStateIgnoresContradictingMetadata(t *testing.T) {
	t.Parallel()
	for _, original := range []any{"completed", "negotiation-bid-lost", "made up", 5.0, nil} {
		s, rest, err := v10.ParseState("TASK_STATE_WORKING", map[string]any{v10.MetadataState: original})
		if err != nil || s != a2a.StateWorking || rest != nil {
			t.Errorf("ParseState(working, %v) = %s, %v, %v, want working", original, s, rest, err)
		}
	}
	if name, metadata := v10.State(a2a.StateWorking, map[string]any{v10.MetadataState: "resumed"}); name != "TASK_STATE_WORKING" || metadata != nil {
		t.Errorf("State(working) = %s, %v, want no metadata of another state", name, metadata)
	}
	if name, _ := v10.State("made up", nil); name != "TASK_STATE_UNSPECIFIED" {
		t.Errorf("State(made up) = %s, want TASK_STATE_UNSPECIFIED", name)
	}
	if _, _, err := v10.ParseState("working", nil); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("ParseState(working): %v, want invalid_params", err)
	}
}

func TestRolesRoundTrip(t *testing.T) {
	t.Parallel()
	for role, want := range map[a2a.Role]string{a2a.RoleUser: "ROLE_USER", a2a.RoleAgent: "ROLE_AGENT", a2a.RoleSystem: "ROLE_AGENT"} {
		name, metadata := v10.Role(role, nil)
		back, rest, err := v10.ParseRole(name, metadata)
		if name != want || back != role || rest != nil || err != nil {
			t.Errorf("ParseRole(Role(%s)) = %s by %s, %v, %v", role, back, name, rest, err)
		}
	}
	if r, _, err := v10.ParseRole("ROLE_USER", map[string]any{v10.MetadataRole: "system"}); r != a2a.RoleUser || err != nil {
		t.Errorf("ParseRole(user, system) = %s, %v, want user", r, err)
	}
	if name, _ := v10.Role("made up", nil); name != "ROLE_UNSPECIFIED" {
		t.Errorf("Role(made up) = %s", name)
	}
	if _, _, err := v10.ParseRole("user", nil); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("ParseRole(user): %v, want invalid_params", err)
	}
}
