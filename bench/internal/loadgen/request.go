package loadgen

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
)

// idLen is the length of a request's id, a UUID: 24 characters drawn once per
// run, four for the worker and eight for its counter.
const idLen = 36

// ids makes ids that no other worker and no other run makes.
type ids struct {
	text [idLen]byte
	n    uint32
}

// newSeries returns the part of all ids of one run. Version and variant make
// them version 4 UUIDs, which some servers insist on.
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

// template is one whole HTTP request, of which each worker has a copy and
// overwrites the ids in it.
type template struct {
	text []byte
	ids  []int // where to put the id
}

// patch puts id in its places and returns the whole request.
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

// idHere stands in a template for an id and has its length. No text of a
// Config may have a zero byte.
const idHere = "\x00id of the length of a UUID, 36 byte"

func newTemplate(head, body string) template {
	whole := head + strconv.Itoa(len(body)) + "\r\n\r\n" + body
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

// header returns the head of a request up to the value of Content-Length.
func header(c Config, u *url.URL, accept string) string {
	fields := http.Header{}
	fields.Set("Accept", accept)
	if c.Token != "" {
		fields.Set("Authorization", "Bearer "+c.Token)
	}
	for name, values := range c.Header {
		fields[http.CanonicalHeaderKey(name)] = values
	}
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	sort.Strings(names)

	var b strings.Builder
	b.WriteString("POST " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host + "\r\n")
	for _, name := range names {
		for _, value := range fields[name] {
			b.WriteString(name + ": " + value + "\r\n")
		}
	}
	b.WriteString("Content-Type: application/json\r\nContent-Length: ")
	return b.String()
}

func sendBody(method string, blocking bool, payload int) string {
	return `{"jsonrpc":"2.0","id":"` + idHere + `","method":"` + method + `","params":{"message":{"kind":"message","messageId":"` + idHere +
		`","role":"user","parts":[{"kind":"text","text":"` + filler(payload) + `"}]},"configuration":{"blocking":` + strconv.FormatBool(blocking) + `}}}`
}

func listBody() string {
	return `{"jsonrpc":"2.0","id":"` + idHere + `","method":"tasks/list","params":{"pageSize":` + strconv.Itoa(pageSize) + `}}`
}

func contextsBody(filters string) string {
	return `{"jsonrpc":"2.0","id":"` + idHere + `","method":"contexts/list","params":{"metadata":{"limit":` + strconv.Itoa(pageSize) + filters + `}}}`
}

// contextFilters are what Contexts asks for by turns.
var contextFilters = [...]string{
	``,
	`,"status":"active"`,
	`,"tags":["` + CommonTag + `"]`,
	`,"tags":["` + CommonTag + `","` + RareTag + `"]`,
	`,"sortBy":"name"`,
}

// contextBody makes a context that each of those finds.
func contextBody() string {
	return `{"jsonrpc":"2.0","id":"` + idHere + `","method":"contexts/create","params":{"name":"` + idHere +
		`","tags":["` + CommonTag + `","` + RareTag + `"]}}`
}

// A request for a task has the task's id in it, of any length, so it is put
// together for each call from these parts and the ids.
const (
	getBegin  = `{"jsonrpc":"2.0","id":"`
	getMiddle = `","method":"tasks/get","params":{"id":"`
	getEnd    = `"}}`
)

func appendGet(dst []byte, head string, id, task []byte) []byte {
	dst = append(dst, head...)
	dst = strconv.AppendInt(dst, int64(len(getBegin)+len(id)+len(getMiddle)+len(task)+len(getEnd)), 10)
	dst = append(dst, "\r\n\r\n"+getBegin...)
	dst = append(dst, id...)
	dst = append(dst, getMiddle...)
	dst = append(dst, task...)
	return append(dst, getEnd...)
}

// filler is text of n bytes in sentences, so that an agent that reads it finds
// something to read.
func filler(n int) string {
	var b strings.Builder
	for i := 1; b.Len() < n; i++ {
		fmt.Fprintf(&b, "Line %d keeps a task busy. ", i)
	}
	return b.String()[:n]
}
