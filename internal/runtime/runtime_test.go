package runtime

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLifecycleStartsAndStopsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Lifecycle
		none := func() error { return nil }
		if err := l.Start(none); err != nil || !l.Running() {
			t.Errorf("Start() = %v, running %t, want a running component", err, l.Running())
		}
		if err := l.Start(none); !errors.Is(err, ErrStarted) {
			t.Errorf("Start() again = %v, want ErrStarted", err)
		}
		stops, finish := 0, make(chan struct{})
		stop := func() { stops++; <-finish }
		var calls sync.WaitGroup
		calls.Go(func() { l.Stop(t.Context(), stop) })
		synctest.Wait()
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		l.Stop(impatient, stop)
		ended := false
		calls.Go(func() { l.Stop(t.Context(), stop); ended = true })
		if synctest.Wait(); ended || !l.Stopped() {
			t.Error("Stop() returned before the first call had finished")
		}
		close(finish)
		calls.Wait()
		if err := l.Start(none); stops != 1 || !errors.Is(err, ErrStarted) {
			t.Errorf("stopped %d times, then Start() = %v; want once and ErrStarted", stops, err)
		}
	})
}

func TestLifecycleThatFailsToStartIsStopped(t *testing.T) {
	t.Parallel()
	var l Lifecycle
	failure := errors.New("no store")
	if err := l.Start(func() error { return failure }); !errors.Is(err, failure) || !l.Stopped() {
		t.Errorf("Start() = %v, stopped %t, want the error and a stopped component", err, l.Stopped())
	}
	l.Stop(t.Context(), func() { t.Error("Stop() stopped a component that never ran") })
}

func TestLoopIsRestartedAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := Loops{Log: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now}
		runs := 0
		ended := l.Start(t.Context(), "count", func(_ context.Context, beat func()) {
			beat()
			if runs++; runs == 1 {
				panic("first run")
			}
			time.Sleep(time.Minute)
		})
		time.Sleep(30 * time.Second)
		if problems := l.Silent(time.Hour); len(problems) != 0 {
			t.Errorf("Silent(1h) = %q, want none", problems)
		}
		if problems := l.Silent(20 * time.Second); len(problems) != 1 || problems[0] != "count loop: silent for 29s" {
			t.Errorf("Silent(20s) = %q, want the loop", problems)
		}
		<-ended
		l.Wait()
		if text := log.String(); runs != 2 || !strings.Contains(text, "first run") || !strings.Contains(text, "runtime_test.go") {
			t.Errorf("%d runs, log %s; want 2 and the panic with its stack", runs, text)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group sync.WaitGroup
		group.Go(func() { time.Sleep(time.Minute) })
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if Wait(short, &group) {
			t.Error("Wait() = true before the group has ended")
		}
		if !Wait(t.Context(), &group) {
			t.Error("Wait() = false after the group has ended")
		}
	})
}

func TestSignalsMerge(t *testing.T) {
	t.Parallel()
	s := NewSignal()
	s.Send()
	s.Send()
	<-s
	select {
	case <-s:
		t.Error("two pending signals were received twice")
	default:
	}
}

func TestLocksAreIndependent(t *testing.T) {
	t.Parallel()
	var locks Locks[int]
	lock := func(n int) func() {
		t.Helper()
		unlock, err := locks.Lock(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		return unlock
	}
	free := lock(0)
	for n := range 1000 {
		lock(n + 1)() // does not block
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := locks.Lock(ended, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("Lock() with a done ctx = %v, want its cause", err)
	}
	next := make(chan func())
	go func() {
		unlock, _ := locks.Lock(t.Context(), 0)
		next <- unlock
	}()
	select {
	case <-next:
		t.Error("Lock() of a held lock did not wait")
	default:
	}
	free()
	(<-next)()
	if len(locks.locks) != 0 {
		t.Errorf("%d locks remain, want none", len(locks.locks))
	}
}
