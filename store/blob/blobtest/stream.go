package blobtest

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// LongEnv is the environment variable that makes Stream use 1 GiB instead of 96 MiB.
const LongEnv = "HOLDFAST_BLOB_LONG"

// maxHeap is the maximum growth of the heap during a stream.
const maxHeap = 24 * mib

// Stream streams a large content in and out and checks that the heap hardly grows. The calling
// test must not run in parallel with others.
func Stream(t *testing.T, h Harness) {
	t.Helper()
	size := int64(96 * mib)
	if os.Getenv(LongEnv) != "" {
		size = 1 << 30
	}
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	s := h.Open(storetest.Wrap(t), blob.Config{MaxSize: size})
	var info blob.Info
	grew, took := heapGrowth(func() {
		info = suite.Call(s.Put(t.Context(), Source(1, size), blob.PutParams{Owner: owner, ContentType: "application/x-test"})).Must(t, "Put()")
	})
	report(t, "in", size, grew, took)
	sum := sha256.New()
	grew, took = heapGrowth(func() {
		r, _, err := s.Open(t.Context(), owner, info.Ref)
		if err == nil {
			_, err = io.Copy(sum, r)
			err = errors.Join(err, r.Close())
		}
		if err != nil {
			t.Fatalf("reading = %v", err)
		}
	})
	report(t, "out", size, grew, took)
	if blob.Digest(sum.Sum(nil)) != info.Digest || info.Size != size {
		t.Errorf("content that was read is not that which was stored")
	}
}

func report(t *testing.T, direction string, size int64, grew uint64, took time.Duration) {
	t.Helper()
	t.Logf("%d MiB %s: %.0f MiB/s, heap grew by up to %.1f MiB", size/mib, direction, float64(size)/mib/took.Seconds(), float64(grew)/mib)
	if grew > maxHeap {
		t.Errorf("heap grew by %d MiB, want at most %d MiB", grew/mib, maxHeap/mib)
	}
}

// heapGrowth returns the largest growth of the heap while f runs.
func heapGrowth(f func()) (grew uint64, took time.Duration) {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before, done, peak := m.HeapAlloc, make(chan struct{}), make(chan uint64)
	go func() {
		var m runtime.MemStats
		most := before
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-done:
				tick.Stop()
				peak <- most
				return
			case <-tick.C:
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}
	}()
	start := time.Now()
	defer func() {
		took = time.Since(start)
		close(done)
		grew = <-peak - before
	}()
	f()
	return grew, took
}
