package server

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// requestIDs names requests.
type requestIDs struct {
	prefix string
	next   atomic.Uint64
}

func newRequestIDs() *requestIDs {
	return &requestIDs{prefix: strings.ToLower(rand.Text()[:8]) + "-"}
}

// of returns the id that a request brought in X-Request-Id, or a new one.
func (ids *requestIDs) of(r *http.Request) string {
	if given := r.Header.Get("X-Request-Id"); saneID(given) {
		return given
	}
	var buf [32]byte
	return string(strconv.AppendUint(append(buf[:0], ids.prefix...), ids.next.Add(1), 36))
}

// saneID reports whether an id is safe to be repeated in headers and logs.
func saneID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		case c == '-', c == '_', c == '.', c == ':', c == '/':
		default:
			return false
		}
	}
	return true
}
