package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/memory"
)

const (
	// contractTimeout limits a call to a store of [Contracts], which may be another system.
	contractTimeout = 10 * time.Second
	// orphanBatch is the number of objects of blobs that a pass checks.
	orphanBatch = 1000
)

// sweep removes one kind of data from the stores of [Contracts], or completes it. It has a loop of its
// own, so that a store which fails or does not answer delays no other kind.
type sweep struct {
	*settings
	runs *runs
	kind string
	// batch removes a batch, returns the number of removed items, and reports whether to
	// continue now.
	batch func(ctx context.Context) (n int, more bool, err error)
	// wake starts a pass before the next tick. It may be nil.
	wake    runtime.Signal
	removed atomic.Int64
}

// run removes data at the start and at each tick.
func (s *sweep) run(ctx context.Context, beat func()) {
	interval := 4 * max(s.cfg.Lease, s.cfg.Poll)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var logged time.Duration // when a failure was logged
	for first := true; ctx.Err() == nil; first = false {
		if err := s.pass(ctx, beat); err != nil && ctx.Err() == nil && (first || logged == 0 || s.elapsed()-logged >= interval) {
			logged = s.elapsed()
			s.logFailure(err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-s.wake:
		}
	}
}

// pass removes batches until none is left or one fails.
func (s *sweep) pass(ctx context.Context, beat func()) (err error) {
	started, total := s.elapsed(), 0
	for more := true; more && err == nil && ctx.Err() == nil; {
		beat()
		batchStarted, n := s.elapsed(), 0
		call, cancel := context.WithTimeout(ctx, contractTimeout)
		n, more, err = s.batch(call)
		cancel()
		total += n
		s.removed.Add(int64(n))
		if more {
			s.runs.yieldStore(ctx, s.elapsed()-batchStarted)
		}
	}
	if total > 0 && s.kind == sweepEmbeddings {
		s.log.Info("embeddings of facts computed", "count", total, "duration", s.elapsed()-started)
	} else if total > 0 {
		s.log.Info("expired data removed", "kind", s.kind, "count", total, "duration", s.elapsed()-started)
	}
	return err
}

func (s *sweep) logFailure(err error) {
	if s.kind == sweepEmbeddings {
		s.log.Warn("computing embeddings of facts failed", "error", err)
		return
	}
	s.log.Warn("removing expired data failed", "kind", s.kind, "error", err)
}

// Kinds of sweeps.
const (
	sweepRemovals    = "removed tasks"
	sweepTranscripts = "transcripts"
	sweepFacts       = "facts"
	sweepBlobs       = "blobs"
	sweepOrphans     = "orphaned blob content"
	sweepEmbeddings  = "embeddings of facts"
)

// embedBatch is the number of facts for which one call computes embeddings.
const embedBatch = 32

// newSweeps returns the sweeps of the configured stores.
func newSweeps(s *settings, runs *runs, removed *removals) (sweeps []*sweep) {
	add := func(kind string, wake runtime.Signal, batch func(ctx context.Context) (int, bool, error)) {
		sweeps = append(sweeps, &sweep{settings: s, runs: runs, kind: kind, batch: batch, wake: wake})
	}
	now := func() time.Time { return store.Time(s.cfg.clock()) }
	expire := func(f func(ctx context.Context, now time.Time, limit int) (int, error)) func(ctx context.Context) (int, bool, error) {
		return func(ctx context.Context) (int, bool, error) {
			n, err := f(ctx, now(), expiryBatch)
			return n, n == expiryBatch, err
		}
	}
	add(sweepRemovals, removed.wake, removed.batches())
	c := &s.cfg.Contracts
	if c.History != nil {
		add(sweepTranscripts, nil, expire(c.History.Expire))
	}
	if facts, ok := c.Facts.(memory.Expirer); ok {
		add(sweepFacts, nil, expire(facts.Expire))
	}
	if facts, ok := c.Facts.(memory.Reembedder); ok && c.Embedder != nil {
		add(sweepEmbeddings, nil, func(ctx context.Context) (int, bool, error) {
			n, err := facts.EmbedPending(ctx, embedBatch)
			if errors.Is(err, memory.ErrNoEmbedder) { // a store with none of its own
				err = nil
			}
			return n, n == embedBatch, err
		})
	}
	if blobs, ok := c.Blobs.(blob.Maintenance); ok {
		add(sweepBlobs, nil, func(ctx context.Context) (int, bool, error) {
			swept, err := blobs.Sweep(ctx, now(), expiryBatch)
			return swept.Blobs, swept.More, err
		})
		var after blob.Object // wraps around
		add(sweepOrphans, nil, func(ctx context.Context) (int, bool, error) {
			found, err := blobs.RemoveOrphans(ctx, now(), after, orphanBatch)
			after = found.Next
			if !found.More {
				after = blob.Object{}
			}
			return found.Removed, false, err
		})
	}
	return sweeps
}

// batches returns the batch of a sweep that completes removals. A pass ends early if a whole batch
// fails, because a store is probably down. The next pass continues after that batch, so removals
// that always fail do not keep others from being tried.
func (r *removals) batches() func(ctx context.Context) (int, bool, error) {
	var after store.Removal
	var failed error
	return func(ctx context.Context) (int, bool, error) {
		n, next, err := r.completeBatch(ctx, after)
		if err != nil {
			failed = err
		}
		after = store.Removal{}
		if next != nil {
			after = *next
		}
		if next != nil && n > 0 {
			return n, true, nil
		}
		err, failed = failed, nil
		return n, false, err
	}
}
