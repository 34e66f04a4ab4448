package sqlrow

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// Phase is the stored phase of a queue entry or of a lane. Ready and waiting entries may be
// claimed; waiting ones are not due yet. A claim first changes waiting entries that are due to
// ready. It then reads only ready and leased entries, so entries that wait cost it nothing.
type Phase int64

const (
	// PhaseIdle is a task without a turn to run, or a lane without pending events.
	PhaseIdle Phase = iota
	// PhaseReady is due.
	PhaseReady
	// PhaseLeased is leased to a worker.
	PhaseLeased
	// PhaseWaiting is due later.
	PhaseWaiting
	// PhaseDone is a lane without pending events that expiry checks.
	PhaseDone
	// PhaseDeleted is a lane of a deleted webhook with a lease that has not ended.
	PhaseDeleted
)

// PhaseNames lists arguments of [strings.NewReplacer] that replace the name of a phase in the
// text of a statement, such as {ready}, with its number.
var PhaseNames = func() []string {
	var pairs []string
	for i, name := range strings.Fields("idle ready leased waiting done deleted") {
		pairs = append(pairs, "{"+name+"}", fmt.Sprint(i))
	}
	return pairs
}()

// phaseOf returns the stored phase of a queue entry.
func phaseOf(p store.Phase, dueAt time.Time) Phase {
	switch p {
	case store.PhaseQueued:
		if !dueAt.IsZero() {
			return PhaseWaiting
		}
		return PhaseReady
	case store.PhaseLeased:
		return PhaseLeased
	case store.PhaseIdle:
	}
	return PhaseIdle
}

// queuePhase returns the phase of a queue entry.
func (p Phase) queuePhase() store.Phase {
	switch p {
	case PhaseReady, PhaseWaiting:
		return store.PhaseQueued
	case PhaseLeased:
		return store.PhaseLeased
	case PhaseIdle, PhaseDone, PhaseDeleted:
	}
	return store.PhaseIdle
}
