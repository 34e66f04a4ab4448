package a2a_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
)

func TestTaskStateCanMove(t *testing.T) {
	t.Parallel()
	const (
		submitted, working, input = a2a.StateSubmitted, a2a.StateWorking, a2a.StateInputRequired
		completed, canceled       = a2a.StateCompleted, a2a.StateCanceled
	)
	for _, test := range []struct {
		from, to a2a.TaskState
		want     bool
	}{
		{submitted, working, true},
		{submitted, completed, true}, // A2A 1.0 allows short tasks to skip working
		{submitted, canceled, true},
		{working, working, true},
		{working, completed, true},
		{working, input, true},
		{working, submitted, true}, // for a retry
		{input, submitted, true},
		{input, working, true},
		{input, completed, false},
		{input, canceled, true},
		{completed, completed, false},
		{completed, working, false},
		{canceled, submitted, false},
		{a2a.StateSuspended, a2a.StateResumed, true},
		{a2a.StateResumed, completed, true},
		{a2a.StatePending, submitted, true},
		{a2a.StatePending, working, false},
		{a2a.StateBidSubmitted, a2a.StateBidWon, true},
		{a2a.StateBidSubmitted, a2a.StateBidLost, true},
		{a2a.StateBidWon, submitted, true},
		{a2a.StateBidLost, submitted, false},
		{a2a.StateUnknown, working, false},
		{"no-such-state", "no-such-state", false},
	} {
		if got := test.from.CanMove(test.to); got != test.want {
			t.Errorf("%s.CanMove(%s) = %t, want %t", test.from, test.to, got, test.want)
		}
	}
}

func TestTerminalStatesNeverMove(t *testing.T) {
	t.Parallel()
	for _, from := range a2a.States() {
		if from.Terminal() && from.Paused() {
			t.Errorf("%s is both terminal and paused", from)
		}
		for _, to := range a2a.States() {
			if from.Terminal() && from.CanMove(to) {
				t.Errorf("%s is terminal and may move to %s", from, to)
			}
		}
		if from.Paused() && (!from.CanMove(a2a.StateSubmitted) || !from.CanMove(a2a.StateCanceled)) {
			t.Errorf("%s is a paused state that can be neither resumed nor canceled", from)
		}
	}
}

func TestEveryUnfinishedStateCanBeCanceled(t *testing.T) {
	t.Parallel()
	for _, s := range a2a.States() {
		if s != a2a.StateUnknown && !s.Terminal() && !s.CanMove(a2a.StateCanceled) {
			t.Errorf("%s cannot be canceled", s)
		}
	}
}
