package blobdriver

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"sync"
	"time"
)

// An id is the time of its creation in milliseconds, 48 bits, the number of earlier ids of this millisecond, 16 bits, and
// 128 random bits. It is written in base 32, so that ids of one process are in the order of their creation.
const (
	idTime   = 6
	idCount  = 2
	idRandom = 16
	// idLength is the length of an id in characters.
	idLength = (8*(idTime+idCount+idRandom) + 4) / 5
)

var idEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// newID returns an id for a ref or an object. It cannot be guessed.
func newID(now time.Time, count uint16) string {
	var b [2 + idTime + idCount + idRandom]byte
	binary.BigEndian.PutUint64(b[:], uint64(max(now.UnixMilli(), 0))) // not negative
	binary.BigEndian.PutUint16(b[2+idTime:], count)
	_, _ = rand.Read(b[2+idTime+idCount:]) // never fails
	return idEncoding.EncodeToString(b[2:])
}

// refIDs makes ids of refs. Above 65,536 in a millisecond, their order is random.
type refIDs struct {
	mu    sync.Mutex
	last  int64 // the millisecond of the last id
	count uint16
}

func (s *refIDs) next(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count++; now.UnixMilli() != s.last {
		s.last, s.count = now.UnixMilli(), 0
	}
	return newID(now, s.count)
}

// NewObjectName returns a name for an object that a [Refs] stores beside the objects of uploads.
// Blobs removes the object as an orphan if Known does not know it when it is old enough.
func NewObjectName(now time.Time) string { return newID(now, 0) }

// validID reports whether text has the form of an id.
func validID(text string) bool {
	return len(text) == idLength && !strings.ContainsFunc(text, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'v') })
}

// timeOfID returns the time of an id, and false if text is not an id.
func timeOfID(text string) (time.Time, bool) {
	if !validID(text) {
		return time.Time{}, false
	}
	b, err := idEncoding.DecodeString(text)
	if err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(append(make([]byte, 2, 8), b[:idTime]...)))), true // 48 bits
}
