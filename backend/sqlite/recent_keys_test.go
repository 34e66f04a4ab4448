package sqlite

import (
	"errors"
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// taskWithKey returns the change that creates finished task n with an idempotency
// record. Its key is random, like message ids.
func taskWithKey(n int) store.Change {
	c := submitted(n)
	c.Queue = &store.QueueEntry{Phase: store.PhaseIdle}
	c.Events[1].State = a2a.StateCompleted
	c.Idempotency = &store.IdempotencyRecord{Owner: c.Key.Owner, Key: randomKey(n), TaskID: c.Key.ID, CreatedAt: c.Events[0].Time}
	if n%3 == 0 {
		c.Idempotency.Hash = [32]byte{1, 0, byte(n)}
	}
	return c
}

func randomKey(n int) string {
	h := fnv.New128a()
	_, _ = fmt.Fprint(h, n)
	return fmt.Sprintf("m%x", h.Sum(nil))
}

func commitWithKeys(t *testing.T, s *Store, from, to int) {
	t.Helper()
	var changes []store.Change
	for n := from; n < to; n++ {
		if changes = append(changes, taskWithKey(n)); len(changes) == 100 || n == to-1 {
			results, err := s.Commit(bg, changes...)
			must(t, err)
			for _, r := range results {
				must(t, r.Err)
			}
			changes = changes[:0]
		}
	}
}

// checkRecord checks that reads and a repeated change find the record of task n.
func checkRecord(t *testing.T, s *Store, n int) {
	t.Helper()
	c := taskWithKey(n)
	want := *c.Idempotency
	want.Seq, want.CreatedAt = 2, want.CreatedAt.Truncate(time.Millisecond)
	if got, err := s.Idempotency(bg, want.Owner, want.Key); err != nil || got != want {
		t.Errorf("Idempotency() of task %d = %+v, %v, want %+v", n, got, err, want)
	}
	c.Key.ID, c.Idempotency.TaskID = "another", "another"
	results, err := s.Commit(bg, c)
	must(t, err)
	if r := results[0]; !errors.Is(r.Err, store.ErrDuplicate) || r.Record == nil || *r.Record != want {
		t.Errorf("Commit() of task %d again = %+v, want %v with %+v", n, r, store.ErrDuplicate, want)
	}
}

// setMoveThreshold makes the writer move records to the index once there are n.
func setMoveThreshold(t *testing.T, s *Store, n int) {
	t.Helper()
	must(t, s.write(bg, &request{weight: 1, apply: func(w *writer) error {
		w.recent.moveThreshold = n
		return nil
	}}))
}

// countIndexed returns the number of records in the index.
func countIndexed(t *testing.T, s *Store) int64 {
	t.Helper()
	return ints(t, s, `SELECT count(*) FROM idempotency_keys`)[0]
}

func TestRecentRecordsAreLoadedAtOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	commitWithKeys(t, s, 0, 50)
	if n := countIndexed(t, s); n != 0 {
		t.Errorf("the index has %d of 50 records, want 0 before the first move", n)
	}
	for range 2 {
		for n := range 50 {
			checkRecord(t, s, n)
		}
		must(t, s.Close())
		s = open(t, Config{Dir: dir})
	}
}

func TestRecordsMoveToTheIndexInBatches(t *testing.T) {
	t.Parallel()
	const batch, tasks = moveBatch + 100, 3*moveBatch + 50
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	setMoveThreshold(t, s, batch)
	for from := 0; from < tasks; from += 100 {
		commitWithKeys(t, s, from, min(from+100, tasks))
		for _, n := range []int{0, from / 2, min(from+99, tasks-1)} {
			checkRecord(t, s, n)
		}
		if recent := s.committer.recent.len(); recent > batch+200 {
			t.Fatalf("%d recent records after %d tasks, want them moved at %d", recent, from, batch)
		}
	}
	if n := countIndexed(t, s); n < batch {
		t.Errorf("the index has %d records, want at least %d", n, batch)
	}
	must(t, s.Close())
	s = open(t, Config{Dir: dir})
	for n := range tasks {
		checkRecord(t, s, n)
	}
	checkCounts(t, s)
}

// storeWithPartialMove returns a store that has moved the first batch of records to the
// index and not the rest.
func storeWithPartialMove(t *testing.T, dir string, tasks int) *Store {
	t.Helper()
	s := open(t, Config{Dir: dir})
	commitWithKeys(t, s, 0, tasks)
	must(t, s.write(bg, &request{weight: 1, apply: (*writer).moveKeys}))
	if n := countIndexed(t, s); n != moveBatch {
		t.Fatalf("the index has %d records, want %d", n, moveBatch)
	}
	return s
}

func TestKeyMoveContinuesAfterUncleanShutdown(t *testing.T) {
	t.Parallel()
	const tasks = 2 * moveBatch
	dir := t.TempDir()
	must(t, storeWithPartialMove(t, dir, tasks).Close())
	s := open(t, Config{Dir: dir})
	for n := range tasks {
		checkRecord(t, s, n)
	}
	setMoveThreshold(t, s, 1)
	for range tasks / moveBatch {
		must(t, s.Ping(bg))
	}
	if n := countIndexed(t, s); n != tasks {
		t.Errorf("the index has %d records, want %d", n, tasks)
	}
	if n := s.committer.recent.len(); n != 0 {
		t.Errorf("%d recent records are left, want 0", n)
	}
	for n := range tasks {
		checkRecord(t, s, n)
	}
}

