package sqlite

import (
	"context"
	"os"
	"time"
)

const (
	// walPages is the length of the log from which a commit writes it back to
	// the database.
	walPages = 1000
	// walKept is the size to which the log file is cut when it starts over.
	walKept = 16 << 20
	// walLimit is the size from which reads are paused so that the log can
	// start over: under constant reads it never could.
	walLimit = 64 << 20
	// walEvery is how many groups pass between looks at the log's size.
	walEvery = 64
	// walWait is how long new reads are paused for those under way.
	walWait = 2 * time.Second
	// idleAfter is how long nothing must have been written for the log to be
	// emptied.
	idleAfter = time.Second
)

// walKeeper keeps the write-ahead log short. The writer never waits for reads: it pauses
// new ones and continues to commit until those under way have ended.
type walKeeper struct {
	path   string
	gate   *readGate
	limit  int64
	dirty  bool
	groups int
	// above is the size from which reads are paused: the limit, and that much more after
	// each time that a read took too long.
	above int64
	// While reads are paused:
	drained  <-chan struct{} // closed when the log can start over
	overdue  <-chan time.Time
	deadline *time.Timer
}

// afterGroup is called by the writer after each transaction.
func (k *walKeeper) afterGroup() {
	k.dirty = true
	if k.groups++; k.groups%walEvery != 0 || k.drained != nil {
		return
	}
	if info, err := os.Stat(k.path); err == nil && info.Size() > max(k.above, k.limit) {
		k.above = info.Size() + k.limit
		k.drained, k.deadline = k.gate.pause(), time.NewTimer(walWait)
		k.overdue = k.deadline.C
	}
}

// startOver empties the log once no read uses it.
func (k *walKeeper) startOver(w *writer) {
	k.checkpoint(w)
	k.resume()
	k.above = 0
}

// resume lets reads continue.
func (k *walKeeper) resume() {
	k.deadline.Stop()
	k.drained, k.overdue = nil, nil
	k.gate.resume()
}

// truncate empties the log when the writer is idle, unless reads keep it in use.
func (k *walKeeper) truncate(w *writer) {
	if !k.dirty || k.drained != nil {
		return
	}
	drained := k.gate.pause()
	defer k.gate.resume()
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-drained:
		k.checkpoint(w)
	case <-timer.C:
	}
}

// checkpoint writes the log back and empties it while no read uses it.
func (k *walKeeper) checkpoint(w *writer) {
	// Programs from outside may be reading as well: they are not waited for long.
	ctx := context.Background()
	_ = w.exec(ctx, "PRAGMA busy_timeout(50)")
	row, err := w.ints(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	_ = w.exec(ctx, busyTimeout)
	if err != nil {
		w.log.Warn("write-ahead log cannot be written back", "error", err)
		return
	}
	k.dirty = row[0] != 0
}
