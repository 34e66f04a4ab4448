package server

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// requestIDs creates request IDs.
type requestIDs struct {
	prefix string
	next   atomic.Uint64
}

func newRequestIDs() *requestIDs {
	return &requestIDs{prefix: strings.ToLower(rand.Text()[:8]) + "-"}
}

// forRequest returns the valid ID in the request's X-Request-Id header, or a new one.
func (ids *requestIDs) forRequest(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); validRequestID(id) {
		return id
	}
	var buf [32]byte
	return string(strconv.AppendUint(append(buf[:0], ids.prefix...), ids.next.Add(1), 36))
}

// validRequestID reports whether an ID is safe to repeat in headers and logs.
func validRequestID(id string) bool {
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
