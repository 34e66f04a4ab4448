package postgres

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph/graphtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func graphHarness(t *testing.T, cfg func(t storetest.T) Config) graphtest.Harness {
	t.Helper()
	all, h := newSchemas(t, cfg), harness
	h.Open = func(t storetest.T) store.Store { return open(t, all.get(t)) }
	return graphtest.Of(h)
}

func TestGraph(t *testing.T) {
	t.Parallel()
	graphtest.Run(t, graphHarness(t, func(t storetest.T) Config { return freshConfig(t, Config{}) }))
}

func TestGraphBehindAPooler(t *testing.T) {
	t.Parallel()
	h := graphHarness(t, func(t storetest.T) Config { return partitioned(t, Config{Pooler: true}) })
	h.Short = true
	graphtest.Run(t, h)
}
