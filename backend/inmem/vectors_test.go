package inmem

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/ann"
	"github.com/holdfast-dev/holdfast/store/vector/vectortest"
)

// openVectors are the documents of a store of tasks.
type openVectors struct {
	*vectorStore
	tasks *Store
}

func vectorHarness(index ann.Config) vectortest.Harness {
	return vectortest.Harness{
		Open: func(t storetest.T, cfg vector.Config) vector.Store {
			s := New()
			s.vectors.index = index
			t.Cleanup(func() { s.Close() })
			return openVectors{s.Vectors(cfg).(*vectorStore), s}
		},
		Tasks: func(s vector.Store) store.Store { return s.(openVectors).tasks },
	}
}

func TestVectors(t *testing.T) {
	t.Parallel()
	vectortest.Run(t, vectorHarness(ann.Config{}))
}

// Collections of the suite are too small for a graph otherwise.
func TestVectorsWithGraph(t *testing.T) {
	t.Parallel()
	vectortest.Run(t, vectorHarness(ann.Config{GraphAt: 8}))
}

func TestWordRecall(t *testing.T) {
	t.Parallel()
	s := New()
	defer s.Close()
	vectortest.CheckRecall(storetest.Wrap(t), s.Vectors(vector.Config{}), 50)
}

// BenchmarkWordSearch searches collections of up to 100,000 documents by words.
func BenchmarkWordSearch(b *testing.B) {
	s := New()
	defer s.Close()
	vectortest.BenchWords(b, s.Vectors(vector.Config{}), 100_000, nil)
}
