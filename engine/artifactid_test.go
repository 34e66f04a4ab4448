package engine

import (
	"regexp"
	"testing"

	"github.com/holdfast-dev/holdfast/store"
)

func TestArtifactIDs(t *testing.T) {
	t.Parallel()
	turn := func(task string, number int) *Turn {
		return &Turn{task: &store.Task{Key: store.Key{ID: task}}, entry: store.QueueEntry{Turn: number}, nameUses: make(map[string]int)}
	}
	first := turn("t1", 1)
	summary, again := first.artifactID("summary"), first.artifactID("summary")
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(summary) {
		t.Errorf("artifactID() = %s, want a UUID of version 8", summary)
	}
	if got := turn("t1", 1).artifactID("summary"); got != summary {
		t.Errorf("another attempt makes %s, want %s", got, summary)
	}
	seen := map[string]bool{summary: true}
	for _, id := range []string{again, turn("t1", 2).artifactID("summary"), turn("t2", 1).artifactID("summary"), turn("t1", 1).artifactID("summary2")} {
		if seen[id] {
			t.Errorf("%s is the id of two artifacts", id)
		}
		seen[id] = true
	}
}
