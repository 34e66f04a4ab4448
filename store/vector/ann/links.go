package ann

import "encoding/binary"

// linkBytes is the size of a link. Rows with larger numbers have their highest byte elsewhere.
const linkBytes = 3

// linkList is memory for the neighbors of a row.
type linkList = [baseDegree]uint32

// blockLinks are the neighbors of blockRows rows in a level. Its slices are nil before the first row is
// linked.
type blockLinks struct {
	limit  int     // of the links of a row
	memory *region // of low and degree
	low    []byte  // linkBytes for each link, then a byte
	high   []uint8 // the highest byte of each link; nil if all are 0
	degree []uint8
}

func (l *blockLinks) allocate() {
	if l.degree == nil {
		l.memory = allocate(blockRows*(linkBytes*l.limit+1) + 1)
		l.low = l.memory.bytes
		l.degree = carve[uint8](&l.low, blockRows)
	}
}

// get returns the neighbors of a row in memory of the caller.
func (l *blockLinks) get(i int, to *linkList) []uint32 {
	if l.degree == nil {
		return nil
	}
	n := min(int(l.degree[i]), l.limit)
	low := l.low[i*l.limit*linkBytes:]
	for j := range n {
		to[j] = binary.LittleEndian.Uint32(low[j*linkBytes:]) & 0xffffff
	}
	if l.high != nil {
		for j, high := range l.high[i*l.limit:][:n] {
			to[j] |= uint32(high) << 24
		}
	}
	return to[:n]
}

// set sets the neighbors of a row, up to the limit.
func (l *blockLinks) set(i int, from []uint32) {
	l.allocate()
	l.degree[i] = uint8(len(from))
	low := l.low[i*l.limit*linkBytes:]
	for j, row := range from {
		at := low[j*linkBytes:][:linkBytes]
		at[0], at[1], at[2] = byte(row), byte(row>>8), byte(row>>16)
		if row>>24 > 0 && l.high == nil {
			l.high = make([]uint8, blockRows*l.limit)
		}
		if l.high != nil {
			l.high[i*l.limit+j] = uint8(row >> 24)
		}
	}
}

// place is a row in a level.
type place struct{ row, level uint32 }

// upperLinks are the neighbors of rows in level 1 and above. Each place has a slot in the blocks.
type upperLinks struct {
	slots  map[place]uint32
	free   []uint32 // slots to use again
	blocks []*blockLinks
}

// level returns the highest level of a row.
func (u *upperLinks) level(row uint32) (level int) {
	for {
		if _, ok := u.slots[place{row, uint32(level + 1)}]; !ok {
			return level
		}
		level++
	}
}

// get returns the neighbors of a row in memory of the caller.
func (u *upperLinks) get(row uint32, level int, to *linkList) []uint32 {
	slot, ok := u.slots[place{row, uint32(level)}]
	if !ok {
		return nil
	}
	return u.blocks[slot>>blockBits].get(int(slot&blockMask), to)
}

// set sets the neighbors of a row, and adds the row to the level if it is new there.
func (u *upperLinks) set(row uint32, level int, from []uint32) {
	at := place{row, uint32(level)}
	slot, ok := u.slots[at]
	if !ok {
		slot = uint32(len(u.slots))
		if n := len(u.free); n > 0 {
			slot, u.free = u.free[n-1], u.free[:n-1]
		} else if int(slot>>blockBits) == len(u.blocks) {
			u.blocks = append(u.blocks, &blockLinks{limit: degree})
		}
		u.slots[at] = slot
	}
	u.blocks[slot>>blockBits].set(int(slot&blockMask), from)
}

// remove removes a row from all levels.
func (u *upperLinks) remove(row uint32) {
	for level := u.level(row); level > 0; level-- {
		at := place{row, uint32(level)}
		u.free = append(u.free, u.slots[at])
		delete(u.slots, at)
	}
}

// linkedBytes and upperBytes are the memory of the links of a row of the graph, and of one in an upper
// level with its entry of slots.
const (
	linkedBytes = baseDegree*linkBytes + 1
	upperBytes  = degree*linkBytes + 1 + 20
)
