//go:build services

package postgres

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectortest"
)

// openVectors are the documents of a store that a test can reopen.
type openVectors struct {
	*vectorStore
	store *Store
}

func newVectors(t storetest.T, cfg Config, v vector.Config, from int64) vector.Store {
	cfg.indexFrom = from
	s := open(t, cfg)
	return openVectors{s.Vectors(v).(*vectorStore), s}
}

// runVectorSuite runs the suite in schemas that create returns. Collections get an index from a
// number of documents, 0 for the default.
func runVectorSuite(t *testing.T, calls int, from int64, create func(t storetest.T) Config) {
	t.Helper()
	vectortest.Run(t, vectortest.Harness{
		Open: func(t storetest.T, cfg vector.Config) vector.Store { return newVectors(t, create(t), cfg, from) },
		Reopen: func(t storetest.T, v vector.Store, cfg vector.Config) vector.Store {
			s := v.(openVectors).store
			if err := s.Close(); err != nil {
				t.Fatalf("Close() = %v", err)
			}
			return newVectors(t, s.cfg, cfg, from)
		},
		Tasks: func(v vector.Store) store.Store { return v.(openVectors).store },
		Calls: calls,
	})
}

func TestVectors(t *testing.T) {
	t.Parallel()
	runVectorSuite(t, 1000, 0, func(t storetest.T) Config { return emptyConfig(t, Config{Vectors: true}) })
}

func TestVectorsBehindAPooler(t *testing.T) {
	t.Parallel()
	runVectorSuite(t, 200, 8, func(t storetest.T) Config {
		return partitioned(t, Config{Vectors: true, HalfVectors: true, Pooler: true})
	})
}

// Collections get an index while tests change them.
func TestVectorsWithIndexes(t *testing.T) {
	t.Parallel()
	runVectorSuite(t, 200, 8, func(t storetest.T) Config { return emptyConfig(t, Config{Vectors: true}) })
}
