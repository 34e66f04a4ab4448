package inmem

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/ann"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectortest"
)

func openVectors(t storetest.T, cfg vector.Config, index ann.Config) vector.Store {
	s := New()
	s.vectors.index = index
	t.Cleanup(func() { s.Close() })
	return s.Vectors(cfg)
}

func TestVectors(t *testing.T) {
	t.Parallel()
	vectortest.Run(t, vectortest.Harness{Open: func(t storetest.T, cfg vector.Config) vector.Store {
		return openVectors(t, cfg, ann.Config{})
	}})
}

// Collections of the suite are too small for a graph otherwise.
func TestVectorsWithGraph(t *testing.T) {
	t.Parallel()
	vectortest.Run(t, vectortest.Harness{Open: func(t storetest.T, cfg vector.Config) vector.Store {
		return openVectors(t, cfg, ann.Config{GraphAt: 8})
	}})
}
