package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
)

// wallClock is a clock with a wall time that can be set. This does not change the monotonic
// part of its readings.
type wallClock struct{ offset atomic.Int64 } // in seconds

func (c *wallClock) jump(d time.Duration) { c.offset.Add(int64(d / time.Second)) }

// now returns time.Now with another wall time. Package time has no function for this, so now
// changes the seconds in place: they are 33 bits above the nanoseconds of a reading with a
// monotonic part.
func (c *wallClock) now() time.Time {
	t := time.Now()
	seconds := (*uint64)(unsafe.Pointer(&t))
	*seconds = uint64(int64(*seconds) + c.offset.Load()<<30)
	return t
}

func TestWallClockJumpKeepsMonotonicReading(t *testing.T) {
	t.Parallel()
	clock := new(wallClock)
	started, wall := time.Now(), clock.now()
	for _, d := range []time.Duration{time.Hour, -2 * time.Hour} {
		clock.jump(d)
		now := clock.now()
		if got := now.Round(0).Sub(wall.Round(0)); (got - d).Abs() > time.Minute {
			t.Errorf("the wall clock moved %s, want %s: the clock of these tests is broken", got, d)
		}
		if got := now.Sub(started); got.Abs() > time.Minute {
			t.Errorf("the monotonic part of the clock moved %s", got)
		}
		wall = now
	}
}

// clockTest runs an engine and sets its clock while the engine works.
type clockTest struct {
	t     *testing.T
	store store.Store
	clock *wallClock
	e     *Engine

	mu   sync.Mutex
	runs map[string]int // by task id and attempt or step
}

var owner = a2a.Principal{ID: "alice"}

func (c *clockTest) start() {
	c.t.Helper()
	var ids atomic.Int64
	prefix := fmt.Sprintf("id-%p-", c)
	e, err := New(Config{
		Store: c.store, Handler: c.handle, clock: c.clock.now, Worker: fmt.Sprintf("worker-%d", time.Now().UnixNano()),
		NewID: func() string { return fmt.Sprintf("%s%d-%d", prefix, time.Now().UnixNano(), ids.Add(1)) },
		Turns: Turns{
			Concurrency: 2, Lease: 200 * time.Millisecond, Poll: 20 * time.Millisecond,
			RetryDelay: 50 * time.Millisecond, RetryDelayMax: 100 * time.Millisecond, FlushInterval: time.Millisecond,
		},
	})
	if err == nil {
		err = e.Start(c.t.Context())
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.e = e
}

func (c *clockTest) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_ = c.e.Stop(ctx)
}

func (c *clockTest) countRun(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[what]++
}

// handle runs steps for a few tenths of a second and writes an artifact. If the text is
// "retry", the first attempt asks for a second one.
func (c *clockTest) handle(ctx context.Context, t *Turn) error {
	text := t.Messages()[0].Text()
	c.countRun(fmt.Sprintf("%s attempt %d", t.TaskID(), t.Attempt()))
	w := t.Artifact("a")
	for i := range 5 {
		_, err := t.Step(ctx, "step", func(ctx context.Context) ([]byte, error) {
			c.countRun(fmt.Sprintf("%s step %d", t.TaskID(), i))
			select {
			case <-time.After(20 * time.Millisecond):
				return nil, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
		if err != nil {
			return err
		}
		if _, err := w.WriteString("x"); err != nil {
			return err
		}
		if text == "retry" && t.Attempt() == 1 && i == 2 {
			c.countRun(t.TaskID() + " retry")
			return Retry(errors.New("not yet"))
		}
	}
	return t.Reply(a2a.TextPart{Text: "done"})
}

func (c *clockTest) send(text string) string {
	c.t.Helper()
	sent, err := c.e.Send(c.t.Context(), owner, a2a.MessageSendParams{Message: a2a.Message{
		ID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: text}},
	}}, SendOptions{})
	if err != nil {
		c.t.Fatalf("Send() = %v", err)
	}
	return sent.Task.Key.ID
}

// wantCompleted follows a task to its end and checks its log.
func (c *clockTest) wantCompleted(id string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	after, last := int64(0), time.Time{}
	for u, err := range c.e.Follow(ctx, owner, id, &after) {
		if err != nil {
			c.t.Fatalf("Follow() = %v", err)
		}
		if u.Event == nil {
			continue
		}
		if u.Event.Time.Before(last) {
			c.t.Errorf("task %s: event %d is %s earlier than the one before", id, u.Seq, last.Sub(u.Event.Time))
		}
		last = u.Event.Time
	}
	task, err := c.e.Task(c.t.Context(), owner, id, nil)
	if err != nil || task.Status.State != a2a.StateCompleted {
		c.t.Fatalf("Task() = %+v, %v, want completed", task, err)
	}
}

func newClockTest(t *testing.T) *clockTest {
	c := &clockTest{t: t, store: inmem.New(), clock: new(wallClock), runs: make(map[string]int)}
	c.start()
	t.Cleanup(func() { c.stop() })
	return c
}

var jumps = []time.Duration{time.Hour, -time.Hour, -26 * time.Hour, 26 * time.Hour}

func TestTasksSurviveClockJumps(t *testing.T) {
	t.Parallel()
	for _, jump := range jumps {
		t.Run(jump.String(), func(t *testing.T) {
			t.Parallel()
			c := newClockTest(t)
			var ids []string
			for i := range 8 { // two run, the others are queued
				ids = append(ids, c.send([]string{"work", "retry"}[i%2]))
			}
			for range 4 {
				time.Sleep(50 * time.Millisecond) // some tasks run: the clock of synctest has no monotonic part to keep
				c.clock.jump(jump)
				jump = -jump
			}
			for _, id := range ids {
				c.wantCompleted(id)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			for what, n := range c.runs {
				if n != 1 {
					t.Errorf("%s ran %d times, want once", what, n)
				}
			}
		})
	}
}

func TestRestartAfterClockJumpLosesNoTask(t *testing.T) {
	t.Parallel()
	for _, jump := range jumps {
		t.Run(jump.String(), func(t *testing.T) {
			t.Parallel()
			c := newClockTest(t)
			var ids []string
			for i := range 6 {
				ids = append(ids, c.send([]string{"work", "retry"}[i%2]))
			}
			await.True(t, "a task requests another attempt", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				for what := range c.runs {
					if strings.HasSuffix(what, " retry") {
						return true
					}
				}
				return false
			})
			c.stop()
			c.clock.jump(jump)
			c.start()
			started := time.Now()
			for _, id := range ids {
				c.wantCompleted(id)
			}
			if took := time.Since(started); took > 30*time.Second {
				t.Errorf("the tasks took %s after the restart: a delay was measured by the wall clock", took)
			}
		})
	}
}
