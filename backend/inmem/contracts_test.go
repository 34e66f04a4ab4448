package inmem

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob/blobtest"
	"github.com/holdfast-dev/holdfast/store/graph/graphtest"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/history/historytest"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector/vectortest"
)

var contracts = storetest.Harness{Open: func(storetest.T) store.Store { return New() }}

func TestGraph(t *testing.T) {
	t.Parallel()
	graphtest.Run(t, graphtest.Of(contracts))
}

func TestVectors(t *testing.T) {
	t.Parallel()
	vectortest.Run(t, vectortest.Of(contracts))
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, blobtest.Of(contracts))
}

func TestLongTerm(t *testing.T) {
	t.Parallel()
	memorytest.RunLongTerm(t, memorytest.LongTermOf(contracts))
}

func TestHistory(t *testing.T) {
	t.Parallel()
	historytest.Run(t, historytest.Harness{Open: func(t storetest.T, now func() time.Time) history.Provider {
		s := New()
		t.Cleanup(func() { _ = s.Close() })
		return historysql.New(s.SQL(), now)
	}})
}
