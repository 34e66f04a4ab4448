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
	// walLimit is the size from which readers are held up so that the log can
	// start over: under constant reads it never could.
	walLimit = 64 << 20
	// walEvery is how many groups pass between looks at the log's size.
	walEvery = 64
	// idleAfter is how long nothing must have been written for the log to be
	// emptied.
	idleAfter = time.Second
)

// walKeeper keeps the write-ahead log short.
type walKeeper struct {
	path    string
	readers chan *reader
	limit   int64
	dirty   bool
	groups  int
}

// afterGroup is called by the writer after each transaction.
func (k *walKeeper) afterGroup(w *writer) {
	k.dirty = true
	if k.groups++; k.groups%walEvery != 0 {
		return
	}
	if info, err := os.Stat(k.path); err == nil && info.Size() > k.limit {
		k.restart(w, 2*time.Second)
	}
}

// truncate empties the log when the writer is idle, unless readers keep it in use.
func (k *walKeeper) truncate(w *writer) {
	if k.dirty {
		k.restart(w, 20*time.Millisecond)
	}
}

// restart writes the log back and empties it while no reader uses it.
func (k *walKeeper) restart(w *writer, patience time.Duration) {
	held := make([]*reader, 0, cap(k.readers))
	defer func() {
		for _, r := range held {
			k.readers <- r
		}
	}()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for range cap(k.readers) {
		select {
		case r := <-k.readers:
			held = append(held, r)
		case <-deadline.C:
			return
		}
	}
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
