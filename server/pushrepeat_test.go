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
	"github.com/holdfast-dev/holdfast/push"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
)

// oneAddress resolves every name to one address.
type oneAddress struct {
	mu    sync.Mutex
	addr  string
	asked atomic.Int64
}

func (n *oneAddress) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	n.asked.Add(1)
	n.mu.Lock()
	defer n.mu.Unlock()
	return []netip.Addr{netip.MustParseAddr(n.addr)}, nil
}

func (n *oneAddress) move(addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addr = addr
}

// stoppedClock is a store whose clock stands still.
type stoppedClock struct{ store.Store }

func (stoppedClock) Now() time.Time { return time.Date(2026, 5, 18, 8, 0, 30, 0, time.UTC) }

const hooked = `"configuration":{"blocking":true,"pushNotificationConfig":{"url":"https://hooks.example.com/"}}`

// withIDs is a message for a task whose id its client has chosen.
func withIDs(n int) string {
	const id = "0b9e6b5a-4c3a-4e0e-8f57-00000000000"
	return message("a", fmt.Sprintf(`"taskId":"%s%d","contextId":"%[1]s0"`, id, n))
}

// withMessageID is a message whose id is a UUID.
func withMessageID(text string) string {
	return strings.Replace(message(text), `"m-`+text+`"`, `"6f1c9f56-58a1-4d0e-9d0b-0c1d8a6f3c11"`, 1)
}

// A request that is made again is answered as the first time, although its webhook would
// not be taken any more.
func TestRepetitionsWithWebhooksAreAnsweredAsTheFirstTime(t *testing.T) {
	t.Parallel()
	for _, why := range []struct {
		name      string
		perMinute int
		addr      string
		code      int
		lookups   int64
	}{
		{"too many in a minute", 1, "93.184.215.14", -32052, 1},
		{"a name that has become private", 100, "10.0.0.1", -32602, 3},
	} {
		for _, how := range []struct {
			name, method string
			key          []string
			first, other string // messages
		}{
			{"a key", "message/send", []string{"Idempotency-Key", "k"}, message("a"), message("b")},
			{"a key and a stream", "message/stream", []string{"Idempotency-Key", "k"}, message("a"), message("b")},
			{"ids", "message/send", nil, withIDs(1), withIDs(2)},
			{"ids and a stream", "message/stream", nil, withIDs(1), withIDs(2)},
			{"a message id", "message/send", nil, withMessageID("a"), withMessageID("b")},
			{"a message id and a stream", "message/stream", nil, withMessageID("a"), withMessageID("b")},
			{"ids and a key", "message/send", []string{"Idempotency-Key", "k"}, withIDs(1), withIDs(2)},
		} {
			t.Run(why.name+", with "+how.name, func(t *testing.T) {
				t.Parallel()
				resolver, kept := &oneAddress{addr: "93.184.215.14"}, inmem.New()
				e := startHooked(t, kept, resolver, why.perMinute)
				begin := func() string {
					t.Helper()
					if how.method == "message/send" {
						return e.call(how.method, params(how.first, hooked), how.key...).task(t).ID
					}
					return e.open(how.method, params(how.first, hooked), how.key...).rest()[0].view(t).ID
				}
				first := begin()
				resolver.move(why.addr)
				if again := begin(); again != first {
					t.Errorf("the request again is about task %s, want %s", again, first)
				}
				if got := e.call("message/send", params(how.other, hooked)); got.code() != why.code {
					t.Errorf("another request = %s, want error %d", got.Body, why.code)
				}
				if n := resolver.asked.Load(); n != why.lookups {
					t.Errorf("names were looked up %d times, want %d", n, why.lookups)
				}
				if got := e.call(how.method, params(how.other, hooked), how.key...); how.key != nil && got.code() != -32050 {
					t.Errorf("another request with the key = %s, want error -32050", got.Body)
				}
				if page, err := kept.Lanes(t.Context(), store.LaneQuery{Limit: 9}); err != nil || len(page.Lanes) != 1 {
					t.Errorf("webhooks = %d, %v, want one", len(page.Lanes), err)
				}
			})
		}
	}
}

// startHooked starts an agent that takes so many webhooks in a minute that does not end.
func startHooked(t *testing.T, kept store.Store, resolver safehttp.Resolver, perMinute int) *env {
	t.Helper()
	sender, err := safehttp.New(safehttp.ClientConfig{Resolver: resolver})
	if err != nil {
		t.Fatal(err)
	}
	hooks, err := push.New(push.Config{Store: stoppedClock{kept}, NewID: newID, Sender: sender, PerMinute: perMinute})
	if err != nil {
		t.Fatal(err)
	}
	reply := func(_ context.Context, turn *engine.Turn) error { return turn.Reply() }
	return startOn(t, kept, reply, func(c *server.Config) { c.Push = hooks })
}
