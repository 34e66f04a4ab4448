package sqlite

import (
	"log/slog"
	"os"
	"time"
)

const (
	// walAutocheckpoint is the length of the log, in pages, at which a commit writes it
	// back to the database.
	walAutocheckpoint = 1000
	// walFileSize is the size in bytes to which SQLite truncates the file when the log starts
	// again at its beginning.
	walFileSize = 16 << 20
	// walPauseSize is the size in bytes at which reads are paused. SQLite starts the log again
	// at its beginning only while no read is active.
	walPauseSize = 64 << 20
	// walCheckInterval is the number of groups between checks of the log's size.
	walCheckInterval = 64
	// walPauseTimeout is how long new reads are paused while active ones end.
	walPauseTimeout = 2 * time.Second
	// idleDelay is the time without writes after which the log is truncated.
	idleDelay = time.Second
)

// checkpointer keeps the write-ahead log short. The writer never waits for reads: it
// pauses new ones and continues to commit until the active ones have ended.
type checkpointer struct {
	*conn
	log    *slog.Logger
	path   string
	gate   *readGate
	limit  int64
	dirty  bool
	groups int
	// pauseAbove is the size at which reads are paused next. It grows by limit each
	// time that reads did not end within walPauseTimeout.
	pauseAbove int64
	// While reads are paused:
	drained  <-chan struct{} // closed when no read is active
	overdue  <-chan time.Time
	deadline *time.Timer
}

// afterGroup is called by the committer after each transaction. It pauses reads if the log
// is too long.
func (k *checkpointer) afterGroup() {
	k.dirty = true
	if k.groups++; k.groups%walCheckInterval != 0 || k.drained != nil {
		return
	}
	if info, err := os.Stat(k.path); err == nil && info.Size() > max(k.pauseAbove, k.limit) {
		k.pauseAbove = info.Size() + k.limit
		k.drained, k.deadline = k.gate.pause(), time.NewTimer(walPauseTimeout)
		k.overdue = k.deadline.C
	}
}

// reset truncates the log and lets reads continue. It must be called while no read is
// active.
func (k *checkpointer) reset() {
	k.checkpoint()
	k.resume()
	k.pauseAbove = 0
}

// resume lets reads continue.
func (k *checkpointer) resume() {
	k.deadline.Stop()
	k.drained, k.overdue = nil, nil
	k.gate.resume()
}

// truncate truncates the log when the committer is idle, unless reads are active.
func (k *checkpointer) truncate() {
	if !k.dirty || k.drained != nil {
		return
	}
	drained := k.gate.pause()
	defer k.gate.resume()
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-drained:
		k.checkpoint()
	case <-timer.C:
	}
}

// checkpoint writes the log back and truncates it. It must be called while no read of this
// process is active.
func (k *checkpointer) checkpoint() {
	// Wait only briefly for reads of other programs.
	_ = k.script("PRAGMA busy_timeout(50)")
	row, err := k.ints("PRAGMA wal_checkpoint(TRUNCATE)")
	_ = k.script(busyTimeout)
	if err != nil {
		k.log.Warn("cannot checkpoint write-ahead log", "error", err)
		return
	}
	k.dirty = row[0] != 0
}
