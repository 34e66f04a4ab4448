package engine

import (
	"cmp"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

// recordLocks serialize commits of this process that were rejected because a record had changed. Without them, n
// commits that change one record at the same time are rejected about n²/2 times.
type recordLocks struct {
	mu   sync.Mutex
	held map[store.RecordKey]*recordLock
}

type recordLock struct {
	sync.Mutex
	users int // that have the lock or wait for it
}

// lock locks records. The caller must call unlock.
func (l *recordLocks) lock(keys []store.RecordKey) (unlock func()) {
	keys = slices.SortedFunc(slices.Values(keys), compareKeys) // so that nobody waits in a circle
	locks := make([]*recordLock, len(keys))
	l.mu.Lock()
	for i, k := range keys {
		if l.held == nil {
			l.held = make(map[store.RecordKey]*recordLock)
		}
		if l.held[k] == nil {
			l.held[k] = new(recordLock)
		}
		locks[i] = l.held[k]
		locks[i].users++
	}
	l.mu.Unlock()
	for _, held := range locks {
		held.Lock()
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, held := range locks {
			held.Unlock()
			if held.users--; held.users == 0 {
				delete(l.held, keys[i])
			}
		}
	}
}

func compareKeys(a, b store.RecordKey) int {
	return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Key, b.Key))
}
