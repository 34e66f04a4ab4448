package ann

import (
	"hash/maphash"
	"unsafe"
)

// names has the ids of the rows of a block, in memory without pointers.
type names struct {
	memory *region // of text while nothing is appended
	text   []byte
	spans  []span
	unused int // bytes of text to which no row refers
}

type span struct{ at, n uint32 }

// id returns the id of a row. It shares memory with names, so it is valid while the index is locked.
func (s *names) id(i int) string {
	p := s.spans[i]
	return unsafe.String(unsafe.SliceData(s.text[p.at:]), p.n)
}

func (s *names) set(i int, id string) {
	s.unused += int(s.spans[i].n)
	s.spans[i] = span{}
	if s.unused > 256+len(s.text)/2 {
		s.compact()
	}
	s.spans[i] = span{uint32(len(s.text)), uint32(len(id))}
	s.text = append(s.text, id...)
	if i == blockRows-1 && cap(s.text) > len(s.text)+len(s.text)/8 {
		s.compact() // the block is full
	}
}

// compact copies the ids that rows refer to.
func (s *names) compact() {
	memory := allocate(len(s.text) - s.unused)
	text := memory.bytes[:0]
	for i, p := range s.spans {
		s.spans[i].at = uint32(len(text))
		text = append(text, s.text[p.at:p.at+p.n]...)
	}
	s.text, s.unused = text, 0
	s.memory = memory // releases the old one
}

// idTable finds the rows of ids. It is a hash table without keys: the rows have them.
type idTable struct {
	seed   maphash.Seed
	slots  []uint32 // a row plus 1, or 0; the length is a power of 2
	memory *region  // of slots
	count  int
}

// reserve makes the table large enough for n ids.
func (t *idTable) reserve(x *table, n int) {
	size := max(16, len(t.slots))
	for size/4*3 < n {
		size *= 2
	}
	if size == len(t.slots) {
		return
	}
	old, memory := t.slots, allocate(4*size)
	m := memory.bytes
	t.slots = carve[uint32](&m, size)
	for _, slot := range old {
		if slot > 0 {
			t.slots[t.find(x, x.id(slot-1))] = slot
		}
	}
	t.memory = memory // releases the old one
}

func (t *idTable) home(id string) int {
	return int(maphash.String(t.seed, id) & uint64(len(t.slots)-1))
}

// find returns the slot of an id, or the free slot where it belongs.
func (t *idTable) find(x *table, id string) int {
	for at := t.home(id); ; at = (at + 1) & (len(t.slots) - 1) {
		if slot := t.slots[at]; slot == 0 || x.id(slot-1) == id {
			return at
		}
	}
}

func (t *idTable) get(x *table, id string) (row uint32, ok bool) {
	if t.count == 0 {
		return 0, false
	}
	slot := t.slots[t.find(x, id)]
	return slot - 1, slot > 0
}

// add adds the id of a row, which the table does not have.
func (t *idTable) add(x *table, row uint32) {
	t.reserve(x, t.count+1)
	t.slots[t.find(x, x.id(row))] = row + 1
	t.count++
}

// remove removes an id that the table has, and moves ids that are not in the slots where find
// would look for them then.
func (t *idTable) remove(x *table, id string) {
	free, mask := t.find(x, id), len(t.slots)-1
	t.slots[free] = 0
	t.count--
	for at := (free + 1) & mask; t.slots[at] > 0; at = (at + 1) & mask {
		home := t.home(x.id(t.slots[at] - 1))
		if (at-home)&mask >= (at-free)&mask {
			t.slots[free], t.slots[at] = t.slots[at], 0
			free = at
		}
	}
}
