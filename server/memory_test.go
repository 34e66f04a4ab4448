package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/server"
)

// sendWithoutReading sends a request on a new connection and never reads the response. body may be shorter
// than its announced length.
func (e *env) sendWithoutReading(owner, body string, announced int) {
	e.t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(e.t.Context(), "tcp", strings.TrimPrefix(e.url, "http://"))
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		e.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		strings.TrimPrefix(as(owner)[1], "Bearer "), announced, body); err != nil {
		e.t.Fatal(err)
	}
}

// longMessage returns the JSON of a message with a text of the given size.
func longMessage(size int) string {
	return fmt.Sprintf(`{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"%s"}]}`, strings.Repeat("x", size))
}

func TestStalledReadersUseBoundedMemory(t *testing.T) { // it measures the heap
	const size, clients = 8 << 20, 24
	for _, method := range []string{a2a.MethodGet, a2a.MethodResubscribe, "batch"} {
		t.Run(strings.ReplaceAll(method, "/", " "), func(t *testing.T) {
			budget := memory.New(6 * size)
			e := start(t, echo, func(c *server.Config) {
				twoTokens(c)
				c.Memory, c.Requests.MaxBodyBytes = budget, 2*size
			})
			large := e.call(a2a.MethodSend, params(longMessage(size), blocking), as("bob")...).task(t)
			await.True(t, "the body's memory is released", func() bool { return budget.Stats().Held == 0 })
			small := e.call(a2a.MethodSend, params(message("small"), blocking), as("alice")...).task(t)
			request := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"id":%q}}`, method, large.ID)
			if method == "batch" {
				one := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"id":%q}}`, a2a.MethodGet, large.ID)
				request = "[" + one + strings.Repeat(","+one, 9) + "]"
			}
			before := liveHeap()
			for range clients {
				e.sendWithoutReading("bob", request, len(request))
			}
			const most = 10 * size // history and artifact are encoded, 2*size each
			held := int64(0)
			await.True(t, "the readers wait", func() bool {
				held = liveHeap() - before
				return held > most || budget.Stats().Waiting+int(budget.Stats().Refused) > clients/2
			})
			if held > most {
				t.Errorf("%d readers of %d bytes that do not read use %d bytes, want at most %d", clients, 2*size, held, int64(most))
			}
			if got := e.call(a2a.MethodGet, fmt.Sprintf(`{"id":%q}`, small.ID), as("alice")...); got.Status != http.StatusOK || got.Error != nil {
				t.Errorf("request of another owner = %d %s, want the task", got.Status, got.Body)
			}
		})
	}
}

func TestBatchResponsesShareOneSizeLimit(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) { c.Requests.MaxBatchBytes = 100_000 })
	id := e.call(a2a.MethodSend, params(longMessage(20_000), blocking)).task(t).ID // its response is twice as large
	one := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":%q}}`, id)
	got := e.post("[" + one + strings.Repeat(","+one, 4) + "]")
	var replies []reply
	if err := json.Unmarshal(got.Body, &replies); err != nil || len(replies) != 5 {
		t.Fatalf("batch = %d responses, %v", len(replies), err)
	}
	for i, r := range replies {
		switch {
		case i < 2 && r.Error != nil:
			t.Errorf("response %d = %s, want the task", i, r.Error.Message)
		case i >= 2 && (r.Error == nil || r.Error.Data["code"] != string(a2a.CodeTooLarge) || !strings.Contains(r.Error.Message, "send the request separately")):
			t.Errorf("response %d = %+v, want too_large", i, r.Error)
		}
	}
	if kind := got.Header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("Content-Type = %q, want application/json", kind)
	}
	if len(got.Body) > 100_000 {
		t.Errorf("the batch response has %d bytes, want at most 100000", len(got.Body))
	}
	if health := e.do(http.MethodGet, "/health", "", nil); !strings.Contains(string(health.Body), `"batches":{"refused":3}`) {
		t.Errorf("health = %s, want 3 rejected items of batches", health.Body)
	}
}

func TestOwnerMayUseHalfOfTheStreams(t *testing.T) {
	t.Parallel()
	e := start(t, func(ctx context.Context, turn *engine.Turn) error {
		if turn.Messages()[0].Text() != "wait" {
			return turn.Reply()
		}
		<-ctx.Done()
		return ctx.Err()
	}, func(c *server.Config) {
		twoTokens(c)
		c.Requests.MaxStreams = 4
	})
	for range 2 {
		if v, ok := e.open(a2a.MethodStream, params(message("wait")), as("bob")...).next(); !ok {
			t.Fatalf("stream = %+v, want a task", v)
		}
	}
	if got := e.call(a2a.MethodStream, params(message("a")), as("bob")...); got.Status != http.StatusTooManyRequests || got.code() != a2a.CodeExhausted.JSONRPC() {
		t.Errorf("the owner's third of 4 streams = %d %s, want 429", got.Status, got.Body)
	}
	if _, ok := e.open(a2a.MethodStream, params(message("wait")), as("alice")...).next(); !ok {
		t.Error("another owner's stream ended, want a task")
	}
	if health := e.do(http.MethodGet, "/health", "", as("alice")); !strings.Contains(string(health.Body), `"streams":{"open":3,"refused":1}`) {
		t.Errorf("health = %s, want 3 streams open and 1 refused", health.Body)
	}
}

func TestStalledBodiesDoNotDelayOtherOwners(t *testing.T) {
	t.Parallel()
	budget := memory.New(4 << 20)
	e := start(t, echo, func(c *server.Config) {
		twoTokens(c)
		c.Memory = budget
	})
	for range 6 {
		e.sendWithoutReading("bob", strings.Repeat(" ", 600<<10), 900<<10)
	}
	await.True(t, "Bob's bodies wait", func() bool { return budget.Stats().Waiting > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), memory.Wait/2) // before any of Bob's bodies is rejected
	defer cancel()
	r := e.request(http.MethodPost, "/", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":%s}`, params(longMessage(200<<10))), as("alice"))
	resp, err := e.client.Do(r.WithContext(ctx))
	if err != nil {
		t.Fatalf("a message of another owner: %v", err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("a message of another owner = %d, want 200", resp.StatusCode)
	}
}
