package cli_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
)

// keepMany stores what keepData does, and a number of contexts and facts.
func keepMany(t *testing.T, dir, owner string, n int) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := keepData(t.Context(), s, owner); err != nil {
		t.Fatal(err)
	}
	c := engine.Contracts{}.WithParts(s, nil)
	now := store.Time(time.Now())
	var changes []store.Change
	for i := range n {
		m := a2a.Message{ID: fmt.Sprint("m", i), Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: "x"}}}
		changes = append(changes, store.Change{
			Key: store.Key{Owner: owner, ID: fmt.Sprint("t", i)}, Create: &store.Create{ContextID: fmt.Sprint("c", i)},
			Queue:  &store.QueueEntry{Turn: 1, Lease: store.Lease{Fence: store.FirstFence(now)}, Phase: store.PhaseIdle},
			Events: []store.Event{{Seq: 1, Time: now, State: a2a.StateSubmitted, Received: &m}, {Seq: 2, Time: now, State: a2a.StateCompleted}},
		})
		scope := memory.Scope{Owner: owner, Agent: fmt.Sprint("a", i%7)}
		if _, err := facts.In(c.Stores).Save(t.Context(), scope, fmt.Sprint("fact ", i), memory.SaveParams{}); err != nil {
			t.Fatal(err)
		}
	}
	if results, err := s.Commit(t.Context(), changes...); err != nil || n > 0 && results[n-1].Err != nil {
		t.Fatalf("Commit() = %v, %v", results, err)
	}
}

// A forget that is killed any number of times is completed by the last one.
func TestForgetSurvivesKills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keepMany(t, dir, "alice", 300)
	keepMany(t, dir, "bob", 3)
	kills := 0
	for delay := 20 * time.Millisecond; ; delay += 5 * time.Millisecond {
		var out strings.Builder
		cmd := exec.CommandContext(t.Context(), "holdfast", "forget", "alice", "--yes", "--json", "--data", dir)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(delay, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		if timer.Stop() {
			if err != nil {
				t.Fatalf("forget = %v: %s", err, &out)
			}
			break
		}
		kills++
	}
	t.Logf("completed after %d kills", kills)
	code, out, stderr := run(t, "", nil, "forget", "alice", "--yes", "--json", "--data", dir)
	var again engine.ForgetReport
	if err := json.Unmarshal([]byte(out), &again); code != 0 || err != nil || len(again.Removed) > 0 {
		t.Errorf("forget again = %d, %s%s, want nothing to delete", code, out, stderr)
	}
	for _, args := range [][]string{{"history", "list"}, {"memory", "list"}, {"blobs", "list"}, {"boards", "list"}} {
		for owner, want := range map[string]bool{"alice": false, "bob": true} {
			code, out, stderr := run(t, "", nil, append(args, "--owner", owner, "--data", dir)...)
			if code != 0 || (out != "") != want {
				t.Errorf("%s %s of %s = %d, %s%s", args[0], args[1], owner, code, out, stderr)
			}
		}
	}
	code, out, _ = run(t, "", nil, "export", "--all", "--owner", "bob", "--data", dir)
	if code != 0 || strings.Count(out, `"type":"task"`) != 3 {
		t.Errorf("export of bob = %d, %s, want 3 tasks", code, out)
	}
}
