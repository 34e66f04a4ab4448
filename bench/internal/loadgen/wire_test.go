package loadgen

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// serveRaw calls serve for each connection and closes it afterwards.
func serveRaw(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = nc.Close() }()
				serve(nc)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return "http://" + l.Addr().String()
}

// rawAnswer reads one request and responds with a completed task.
func rawAnswer(nc net.Conn) bool {
	req, err := http.ReadRequest(bufio.NewReader(nc)) // no pipelining: nothing is lost with the reader
	if err != nil {
		return false
	}
	rw := httptest.NewRecorder()
	answering(`{"id":"ID","result":{"kind":"task","id":"t","status":{"state":"completed"}}}`)(rw, req)
	_, err = fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", rw.Body.Len(), rw.Body)
	return err == nil
}

func TestWireReadsBodies(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 10_000)
	for _, c := range []struct {
		name, response, body string
		status               int
		keeps                bool
		want                 string // text of the error
	}{
		{"by length", "HTTP/1.1 200 OK\r\ncontent-LENGTH:  5 \r\nX: y\r\n\r\nhello", "hello", 200, true, ""},
		{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", 200, true, ""},
		{"none", "HTTP/1.1 204 No Content\r\n\r\n", "", 204, true, ""},
		{"bare line ends", "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", "hi", 200, true, ""},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: 1\r\n\r\n", "hello", 200, true, ""},
		{"long chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186A0\r\n" + long + "\r\n186a0\r\n" + long + "\r\n0\r\n\r\n", long + long, 200, true, ""},
		{"after an interim answer", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx", "x", 404, true, ""},
		{"announced end", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", "x", 200, false, ""},
		{"HTTP 1.0", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", "x", 200, false, ""},
		{"to the end", "HTTP/1.1 200 OK\r\n\r\n" + long, long, 200, false, ""},

		{"cut off", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "hello", 200, false, "connection closed within the answer"},
		{"cut off chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n", "hel", 200, false, "connection closed within the answer"},
		{"cut off header", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n", "", 0, false, "connection closed within the answer"},
		{"no answer", "", "", 0, false, "connection closed without an answer"},
		{"bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\nhel\r\n", "", 200, false, "answer has a malformed chunk"},
		{"long chunk end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhel\r\n0\r\n\r\n", "he", 200, false, "answer has a malformed chunk"},
		{"bad length", "HTTP/1.1 200 OK\r\nContent-Length: 1e3\r\n\r\n", "", 0, false, "answer has a malformed content length"},
		{"gzip", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "", 0, false, "answer has an unknown transfer encoding"},
		{"not HTTP", "220 mail.example.com ESMTP\r\n", "", 0, false, "answer is not HTTP/1.x"},
		{"no status", "HTTP/1.1 2x0 OK\r\n\r\n", "", 0, false, "answer has no HTTP status"},
		{"endless header", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 300), "", 0, false, "answer has too many header lines"},
		{"long header", "HTTP/1.1 200 OK\r\nA: " + long, "", 0, false, "answer has too long a header line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t, serveRaw(t, func(nc net.Conn) {
				_, _ = nc.Read(make([]byte, 100))
				_, _ = io.WriteString(nc, c.response)
				if c.keeps { // the response must define its own end
					_, _ = nc.Read(make([]byte, 1))
				}
			}))
			var body bytes.Buffer
			status, err := w.call(t.Context(), []byte("hi"), func(p []byte) error {
				_, err := body.Write(p)
				return err
			})
			if got := text(err); got != c.want || status != c.status || body.String() != c.body {
				t.Errorf("call = %d, %q with body of %d bytes, want %d, %q, %d bytes", status, got, body.Len(), c.status, c.want, len(c.body))
			}
			if keeps := w.nc != nil; keeps != c.keeps {
				t.Errorf("connection kept = %v, want %v", keeps, c.keeps)
			}
			if err == nil && w.in != int64(len(c.response)) {
				t.Errorf("bytes in = %d, want %d", w.in, len(c.response))
			}
		})
	}
}

func TestWireVerifiesTheServerCertificate(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	w := newWire(t, s.URL)
	_, err := w.call(t.Context(), []byte("hi"), nil)
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("call to an unknown authority = %v, want a certificate error", err)
	}
}

func newWire(t *testing.T, address string) *wire {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{url: u, timeout: 5 * time.Minute, clock: &clock{base: time.Now()}}
	t.Cleanup(w.close)
	return w
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
