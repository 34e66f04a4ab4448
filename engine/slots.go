package engine

import "sync"

// slots limits the runs of a process. Some slots are reserved for owners that run few turns, so
// that an owner that fills all other slots with long turns leaves room for others.
type slots struct {
	reserved int // the number of reserved slots
	few      int // an owner with this number of slots gets no reserved one

	mu   sync.Mutex
	free int
	busy map[string]int // slots by owner, of those that have any
}

func newSlots(n, reserved int) *slots {
	return &slots{free: n, reserved: reserved, few: max(reserved/8, 1), busy: make(map[string]int)}
}

// takeFor takes a slot for a run of an owner, if the owner may have one. waiting reports that
// tasks are waiting of owners that were left out.
func (s *slots) takeFor(owner string, waiting bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 || s.busy[owner] >= s.few && (waiting || s.free <= s.reserved) {
		return false
	}
	s.free--
	s.busy[owner]++
	return true
}

// leavesOut reports whether slots are free but an owner may have none of them.
func (s *slots) leavesOut(owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free > 0 && s.free <= s.reserved && s.busy[owner] >= s.few
}

// scarce reports whether all free slots are reserved.
func (s *slots) scarce() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free <= s.reserved
}

// takeAny takes up to most slots for a claim and returns the owners that the claim must skip. If
// it must skip some, it takes slots only if others may have due tasks.
func (s *slots) takeAny(most int, others bool) (n int, skip []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n = min(most, s.free-s.reserved); n <= 0 {
		if skip = s.overs(); len(skip) > 0 && !others {
			return 0, skip
		}
		n = min(most, s.free)
		if s.reserved > 0 {
			n = min(n, s.few)
		}
	}
	s.free -= n
	return n, skip
}

// overs returns the owners that get none of the reserved slots. The caller holds s.mu.
func (s *slots) overs() (owners []string) {
	if s.reserved == 0 {
		return nil
	}
	for owner, n := range s.busy {
		if n >= s.few {
			owners = append(owners, owner)
		}
	}
	return owners
}

// heldBack returns the number of owners that get no slot now although some are free.
func (s *slots) heldBack() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 || s.free > s.reserved {
		return 0
	}
	return len(s.overs())
}

// assign records the owner of a slot that takeAny took.
func (s *slots) assign(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[owner]++
}

// giveBack frees slots that takeAny took.
func (s *slots) giveBack(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += n
}

// release frees the slot of a run of an owner. It reports whether the owner may get reserved ones again.
func (s *slots) release(owner string) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.busy[owner]--; s.busy[owner] == 0 {
		delete(s.busy, owner)
	}
	return s.reserved > 0 && s.busy[owner] == s.few-1
}

// waitsForShare reports whether a queued task starts only when a slot is freed, because its owner
// runs many turns.
func (e *Engine) waitsForShare(owner string) bool {
	if e.slots.reserved == 0 {
		return false
	}
	e.limited.Store(true) // before the slots are checked: one that is freed later wakes the dispatcher
	return e.slots.leavesOut(owner)
}
