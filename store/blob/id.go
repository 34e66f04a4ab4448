package blob

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"time"
)

// An id is the time of its creation in milliseconds, 48 bits, and 128 random bits. It is
// written in base 32, so that the order of ids is that of their times.
const (
	idTime   = 6
	idRandom = 16
	// idLength is the length of an id in characters.
	idLength = (8*(idTime+idRandom) + 4) / 5
)

var idEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// newID returns an id for a ref or an object. It cannot be guessed.
func newID(now time.Time) string {
	var b [2 + idTime + idRandom]byte
	binary.BigEndian.PutUint64(b[:], uint64(max(now.UnixMilli(), 0))) //nolint:gosec // not negative
	_, _ = rand.Read(b[2+idTime:])                                    // never fails
	return idEncoding.EncodeToString(b[2:])
}

// NewObjectName returns a name for an object that a [Refs] stores beside those of uploads. Blobs
// removes the object as an orphan if Known does not know it when it is old enough.
func NewObjectName(now time.Time) string { return newID(now) }

// validID reports whether text has the form of an id.
func validID(text string) bool {
	return len(text) == idLength && !strings.ContainsFunc(text, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'v') })
}

// timeOfID returns the time of an id, and false if text is none.
func timeOfID(text string) (time.Time, bool) {
	if !validID(text) {
		return time.Time{}, false
	}
	b, err := idEncoding.DecodeString(text)
	if err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(append(make([]byte, 2, 8), b[:idTime]...)))), true //nolint:gosec // 48 bits
}
