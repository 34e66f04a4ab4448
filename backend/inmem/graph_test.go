package inmem

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph/graphtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestGraph(t *testing.T) {
	t.Parallel()
	graphtest.Run(t, graphtest.Of(storetest.Harness{Open: func(storetest.T) store.Store { return New() }}))
}

func BenchmarkGraphWalk(b *testing.B) { graphtest.BenchWalk(b, New().Graph(nil), nil) }
