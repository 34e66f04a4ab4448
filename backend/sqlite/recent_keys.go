package sqlite

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	// moveThreshold is the number of recent records at which the writer starts to move them
	// to the index.
	moveThreshold = 10_000
	// recentLimit bounds the recent records. Further records are written to the index
	// at once.
	recentLimit = 4 * moveThreshold
	// moveBatch is the number of records that one transaction moves.
	moveBatch = 2 * groupWeight

	sqlRecentKeys = `SELECT t.pk, t.owner, t.id, t.created_at, l.n, l.key, l.key_hash
		FROM task_rows t JOIN task_log l ON l.id = (t.pk << 24) + 1 WHERE t.pk > ? AND l.key IS NOT NULL`
	sqlFirstKey       = `SELECT key FROM task_log WHERE id = ? AND key IS NOT NULL`
	sqlKeysIndexed    = `SELECT task_pk FROM idempotency_indexed WHERE pk = 2`
	sqlSetKeysIndexed = `UPDATE idempotency_indexed SET task_pk = ? WHERE pk = 2`
)

// recentKeys holds the idempotency records of the newest tasks, which were written with
// the change that created the task. Keys are random, so writing each to the index at
// once would dirty one index page per request. Instead, the first row of the task's log
// contains the record. The writer moves records to the index in batches sorted by key,
// and Open loads those that were not moved.
//
// Only the writer changes recentKeys; any goroutine may read.
type recentKeys struct {
	mu            sync.RWMutex
	records       map[keyName]recentRecord
	moveThreshold int // move at this number of records: moveThreshold, less in tests
}

type keyName struct{ owner, key string }

// recentRecord is a record without its name. pk is the pk of the task; 0 marks a removed record.
type recentRecord struct {
	pk        int64
	taskID    string
	hash      string
	seq       int64
	createdAt int64
}

func (r *recentRecord) record(name keyName) store.IdempotencyRecord {
	k := store.IdempotencyRecord{Owner: name.owner, Key: name.key, TaskID: r.taskID, Seq: r.seq, CreatedAt: fromMillis(r.createdAt)}
	copy(k.Hash[:], r.hash)
	return k
}

func (k *recentKeys) get(name keyName) (r recentRecord, found bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	r, found = k.records[name]
	return r, found
}

func (k *recentKeys) len() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(k.records)
}

// olderThan reports whether any record was created before a time.
func (k *recentKeys) olderThan(before int64) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, r := range k.records {
		if r.createdAt < before {
			return true
		}
	}
	return false
}

// update applies the changes of a transaction. Records with a pk of 0 are removed.
func (k *recentKeys) update(changed map[keyName]recentRecord) {
	if len(changed) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, r := range changed {
		if r.pk == 0 {
			delete(k.records, name)
		} else {
			k.records[name] = r
		}
	}
}

// trim removes the records of tasks up to pk. It makes a new map, because a Go map does
// not release memory.
func (k *recentKeys) trim(pk int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	kept := make(map[keyName]recentRecord)
	for name, r := range k.records {
		if r.pk > pk {
			kept[name] = r
		}
	}
	k.records = kept
}

// eachRecent calls each for every record in the log of a task with a pk above the given
// one. These records are not in the index.
func (c *conn) eachRecent(pk int64, each func(name keyName, r recentRecord)) error {
	return c.query(sqlRecentKeys, func(r record) error {
		each(keyName{owner: r.text(1), key: r.text(5)},
			recentRecord{pk: r.int(0), taskID: r.text(2), createdAt: r.int(3), seq: r.int(4), hash: r.text(6)})
		return nil
	}, pk)
}

// keyWriter adds idempotency records and moves them to the index.
type keyWriter struct {
	*taskWriter
	// recent has the records of tasks above indexed, which are not in the index. move
	// is the move in progress, or nil.
	recent  *recentKeys
	indexed int64
	move    *keyMove

	// The staged state.
	pendingKeys  map[keyName]recentRecord
	pendingMoved int // move.next after the commit, 0 if unchanged
}

// load loads the records that were not moved to the index. It must follow taskWriter.load,
// because it raises the nextPK that taskWriter.load sets.
func (w *keyWriter) load() error {
	indexed, err := w.ints(sqlKeysIndexed)
	if err != nil {
		return fmt.Errorf("read the state of idempotency records: %w", err)
	}
	w.indexed = indexed[0]
	w.recent.records = make(map[keyName]recentRecord)
	// A new task with a pk up to w.indexed would not be loaded by the next Open.
	w.nextPK = max(w.nextPK, w.indexed+1)
	err = w.eachRecent(w.indexed, func(name keyName, r recentRecord) { w.recent.records[name] = r })
	if err != nil {
		return fmt.Errorf("read recent idempotency records: %w", err)
	}
	return nil
}

