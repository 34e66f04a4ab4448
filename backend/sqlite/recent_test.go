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

// keyed is a finished task, made by one change with an idempotency record whose key is
// random, as ids of messages are.
func keyed(n int) store.Change {
	c := submitted(n)
	c.Run = &store.Run{Phase: store.PhaseIdle}
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

func commitKeyed(t *testing.T, s *Store, from, to int) {
	t.Helper()
	var changes []store.Change
	for n := from; n < to; n++ {
		if changes = append(changes, keyed(n)); len(changes) == 100 || n == to-1 {
			results, err := s.Commit(bg, changes...)
			must(t, err)
			for _, r := range results {
				must(t, r.Err)
			}
			changes = changes[:0]
		}
	}
}

// checkRecord checks that the record of a task is found by reads and by a repeated change.
func checkRecord(t *testing.T, s *Store, n int) {
	t.Helper()
	c := keyed(n)
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

// smallBatches has records moved to the index from n on.
func smallBatches(t *testing.T, s *Store, n int) {
	t.Helper()
	must(t, s.write(bg, &request{weight: 1, apply: func(w *writer) error {
		w.recent.batch = n
		return nil
	}}))
}

// indexed returns the number of records in the index.
func indexed(t *testing.T, s *Store) int64 {
	t.Helper()
	return ints(t, s, `SELECT count(*) FROM idempotency_keys`)[0]
}

func TestRecentRecordsAreLoadedAtOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	commitKeyed(t, s, 0, 50)
	if n := indexed(t, s); n != 0 {
		t.Errorf("the index has %d of 50 records, want them not to be moved yet", n)
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
	const batch, tasks = moveChunk + 100, 3*moveChunk + 50
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	smallBatches(t, s, batch)
	for from := 0; from < tasks; from += 100 {
		commitKeyed(t, s, from, min(from+100, tasks))
		for _, n := range []int{0, from / 2, min(from+99, tasks-1)} {
			checkRecord(t, s, n)
		}
		if recent := s.writer.recent.len(); recent > batch+200 {
			t.Fatalf("%d recent records after %d tasks, want them moved from %d on", recent, from, batch)
		}
	}
	if n := indexed(t, s); n < batch {
		t.Errorf("the index has %d records, want at least %d", n, batch)
	}
	must(t, s.Close())
	s = open(t, Config{Dir: dir})
	for n := range tasks {
		checkRecord(t, s, n)
	}
	checkCounts(t, s)
}

// halfMoved returns a store in which a batch of records is being moved: the index has the
// first of them.
func halfMoved(t *testing.T, dir string, tasks int) *Store {
	t.Helper()
	s := open(t, Config{Dir: dir})
	commitKeyed(t, s, 0, tasks)
	must(t, s.write(bg, &request{weight: 1, apply: (*writer).moveKeys}))
	if n := indexed(t, s); n != moveChunk {
		t.Fatalf("the index has %d records, want %d", n, moveChunk)
	}
	return s
}

func TestAMoveContinuesAfterAnUncleanEnd(t *testing.T) {
	t.Parallel()
	const tasks = 2 * moveChunk
	dir := t.TempDir()
	must(t, halfMoved(t, dir, tasks).Close())
	s := open(t, Config{Dir: dir})
	for n := range tasks {
		checkRecord(t, s, n)
	}
	smallBatches(t, s, 1)
	for range tasks / moveChunk {
		must(t, s.Ping(bg))
	}
	if n := indexed(t, s); n != tasks {
		t.Errorf("the index has %d records, want %d", n, tasks)
	}
	if n := s.writer.recent.len(); n != 0 {
		t.Errorf("%d recent records are left, want all moved", n)
	}
	for n := range tasks {
		checkRecord(t, s, n)
	}
}

func TestDeletionRemovesRecentRecords(t *testing.T) {
	t.Parallel()
	const tasks = 2 * moveChunk
	dir := t.TempDir()
	s := halfMoved(t, dir, tasks)
	// In the transaction that moves the rest of the batch: a key that is free again may be
	// used by another task.
	last := 0
	for n := range tasks / 2 {
		if randomKey(2*n) > randomKey(last) {
			last = 2 * n
		}
	}
	again := keyed(last)
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
		c := keyed(n)
		more, err := s.DeleteContext(bg, c.Key.Owner, c.Create.ContextID, 10)
		if must(t, err); more {
			t.Fatal("DeleteContext() of one task left something")
		}
		if _, err := s.Idempotency(bg, c.Key.Owner, c.Idempotency.Key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Idempotency() of deleted task %d = %v, want %v", n, err, store.ErrNotFound)
		}
	}
	smallBatches(t, s, 1)
	for range 4 { // the rest of the batch, and what was not in it
		must(t, s.Ping(bg))
	}
	if n := indexed(t, s); n != tasks/2+1 {
		t.Errorf("the index has %d records, want those of the %d tasks that are left", n, tasks/2+1)
	}
	must(t, s.Close())
	s = open(t, Config{Dir: dir})
	for n := range tasks / 2 {
		checkRecord(t, s, 2*n+1)
	}
	if got, err := s.Idempotency(bg, again.Key.Owner, again.Idempotency.Key); err != nil || got.TaskID != "again" {
		t.Errorf("Idempotency() of a key that is used again = %+v, %v, want the new task", got, err)
	}
	checkCounts(t, s)
}

func TestExpiryRemovesRecentRecords(t *testing.T) {
	t.Parallel()
	const tasks = 2 * moveChunk
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	commitKeyed(t, s, 0, tasks)
	before := keyed(tasks / 2).Events[0].Time
	isOld := func(n int) bool { return millis(keyed(n).Idempotency.CreatedAt) < millis(before) }
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
			c := keyed(n)
			if _, err := s.Idempotency(bg, c.Key.Owner, c.Idempotency.Key); errors.Is(err, store.ErrNotFound) != isOld(n) {
				t.Errorf("Idempotency() of task %d = %v, want it expired: %v", n, err, isOld(n))
			}
		}
		must(t, s.Close())
		s = open(t, Config{Dir: dir})
	}
}

