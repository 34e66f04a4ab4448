package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

// receiver is the endpoint of the webhooks. It checks that the events of each task arrive in order,
// without gaps and signed. It ignores duplicates.
type receiver struct {
	addr   string
	server *http.Server
	gate   atomic.Pointer[chan struct{}] // requests wait until it is closed; nil for no gate

	events, bytes atomic.Int64 // of events, without duplicates
	bare          atomic.Int64 // requests of the bare client
	wrong         atomic.Int64 // events out of order or without a signature

	mu    sync.Mutex
	tasks map[string]*delivered
	took  []time.Duration
	timed bool // record took
}

// delivered is the state of the delivered events of a task.
type delivered struct {
	sequence int64
	final    chan struct{} // closed when the last event arrives
}

const (
	hookPath = "/hook"
	barePath = "/bare"
)

// newReceiver listens on addr.
func newReceiver(ctx context.Context, addr string) (*receiver, error) {
	r := &receiver{tasks: map[string]*delivered{}}
	return r, r.listen(ctx, addr)
}

func (r *receiver) listen(ctx context.Context, addr string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	r.addr = l.Addr().String()
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	go func(s *http.Server) { _ = s.Serve(l) }(r.server) // ends when the receiver is closed
	return nil
}

func (r *receiver) close() error { return r.server.Close() }

func (r *receiver) url() string { return "http://" + r.addr + hookPath }

// hold blocks requests until release is called.
func (r *receiver) hold() (release func()) {
	gate := make(chan struct{})
	r.gate.Store(&gate)
	return func() {
		r.gate.Store(nil)
		close(gate)
	}
}

// ServeHTTP receives an event.
func (r *receiver) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	if gate := r.gate.Load(); gate != nil {
		select {
		case <-*gate:
		case <-req.Context().Done():
			return
		}
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	if req.URL.Path == barePath {
		r.bare.Add(1)
		return
	}
	sequence, err := strconv.ParseInt(string(between(body, `"sequence":`, ',')), 10, 64)
	if err != nil {
		r.wrong.Add(1)
		return
	}
	if req.Header.Get("Webhook-Signature") == "" {
		r.wrong.Add(1)
	}
	r.note(body, string(between(body, `"task_id":"`, '"')), sequence)
}

func (r *receiver) note(body []byte, task string, sequence int64) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.task(task)
	if sequence <= t.sequence {
		return
	}
	if sequence > t.sequence+1 {
		r.wrong.Add(1)
	}
	t.sequence = sequence
	r.events.Add(1)
	r.bytes.Add(int64(len(body)))
	if r.timed {
		if at, err := time.Parse(time.RFC3339Nano, string(between(body, `"timestamp":"`, '"'))); err == nil {
			r.took = append(r.took, now.Sub(at))
		}
	}
	if bytes.Contains(body, []byte(`"final":true`)) {
		close(t.final)
	}
}

// task returns the delivered events of a task. r.mu is held.
func (r *receiver) task(id string) *delivered {
	t := r.tasks[id]
	if t == nil {
		t = &delivered{final: make(chan struct{})}
		r.tasks[id] = t
	}
	return t
}

// ended returns a channel that is closed when a task's last event has arrived.
func (r *receiver) ended(id string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.task(id).final
}

// times starts to record the delay of each event, or stops and returns the recorded delays.
func (r *receiver) times(begin bool) loadgen.Latency {
	r.mu.Lock()
	defer r.mu.Unlock()
	took := r.took
	r.took, r.timed = nil, begin
	if len(took) == 0 {
		return loadgen.Latency{}
	}
	return quantiles(took)
}

var errNotDelivered = errors.New("webhook events were not delivered in time")

// await waits until the last event of each task has arrived.
func (r *receiver) await(ctx context.Context, tasks []string, most time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, most, errNotDelivered)
	defer cancel()
	for _, id := range tasks {
		select {
		case <-r.ended(id):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// between returns the bytes between text and the next end.
func between(body []byte, text string, end byte) []byte {
	_, rest, _ := bytes.Cut(body, []byte(text))
	value, _, _ := bytes.Cut(rest, []byte{end})
	return value
}
