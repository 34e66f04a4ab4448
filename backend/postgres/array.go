package postgres

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The type OIDs of parameters.
const (
	oidBool  = 16
	oidBytea = 17
	oidInt8  = 20
	oidText  = 25
)

// array is an array parameter in binary format. It has its own encoder because a commit
// consists almost entirely of such arrays.
type array struct {
	elem  uint32
	n     int
	nulls bool
	buf   []byte
}

const arrayHeader = 20

// reset empties the array. It keeps the buffer unless that is large.
func (a *array) reset() {
	const maxKept = 1 << 20
	if cap(a.buf) > maxKept || a.buf == nil {
		a.buf = make([]byte, 0, 1024)
	}
	a.n, a.nulls, a.buf = 0, false, append(a.buf[:0], make([]byte, arrayHeader)...)
}

func (a *array) int(v int64) {
	a.n++
	a.buf = binary.BigEndian.AppendUint32(a.buf, 8)
	a.buf = binary.BigEndian.AppendUint64(a.buf, uint64(v)) // two's complement
}

func (a *array) text(s string) {
	a.n++
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(len(s))) // PostgreSQL values are shorter
	a.buf = append(a.buf, s...)
}

func (a *array) bytes(b []byte) {
	a.n++
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(len(b))) // PostgreSQL values are shorter
	a.buf = append(a.buf, b...)
}

func (a *array) bool(v bool) {
	a.n++
	a.buf = binary.BigEndian.AppendUint32(a.buf, 1)
	if v {
		a.buf = append(a.buf, 1)
	} else {
		a.buf = append(a.buf, 0)
	}
}

func (a *array) null() {
	a.n++
	a.nulls = true
	a.buf = append(a.buf, 0xff, 0xff, 0xff, 0xff)
}

// encoded returns the encoded parameter, which is valid until the next reset.
func (a *array) encoded() []byte {
	head := a.buf[:0]
	head = binary.BigEndian.AppendUint32(head, 1) // dimensions
	flags := uint32(0)
	if a.nulls {
		flags = 1
	}
	head = binary.BigEndian.AppendUint32(head, flags)
	head = binary.BigEndian.AppendUint32(head, a.elem)
	head = binary.BigEndian.AppendUint32(head, uint32(a.n)) // at most the changes of a group
	binary.BigEndian.AppendUint32(head, 1)                  // the first index
	return a.buf
}

func int8Param(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) } // two's complement

// param returns an argument in binary format. Integers are encoded as bigint.
func param(v any) []byte {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return append([]byte{}, v...) // not nil, which is null
	case []byte:
		return append([]byte{}, v...)
	case float64:
		return binary.BigEndian.AppendUint64(nil, math.Float64bits(v))
	case int:
		return int8Param(int64(v))
	case int64:
		return int8Param(v)
	case bool:
		if v {
			return []byte{1}
		}
		return []byte{0}
	case []string:
		return arrayParam(oidText, v, (*array).text)
	case [][]byte:
		return arrayParam(oidBytea, v, (*array).bytes)
	case []bool:
		return arrayParam(oidBool, v, (*array).bool)
	case []int64:
		return arrayParam(oidInt8, v, (*array).int)
	default:
		panic(fmt.Sprintf("parameter of type %T", v))
	}
}

func arrayParam[T any](elem uint32, values []T, add func(*array, T)) []byte {
	a := array{elem: elem, buf: make([]byte, arrayHeader, arrayHeader+16*len(values))}
	for _, v := range values {
		add(&a, v)
	}
	return a.encoded()
}