func TestAReadOnlyStoreFindsRecentRecords(t *testing.T) {
	t.Parallel()
	const tasks = 2 * moveChunk
	dir := t.TempDir()
	halfMoved(t, dir, tasks)
	ro := open(t, Config{Dir: dir, ReadOnly: true})
	for n := 0; n < tasks; n += 17 {
		c := keyed(n)
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
	poison := errors.New("poison")
	err := s.write(bg, &request{weight: 1, apply: func(w *writer) error {
		c, task := change{}, keyed(1)
		must(t, c.prepare(&task))
		must(t, w.apply(&c))
		return poison
	}})
	if !errors.Is(err, poison) {
		t.Fatalf("write() = %v, want %v", err, poison)
	}
	if _, err := s.Idempotency(bg, taskKey(1).Owner, randomKey(1)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Idempotency() = %v, want %v", err, store.ErrNotFound)
	}
	// A change that is refused after its record was noted takes it back.
	commitKeyed(t, s, 1, 2)
	twice := keyed(2)
	twice.Key, twice.Idempotency.TaskID = taskKey(1), taskID(1)
	if err := commitOne(s, twice); !errors.Is(err, store.ErrExists) {
		t.Errorf("Commit() = %v, want %v", err, store.ErrExists)
	}
	commitKeyed(t, s, 2, 3)
	checkRecord(t, s, 2)
}

func TestRecordsOfNewTasksAreLoadedAfterDeletionOfTheNewest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	smallBatches(t, s, 1)
	commitKeyed(t, s, 0, 10)
	must(t, s.Ping(bg))
	for n := range 10 {
		_, err := s.DeleteContext(bg, taskKey(n).Owner, "c"+taskID(n), 10)
		must(t, err)
	}
	must(t, s.Close())
	s = open(t, Config{Dir: dir})
	commitKeyed(t, s, 20, 21)
	must(t, s.Close())
	s = open(t, Config{Dir: dir})
	checkRecord(t, s, 20)
}
