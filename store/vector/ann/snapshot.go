package ann

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"unsafe"
)

// snapshotMagic starts a snapshot. Its last character is the version of the format.
const snapshotMagic = "HFANNSN1"

const maxMeta = 1 << 16

// ErrSnapshot means that the data is not a complete snapshot for the configuration. Build the index
// anew.
var ErrSnapshot = errors.New("ann: snapshot is not valid")

// WriteSnapshot writes codes and links to w, without vectors and attributes, and meta, up to 64
// KiB, which [ReadSnapshot] returns. Changes wait for it.
func (x *Index) WriteSnapshot(w io.Writer, meta []byte) error {
	if len(meta) > maxMeta {
		return fmt.Errorf("ann: meta has %d bytes, limit is %d", len(meta), maxMeta)
	}
	x.changes.Lock()
	defer x.changes.Unlock()
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	e := &encoder{w: bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<20)}
	e.bytes([]byte(snapshotMagic))
	e.ints(uint32(x.cfg.Dim), uint32(x.cfg.Metric), uint32(len(meta)))
	e.bytes(meta)
	e.ints(x.size, x.entry, uint32(x.top), uint32(x.count))
	for i, b := range x.blocks {
		x.writeBlock(e, b, min(blockRows, int(x.size)-i<<blockBits))
	}
	x.writeUpper(e)
	if err := e.flush(); err != nil {
		return err
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

// writeUpper writes the links of the upper levels.
func (x *graph) writeUpper(e *encoder) {
	var rows []uint32
	for row := range x.size {
		if x.level(row) > 0 {
			rows = append(rows, row)
		}
	}
	e.ints(uint32(len(rows)))
	var buf linkList
	for _, row := range rows {
		levels := x.level(row)
		e.ints(row, uint32(levels))
		for level := 1; level <= levels; level++ {
			links := x.upper.get(row, level, &buf)
			e.ints(uint32(len(links)))
			e.ints(links...)
		}
	}
}

// writeBlock writes n rows. Rows that are not in the graph and cannot be found are free.
func (x *Index) writeBlock(e *encoder, b *block, n int) {
	var buf linkList
	for i := range n {
		s := b.state[i]
		switch s {
		case stateDropped:
			s = stateFree
		case stateRetired:
			s = stateDead
		default:
		}
		e.bytes([]byte{byte(s)})
		if s == stateFree {
			continue
		}
		id := b.ids.id(i)
		e.ints(math.Float32bits(b.scale[i]), math.Float32bits(b.norm[i]), uint32(len(id)))
		e.bytes([]byte(id))
		e.bytes(asBytes(b.codes[i*x.stride:][:x.cfg.Dim]))
		if s != statePending {
			links := b.links.get(i, &buf)
			e.bytes([]byte{byte(len(links))})
			e.ints(links...)
		}
	}
}

func asBytes(codes []int8) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&codes[0])), len(codes))
}

// ReadSnapshot reads a snapshot of an index with the same dimension and metric, and returns it
// with the bytes that were passed to WriteSnapshot. cfg needs a Source. It returns an
// [ErrSnapshot] if the snapshot is damaged or has another format.
func ReadSnapshot(r io.Reader, cfg Config) (*Index, []byte, error) {
	if cfg.Source == nil {
		return nil, nil, errors.New("ann: a snapshot needs a source")
	}
	x, err := New(cfg)
	if err != nil {
		return nil, nil, err
	}
	d := &decoder{r: bufio.NewReaderSize(r, 1<<20), sum: crc32.New(crc32.MakeTable(crc32.Castagnoli))}
	meta := x.readHeader(d)
	for row := uint32(0); row < x.size && d.err == nil; row++ {
		x.readRow(d, row)
	}
	x.readUpper(d)
	want := d.sum.Sum(nil)
	if got := d.bytes(4); d.err == nil && string(got) != string(want) {
		d.fail("checksum differs")
	}
	if d.err == nil {
		x.checkLinks(d)
	}
	if d.err != nil {
		return nil, nil, d.err
	}
	return x, meta, nil
}

func (x *Index) readHeader(d *decoder) (meta []byte) {
	if magic := d.bytes(len(snapshotMagic)); string(magic) != snapshotMagic {
		d.fail("unknown format")
		return nil
	}
	dim, metric, n := d.int(), d.int(), d.int()
	if dim != uint32(x.cfg.Dim) || metric != uint32(x.cfg.Metric) || n > maxMeta {
		d.fail("dimension or metric differs")
		return nil
	}
	meta = slices.Clone(d.bytes(int(n)))
	x.size, x.entry = d.int(), d.int()
	x.top, x.count = int(d.int()), int(d.int())
	x.rows.reserve(x.table, int(min(x.size, 1<<20)))
	return meta
}

