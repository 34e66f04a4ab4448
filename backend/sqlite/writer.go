package sqlite

import (
	"errors"

	"github.com/holdfast-dev/holdfast/store"
)

// writer makes changes in the current transaction, on the only connection that writes. Its
// parts implement them by concern. A part keeps state in memory. It stages how the
// transaction changes this state, and publishes that after the commit. Changes that concern
// several parts are methods of the writer itself. Only the goroutine of committer may use a
// writer, except for counts and recent.
type writer struct {
	*conn
	*counterWriter
	*taskWriter
	*keyWriter
	*contextWriter
	*laneWriter
	*shrinker
	alone bool // the current transaction has one request
}

func newWriter(c *conn, terminal *terminalCache, watchers *store.LaneWatchers) *writer {
	counters := &counterWriter{conn: c, counterChanges: make(map[counterKey]int64)}
	tasks := &taskWriter{conn: c, rows: newRowCache(rowCacheSize), terminal: terminal, pending: make(map[store.Key]taskRow)}
	return &writer{
		conn: c, counterWriter: counters, taskWriter: tasks,
		keyWriter:     &keyWriter{taskWriter: tasks, recent: &recentKeys{moveThreshold: moveThreshold}, pendingKeys: make(map[keyName]recentRecord)},
		contextWriter: &contextWriter{counters},
		laneWriter:    &laneWriter{taskWriter: tasks, watchers: watchers},
		shrinker:      &shrinker{conn: c},
	}
}

// load loads the state that the parts keep in memory.
func (w *writer) load() error {
	return errors.Join(w.taskWriter.load(), w.keyWriter.load(), w.laneWriter.load(), w.shrinker.load())
}

// stage resets the staged changes, at the start of a transaction.
func (w *writer) stage() {
	w.taskWriter.stage()
	w.keyWriter.stage()
	w.laneWriter.stage()
	clear(w.counterChanges)
}

// publish makes the staged changes visible, after a commit.
func (w *writer) publish() {
	w.taskWriter.publish()
	w.keyWriter.publish()
	w.laneWriter.publish()
}
