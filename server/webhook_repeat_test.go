package server_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/webhook"
)

// fixedResolver is a resolver that returns one address for every name.
type fixedResolver struct {
	mu      sync.Mutex
	addr    string
	lookups atomic.Int64
}

func (n *fixedResolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	n.lookups.Add(1)
	n.mu.Lock()
	defer n.mu.Unlock()
	return []netip.Addr{netip.MustParseAddr(n.addr)}, nil
}

func (n *fixedResolver) setAddr(addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addr = addr
}

// stoppedClock is a store with a constant time.
type stoppedClock struct{ store.Store }

func (stoppedClock) Now() time.Time { return time.Date(2026, 5, 18, 8, 0, 30, 0, time.UTC) }

const webhookConfiguration = `"configuration":{"blocking":true,"pushNotificationConfig":{"url":"https://hooks.example.com/"}}`

// messageWithTaskID returns a message for a task with an ID that the client has chosen.
func messageWithTaskID(n int) string {
	const id = "0b9e6b5a-4c3a-4e0e-8f57-00000000000"
	return message("a", fmt.Sprintf(`"taskId":"%s%d","contextId":"%[1]s0"`, id, n))
}

// messageWithUUID returns a message with a UUID as its ID.
func messageWithUUID(text string) string {
	return strings.Replace(message(text), `"m-`+text+`"`, `"6f1c9f56-58a1-4d0e-9d0b-0c1d8a6f3c11"`, 1)
}

// A repeated request returns the first result, even if its webhook could not be registered
// anymore.
func TestRepeatedRequestsWithWebhooksReturnTheFirstResult(t *testing.T) {
	t.Parallel()
	for _, why := range []struct {
		name      string
		perMinute int
		addr      string
		code      int
		lookups   int64
	}{
		{"rate limit reached", 1, "93.184.215.14", -32052, 1},
		{"host name now private", 100, "10.0.0.1", -32602, 3},
	} {
		for _, how := range []struct {
			name, method string
			key          []string
			first, other string // messages
		}{
			{"a key", "message/send", []string{"Idempotency-Key", "k"}, message("a"), message("b")},
			{"a key and a stream", "message/stream", []string{"Idempotency-Key", "k"}, message("a"), message("b")},
			{"ids", "message/send", nil, messageWithTaskID(1), messageWithTaskID(2)},
			{"ids and a stream", "message/stream", nil, messageWithTaskID(1), messageWithTaskID(2)},
			{"a message id", "message/send", nil, messageWithUUID("a"), messageWithUUID("b")},
			{"a message id and a stream", "message/stream", nil, messageWithUUID("a"), messageWithUUID("b")},
			{"ids and a key", "message/send", []string{"Idempotency-Key", "k"}, messageWithTaskID(1), messageWithTaskID(2)},
		} {
			t.Run(why.name+", with "+how.name, func(t *testing.T) {
				t.Parallel()
				resolver, st := &fixedResolver{addr: "93.184.215.14"}, inmem.New()
				e := startWithResolver(t, st, resolver, why.perMinute)
				start := func() string {
					t.Helper()
					if how.method == "message/send" {
						return e.call(how.method, params(how.first, webhookConfiguration), how.key...).task(t).ID
					}
					return e.open(how.method, params(how.first, webhookConfiguration), how.key...).rest()[0].view(t).ID
				}
				first := start()
				resolver.setAddr(why.addr)
				if again := start(); again != first {
					t.Errorf("the repeated request returned task %s, want %s", again, first)
				}
				if got := e.call("message/send", params(how.other, webhookConfiguration)); got.code() != why.code {
					t.Errorf("another request = %s, want error %d", got.Body, why.code)
				}
				if n := resolver.lookups.Load(); n != why.lookups {
					t.Errorf("the resolver had %d lookups, want %d", n, why.lookups)
				}
				if got := e.call(how.method, params(how.other, webhookConfiguration), how.key...); how.key != nil && got.code() != -32050 {
					t.Errorf("another request with the key = %s, want error -32050", got.Body)
				}
				if page, err := st.Lanes(t.Context(), store.LaneQuery{Limit: 9}); err != nil || len(page.Lanes) != 1 {
					t.Errorf("webhooks = %d, %v, want one", len(page.Lanes), err)
				}
			})
		}
	}
}

// startWithResolver starts an agent that accepts perMinute webhooks in total: its clock is constant.
func startWithResolver(t *testing.T, st store.Store, resolver safehttp.Resolver, perMinute int) *env {
	t.Helper()
	sender, err := safehttp.New(safehttp.ClientConfig{Resolver: resolver})
	if err != nil {
		t.Fatal(err)
	}
	hooks, err := webhook.New(webhook.Config{Store: stoppedClock{st}, NewID: newID, Sender: sender, Settings: webhook.Settings{Limits: webhook.Limits{PerMinute: perMinute}}})
	if err != nil {
		t.Fatal(err)
	}
	reply := func(_ context.Context, turn *engine.Turn) error { return turn.Reply() }
	return startOn(t, st, reply, func(c *server.Config) { c.Webhook = hooks })
}
