package sqlite

import (
	"log/slog"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// groupWeight bounds the changes of one transaction, groupBytes their size.
	groupWeight = 256
	groupBytes  = 8 << 20
	// largeBytes is the size from which a request is large. At most largeQueued large
	// requests are queued or being applied, so that bulk writes of one caller delay small
	// changes of others by no more than these.
	largeBytes  = 256 << 10
	largeQueued = 2
	// queueLength is the number of requests that can be queued without blocking their
	// callers.
	queueLength = 1024
)

// committer applies queued requests in groups, each group in one transaction. Its
// goroutine owns the writer.
type committer struct {
	*writer
	queue chan *request
	large chan struct{} // one token per large request
	log   *slog.Logger
	wal   *checkpointer
	files *fileGuard
}

// run serves the queue until it is closed.
func (k *committer) run() {
	idle := time.NewTimer(idleDelay)
	defer idle.Stop()
	group := make([]*request, 0, groupWeight)
	for {
		select {
		case r, ok := <-k.queue:
			if !ok {
				return
			}
			group = k.collectGroup(append(group[:0], r))
			if k.shouldMove() {
				group = append(group, &request{apply: (*writer).moveKeys, done: make(chan error, 1)})
			}
			k.runGroup(group)
			clear(group)
			k.wal.afterGroup()
			idle.Reset(idleDelay)
		case <-k.wal.drained:
			k.wal.reset()
		case <-k.wal.overdue:
			k.wal.resume()
		case <-idle.C:
			_ = k.files.check() // logged; the next change is rejected
			k.wal.truncate()
			idle.Reset(idleDelay)
		}
	}
}

// collectGroup adds queued requests to a group, up to its bounds. It does not wait for
// more.
func (k *committer) collectGroup(group []*request) []*request {
	weight, size := group[0].weight, group[0].bytes
	for weight < groupWeight && size < groupBytes {
		select {
		case r, ok := <-k.queue:
			if !ok {
				return group
			}
			group = append(group, r)
			weight, size = weight+r.weight, size+r.bytes
		default:
			return group
		}
	}
	return group
}

func (k *committer) runGroup(group []*request) {
	started := group[:0]
	for _, r := range group {
		if r.state.CompareAndSwap(requestQueued, requestStarted) {
			started = append(started, r)
		}
	}
	if len(started) == 0 {
		return
	}
	err := k.transact(started)
	if err == nil || len(started) == 1 || k.files.lost() != nil {
		for _, r := range started {
			r.done <- err
		}
		return
	}
	k.log.Warn("group of changes was rolled back, retrying each separately", "error", err, "requests", len(started))
	for i := range started {
		started[i].done <- k.transact(started[i : i+1])
	}
}

// transact applies requests in one transaction, all or none. It checks the file after
// the commit, so that a change to a deleted or replaced file is never acknowledged.
func (k *committer) transact(group []*request) (err error) {
	if err := k.files.lost(); err != nil {
		return err
	}
	if _, err = k.exec("BEGIN IMMEDIATE"); primaryCode(err) == sqlite3.SQLITE_ERROR {
		// A transaction that could not be rolled back is still open.
		_, _ = k.exec("ROLLBACK")
		_, err = k.exec("BEGIN IMMEDIATE")
	}
	if err != nil {
		return wrapError(err, "begin")
	}
	k.stage()
	k.alone = len(group) == 1
	defer func() {
		if err != nil {
			k.laneLeases = unknownBounds
			// The error is ignored: SQLite may have rolled back by itself.
			_, _ = k.exec("ROLLBACK")
		}
	}()
	for _, r := range group {
		if err := r.apply(k.writer); err != nil {
			return wrapError(err, "apply change")
		}
	}
	if err := k.writeCounters(); err != nil {
		return wrapError(err, "count")
	}
	if _, err := k.exec("COMMIT"); err != nil {
		return wrapError(err, "commit")
	}
	if err := k.files.check(); err != nil {
		return err
	}
	k.publish()
	return nil
}
