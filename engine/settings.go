package engine

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

// settings are the configuration of an engine with its clock and log. All parts of the engine
// share them. Their methods check requests against the configured limits.
type settings struct {
	cfg       Config
	log       *slog.Logger
	now       func() time.Time // monotonic clock for leases and delays
	createdAt time.Time        // creation time of the engine, for elapsed
	oversized atomic.Int64     // messages and writes rejected by Limits.TaskBytes
	files     *fileref.Files   // nil without a store for blobs

	// recordLocks serialize commits that were rejected because a record had changed. Without them, n commits that
	// change one record at the same time are rejected about n²/2 times.
	recordLocks runtime.Locks[store.RecordKey]
}

// monotonic returns a clock that starts at the wall clock time and does not jump when the wall
// clock is set.
func monotonic(wall func() time.Time) func() time.Time {
	start := wall()
	return func() time.Time { return start.Add(wall().Sub(start)) }
}

// exclusive reports whether this process is the only one that uses the store.
func (s *settings) exclusive() bool { return s.cfg.Store.Info().Exclusive }

// elapsed returns the time since the engine was created, on the monotonic clock of this
// process.
func (s *settings) elapsed() time.Duration { return time.Since(s.createdAt) }
