package safehttp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/await"
)

// flood writes the same bytes until the other side is gone.
func flood(head string, chunk []byte, pause time.Duration) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := io.WriteString(conn, head); err != nil {
			return
		}
		for {
			if _, err := conn.Write(chunk); err != nil {
				return
			}
			if pause > 0 {
				time.Sleep(pause) // the connection is real
			}
		}
	}
}

func say(text string) func(net.Conn) {
	return func(conn net.Conn) { _, _ = io.WriteString(conn, text) }
}

// silence says nothing until the other side is gone.
func silence(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func gzipBomb() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range 64 {
		_, _ = z.Write(zeros)
	}
	_ = z.Close()
	return b.Bytes()
}

var hugeHead = []byte("HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1<<10)+"\r\n", 16<<10) + "\r\n")

var zeros = make([]byte, 32<<10)

// abuses are receivers that do harm if they can, with the status or outcome of a Post.
var abuses = []struct {
	name    string
	speak   func(net.Conn)
	status  int
	outcome string
}{
	{"silence", silence, 0, OutcomeTimeout},
	{"early close", say(""), 0, OutcomeProtocol},
	{"close within the head", say("HTTP/1.1 200 OK\r\nContent-"), 0, OutcomeProtocol},
	{"slow head", flood("HTTP/1.1 200 OK\r\nX: ", []byte("x"), time.Millisecond), 0, OutcomeTimeout},
	{"garbage", say("\x00\x01\x02 what is this\n\n\n"), 0, OutcomeProtocol},
	{"endless garbage", flood("", zeros, 0), 0, OutcomeProtocol},
	{"another protocol", say("220 mail.example ESMTP\r\n"), 0, OutcomeProtocol},
	{"HTTP/0.9", say("<html>hello</html>"), 0, OutcomeProtocol},
	{"endless status line", flood("HTTP/1.1 200 ", bytes.Repeat([]byte("x"), 1<<15), 0), 0, OutcomeProtocol},
	{"16 MiB of head", func(conn net.Conn) { _, _ = conn.Write(hugeHead) }, 0, OutcomeProtocol},
	{"endless head", flood("HTTP/1.1 200 OK\r\n", bytes.Repeat([]byte("X: yyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n"), 1<<10), 0), 0, OutcomeProtocol},
	{"endless line in the head", flood("HTTP/1.1 200 OK\r\nX: ", bytes.Repeat([]byte("y"), 1<<15), 0), 0, OutcomeProtocol},
	{"endless 100", flood("", bytes.Repeat([]byte("HTTP/1.1 100 Continue\r\n\r\n"), 1<<10), 0), 0, OutcomeProtocol},
	{"endless 103", flood("", []byte("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"), 0), 0, OutcomeProtocol},
	{"slow 102", flood("", []byte("HTTP/1.1 102 Processing\r\n\r\n"), 10*time.Millisecond), 0, OutcomeTimeout},
	{"101", flood("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", zeros, 0), 0, OutcomeProtocol},
	{"status 099", say("HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n"), 0, OutcomeProtocol},
	{"status 999", say("HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n"), 0, OutcomeProtocol},
	{"two lengths", say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), 0, OutcomeProtocol},
	{"negative length", say("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), 0, OutcomeProtocol},
	{"slow body", flood("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", []byte("x"), 20*time.Millisecond), 0, OutcomeTimeout},
	{"slow body of 1 MB", flood("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", []byte("x"), 20*time.Millisecond), 0, OutcomeTimeout},
	{"slow chunks", flood("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", []byte("1\r\nx\r\n"), 20*time.Millisecond), 0, OutcomeTimeout},
	{"slow refusal", flood("HTTP/1.1 410 Gone\r\n\r\n", []byte("x"), 20*time.Millisecond), 0, OutcomeTimeout},
	{"no body where one was promised", func(conn net.Conn) {
		say("HTTP/1.1 503 Busy\r\nContent-Length: 10\r\n\r\n")(conn)
		silence(conn)
	}, 0, OutcomeTimeout},
	{"endless body", flood("HTTP/1.1 200 OK\r\n\r\n", zeros, 0), 200, ""},
	{"endless chunks", flood("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", []byte("1\r\nx\r\n"), 0), 200, ""},
	{"endless chunk extension", flood("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", bytes.Repeat([]byte("x"), 1<<12), 0), 200, ""},
	{"endless trailers", flood("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", []byte("X: y\r\n"), 0), 200, ""},
	{"bad chunk", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), 200, ""},
	{"huge length", flood("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n", zeros, 0), 200, ""},
	{"gzip bomb", flood("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", gzipBomb(), 0), 200, ""},
	{"more than one answer", say("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 500 No\r\n\r\n"), 200, ""},
}

// Invariant 15. Not parallel: it measures the memory and the goroutines of the process.
func TestAbusiveReceivers(t *testing.T) {
	for _, abuse := range abuses {
		t.Run(abuse.name, func(t *testing.T) {
			var began, ended atomic.Int64
			to := serveRaw(t, func(conn net.Conn) {
				began.Add(1)
				abuse.speak(conn)
				ended.Add(1)
			})
			c := newClient(t, ClientConfig{Policy: loopback})
			deadline := 2 * time.Minute // which is far
			if abuse.outcome == OutcomeTimeout {
				deadline = 300 * time.Millisecond
			}
			goroutines := runtime.NumGoroutine()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			started := time.Now()
			resp, err := c.Post(ctx, Request{URL: parse(t, "http://"+to.String()+"/"), Body: []byte("{}")})
			took := time.Since(started)
			c.CloseIdleConnections()
			if resp.Status != abuse.status || outcome(err) != abuse.outcome {
				t.Errorf("Post = %+v, %v, want status %d, outcome %q", resp, err, abuse.status, abuse.outcome)
			}
			if limit := time.Minute; took > limit {
				t.Errorf("Post took %s, want at most %s", took, limit)
			}
			if err != nil && len(err.Error()) > 10_000 {
				t.Errorf("the error has %d bytes, want it short", len(err.Error()))
			}
			await.True(t, "the connection ends", func() bool { return ended.Load() == began.Load() })
			waitGoroutines(t, goroutines)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 2<<20 {
				t.Errorf("allocated %d KiB, want less than 2 MiB", used>>10)
			}
		})
	}
}

// Many at once: the heap stays small while all are under way.
func TestManyAbusiveReceiversAtOnce(t *testing.T) {
	const attempts = 200
	var began atomic.Int64
	drip := flood("HTTP/1.1 200 OK\r\nX: ", []byte("x"), 5*time.Millisecond)
	to := serveRaw(t, func(conn net.Conn) { began.Add(1); drip(conn) })
	c := newClient(t, ClientConfig{Policy: loopback})
	goroutines := runtime.NumGoroutine()
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	results := make(chan error, attempts)
	for range attempts {
		go func() {
			_, err := c.Post(ctx, Request{URL: parse(t, "http://"+to.String()+"/"), Body: []byte("{}")})
			results <- err
		}()
	}
	await.True(t, "all requests are under way", func() bool { return began.Load() == attempts || ctx.Err() != nil })
	runtime.GC()
	runtime.ReadMemStats(&during)
	for range attempts {
		if err := <-results; outcome(err) != OutcomeTimeout {
			t.Errorf("Post = %v, want outcome timeout", err)
		}
	}
	// The servers are in this process too: about half of it is theirs.
	if used := int64(during.HeapAlloc) - int64(before.HeapAlloc); used > attempts*64<<10 {
		t.Errorf("heap of %d KiB for %d attempts, want at most 64 KiB each", used>>10, attempts)
	} else {
		t.Logf("%d KiB per attempt", used>>10/attempts)
	}
	waitGoroutines(t, goroutines)
}

// waitGoroutines waits until at most n goroutines run.
func waitGoroutines(t *testing.T, n int) {
	t.Helper()
	await.Success(t, func() error {
		if runtime.NumGoroutine() <= n {
			return nil
		}
		stacks := make([]byte, 1<<16)
		return fmt.Errorf("more than %d goroutines run:\n%s", n, stacks[:runtime.Stack(stacks, true)])
	})
}

func TestBodyThatIsNotReadEndsWithTheAttempt(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	to := serveRaw(t, func(net.Conn) { <-gone })
	defer close(gone)
	c := newClient(t, ClientConfig{Policy: loopback})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Post(ctx, Request{URL: parse(t, "http://"+to.String()+"/"), Body: make([]byte, 64<<20)}); outcome(err) != OutcomeTimeout {
		t.Errorf("Post = %v, want outcome timeout", err)
	}
}

func TestErrorsSayTheirOutcome(t *testing.T) {
	t.Parallel()
	cause := fmt.Errorf("cause")
	e := &Error{Outcome: OutcomeDNS, Err: cause}
	if e.Error() != "dns: cause" || !errors.Is(e, cause) {
		t.Errorf("Error() = %q, Unwrap() = %v", e, errors.Unwrap(e))
	}
}
