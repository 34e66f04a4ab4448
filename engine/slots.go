package engine

import "sync"

// slots limits the number of concurrent runs. Some slots are reserved for owners with few
// running turns, so an owner with many long turns cannot use all slots.
type slots struct {
	reserved      int // number of reserved slots
	reservedLimit int // an owner with this many slots gets no reserved one

	mu         sync.Mutex
	free       int
	unassigned int            // slots acquired for a claim before the owners of its tasks are known
	busy       map[string]int // used slots by owner
}

func newSlots(n, reserved int) *slots {
	return &slots{free: n, reserved: reserved, reservedLimit: max(reserved/8, 1), busy: make(map[string]int)}
}

// acquireFor acquires a slot for a run of an owner, if the owner may have one. waiting reports
// that tasks of skipped owners are waiting. During a claim no reserved slot is acquired: the
// claim may assign slots to the same owner.
func (s *slots) acquireFor(owner string, waiting bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	scarce := s.free <= s.reserved
	if s.free == 0 || scarce && s.unassigned > 0 || s.busy[owner] >= s.reservedLimit && (waiting || scarce) {
		return false
	}
	s.free--
	s.busy[owner]++
	return true
}

// excludes reports whether slots are free but the owner may have none of them.
func (s *slots) excludes(owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free > 0 && s.free <= s.reserved && s.busy[owner] >= s.reservedLimit
}

// scarce reports whether all free slots are reserved.
func (s *slots) scarce() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free <= s.reserved
}

// acquireAny acquires up to limit slots for a claim and returns the owners that the claim must
// skip. If it must skip some, it acquires slots only if others reports that other owners may
// have due tasks.
func (s *slots) acquireAny(limit int, others bool) (n int, skip []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n = min(limit, s.free-s.reserved); n <= 0 {
		if skip = s.excludedOwners(); len(skip) > 0 && !others {
			return 0, skip
		}
		n = min(limit, s.free)
		if s.reserved > 0 {
			n = min(n, s.reservedLimit)
		}
	}
	s.free -= n
	s.unassigned += n
	return n, skip
}

// excludedOwners returns the owners that get no reserved slot. The caller holds s.mu.
func (s *slots) excludedOwners() (owners []string) {
	if s.reserved == 0 {
		return nil
	}
	for owner, n := range s.busy {
		if n >= s.reservedLimit {
			owners = append(owners, owner)
		}
	}
	return owners
}

// ownersAtLimit returns the number of owners that cannot get a slot although some are free, because
// all free slots are reserved for owners with fewer running turns.
func (s *slots) ownersAtLimit() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 || s.free > s.reserved {
		return 0
	}
	return len(s.excludedOwners())
}

// assign records the owner of a slot that acquireAny acquired.
func (s *slots) assign(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unassigned--
	s.busy[owner]++
}

// returnUnused frees slots that acquireAny acquired.
func (s *slots) returnUnused(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unassigned -= n
	s.free += n
}

// release frees the slot of a run. It reports whether its owner may get reserved slots again.
func (s *slots) release(owner string) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.busy[owner]--; s.busy[owner] == 0 {
		delete(s.busy, owner)
	}
	return s.reserved > 0 && s.busy[owner] == s.reservedLimit-1
}

// waitsForSlot reports whether a queued task starts only when a slot is freed, because its
// owner already runs many turns.
func (d *dispatcher) waitsForSlot(owner string) bool {
	if d.slots.reserved == 0 {
		return false
	}
	d.mayHaveSkipped.Store(true) // set before the check: a slot freed after the check then wakes the dispatcher
	return d.slots.excludes(owner)
}
