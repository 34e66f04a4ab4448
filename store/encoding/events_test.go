package encoding

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func TestEventsRoundTrip(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_763_640_000_123).UTC()
	task := store.Key{Owner: "o", ID: "task-1"}
	message := func(taskID, contextID string) *a2a.Message {
		return &a2a.Message{ID: "m", TaskID: taskID, ContextID: contextID, Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: "x"}}}
	}
	for name, test := range map[string]struct {
		events []store.Event
		absent []string // from the JSON
	}{
		"ids of the log": {
			[]store.Event{{Time: at, State: a2a.StateSubmitted, Received: message("task-1", "context-1"), Message: message("task-1", "context-1")}},
			[]string{"task-1", "context-1", "bare"},
		},
		"another context":    {[]store.Event{{Time: at, State: a2a.StateSubmitted, Received: message("task-1", "context-2")}}, []string{"task-1", "context-1"}},
		"another task":       {[]store.Event{{Time: at, State: a2a.StateSubmitted, Message: message("task-2", "context-1")}}, []string{"context-1"}},
		"no ids":             {[]store.Event{{Time: at, State: a2a.StateSubmitted, Received: message("", "")}}, nil},
		"one message of two": {[]store.Event{{Time: at, State: a2a.StateSubmitted, Received: message("task-1", "context-1"), Message: message("task-1", "")}}, nil},
		"members of A2A 1.0": {[]store.Event{{Time: at, State: a2a.StateSubmitted, Message: &a2a.Message{ID: "m", Role: a2a.RoleAgent, Parts: []a2a.Part{
			a2a.TextPart{Text: "x", Filename: "a.md", MediaType: "text/markdown"}, a2a.DataPart{Filename: "b", MediaType: "application/json"},
		}}}}, nil},
		"no time": {[]store.Event{{State: a2a.StateSubmitted}, {Time: at, State: a2a.StateCompleted}, {State: a2a.StateCompleted}}, nil},
		"times and states": {
			[]store.Event{
				{Time: at, State: a2a.StateWorking},
				{Time: at, State: a2a.StateWorking, Progress: true},
				{Time: at.Add(time.Millisecond), State: a2a.StateCompleted},
				{Time: at, State: "an unknown state"},
			},
			[]string{"working"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range test.events {
				test.events[i].Seq = int64(7 + i)
			}
			want := copyOf(test.events)
			data, err := Events(test.events, task, "context-1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, test.events); diff != "" {
				t.Errorf("Events() changed its argument (-want +got):\n%s", diff)
			}
			got, err := DecodeEvents(data, 7, task, "context-1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("DecodeEvents(%s) (-want +got):\n%s", data, diff)
			}
			for _, text := range test.absent {
				if strings.Contains(string(data), text) {
					t.Errorf("Events() = %s, want it without %s", data, text)
				}
			}
			if n := strings.Count(string(data), `"time"`); name == "times and states" && n != 2 {
				t.Errorf("Events() = %s, want two times", data)
			}
		})
	}
}

// copyOf returns a copy of events and their messages.
func copyOf(events []store.Event) []store.Event {
	copied := make([]store.Event, len(events))
	for i, e := range events {
		for _, m := range []**a2a.Message{&e.Message, &e.Received} {
			if *m != nil {
				one := **m
				*m = &one
			}
		}
		copied[i] = e
	}
	return copied
}
