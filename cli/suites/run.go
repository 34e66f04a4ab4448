package suites

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// run runs a suite in this process, one test after the other.
func run(ctx context.Context, name string, suite func(t storetest.T)) cli.SuiteReport {
	r := cli.SuiteReport{Suite: name, Failed: []cli.SuiteResult{}, Skipped: []cli.SuiteResult{}}
	started := time.Now()
	root := &suiteTest{report: &r, base: ctx}
	root.Run("", suite)
	r.Duration = time.Since(started).Round(time.Millisecond)
	r.Millis = r.Duration.Milliseconds()
	return r
}

// suiteTest is a storetest.T without go test.
type suiteTest struct {
	report *cli.SuiteReport
	base   context.Context // the context of the test
	cancel context.CancelFunc
	name   string
	tests  int // subtests

	mu       sync.Mutex
	failed   bool
	skipped  bool
	messages []string
	cleanups []func()
}

var _ storetest.T = (*suiteTest)(nil)

// Helper implements storetest.T.
func (t *suiteTest) Helper() {}

// Name implements storetest.T.
func (t *suiteTest) Name() string { return t.name }

// Parallel implements storetest.T: tests run one after the other.
func (t *suiteTest) Parallel() {}

// Context implements storetest.T.
func (t *suiteTest) Context() context.Context { return t.base }

// Run implements storetest.T.
func (t *suiteTest) Run(name string, f func(storetest.T)) bool {
	t.tests++
	child := &suiteTest{report: t.report, name: strings.Trim(t.name+"/"+name, "/")}
	child.base, child.cancel = context.WithCancel(t.base)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer child.finish()
		if t.base.Err() != nil {
			child.Skipf("interrupted")
		}
		f(child)
	}()
	<-done
	if child.Failed() {
		t.mu.Lock()
		t.failed = true
		t.mu.Unlock()
	}
	return !child.Failed()
}

// finish ends a test, also after a panic, and reports it unless it only has subtests.
func (t *suiteTest) finish() {
	if r := recover(); r != nil {
		t.Errorf("panic: %v\n%s", r, debug.Stack())
	}
	t.cancel()
	for _, f := range slices.Backward(t.cleanups) {
		t.protect(f)
	}
	text := strings.Join(t.messages, "\n")
	switch {
	case t.failed && (t.tests == 0 || text != ""):
		t.report.Failed = append(t.report.Failed, cli.SuiteResult{Test: t.name, Message: text})
	case t.skipped:
		t.report.Skipped = append(t.report.Skipped, cli.SuiteResult{Test: t.name, Message: text})
	case t.tests == 0:
		t.report.Passed++
	}
}

// protect calls a cleanup function and reports its panic, and returns also if it ends its goroutine.
func (t *suiteTest) protect(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				t.Errorf("panic: %v", r)
			}
		}()
		f()
	}()
	<-done
}

// Cleanup implements storetest.T.
func (t *suiteTest) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// TempDir implements storetest.T.
func (t *suiteTest) TempDir() string {
	dir, err := os.MkdirTemp("", "holdfast-check-*")
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("%v", err)
		}
	})
	return dir
}

// Logf implements storetest.T. Logs are not reported.
func (t *suiteTest) Logf(string, ...any) {}

func (t *suiteTest) add(format string, args []any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages = append(t.messages, fmt.Sprintf(format, args...))
}

// Errorf implements storetest.T.
func (t *suiteTest) Errorf(format string, args ...any) {
	t.add(format, args)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = true
}

// Fatalf implements storetest.T.
func (t *suiteTest) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

// Skipf implements storetest.T.
func (t *suiteTest) Skipf(format string, args ...any) {
	t.add(format, args)
	t.mu.Lock()
	t.skipped = true
	t.mu.Unlock()
	runtime.Goexit()
}

// Failed implements storetest.T.
func (t *suiteTest) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}
