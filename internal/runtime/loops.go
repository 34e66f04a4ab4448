package runtime

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// restartDelay is the pause before a loop that panicked is started again.
const restartDelay = time.Second

// Loops runs the background loops of a component. The WaitGroup counts them; its Go method adds
// other goroutines to wait for. Start all loops before the first call of Silent.
type Loops struct {
	sync.WaitGroup
	Log   *slog.Logger
	Now   func() time.Time
	beats []*beat
}

// beat is the time when a loop last made progress.
type beat struct {
	name string
	at   atomic.Int64 // Unix nanoseconds
}

// Start runs a loop in a goroutine until it returns, and restarts it after a panic unless ctx
// is done. The loop calls beat whenever it makes progress. ended is closed when the loop has
// ended.
func (l *Loops) Start(ctx context.Context, name string, loop func(ctx context.Context, beat func())) (ended <-chan struct{}) {
	last, done := &beat{name: name}, make(chan struct{})
	note := func() { last.at.Store(l.Now().UnixNano()) }
	note()
	l.beats = append(l.beats, last)
	l.Go(func() {
		defer close(done)
		for {
			err := Guard(func() { loop(ctx, note) })
			if err == nil || ctx.Err() != nil {
				return
			}
			l.Log.Error("loop failed, restarting it", "loop", name, "error", err)
			if Sleep(ctx, restartDelay) != nil {
				return
			}
		}
	})
	return done
}

// Silent returns a problem for each loop that made no progress for longer than limit.
func (l *Loops) Silent(limit time.Duration) (problems []string) {
	for _, b := range l.beats {
		if silent := l.Now().Sub(time.Unix(0, b.at.Load())); silent > limit {
			problems = append(problems, fmt.Sprintf("%s loop: silent for %s", b.name, silent.Round(time.Second)))
		}
	}
	return problems
}

// PanicError is a panic as an error. Its text has no stack.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// LogValue adds the stack to the text in log records.
func (p *PanicError) LogValue() slog.Value {
	return slog.StringValue(p.Error() + "\n" + string(p.Stack))
}

// Guard runs f and returns a panic as a *PanicError.
func Guard(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	f()
	return nil
}
