package ann

import "encoding/binary"

// linkBytes is the size of a link. Rows with larger numbers have their highest byte elsewhere.
const linkBytes = 3

// linkList is memory for the neighbors of a row.
type linkList = [baseDegree]uint32

// blockLinks are the neighbors of the rows of a block in level 0. Its slices are nil before the first
// row is linked.
type blockLinks struct {
	low    []byte  // linkBytes for each link, then a byte
	high   []uint8 // the highest byte of each link; nil if all are 0
	degree []uint8
}

func (l *blockLinks) allocate(b *block) {
	if l.degree == nil {
		m := allocate(b, blockRows*(linkBytes*baseDegree+1)+1)
		l.degree = carve[uint8](&m, blockRows)
		l.low = m
	}
}

// get returns the neighbors of a row in memory of the caller.
func (l *blockLinks) get(i int, to *linkList) []uint32 {
	if l.degree == nil {
		return nil
	}
	n := min(int(l.degree[i]), baseDegree)
	low := l.low[i*baseDegree*linkBytes:]
	for j := range n {
		to[j] = binary.LittleEndian.Uint32(low[j*linkBytes:]) & 0xffffff
	}
	if l.high != nil {
		for j, high := range l.high[i*baseDegree:][:n] {
			to[j] |= uint32(high) << 24
		}
	}
	return to[:n]
}

// set sets the neighbors of a row, up to baseDegree.
func (l *blockLinks) set(b *block, i int, from []uint32) {
	l.allocate(b)
	l.degree[i] = uint8(len(from))
	low := l.low[i*baseDegree*linkBytes:]
	for j, row := range from {
		at := low[j*linkBytes:][:linkBytes]
		at[0], at[1], at[2] = byte(row), byte(row>>8), byte(row>>16)
		if row>>24 > 0 && l.high == nil {
			l.high = make([]uint8, blockRows*baseDegree)
		}
		if l.high != nil {
			l.high[i*baseDegree+j] = uint8(row >> 24)
		}
	}
}

// linkedBytes and upperBytes are the memory of a row of the graph, and of one in the upper levels, which
// usually has one list and entries of tables.
const (
	linkedBytes = baseDegree*linkBytes + 1
	upperBytes  = degree*4 + 80
)
