package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
)

// liveHeap returns the size of the live heap in bytes.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools are empty after two collections
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestWaitingRequestsReleaseContent(t *testing.T) { // it measures the heap
	db, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	release := make(chan struct{})
	e := startConfig(t, engine.Config{Store: db, NewID: newID, Turns: engine.Turns{Concurrency: 1}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return turn.Reply()
	}}, nil)
	e.listen()
	e.call("message/send", params(message("first"))).task(t)

	const waiting, size = 30, 1 << 20
	before := liveHeap()
	text := strings.Repeat("x", size)
	var group sync.WaitGroup
	ended := make([]int64, 2*waiting)
	for i := range 2 * waiting {
		method := "message/send"
		if i%2 == 1 {
			method = "message/stream"
		}
		body := io.MultiReader(strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"configuration":{"blocking":true},"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"`, method)),
			strings.NewReader(text), strings.NewReader(`"}]}}}`))
		group.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url, body)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			resp, err := e.client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = resp.Body.Close() }()
			ended[i], _ = io.Copy(io.Discard, resp.Body)
		})
	}
	for queued := 0; queued < 2*waiting; {
		backlog, err := db.Backlog(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		queued = backlog.Queued
	}
	held := liveHeap() - before - size
	for range 50 { // some streams may still be sending their first events
		if held > 2*waiting*size/5 {
			held = liveHeap() - before - size
		}
	}
	if held > 2*waiting*size/5 {
		t.Errorf("%d waiting requests of %d bytes use %d bytes, want at most a fifth of their content", 2*waiting, size, held)
	}
	close(release)
	group.Wait()
	for i, n := range ended {
		if n < size {
			t.Errorf("response %d has %d bytes, want the whole task", i, n)
		}
	}
}
