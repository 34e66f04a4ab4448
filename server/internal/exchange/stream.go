package exchange

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/rpc"
)

// flushAt is the amount of buffered stream data that is sent immediately.
const flushAt = 32 << 10

// Streams executes streaming calls and limits the number of open streams.
type Streams struct {
	slots     *memory.Budget // one unit is one open stream
	stopping  context.Context
	heartbeat time.Duration
	recheck   func(ctx context.Context, p a2a.Principal) error
}

// recheckEvery is the interval at which the access of a stream's principal is checked.
const recheckEvery = 10 * time.Second

// NewStreams returns streams that end with stopping. Of at most limit open streams, one owner may
// have half, or all if shared is false. heartbeat is the maximum time without data. recheck returns
// the error that ends the streams of a principal; it may be nil.
func NewStreams(stopping context.Context, limit int, shared bool, heartbeat time.Duration, recheck func(ctx context.Context, p a2a.Principal) error) *Streams {
	if !shared {
		limit *= 2 // a budget gives one owner half of it
	}
	return &Streams{slots: memory.New(int64(limit)), stopping: stopping, heartbeat: heartbeat, recheck: recheck}
}

// watchAccess calls end when the credentials of a principal expire, or when a recheck rejects it. The caller must call
// stop.
func (s *Streams) watchAccess(ctx context.Context, p *a2a.Principal, end func(error)) (stop func() bool) {
	if p.Expires.IsZero() && s.recheck == nil {
		return func() bool { return true }
	}
	next := func() time.Duration {
		if left := time.Until(p.Expires); !p.Expires.IsZero() && (left < recheckEvery || s.recheck == nil) {
			return left
		}
		return recheckEvery
	}
	var timer *time.Timer
	armed := make(chan struct{}) // closed when timer is set
	timer = time.AfterFunc(next(), func() {
		<-armed
		if ctx.Err() != nil {
			return // the stream has ended
		}
		var err error
		switch {
		case !p.Expires.IsZero() && !time.Now().Before(p.Expires):
			err = a2a.Refusef(a2a.CodeCredentialsExpired, "expired", "the credentials have expired; resume the stream with new ones")
		case s.recheck != nil:
			if err = s.recheck(ctx, *p); err != nil && a2a.CodeOf(err).Retryable() {
				err = nil // the next check may know more
			}
		}
		if err != nil {
			end(&Refusal{Err: err})
			return
		}
		timer.Reset(next())
	})
	close(armed)
	return timer.Stop
}

// StreamsInfo counts open streams, and those rejected since the start.
type StreamsInfo struct {
	Open    int64 `json:"open"`
	Refused int64 `json:"refused"`
}

// Info returns the number of streams.
func (s *Streams) Info() StreamsInfo {
	stats := s.slots.Stats()
	return StreamsInfo{Open: stats.Held, Refused: stats.Refused}
}

// serve executes a streaming call and responds with server-sent events, or with an error if one
// occurs before the first event.
func (s *Streams) serve(r *Reply) {
	r.x.ClearDeadlines()
	ctx, cancel := context.WithCancel(r.x.Request.Context())
	defer cancel()
	w := &eventWriter{r: r, cancel: cancel, interval: s.heartbeat}
	defer w.close()
	s.Run(ctx, r, w)
}

// Writer sends the items of one stream in the format of a transport.
type Writer interface {
	// Open starts the response. It is called before the first item if that may be far in the
	// future, and at the end of every stream without an error.
	Open()
	// Write sends an item and reports whether the stream continues. It must call
	// [Reply.ReserveItem] before it encodes the item.
	Write(item rpc.Item) bool
	// Fail ends the stream with an error. If no item was sent, the call has failed.
	Fail(err error)
}

// Run executes a streaming call and sends its items with w, until ctx is done or the server stops.
func (s *Streams) Run(ctx context.Context, r *Reply, w Writer) {
	x, c := r.x, r.call
	slot := s.slots.Hold(x.Principal.ID)
	defer slot.Release()
	if !slot.TryGrow(1) {
		w.Fail(overload(a2a.Errorf(a2a.CodeExhausted, "too many open streams (limit per owner %d, see --max-streams); retry later", s.slots.Share())))
		return
	}
	if s.stopping.Err() != nil {
		w.Fail(engine.ErrShutdown)
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.stopping, func() { cancel(nil) })()
	defer s.watchAccess(ctx, &x.Principal, cancel)()
	if c.Method.Idempotent && c.LastEventID == "" { // the first event is the whole task, which must be read
		r.readSlot = r.of.reads.Hold(x.Principal.ID)
		defer r.readSlot.Release()
		if err := r.reserveResult(x.Request.Context(), r.of.sizes.expected(x.Principal.ID), &r.readSlot); err != nil {
			w.Fail(err)
			return
		}
	}
	result, err := x.run(ctx, c)
	if err != nil {
		w.Fail(err)
		return
	}
	stream := result.(rpc.Stream)
	if stream.Started {
		w.Open()
	}
	for item, err := range stream.Items {
		if err != nil {
			w.Fail(cmp.Or(ended(ctx), err))
			return
		}
		if !w.Write(item) {
			return
		}
	}
	if err := ended(ctx); err != nil {
		w.Fail(err)
		return
	}
	w.Open() // the stream may have no events
}

