package encoding

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// FuzzEventRoundTrip checks that stored events are read unchanged, and that a snapshot
// folds to the same task as the log.
func FuzzEventRoundTrip(f *testing.F) {
	f.Add("working", "text", "name", `{"a":[1,null,{"b":"c"}],"n":12345678901234567890}`, int64(1_763_640_000_123), true, false)
	f.Add("a-state-of-tomorrow", "\x00\u2028\"\\", "", `{}`, int64(0), false, true)
	f.Add("completed", "", "\xff", `{"":1e400}`, int64(-1), true, true)
	f.Fuzz(func(t *testing.T, state, text, name, data string, ms int64, more, progress bool) {
		// Stored values have passed the decoder: valid UTF-8 and readable JSON.
		var metadata map[string]any
		if wire.Unmarshal([]byte(data), &metadata) != nil {
			return
		}
		state, text, name = valid(state), valid(text), valid(name)
		at := time.UnixMilli(ms % 1e14).UTC()
		reply := &a2a.Message{ID: "m", Role: a2a.RoleAgent, Metadata: metadata, Parts: []a2a.Part{
			a2a.TextPart{Text: text, Metadata: metadata},
			a2a.FilePart{File: a2a.FileWithBytes{Name: name, Bytes: []byte(text + "x")}},
			a2a.FilePart{File: a2a.FileWithURI{URI: text}},
		}}
		if len(metadata) > 0 {
			reply.Parts = append(reply.Parts, a2a.DataPart{Data: metadata})
		}
		events := []store.Event{
			{Seq: 15, Time: at, State: a2a.TaskState(state), Received: reply, Message: reply, Progress: progress, Metadata: metadata},
			{Seq: 16, Time: at, State: a2a.TaskState(state), Append: more, LastChunk: progress, Artifact: &a2a.Artifact{
				ID: "a", Name: name, Description: text, Parts: reply.Parts, Metadata: metadata,
			}},
		}
		task := store.Key{Owner: "o", ID: "t"}
		stored, err := Events(events, task, "c")
		if err != nil {
			t.Fatalf("Events() = %v", err)
		}
		got, err := DecodeEvents(stored, 15, task, "c")
		if err != nil {
			t.Fatalf("DecodeEvents(%s) = %v", stored, err)
		}
		if diff := cmp.Diff(events, got, asJSON()); diff != "" {
			t.Fatalf("events after a round trip (-want +got):\n%s", diff)
		}
		checkSnapshot(t, events)
	})
}

func checkSnapshot(t *testing.T, events []store.Event) {
	t.Helper()
	var whole store.Task
	whole.Apply(append(events, store.Event{Seq: 17, Time: events[0].Time, State: a2a.StateCompleted})...)
	stored, err := Snapshot(&whole, 1<<20)
	if err != nil {
		t.Fatalf("Snapshot() = %v", err)
	}
	got := store.Task{Seq: whole.Seq, ReceivedSeq: whole.ReceivedSeq, CreatedAt: whole.CreatedAt}
	if err := DecodeSnapshot(&got, stored, false); err != nil {
		t.Fatalf("DecodeSnapshot(%s) = %v", stored, err)
	}
	if diff := cmp.Diff(&whole, &got, asJSON()); diff != "" {
		t.Fatalf("task after a round trip (-want +got):\n%s", diff)
	}
}

// valid returns s as the JSON decoder would return it.
func valid(s string) string {
	raw, _ := json.Marshal(s)
	_ = json.Unmarshal(raw, &s)
	return s
}

// asJSON compares model values by their JSON, which is what the contract guarantees.
func asJSON() cmp.Option {
	return cmp.Options{
		cmp.FilterPath(func(p cmp.Path) bool { return p.Index(-1).Type().Kind().String() == "map" }, cmp.Comparer(func(a, b any) bool {
			return toJSON(a) == toJSON(b)
		})),
		cmp.Comparer(func(a, b a2a.Part) bool { return toJSON(a) == toJSON(b) }),
		cmp.Comparer(func(a, b a2a.Message) bool { return toJSON(a) == toJSON(b) }),
		cmp.Comparer(func(a, b a2a.Artifact) bool { return toJSON(a) == toJSON(b) }),
		cmp.Comparer(func(a, b store.Task) bool {
			return a.Seq == b.Seq && toJSON(a.Status) == toJSON(b.Status) && toJSON(a.History) == toJSON(b.History) &&
				toJSON(a.Artifacts) == toJSON(b.Artifacts) && toJSON(a.Metadata) == toJSON(b.Metadata)
		}),
	}
}

func toJSON(v any) string {
	raw, err := wire.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
