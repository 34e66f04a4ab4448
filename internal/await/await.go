// Package await lets tests wait for other goroutines, processes and databases, and read their output. A test that
// has only goroutines of its own uses testing/synctest or a channel instead.
package await

import (
	"errors"
	"time"
)

// Limit is how long a test waits: far longer than the slowest machine needs, and less than the
// timeout of ten minutes of go test. It must not be used to measure.
const Limit = 5 * time.Minute

// The pause between two checks grows from minPause to maxPause.
const (
	minPause = time.Millisecond
	maxPause = 16 * time.Millisecond
)

// T is the test that waits: a [testing.TB], or the test of a script.
type T interface {
	Fatalf(format string, args ...any)
}

// True waits until holds returns true. After [Limit] it fails the test with the name of the
// condition.
func True(t T, condition string, holds func() bool) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	err := errors.New(condition)
	Success(t, func() error {
		if holds() {
			return nil
		}
		return err
	})
}

// Success waits until check returns nil. After [Limit] it fails the test with the last error.
func Success(t T, check func() error) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	pause := minPause
	for end := time.Now().Add(Limit); ; pause = min(2*pause, maxPause) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within %s: %v", Limit, err)
		}
		time.Sleep(pause)
	}
}
