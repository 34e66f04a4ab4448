package engine

import (
	"context"
	"errors"
	"log/slog"
	"strings"
)

// maxCause limits the cause of a failure in the log, in bytes.
const maxCause = 1000

// log returns the engine's logger with attributes that identify the attempt.
func (r *run) log() *slog.Logger {
	return r.e.log.With("task", r.l.key.ID, "attempt", r.out.entry().Attempt, "max_attempts", r.e.cfg.Turns.MaxAttempts)
}

// causeText returns the text of an error for the log, with what is hidden from clients, truncated and valid UTF-8.
func causeText(err error) string {
	text := err.Error()
	var hidden *storeError
	if errors.As(err, &hidden) {
		text = strings.Replace(text, hidden.text, hidden.err.Error(), 1)
	}
	return strings.ToValidUTF8(text[:min(len(text), maxCause)], "")
}

func (r *run) logFailed(err error) { r.log().Warn("attempt failed", "cause", causeText(err)) }

func (r *run) logExhausted(err error) { r.log().Error("attempts exhausted", "cause", causeText(err)) }

// logTakeover logs that the previous attempt was interrupted: its process died, was stopped, or
// lost the lease.
func (r *run) logTakeover() {
	if r.claimSeq == 0 || !r.quarantined && !r.e.dispatcher.interrupted(context.WithoutCancel(r.ctx), r.l.key, r.claimSeq, r.out.entry().Attempt) {
		return
	}
	r.log().Warn("task taken over from an interrupted attempt", "cause", "the lease of the previous attempt expired without a result")
}

var errProcessEnded = errors.New("the process that ran the task ended each time")
