//go:build services

package postgres

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph/graphtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func graphHarness(create func(t storetest.T) Config) graphtest.Harness {
	h := harness
	h.Open = func(t storetest.T) store.Store { return open(t, create(t)) }
	return graphtest.Of(h)
}

func TestGraph(t *testing.T) {
	t.Parallel()
	graphtest.Run(t, graphHarness(func(t storetest.T) Config { return emptyConfig(t, Config{}) }))
}

func TestGraphBehindAPooler(t *testing.T) {
	t.Parallel()
	h := graphHarness(func(t storetest.T) Config { return partitioned(t, Config{Pooler: true}) })
	h.Short = true
	graphtest.Run(t, h)
}
