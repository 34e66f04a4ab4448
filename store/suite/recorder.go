package suite

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
)

// Recorder is a [T] outside of go test. It runs the tests one after the other and records the
// failures. A panic of a test is a failure.
type Recorder struct {
	ctx      context.Context
	name     string
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// NewRecorder returns a Recorder for tests that use ctx.
func NewRecorder(ctx context.Context) *Recorder { return &Recorder{ctx: ctx} }

// Failures returns the failures of all tests that have ended, each with the name of its test.
func (r *Recorder) Failures() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.failures)
}

// Run implements [T].
func (r *Recorder) Run(name string, f func(T)) bool {
	part := NewRecorder(r.ctx)
	if part.name = name; r.name != "" {
		part.name = r.name + "/" + name
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, clean := range slices.Backward(part.cleanups) {
				clean()
			}
		}()
		defer func() {
			if p := recover(); p != nil {
				part.Errorf("%v", p)
			}
		}()
		f(part)
	}()
	<-done
	failures := part.Failures()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, failures...)
	return len(failures) == 0
}

// TempDir implements [T]. It fails the test if it cannot create a directory.
func (r *Recorder) TempDir() string {
	dir, err := os.MkdirTemp("", "suite")
	if err != nil {
		r.Fatalf("TempDir() = %v", err)
	}
	r.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Errorf implements [T].
func (r *Recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, r.name+": "+fmt.Sprintf(format, args...))
}

// Fatalf implements [T].
func (r *Recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// Failed implements [T].
func (r *Recorder) Failed() bool { return len(r.Failures()) > 0 }

// Helper implements [T].
func (r *Recorder) Helper() {}

// Name implements [T].
func (r *Recorder) Name() string { return r.name }

// Parallel implements [T].
func (r *Recorder) Parallel() {}

// Context implements [T].
func (r *Recorder) Context() context.Context { return r.ctx }

// Cleanup implements [T].
func (r *Recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

// Logf implements [T].
func (r *Recorder) Logf(string, ...any) {}

// Skipf implements [T].
func (r *Recorder) Skipf(string, ...any) { runtime.Goexit() }
