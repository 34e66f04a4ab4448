package engine

import (
	"regexp"
	"testing"
)

func TestArtifactIDs(t *testing.T) {
	t.Parallel()
	turn := func(task string, number int) *turnArtifacts { return &turnArtifacts{taskID: task, turn: number} }
	first := turn("t1", 1)
	summary, again := first.nextID("summary"), first.nextID("summary")
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(summary) {
		t.Errorf("nextID() = %s, want a UUID of version 8", summary)
	}
	if got := turn("t1", 1).nextID("summary"); got != summary {
		t.Errorf("another attempt makes %s, want %s", got, summary)
	}
	seen := map[string]bool{summary: true}
	for _, id := range []string{again, turn("t1", 2).nextID("summary"), turn("t2", 1).nextID("summary"), turn("t1", 1).nextID("summary2")} {
		if seen[id] {
			t.Errorf("%s is the id of two artifacts", id)
		}
		seen[id] = true
	}
}
