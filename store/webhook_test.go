package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func TestReceiversGetArtifactsAndNewStatuses(t *testing.T) {
	t.Parallel()
	const before = a2a.StateWorking
	message := &a2a.Message{ID: "m", Role: a2a.RoleAgent}
	metadata := map[string]any{"k": "v"}
	for _, test := range []struct {
		name    string
		e       store.Event
		deliver bool
		state   a2a.TaskState
	}{
		{"an artifact", store.Event{State: before, Artifact: &a2a.Artifact{ID: "a"}}, true, before},
		{"a chunk of an artifact", store.Event{State: before, Artifact: &a2a.Artifact{ID: "a"}, Append: true}, true, before},
		{"an artifact with metadata", store.Event{State: before, Artifact: &a2a.Artifact{ID: "a"}, Metadata: metadata}, true, before},
		{"an artifact does not change the state", store.Event{State: a2a.StateSubmitted, Artifact: &a2a.Artifact{ID: "a"}}, true, before},
		{"a new state", store.Event{State: a2a.StateInputRequired}, true, a2a.StateInputRequired},
		{"a new state with a message", store.Event{State: a2a.StateInputRequired, Message: message}, true, a2a.StateInputRequired},
		{"a terminal state", store.Event{State: a2a.StateCompleted}, true, a2a.StateCompleted},
		{"a terminal state with metadata", store.Event{State: a2a.StateFailed, Metadata: metadata}, true, a2a.StateFailed},
		{"the same state", store.Event{State: before}, false, before},
		{"the same state with a message", store.Event{State: before, Message: message}, true, before},
		{"progress", store.Event{State: before, Message: message, Progress: true}, true, before},
		{"metadata only", store.Event{State: before, Progress: true, Metadata: metadata}, false, before},
		{"metadata of the same state", store.Event{State: before, Metadata: metadata}, false, before},
		{"a queued task", store.Event{State: a2a.StateSubmitted}, false, a2a.StateSubmitted},
		{"a queued task with a message", store.Event{State: a2a.StateSubmitted, Message: message}, false, a2a.StateSubmitted},
		{"a pending task", store.Event{State: a2a.StatePending}, false, a2a.StatePending},
		{"a message of the client", store.Event{State: before, Received: message}, false, before},
		{"a message of the client to a queued task", store.Event{State: a2a.StateSubmitted, Received: message}, false, a2a.StateSubmitted},
	} {
		test.e.Seq = 8
		got, deliver := store.WebhookCursor{Seq: 7, Sequence: 3, State: before}.Next(&test.e)
		want := store.WebhookCursor{Seq: 8, Sequence: 3, State: test.state}
		if test.deliver {
			want.Sequence = 4
		}
		if deliver != test.deliver || got != want {
			t.Errorf("%s: Next() = %+v, %t, want %+v, %t", test.name, got, deliver, want, test.deliver)
		}
	}
}

func TestReceiversGetWorkingAfterEachWait(t *testing.T) {
	t.Parallel()
	var c store.WebhookCursor
	var received []string
	for i, s := range []a2a.TaskState{
		a2a.StateSubmitted, a2a.StateWorking, a2a.StateWorking, a2a.StateSubmitted, a2a.StateWorking, a2a.StateInputRequired,
		a2a.StateSubmitted, a2a.StateWorking, a2a.StateCompleted,
	} {
		var ok bool
		if c, ok = c.Next(&store.Event{Seq: int64(i + 1), State: s}); ok {
			received = append(received, fmt.Sprint(c.Sequence, " ", s))
		}
	}
	want := []string{"1 working", "2 working", "3 input-required", "4 working", "5 completed"}
	if diff := cmp.Diff(want, received); diff != "" {
		t.Errorf("delivered events (-want +got)\n%s", diff)
	}
}

// logStore is a store of one log. Events returns up to pageSize events.
type logStore struct {
	store.Store
	events   []store.Event
	pageSize int
	err      error
	calls    int
}

func (s *logStore) LogRows(_ context.Context, _ store.Key, after int64, limit int) (rows []store.LogRow, err error) {
	for _, e := range s.events[min(int(after), len(s.events)):] {
		if len(rows) < limit {
			rows = append(rows, store.LogRow{Seq: e.Seq, Events: 1})
		}
	}
	return rows, s.err
}

func (s *logStore) Events(_ context.Context, _ store.Key, after int64, limit int) ([]store.Event, error) {
	s.calls++
	rest := s.events[min(int(after), len(s.events)):]
	return rest[:min(len(rest), limit, s.pageSize)], s.err
}

func TestCursorAtFollowsTheLog(t *testing.T) {
	t.Parallel()
	const n = 1000
	want := []store.WebhookCursor{{}}
	var events []store.Event
	for i := range n {
		e := store.Event{Seq: int64(i + 1), State: []a2a.TaskState{a2a.StateSubmitted, a2a.StateWorking, a2a.StateWorking}[i%3]}
		c, _ := want[i].Next(&e)
		events, want = append(events, e), append(want, c)
	}
	for _, pageSize := range []int{1, 7, n} {
		for _, seq := range []int64{0, 1, 2, 255, 256, 257, 999, 1000, 1001, 1 << 40} {
			s := &logStore{events: events, pageSize: pageSize}
			got, err := store.CursorAt(t.Context(), s, nil, store.Key{Owner: "o", ID: "t"}, seq)
			if last := want[min(seq, n)]; err != nil || got != last {
				t.Errorf("CursorAt(%d) = %+v, %v, want %+v", seq, got, err, last)
			}
			if seq == 0 && s.calls > 0 {
				t.Errorf("CursorAt(0) read the log %d times, want 0", s.calls)
			}
		}
	}
}

func TestCursorAtReturnsTheErrorOfTheStore(t *testing.T) {
	t.Parallel()
	s := &logStore{err: store.ErrNotFound}
	if _, err := store.CursorAt(t.Context(), s, nil, store.Key{Owner: "o", ID: "t"}, 1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("CursorAt() = %v, want ErrNotFound", err)
	}
}

func TestLaneIsPendingBelowItsTail(t *testing.T) {
	t.Parallel()
	for seq, want := range map[int64]bool{0: true, 1: true, 2: false, 3: false} {
		l := store.Lane{Cursor: store.WebhookCursor{Seq: seq}, Tail: 2}
		if got := l.Pending(); got != want {
			t.Errorf("Pending() with cursor %d of 2 = %t, want %t", seq, got, want)
		}
	}
}
