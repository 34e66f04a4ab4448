package graph_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store/graph"
)

func TestFoldName(t *testing.T) {
	t.Parallel()
	if got := graph.FoldName(" Ada\t LOVELACE\n"); got != "ada lovelace" {
		t.Errorf("FoldName() = %q", got)
	}
}
