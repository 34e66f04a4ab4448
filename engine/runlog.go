package engine

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// maxCause limits the cause of a failure in the log, in bytes.
const maxCause = 1000

// attemptLog logs what happens to an attempt, for operators.
type attemptLog struct{ *slog.Logger }

// log returns a log with attributes that identify the attempt.
func (r *run) log() attemptLog {
	return attemptLog{r.e.log.With("task", r.l.key.ID, "attempt", r.out.entry().Attempt, "max_attempts", r.e.cfg.Turns.MaxAttempts)}
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

func (l attemptLog) retrying(err error, delay time.Duration) {
	l.Warn("attempt failed, retrying", "cause", causeText(err), "delay", delay)
}

func (l attemptLog) failed(err error) { l.Warn("attempt failed", "cause", causeText(err)) }

func (l attemptLog) exhausted(err error) { l.Error("attempts exhausted", "cause", causeText(err)) }

// outcome logs a failure that the handler reported as its outcome.
func (l attemptLog) outcome(o *Outcome) {
	if o.State == a2a.StateFailed {
		l.Info("task failed by its handler", "cause", causeText(o))
	}
}

// logTakeover logs that the previous attempt was interrupted: its process died, was stopped, or
// lost the lease.
func (r *run) logTakeover() {
	if r.claimSeq == 0 || !r.quarantined && !r.e.dispatcher.interrupted(context.WithoutCancel(r.ctx), r.l.key, r.claimSeq, r.out.entry().Attempt) {
		return
	}
	r.log().Warn("task taken over from an interrupted attempt", "cause", "the lease of the previous attempt expired without a result")
}

var errProcessEnded = errors.New("the process that ran the task ended each time")
