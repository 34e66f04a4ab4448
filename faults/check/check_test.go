package check_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/faults/check"
	"github.com/holdfast-dev/holdfast/store"
)

func log(states ...a2a.TaskState) []store.Event {
	events := make([]store.Event, len(states))
	for i, state := range states {
		events[i] = store.Event{Seq: int64(i + 1), State: state, Time: time.Unix(int64(i), 0)}
	}
	return events
}

func TestLogFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := log(a2a.StateSubmitted, a2a.StateWorking, a2a.StateWorking, a2a.StateCompleted)
	if err := check.Log(good); err != nil {
		t.Errorf("Log() = %v, want nil", err)
	}
	gap := log(a2a.StateSubmitted, a2a.StateWorking, a2a.StateCompleted)
	gap[2].Seq = 4
	back := log(a2a.StateSubmitted, a2a.StateWorking)
	back[1].Time = time.Unix(-1, 0)
	for _, tt := range []struct {
		want   string
		events []store.Event
	}{
		{"empty", nil},
		{"event 3 of the log has sequence 4", gap},
		{"earlier than the one before", back},
		{"begins with working", log(a2a.StateWorking)},
		{"moves from completed to completed", log(a2a.StateSubmitted, a2a.StateWorking, a2a.StateCompleted, a2a.StateCompleted)},
		{"moves from canceled to working", log(a2a.StateSubmitted, a2a.StateCanceled, a2a.StateWorking)},
	} {
		if err := check.Log(tt.events); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Log() = %v, want %q", err, tt.want)
		}
	}
}

func TestDirFindsATaskThatIsForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	create := func(owner, id string, state a2a.TaskState, phase store.Phase) {
		message := a2a.Message{ID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: "hi"}}}
		results, err := s.Commit(t.Context(), store.Change{
			Key: store.Key{Owner: owner, ID: id}, Create: &store.Create{ContextID: "c"},
			Events: []store.Event{
				{Time: time.UnixMilli(1), State: a2a.StateSubmitted, Received: &message},
				{Time: time.UnixMilli(2), State: state},
			},
			Run: &store.Run{Phase: phase, Turn: 1},
		})
		if err != nil || results[0].Err != nil {
			t.Fatalf("Commit() = %+v, %v", results, err)
		}
	}
	create("alice", "good", a2a.StateCompleted, store.PhaseIdle)
	create("bob", "waiting", a2a.StateWorking, store.PhaseQueued)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := check.Dir(context.Background(), dir)
	if err != nil || len(report.States) != 2 || report.Count(a2a.StateCompleted) != 1 || len(report.Logs["good"]) != 2 {
		t.Fatalf("Dir() = %+v, %v, want two good tasks", report, err)
	}
	if s, err = sqlite.Open(t.Context(), sqlite.Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	create("bob", "forgotten", a2a.StateWorking, store.PhaseIdle)
	create("bob", "restless", a2a.StateFailed, store.PhaseQueued)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = check.Dir(context.Background(), dir)
	for _, want := range []string{"task forgotten: it is working and idle", "task restless: it is failed and queued"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Dir() = %v, want %q", err, want)
		}
	}
}
