package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

// taskRow is a row of task_rows.
type taskRow = sqlrow.Task

var taskColumns = sqlrow.Of[taskRow]()

// rowColumns are the columns of task_rows that scanTask reads, rowWidth is their number.
var (
	rowColumns = taskColumns.List("t.")
	rowWidth   = taskColumns.Len()
)

func scanTask(t *taskRow, r record) { taskColumns.Scan(t, r.int, r.text) }

// record is a row of a result in binary format. It is valid until the next row is read.
type record [][]byte

// int returns a smallint, integer, bigint or boolean column, 0 for null.
func (r record) int(i int) int64 {
	switch b := r[i]; len(b) {
	case 8:
		return int64(binary.BigEndian.Uint64(b)) // as it was written
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b))) // as it was written
	case 2:
		return int64(int16(binary.BigEndian.Uint16(b))) // as it was written
	case 1:
		return int64(b[0]) // a boolean
	case 0:
		return 0
	default:
		panic(fmt.Sprintf("column %d is an integer of %d bytes", i, len(b)))
	}
}

func (r record) text(i int) string { return string(r[i]) }

// clone returns a copy that remains valid, in one allocation for all values.
func (r record) clone() record {
	size := 0
	for _, value := range r {
		size += len(value)
	}
	c, buf := make(record, len(r)), make([]byte, 0, size)
	for i, value := range r {
		if value != nil {
			from := len(buf)
			buf = append(buf, value...)
			c[i] = buf[from:len(buf):len(buf)]
		}
	}
	return c
}

// json returns a JSON column for [wire.UnmarshalShared]: a copy if its strings may be shared.
func (r record) json(i int) []byte {
	if len(r[i]) > wire.ShareFrom {
		return bytes.Clone(r[i])
	}
	return r[i]
}

func (r record) null(i int) bool { return r[i] == nil }

func (r record) bool(i int) bool { return len(r[i]) == 1 && r[i][0] != 0 }

// texts decodes an array of texts.
func texts(b []byte) []string { return elements(b, func(e []byte) string { return string(e) }) }

// ints decodes an array of bigint.
func ints(b []byte) []int64 {
	return elements(b, func(e []byte) int64 { return int64(binary.BigEndian.Uint64(e)) }) // two's complement
}

// elements decodes an array without null.
func elements[T any](b []byte, decode func(e []byte) T) (all []T) {
	const header, length = arrayHeader, 4
	if len(b) < header {
		return nil // null, or empty and so without a dimension
	}
	for b = b[header:]; len(b) >= length; {
		n := int(binary.BigEndian.Uint32(b))
		all = append(all, decode(b[length:length+n]))
		b = b[length+n:]
	}
	return all
}

func millis(t time.Time) int64 { return encoding.Millis(t) }

func fromMillis(ms int64) time.Time { return encoding.FromMillis(ms) }
