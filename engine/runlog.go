package engine

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// maxCause bounds the reason of a failure in the log, in bytes.
const maxCause = 1000

// log is the engine's log with what names the attempt.
func (r *run) log() *slog.Logger {
	return r.e.log.With("task", r.l.key.ID, "attempt", r.queue.Attempt, "max_attempts", r.e.cfg.MaxAttempts)
}

// causeText is the text of a failure, which may come from a program, as the log has it.
func causeText(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxCause)], "")
}

func (r *run) logRetry(err error, delay time.Duration) {
	r.log().Warn("attempt failed, retrying", "cause", causeText(err), "delay", delay)
}

func (r *run) logFailed(err error) { r.log().Warn("attempt failed", "cause", causeText(err)) }

func (r *run) logExhausted(err error) { r.log().Error("attempts exhausted", "cause", causeText(err)) }

// logOutcome logs a failure that the handler reported as the result of its work.
func (r *run) logOutcome(o *Outcome) {
	if o.State == a2a.StateFailed {
		r.log().Info("task failed by its handler", "cause", causeText(o))
	}
}

// logTakeover logs that the attempt before this one was cut short: the process that ran it
// died, was stopped, or lost its lease.
func (r *run) logTakeover() {
	if r.claimed == 0 || !r.suspect && !r.e.interrupted(context.WithoutCancel(r.ctx), r.l.key, r.claimed, r.queue.Attempt) {
		return
	}
	r.log().Warn("task taken over from an interrupted attempt", "cause", "the lease of the attempt before ended without a result")
}

var errProcessEnded = errors.New("each time the process that ran the task ended")