func (w *keyWriter) stage() {
	clear(w.pendingKeys)
	w.pendingMoved = 0
}

// recentKey returns a recent record, including changes of the current transaction.
func (w *keyWriter) recentKey(name keyName) (r recentRecord, found bool) {
	if r, found = w.pendingKeys[name]; found {
		return r, r.pk != 0
	}
	return w.recent.get(name)
}

// recentKey returns a record that the serving process has not moved yet.
func (r *reader) recentKey(name keyName) (k store.IdempotencyRecord, found bool, err error) {
	indexed, err := r.ints(sqlKeysIndexed)
	if err != nil {
		return k, false, err
	}
	err = r.eachRecent(indexed[0], func(n keyName, record recentRecord) {
		if n == name {
			k, found = record.record(name), true
		}
	})
	return k, found, err
}

// findKey returns the record of a key, including changes of the current transaction.
func (w *keyWriter) findKey(owner, key string) (k store.IdempotencyRecord, found bool, err error) {
	name := keyName{owner, key}
	if r, ok := w.recentKey(name); ok {
		return r.record(name), true, nil
	}
	return w.readKey(owner, key)
}

// isRecent reports whether the change's record can be stored in the first row of the
// task's log.
func (w *keyWriter) isRecent(c *change) bool {
	return c.Create != nil && c.namesKey() && millis(c.Idempotency.CreatedAt) == millis(c.Events[0].Time) &&
		w.recent.len()+len(w.pendingKeys) < recentLimit
}

// addRecent stages the record of a change that creates a task. It copies the strings,
// which may share memory with a request.
func (w *keyWriter) addRecent(c *change, pk, seq int64) {
	k := c.Idempotency
	w.pendingKeys[keyName{strings.Clone(k.Owner), strings.Clone(k.Key)}] = recentRecord{
		pk: pk, taskID: strings.Clone(k.TaskID), hash: string(k.HashBytes()), seq: seq, createdAt: millis(k.CreatedAt),
	}
}

// stageRecentRemoval stages the removal of a task's recent record, if it has one.
func (w *keyWriter) stageRecentRemoval(t *taskRow) error {
	if t.PK <= w.indexed {
		return nil
	}
	return w.query(sqlFirstKey, func(r record) error {
		name := keyName{t.Key.Owner, r.text(0)}
		if found, ok := w.recentKey(name); ok && found.pk == t.PK {
			w.pendingKeys[name] = recentRecord{}
		}
		return nil
	}, t.logID(1))
}

// keyMove is a set of recent records that is being moved to the index.
type keyMove struct {
	batch []namedRecord // sorted by key
	last  int64         // pk of the newest task in the move
	next  int           // index in batch of the first record that was not moved
}

type namedRecord struct {
	keyName
	recentRecord
}

// shouldMove reports whether the next transaction should move records.
func (w *keyWriter) shouldMove() bool {
	return w.move != nil || w.recent.len() >= w.recent.moveThreshold
}

// moveKeys moves the next batch of recent records to the index. It starts a new move if
// none is in progress. If the process ends during a move, the next process repeats it.
func (w *keyWriter) moveKeys() error {
	if w.move == nil {
		w.move = w.newMove()
	}
	m := w.move
	w.pendingMoved = min(m.next+moveBatch, len(m.batch))
	for _, r := range m.batch[m.next:w.pendingMoved] {
		if now, found := w.recentKey(r.keyName); !found || now.pk != r.pk {
			continue // the task was deleted
		}
		k := r.record(r.keyName)
		if err := w.insertKey(&k, r.seq, lookupByLog); err != nil {
			return err
		}
	}
	if w.pendingMoved < len(m.batch) {
		return nil
	}
	_, err := w.exec(sqlSetKeysIndexed, m.last)
	return err
}

func (w *keyWriter) newMove() *keyMove {
	m := &keyMove{last: w.nextPK - 1}
	for name, r := range w.recent.records {
		m.batch = append(m.batch, namedRecord{name, r})
	}
	slices.SortFunc(m.batch, func(a, b namedRecord) int {
		return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.key, b.key))
	})
	return m
}

func (w *keyWriter) publish() {
	if w.pendingMoved > 0 {
		w.move.next = w.pendingMoved
	}
	w.recent.update(w.pendingKeys)
	if w.move != nil && w.move.next == len(w.move.batch) {
		w.indexed, w.move = w.move.last, nil
		w.recent.trim(w.indexed)
	}
}
