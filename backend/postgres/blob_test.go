//go:build services

package postgres

import (
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// blobStore is the blobs of a store.
type blobStore struct {
	*blob.Blobs
	s *Store
}

// blobHarness returns the harness for stores in schemas that create returns.
func blobHarness(create func(t storetest.T) Config) blobtest.Harness {
	return blobtest.Harness{
		Open: func(t storetest.T, cfg blob.Config) blobtest.Store {
			s := open(t, create(t))
			return blobStore{s.Blobs(cfg), s}
		},
		Reopen: func(t storetest.T, s blobtest.Store, cfg blob.Config) blobtest.Store {
			old := s.(blobStore).s
			if err := old.Close(); err != nil {
				t.Fatalf("Close() = %v", err)
			}
			reopened := open(t, old.cfg)
			return blobStore{reopened.Blobs(cfg), reopened}
		},
	}
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, blobHarness(func(t storetest.T) Config { return emptyConfig(t, Config{}) }))
}

func TestBlobsBehindAPooler(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, blobHarness(func(t storetest.T) Config { return partitioned(t, Config{Pooler: true}) }))
}

// Sessions keep the plans that were made while the tables were empty.
func TestBlobStatementsUseIndexes(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), freshConfig(storetest.Wrap(t), Config{}))
	conn, err := s.pool.Acquire(bg)
	must(t, err)
	defer conn.Release()
	for i, text := range sqlkit.BlobStatements() {
		plan := explain(t, conn.Conn(), "p"+strconv.Itoa(i), s.qualify(text))
		if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Sort") || !strings.Contains(plan, "Index") {
			t.Errorf("%s has the plan\n%s", text, plan)
		}
	}
}

func TestBlobStreamsNeedConstantMemory(t *testing.T) { // not in parallel
	blobtest.Stream(t, blobHarness(func(t storetest.T) Config { return freshConfig(t, Config{}) }))
}
