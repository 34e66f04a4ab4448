package inmem

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// The figures are those of BM25 with a trigram arm in the reference measurements.
func TestLongTermRecall(t *testing.T) {
	t.Parallel()
	documents, err := memorytest.Documents()
	if err != nil {
		t.Fatalf("no source of the standard library: %v", err)
	}
	clean, misspelt, err := memorytest.MeasureRecall(t.Context(), New().LongTerm(memory.LongTermConfig{}), documents, 100, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d documents: clean %v, misspelt %v", len(documents), clean, misspelt)
	if clean.At10 < 0.890 || misspelt.At10 < 0.578 {
		t.Errorf("recall of clean queries = %v, of misspelt ones %v, want at least 0.890 and 0.578", clean, misspelt)
	}
}

func TestLongTerm(t *testing.T) {
	t.Parallel()
	memorytest.RunLongTerm(t, memorytest.LongTermOf(storetest.Harness{Open: func(storetest.T) store.Store { return New() }}))
}
