package inmem_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestStore(t *testing.T) { storetest.Run(t, harness()) }

func harness() storetest.Harness {
	return storetest.Harness{Open: func(storetest.T) store.Store { return inmem.New() }}
}

func BenchmarkStore(b *testing.B) { storetest.Bench(b, harness()) }

func BenchmarkDelete(b *testing.B) { storetest.BenchDelete(b, harness()) }

func BenchmarkClaims(b *testing.B) { storetest.BenchClaims(b, harness()) }
