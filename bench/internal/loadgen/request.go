package loadgen

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// idLen is the length of a request's id, a UUID: 24 characters that are random per run, four for
// the worker and eight for its counter.
const idLen = 36

// ids generates ids that are unique across workers and runs.
type ids struct {
	text [idLen]byte
	n    uint32
}

// newSeries returns the common part of all ids of one run. Its version and variant make the ids
// version 4 UUIDs, which some servers require.
func newSeries() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-"
}

func newIDs(series string, worker int) ids {
	var id ids
	copy(id.text[:], series)
	hexDigits(id.text[24:28], uint32(worker))
	return id
}

// next returns a new id, valid until the next call.
func (id *ids) next() []byte {
	id.n++
	hexDigits(id.text[28:], id.n)
	return id.text[:]
}

func hexDigits(dst []byte, n uint32) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = "0123456789abcdef"[n&15]
		n >>= 4
	}
}

// template is a complete HTTP request. Each worker has a copy, in which it replaces the ids.
type template struct {
	text []byte
	ids  []int // positions of the id
}

// patch writes id to its positions and returns the complete request.
func (t *template) patch(id []byte) []byte {
	for _, at := range t.ids {
		copy(t.text[at:], id)
	}
	return t.text
}

func (t template) clone() template {
	t.text = append([]byte(nil), t.text...)
	return t
}

// idHere represents an id in a template and has its length. No text of a Config may contain a zero
// byte.
const idHere = "\x00id of the length of a UUID, 36 byte"

// newTemplate returns a request with a body, or with a whole head and none.
func newTemplate(head, body string) template {
	whole := head
	if body != "" {
		whole += strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	t := template{text: []byte(whole)}
	for from := 0; ; from += idLen {
		at := strings.Index(whole[from:], idHere)
		if at < 0 {
			return t
		}
		from += at
		t.ids = append(t.ids, from)
	}
}

func contextsBody(filters string) string {
	return `{"jsonrpc":"2.0","id":"` + idHere + `","method":"contexts/list","params":{"metadata":{"limit":` + strconv.Itoa(pageSize) + filters + `}}}`
}

// contextFilters are the filters that Contexts uses in turn.
var contextFilters = [...]string{
	``,
	`,"status":"active"`,
	`,"tags":["` + CommonTag + `"]`,
	`,"tags":["` + CommonTag + `","` + RareTag + `"]`,
	`,"sortBy":"name"`,
}

// contextBody creates a context that matches all of these filters.
func contextBody() string {
	return `{"jsonrpc":"2.0","id":"` + idHere + `","method":"contexts/create","params":{"name":"` + idHere +
		`","tags":["` + CommonTag + `","` + RareTag + `"]}}`
}

// filler returns text of n bytes in sentences, so that an agent that analyzes text has work to do.
func filler(n int) string {
	var b strings.Builder
	for i := 1; b.Len() < n; i++ {
		fmt.Fprintf(&b, "Line %d keeps a task busy. ", i)
	}
	return b.String()[:n]
}