func TestDeletionRemovesRecentRecords(t *testing.T) {
	t.Parallel()
	const tasks = 2 * moveBatch
	dir := t.TempDir()
	s := storeWithPartialMove(t, dir, tasks)
	// Delete a record and use its key for another task, in the transaction that moves
	// the rest of the records.
	last := 0
	for n := range tasks / 2 {
		if randomKey(2*n) > randomKey(last) {
			last = 2 * n
		}
	}
	again := taskWithKey(last)
	again.Key.ID, again.Idempotency.TaskID = "again", "again"
	must(t, s.write(bg, &request{weight: 1, apply: func(w *writer) error {
		d := contextDelete{key: store.ContextKey{Owner: again.Key.Owner, ID: again.Create.ContextID}, limit: 1}
		c := change{}
		must(t, c.prepare(&again))
		err := errors.Join(d.apply(w), w.apply(&c))
		return errors.Join(err, d.refusal, c.result.Err)
	}}))
	for n := range tasks / 2 {
		if n *= 2; n == last {
			continue
		}
		c := taskWithKey(n)
		more, err := s.DeleteContext(bg, c.Key.Owner, c.Create.ContextID, 10)
		if must(t, err); more {
			t.Fatal("DeleteContext() of one task = more, want none left")
		}
		if _, err := s.Idempotency(bg, c.Key.Owner, c.Idempotency.Key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Idempotency() of deleted task %d = %v, want %v", n, err, store.ErrNotFound)
		}
	}
	setMoveThreshold(t, s, 1)
	for range 4 { // the rest of the move, and the records added since
		must(t, s.Ping(bg))
	}
	if n := countIndexed(t, s); n != tasks/2+1 {
		t.Errorf("the index has %d records, want %d, the records of the remaining tasks", n, tasks/2+1)
	}
	must(t, s.Close())
	s = open(t, Config{Dir: dir})
	for n := range tasks / 2 {
		checkRecord(t, s, 2*n+1)
	}
	if got, err := s.Idempotency(bg, again.Key.Owner, again.Idempotency.Key); err != nil || got.TaskID != "again" {
		t.Errorf("Idempotency() of a reused key = %+v, %v, want the new task", got, err)
	}
	checkCounts(t, s)
}

func TestExpiryRemovesRecentRecords(t *testing.T) {
	t.Parallel()
	const tasks = 2 * moveBatch
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	commitWithKeys(t, s, 0, tasks)
	before := taskWithKey(tasks / 2).Events[0].Time
	isOld := func(n int) bool { return millis(taskWithKey(n).Idempotency.CreatedAt) < millis(before) }
	old := 0
	for n := range tasks {
		old += int(number(isOld(n)))
	}
	removed, more := 0, true
	for more {
		n, err := s.ExpireIdempotency(bg, before, 100)
		must(t, err)
		removed, more = removed+n, n == 100
	}
	if removed != old {
		t.Errorf("ExpireIdempotency() removed %d records, want %d", removed, old)
	}
	for range 2 {
		for n := range tasks {
			c := taskWithKey(n)
			if _, err := s.Idempotency(bg, c.Key.Owner, c.Idempotency.Key); errors.Is(err, store.ErrNotFound) != isOld(n) {
				t.Errorf("Idempotency() of task %d = %v, want ErrNotFound: %v", n, err, isOld(n))
			}
		}
		must(t, s.Close())
		s = open(t, Config{Dir: dir})
	}
}

func TestReadOnlyStoreFindsRecentRecords(t *testing.T) {
	t.Parallel()
	const tasks = 2 * moveBatch
	dir := t.TempDir()
	storeWithPartialMove(t, dir, tasks)
	ro := open(t, Config{Dir: dir, ReadOnly: true})
	for n := 0; n < tasks; n += 17 {
		c := taskWithKey(n)
		if got, err := ro.Idempotency(bg, c.Key.Owner, c.Idempotency.Key); err != nil || got.TaskID != c.Key.ID || got.Hash != c.Idempotency.Hash {
			t.Errorf("Idempotency() of task %d = %+v, %v, want its record", n, got, err)
		}
	}
	if _, err := ro.Idempotency(bg, taskKey(0).Owner, "unknown"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Idempotency() of an unknown key = %v, want %v", err, store.ErrNotFound)
	}
}

func TestRolledBackChangesLeaveNoRecentRecord(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	errRequest := errors.New("poison")
	err := s.write(bg, &request{weight: 1, apply: func(w *writer) error {
		c, task := change{}, taskWithKey(1)
		must(t, c.prepare(&task))
		must(t, w.apply(&c))
		return errRequest
	}})
	if !errors.Is(err, errRequest) {
		t.Fatalf("write() = %v, want %v", err, errRequest)
	}
	if _, err := s.Idempotency(bg, taskKey(1).Owner, randomKey(1)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Idempotency() = %v, want %v", err, store.ErrNotFound)
	}
	// A change that is rejected after reserveKey releases the key.
	commitWithKeys(t, s, 1, 2)
	twice := taskWithKey(2)
	twice.Key, twice.Idempotency.TaskID = taskKey(1), taskID(1)
	if err := commitOne(s, twice); !errors.Is(err, store.ErrExists) {
		t.Errorf("Commit() = %v, want %v", err, store.ErrExists)
	}
	commitWithKeys(t, s, 2, 3)
	checkRecord(t, s, 2)
}

func TestRecentRecordsLoadAfterNewestTaskIsDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	setMoveThreshold(t, s, 1)
	commitWithKeys(t, s, 0, 10)
	must(t, s.Ping(bg))
	for n := range 10 {
		_, err := s.DeleteContext(bg, taskKey(n).Owner, "c"+taskID(n), 10)
		must(t, err)
	}
	must(t, s.Close())
	s = open(t, Config{Dir: dir})
	commitWithKeys(t, s, 20, 21)
	must(t, s.Close())
	s = open(t, Config{Dir: dir})
	checkRecord(t, s, 20)
}
