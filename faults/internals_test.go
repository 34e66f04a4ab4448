//go:build faults

package faults_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

// internals are texts of stores and of their machine, which no client and no receiver may get.
var internals = [][]byte{
	[]byte(os.TempDir() + "/"), []byte("SQLSTATE"), []byte("sqlite: "), []byte("postgres: "), []byte("postgres://"), []byte("pgconn"), []byte("dial tcp"), []byte("user="), []byte("database="),
	[]byte("INSERT INTO"), []byte("SELECT "), []byte("UPDATE "), []byte("disk I/O error"), []byte("no space left"), []byte("database is locked"), []byte("read-only file system"),
}

// mostInternal is more than the length of each of them.
const mostInternal = 64

// shown are the internals that clients and receivers of all tests got.
var shown struct {
	sync.Mutex
	texts []string
}

// search looks for internals in what a client or a receiver got.
func search(where string, got []byte) {
	for _, text := range internals {
		i := bytes.Index(got, text)
		if i < 0 {
			continue
		}
		shown.Lock()
		if len(shown.texts) < 20 {
			shown.texts = append(shown.texts, fmt.Sprintf("%s: %q in %q", where, text, got[max(0, i-200):min(len(got), i+200)]))
		}
		shown.Unlock()
	}
}

// searched is a transport that searches each byte of its responses.
type searched struct{ *http.Transport }

func (s searched) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	where := req.Method + " " + req.URL.Path
	for name, values := range resp.Header {
		search(where, fmt.Appendf(nil, "%s: %s", name, values))
	}
	resp.Body = &searchedBody{ReadCloser: resp.Body, where: where}
	return resp, nil
}

type searchedBody struct {
	io.ReadCloser
	where string
	last  []byte // what was read before
}

func (b *searchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	search(b.where, p[:n])
	border := append(b.last, p[:min(n, mostInternal)]...) // a text may start in the read before
	search(b.where, border)
	if n > mostInternal {
		border = p[n-mostInternal : n]
	}
	b.last = append(b.last[:0], border[max(0, len(border)-mostInternal):]...)
	return n, err
}
