package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
)

// logLines collects the JSON lines of a logger.
type logLines struct {
	mu  sync.Mutex
	all []map[string]any
}

func (l *logLines) Write(line []byte) (int, error) {
	var fields map[string]any
	if err := json.NewDecoder(bytes.NewReader(line)).Decode(&fields); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fields)
	return len(line), nil
}

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

// find returns the lines with a message about a task.
func (l *logLines) find(message, task string) (found []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, fields := range l.all {
		if fields["msg"] == message && fields["task"] == task {
			found = append(found, fields)
		}
	}
	return found
}

// count returns the number of lines with a message.
func (l *logLines) count(message string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, fields := range l.all {
		if fields["msg"] == message {
			n++
		}
	}
	return n
}

// want checks that there is one line with a message for each of the attempts.
func (l *logLines) want(t *testing.T, level, message, task, cause string, attempts ...float64) {
	t.Helper()
	var got []float64
	for _, fields := range l.find(message, task) {
		got = append(got, fields["attempt"].(float64))
		if text, _ := fields["cause"].(string); fields["level"] != level || !strings.Contains(text, cause) || fields["max_attempts"] != 3.0 {
			t.Errorf("line %v, want level %s, the cause %q and 3 max_attempts", fields, level, cause)
		}
	}
	if !slices.Equal(got, attempts) {
		t.Errorf("%q is logged for attempts %v, want %v", message, got, attempts)
	}
}

func TestFailedAttemptsAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		e := start(t, engine.Config{
			Logger: log.logger(), Turns: engine.Turns{MaxAttempts: 3, RetryDelay: time.Millisecond, RetryDelayMax: time.Millisecond, Timeout: 2 * time.Second},
			Handler: func(ctx context.Context, turn *engine.Turn) error {
				switch turn.Messages()[0].Text() {
				case "retry":
					return engine.Retry(errors.New("busy " + strings.Repeat("x", 5000)))
				case "error":
					return errors.New("broken")
				case "fail":
					return turn.Fail(a2a.TextPart{Text: "cannot"})
				case "panic":
					panic("oh")
				}
				<-ctx.Done()
				return ctx.Err()
			},
		})
		run := func(words string) string {
			task := sendWait(t, e, message(words))
			wantState(t, task, a2a.StateFailed)
			return task.Key.ID
		}
		retried := run("retry")
		log.want(t, "WARN", "attempt failed, retrying", retried, "busy", 1, 2)
		log.want(t, "ERROR", "attempts exhausted", retried, "busy", 3)
		for _, fields := range log.find("attempts exhausted", retried) {
			if cause := fields["cause"].(string); len(cause) > 1000 {
				t.Errorf("the cause has %d bytes, want at most 1000", len(cause))
			}
		}
		log.want(t, "WARN", "attempt failed", run("error"), "broken", 1)
		log.want(t, "WARN", "attempt failed", run("wait"), engine.ErrTimeout.Error(), 1)
		log.want(t, "INFO", "task failed by its handler", run("fail"), "cannot", 1)
		log.want(t, "ERROR", "handler panicked", run("panic"), "", 1)
	})
}

func TestTakeoversAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		shared := inmem.New()
		first := newKillableStore(sharedStore{shared})
		started := make(chan int, 10)
		handler := func(ctx context.Context, turn *engine.Turn) error {
			started <- turn.Attempt()
			switch {
			case turn.Messages()[0].Text() == "retry" && turn.Attempt() == 1:
				return engine.Retry(errors.New("busy"))
			case turn.Attempt() == 1:
				<-ctx.Done()
				return ctx.Err()
			}
			return turn.Reply()
		}
		cfg := engine.Config{Handler: handler, Turns: engine.Turns{MaxAttempts: 3, Poll: 20 * time.Millisecond, RetryDelay: time.Millisecond}}
		dying := cfg
		dying.Store, dying.Turns.Lease = first, 2*time.Second
		task := send(t, start(t, dying), message("go"))
		<-started
		first.killed.Store(true)
		cfg.Store, cfg.Logger = sharedStore{shared}, log.logger()
		e := start(t, cfg)
		wantState(t, waitFinal(t, e, task.Key.ID), a2a.StateCompleted)
		log.want(t, "WARN", "task taken over from an interrupted attempt", task.Key.ID, "lease", 2)

		retried := sendWait(t, e, message("retry"))
		wantState(t, retried, a2a.StateCompleted)
		log.want(t, "WARN", "task taken over from an interrupted attempt", retried.Key.ID, "")
	})
}
