//go:build services

package postgres

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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

// A replica that is suspended during a change, which reads before it writes, blocks no change of the owner. Its own
// change is planned again, on top of those.
func TestSuspendedChangeOfBlobsBlocksNoOther(t *testing.T) {
	t.Parallel()
	suspended := open(storetest.Wrap(t), freshConfig(storetest.Wrap(t), Config{}))
	other := open(storetest.Wrap(t), suspended.cfg)
	blobs := other.Blobs(blob.Config{})
	put := func(text string) blob.Info {
		t.Helper()
		info, err := blobs.Put(bg, strings.NewReader(text), blob.PutParams{Owner: "alice", TTL: time.Hour})
		must(t, err)
		return info
	}
	first := put("first")
	planned, resume := make(chan struct{}), make(chan struct{})
	plans := 0
	done := make(chan error, 1)
	go func() {
		done <- suspended.BlobRefs().Update(bg, "alice", func(tx blob.Tx) error {
			row, err := tx.Ref(first.Ref)
			if err != nil {
				return err
			}
			if plans++; plans == 1 {
				close(planned)
				<-resume
			}
			return tx.SetHolders(&row, append(row.Holders, "task"), time.Time{})
		})
	}()
	<-planned
	second := put("second")
	must(t, blobs.Pin(bg, "alice", first.Ref, "another"))
	must(t, blobs.Delete(bg, "alice", second.Ref))
	close(resume)
	must(t, <-done)
	info, err := blobs.Stat(bg, "alice", first.Ref)
	must(t, err)
	usage, err := blobs.Usage(bg, "alice")
	must(t, err)
	if want := []string{"another", "task"}; plans != 2 || !slices.Equal(info.Holders, want) || usage != (blob.Usage{Blobs: 1, Bytes: 5}) {
		t.Errorf("after %d plans the holders are %q and the usage is %+v, want 2, %q and the first blob", plans, info.Holders, usage, want)
	}
}

// A change that others make obsolete again and again locks the owner in the end.
func TestObsoletePlansEnd(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), freshConfig(storetest.Wrap(t), Config{}))
	other := open(storetest.Wrap(t), s.cfg)
	blobs := other.Blobs(blob.Config{})
	first, err := blobs.Put(bg, strings.NewReader("first"), blob.PutParams{Owner: "alice", TTL: time.Hour})
	must(t, err)
	plans := 0
	must(t, s.BlobRefs().Update(bg, "alice", func(tx blob.Tx) error {
		row, err := tx.Ref(first.Ref)
		if err != nil {
			return err
		}
		if plans++; plans <= 10 {
			must(t, blobs.Pin(bg, "alice", first.Ref, fmt.Sprint("other ", plans)))
		}
		return tx.SetHolders(&row, append(row.Holders, "task"), time.Time{})
	}))
	info, err := blobs.Stat(bg, "alice", first.Ref)
	must(t, err)
	if plans != 11 || len(info.Holders) != 11 {
		t.Errorf("after %d plans the holders are %q, want 11 and all", plans, info.Holders)
	}
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
