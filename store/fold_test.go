package store_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/cputime"
	"github.com/holdfast-dev/holdfast/store"
)

func data(n int) a2a.Part { return a2a.DataPart{Data: map[string]any{"n": float64(n)}} }

// eventLogs return event i of a log of chunks.
var eventLogs = map[string]func(i int) store.Event{
	"data parts in one artifact": func(i int) store.Event { return chunk(int64(i+1), i > 0, data(i)) },
	"data and text in turn": func(i int) store.Event {
		if i%3 == 0 {
			return chunk(int64(i+1), i > 0, data(i))
		}
		return chunk(int64(i+1), true, text("some text"))
	},
	"artifacts of two chunks": func(i int) store.Event {
		e := chunk(int64(i+1), i%2 == 1, data(i))
		e.Artifact.ID = fmt.Sprint("artifact ", i/2)
		return e
	},
	"chunks of many artifacts": func(i int) store.Event {
		e := chunk(int64(i+1), i >= 2000, data(i))
		e.Artifact.ID = fmt.Sprint("artifact ", i%2000)
		return e
	},
}

func generate(n int, event func(int) store.Event) []store.Event {
	events := make([]store.Event, n)
	for i := range events {
		events[i] = event(i)
	}
	return events
}

// TestApplyIsLinear is not parallel: it measures the allocations of the process.
func TestApplyIsLinear(t *testing.T) {
	for name, event := range eventLogs {
		cost := func(n int) (allocated uint64, took time.Duration) {
			events := generate(n, event)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			took = cputime.Of(func() { new(store.Task).Apply(events...) })
			runtime.ReadMemStats(&after)
			return after.TotalAlloc - before.TotalAlloc, took
		}
		few, short := cost(10_000)
		many, long := cost(80_000)
		t.Logf("%s: 10,000 chunks %d KB in %s, 80,000 chunks %d KB in %s", name, few>>10, short, many>>10, long)
		if many > 12*few {
			t.Errorf("%s: 8 times the chunks allocate %d times the memory, want at most 12", name, many/few)
		}
		// A quadratic fold takes 64 times as long, also if it allocates nothing: seconds for 80,000 chunks.
		if long > 32*max(short, 5*time.Millisecond) {
			t.Errorf("%s: 8 times the chunks take %s, want at most 32 times %s", name, long, short)
		}
	}
}

func TestClonesDoNotAffectApply(t *testing.T) {
	t.Parallel()
	for name, event := range eventLogs {
		events := generate(300, event)
		var whole, stepwise store.Task
		whole.Apply(events...)
		var clones []*store.Task
		for i := range events {
			stepwise.Apply(events[i])
			if i%7 == 0 {
				clones = append(clones, stepwise.Clone())
			}
			if i%50 == 0 { // a clone with different events
				clones[len(clones)-1].Clone().Apply(chunk(int64(i+2), true, data(-1)), chunk(int64(i+3), true, text("x")), chunk(int64(i+4), true, text("y")))
			}
		}
		if diff := cmp.Diff(whole.Artifacts, stepwise.Artifacts); diff != "" {
			t.Fatalf("%s: artifacts (-together +one by one)\n%s", name, diff)
		}
		for _, c := range clones {
			var want store.Task
			want.Apply(events[:c.Seq]...)
			if diff := cmp.Diff(want.Artifacts, c.Artifacts); diff != "" {
				t.Fatalf("%s: clone at %d (-want +got)\n%s", name, c.Seq, diff)
			}
		}
	}
}

func TestApplyFindsArtifactsAfterARemoval(t *testing.T) {
	t.Parallel()
	var task store.Task
	event := func(id string, extend bool, parts ...a2a.Part) store.Event {
		e := chunk(task.Seq+1, extend, parts...)
		e.Artifact.ID = id
		return e
	}
	for i := range 40 {
		task.Apply(event(fmt.Sprint(i), false, data(i)))
	}
	task.Apply(event("30", true, text("a")), event("7", false), event("30", true, text("b")), event("39", true, text("c")), event("7", false, text("again")))
	if len(task.Artifacts) != 40 {
		t.Fatalf("%d artifacts, want 40", len(task.Artifacts))
	}
	for i, want := range map[int][]a2a.Part{29: {data(30), text("ab")}, 38: {data(39), text("c")}, 39: {text("again")}} {
		if diff := cmp.Diff(want, task.Artifacts[i].Parts); diff != "" {
			t.Errorf("artifact %d (-want +got)\n%s", i, diff)
		}
	}
}