func (x *Index) readRow(d *decoder, row uint32) {
	x.room(row)
	b, i := x.block(row)
	b.state[i] = state(d.byte())
	switch b.state[i] {
	case stateFree:
		x.free = append(x.free, row)
		return
	case statePending:
		x.pending = append(x.pending, row)
	case stateLinked, stateDead:
		x.linked++
	default:
		d.fail("unknown state")
		return
	}
	b.scale[i], b.norm[i] = math.Float32frombits(d.int()), math.Float32frombits(d.int())
	n := d.int()
	if n > 1<<20 {
		d.fail("id is too long")
		return
	}
	b.ids.set(i, string(d.bytes(int(n))))
	x.idBytes += int64(n)
	d.fill(asBytes(b.codes[i*x.stride:][:x.cfg.Dim]))
	if b.state[i] == stateDead {
		x.dead++
	} else if _, repeated := x.rows.get(x.table, b.ids.id(i)); repeated {
		d.fail("repeated id")
		return
	} else {
		x.rows.add(x.table, row)
	}
	if b.state[i] != statePending {
		var buf linkList
		links := buf[:min(d.byte(), baseDegree)]
		d.ints(links)
		b.links.set(i, links)
	}
}

func (x *Index) readUpper(d *decoder) {
	var buf linkList
	for n := d.int(); n > 0 && d.err == nil; n-- {
		row, levels := d.int(), d.int()
		if levels > 64 {
			d.fail("too many levels")
			return
		}
		for level := 1; level <= int(levels); level++ {
			links := buf[:min(d.int(), degree)]
			d.ints(links)
			x.upper.set(row, level, links)
		}
	}
}

// checkLinks ensures that all links have a target in their level.
func (x *Index) checkLinks(d *decoder) {
	if x.count != x.linked || x.count > 0 && (x.entry >= x.size || x.top != x.level(x.entry)) {
		d.fail("entry is missing")
		return
	}
	var inGraph bitset // much smaller than the blocks, as links lead anywhere
	inGraph.reset(x.size)
	for row := range x.size {
		if s := x.state(row); s == stateLinked || s == stateDead {
			inGraph.add(row)
		}
	}
	var buf linkList
	for row := range x.size {
		for level := range x.level(row) + 1 {
			for _, to := range x.neighbors(row, level, &buf) {
				if to >= x.size || !inGraph.has(to) || level > 0 && x.level(to) < level {
					d.fail("link without target")
					return
				}
			}
		}
	}
}

// encoder writes integers and bytes. Its first error remains.
type encoder struct {
	w   *bufio.Writer
	buf [4]byte
}

func (e *encoder) bytes(b []byte) { _, _ = e.w.Write(b) }

func (e *encoder) ints(all ...uint32) {
	for _, v := range all {
		binary.LittleEndian.PutUint32(e.buf[:], v)
		_, _ = e.w.Write(e.buf[:])
	}
}

// flush returns the first error of all writes.
func (e *encoder) flush() error { return e.w.Flush() }

// decoder reads what an encoder wrote. After an error it returns zeros.
type decoder struct {
	r   *bufio.Reader
	sum hash.Hash32
	buf []byte
	err error
}

func (d *decoder) fail(rule string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrSnapshot, rule)
	}
}

func (d *decoder) fill(b []byte) {
	if d.err != nil {
		clear(b)
		return
	}
	if _, err := io.ReadFull(d.r, b); err != nil {
		clear(b)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			d.fail("incomplete")
			return
		}
		d.err = err
	}
	_, _ = d.sum.Write(b) // never fails
}

// bytes returns the next n bytes, until the next call.
func (d *decoder) bytes(n int) []byte {
	if cap(d.buf) < n {
		d.buf = make([]byte, n)
	}
	b := d.buf[:n]
	d.fill(b)
	return b
}

func (d *decoder) byte() byte  { return d.bytes(1)[0] }
func (d *decoder) int() uint32 { return binary.LittleEndian.Uint32(d.bytes(4)) }

func (d *decoder) ints(to []uint32) {
	b := d.bytes(4 * len(to))
	for i := range to {
		to[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
}
