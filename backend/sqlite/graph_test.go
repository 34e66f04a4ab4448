package sqlite

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store/graph/graphtest"
)

func TestGraph(t *testing.T) {
	t.Parallel()
	graphtest.Run(t, graphtest.Of(harness))
}
