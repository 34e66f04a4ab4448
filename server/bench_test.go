package server_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// bareEcho is a net/http handler that only decodes and encodes JSON, as the baseline of the
// benchmarks (see bench/).
func bareEcho(w http.ResponseWriter, r *http.Request) {
	var body any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// sendBody is the request of the benchmarks.
const sendBody = `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"8f7b2c1e-5c53-4d5b-9a51-XXXXXXXXXXXX","role":"user","parts":[{"kind":"text","text":"The quick brown fox jumps over the lazy dog, again and again, until somebody is sent to tell it to stop."}]},"configuration":{"blocking":true}}}`

type benchCase struct {
	name       string
	handler    http.Handler
	verb, path string // POST and / if empty
	body       string
}

// inVersions returns the requests that send a message and read a task with the given id in the
// other version and binding.
func inVersions(h http.Handler, id string) []benchCase {
	message := strings.NewReplacer(`"kind":"message",`, "", `"kind":"text",`, "", `"user"`, `"ROLE_USER"`, `{"jsonrpc":"2.0","id":1,"method":"message/send","params":`, "").Replace(strings.TrimSuffix(sendBody, "}"))
	v10 := strings.Replace(message, `,"configuration":{"blocking":true}`, "", 1)
	return []benchCase{
		{name: "get-1.0", handler: h, body: fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":%q}}`, id)},
		{name: "send-1.0", handler: h, body: `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + v10 + `}`},
		{name: "get-rest-1.0", handler: h, verb: http.MethodGet, path: "/tasks/" + id},
		{name: "send-rest-1.0", handler: h, path: "/message:send", body: v10},
		{name: "get-rest-0.3", handler: h, verb: http.MethodGet, path: "/v1/tasks/" + id},
		{name: "send-rest-0.3", handler: h, path: "/v1/message:send", body: strings.Replace(message, `"parts"`, `"content"`, 1)},
	}
}

var benchCalls atomic.Int64

// next returns the body with a unique message ID, because a repeated message returns the
// first task.
func (c benchCase) next() string {
	return strings.Replace(c.body, "XXXXXXXXXXXX", fmt.Sprintf("%012x", benchCalls.Add(1)), 1)
}

func benchCases(b *testing.B) []benchCase {
	e := startEngine(b, newStore(), echo, nil)
	rec := httptest.NewRecorder()
	e.server.ServeHTTP(rec, httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/", strings.NewReader(sendBody)))
	var sent reply
	if err := json.Unmarshal(rec.Body.Bytes(), &sent); err != nil {
		b.Fatal(err)
	}
	id := sent.task(b).ID
	return append([]benchCase{
		{name: "echo-send", handler: http.HandlerFunc(bareEcho), body: sendBody},
		{name: "echo-task", handler: http.HandlerFunc(bareEcho), body: rec.Body.String()},
		{name: "get", handler: e.server, body: fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":%q}}`, id)},
		{name: "send", handler: e.server, body: sendBody},
	}, inVersions(e.server, id)...)
}

func BenchmarkHandler(b *testing.B) {
	for _, c := range benchCases(b) {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				w := &discard{header: make(http.Header)}
				r := httptest.NewRequestWithContext(b.Context(), cmp.Or(c.verb, http.MethodPost), cmp.Or(c.path, "/"), nil)
				r.Host = "localhost"
				for pb.Next() {
					clear(w.header)
					w.status = http.StatusOK
					r.Body = io.NopCloser(strings.NewReader(c.next()))
					if c.handler.ServeHTTP(w, r); w.status != http.StatusOK {
						b.Errorf("status %d, want 200", w.status)
						return
					}
				}
			})
		})
	}
}

// discard is a ResponseWriter without cost.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

func BenchmarkListener(b *testing.B) {
	for _, c := range benchCases(b) {
		b.Run(c.name, func(b *testing.B) {
			ts := httptest.NewServer(c.handler)
			defer ts.Close()
			addr := ts.Listener.Addr().String()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				var d net.Dialer
				conn, err := d.DialContext(b.Context(), "tcp", addr)
				if err != nil {
					b.Error(err)
					return
				}
				defer func() { _ = conn.Close() }()
				in := bufio.NewReaderSize(conn, 16<<10)
				for pb.Next() {
					request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", cmp.Or(c.verb, http.MethodPost), cmp.Or(c.path, "/"), addr, len(c.body), c.next())
					if err := roundTrip(conn, in, request); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// roundTrip is a minimal client, so that the benchmark measures the server.
func roundTrip(conn net.Conn, in *bufio.Reader, request string) error {
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if n, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(n))); err != nil {
				return err
			}
		}
		if len(line) == 2 {
			_, err = in.Discard(length)
			return err
		}
	}
}

// BenchmarkFanOut sends one update to a thousand readers. An operation ends when the last
// reader has received it.
func BenchmarkFanOut(b *testing.B) {
	const readers = 1000
	next := make(chan int)
	e := start(b, stepHandler(next), nil)
	task := e.call("message/send", params(message("hi"))).task(b)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tasks/resubscribe","params":{"id":%q}}`, task.ID)
	addr := strings.TrimPrefix(e.url, "http://")
	got := make(chan struct{}, readers)
	for range readers {
		var d net.Dialer
		conn, err := d.DialContext(b.Context(), "tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			b.Fatal(err)
		}
		go func() {
			in := bufio.NewReader(conn)
			for {
				line, err := in.ReadSlice('\n')
				if err != nil {
					return
				}
				if bytes.HasPrefix(line, []byte("data: ")) {
					got <- struct{}{}
				}
			}
		}()
	}
	all := func() {
		for range readers {
			<-got
		}
	}
	all()
	b.ResetTimer()
	for i := range b.N {
		next <- i
		all()
	}
	b.StopTimer()
	close(next)
}