// ended returns the reason why the access of a stream's principal has ended, or nil.
func ended(ctx context.Context) error {
	var r *Refusal
	if errors.As(context.Cause(ctx), &r) {
		return r
	}
	return nil
}

// eventWriter writes the events of one stream, and heartbeats while there are none. If a
// write fails or exceeds WriteTimeout, the stream ends.
type eventWriter struct {
	r        *Reply
	cancel   func()        // ends the source of events
	interval time.Duration // of heartbeats

	mu        sync.Mutex
	out       *Buffer // pending data; nil if there is none
	started   bool
	closed    bool
	err       error
	seq       int64
	heartbeat *time.Timer
}

// Open sends the status and headers once. From then on errors are events.
func (w *eventWriter) Open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHead()
	w.flush()
}

func (w *eventWriter) writeHead() {
	if w.started {
		return
	}
	w.started = true
	h := w.r.x.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.r.x.WriteHeader(http.StatusOK)
	w.heartbeat = time.AfterFunc(w.interval, w.sendHeartbeat)
}

// Write writes an item. It reports whether the stream continues.
func (w *eventWriter) Write(item rpc.Item) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHead()
	if w.err != nil {
		return false
	}
	if err := w.r.ReserveItem(w.r.x.Request.Context(), item.Event); err != nil {
		w.writeError(err)
		return false
	}
	w.seq = item.Seq
	w.ensureBuffer()
	b := append(w.out.B, "id: "...)
	b = append(strconv.AppendInt(b, item.Seq, 10), "\ndata: "...)
	w.out.B = append(w.r.appendEvent(b, item.Event), "\n\n"...)
	if !item.More || len(w.out.B) >= flushAt {
		w.flush()
	}
	return w.err == nil
}

// Fail ends the stream with an error: as an ordinary response if the stream has not started,
// otherwise as an event.
func (w *eventWriter) Fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.started {
		w.r.fail(err)
		return
	}
	w.writeError(err)
}

// writeError writes an error as the last event. The caller holds w.mu.
func (w *eventWriter) writeError(err error) {
	w.ensureBuffer()
	b := w.out.B
	if f, ok := w.r.format.(ErrorEventer); ok {
		b = append(append(append(b, "event: "...), f.ErrorEvent()...), '\n')
	}
	b = w.r.appendError(append(b, "data: "...), err)
	w.out.B = append(b, "\n\n"...)
	w.flush()
}

// sendHeartbeat writes a comment. If another write is in progress it does nothing: that write
// schedules the next heartbeat.
func (w *eventWriter) sendHeartbeat() {
	if !w.mu.TryLock() {
		return
	}
	defer w.mu.Unlock()
	if w.closed || w.err != nil {
		return
	}
	w.ensureBuffer()
	w.out.B = append(w.out.B, ": heartbeat\n\n"...)
	w.flush()
}

// ensureBuffer ensures that w.out is set. Idle streams have no buffer.
func (w *eventWriter) ensureBuffer() {
	if w.out == nil {
		w.out = NewBuffer()
	}
}

// flush sends the pending data. The caller holds w.mu.
func (w *eventWriter) flush() {
	if w.err != nil {
		return
	}
	w.r.x.SetWriteDeadline()
	if w.out != nil {
		_, w.err = w.r.x.Write(w.out.B)
		w.out.Free()
		w.out = nil
		w.r.Release()
	}
	if w.err == nil {
		w.err = http.NewResponseController(w.r.x.ResponseWriter).Flush()
	}
	if w.err != nil {
		w.r.x.Log.Debug("stream aborted", "request", w.r.x.ID, "task", w.r.call.TaskID, "last", w.seq, "error", w.err)
		w.cancel()
		return
	}
	w.heartbeat.Reset(w.interval)
}

// close stops the heartbeats. The writer must not be used afterwards.
func (w *eventWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if !w.started {
		return
	}
	if w.out != nil {
		w.flush()
	}
	w.heartbeat.Stop()
}
