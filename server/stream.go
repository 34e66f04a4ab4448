package server

import (
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

// streamsInfo counts open streams, and those rejected since the start.
type streamsInfo struct {
	Open    int64 `json:"open"`
	Refused int64 `json:"refused"`
}

func (s *Server) streamsInfo() streamsInfo {
	stats := s.streamSlots.Stats()
	return streamsInfo{Open: stats.Held, Refused: stats.Refused}
}

// serveStream responds with server-sent events, or with an error if one occurs before the first
// event.
func (x *exchange) serveStream(c *rpc.Call) {
	s := x.s
	slot := s.streamSlots.Hold(x.principal.ID)
	defer slot.Release()
	if !slot.TryGrow(1) {
		x.refuseExhausted(c, a2a.Errorf(a2a.CodeExhausted, "too many open streams (limit per owner %d, see --max-streams); retry later", s.streamSlots.Share()))
		return
	}
	if s.stopping.Err() != nil {
		x.respondRPC(c, nil, engine.ErrShutdown)
		return
	}
	ctx, cancel := joinContexts(x.r.Context(), s.stopping)
	defer cancel()
	x.clearDeadlines()
	w := &eventWriter{x: x, c: c, cancel: cancel}
	defer w.close()
	if c.Method.Idempotent && c.LastEventID == "" { // the first event is the whole task, which must be read
		w.readSlot = s.readSlots.Hold(x.principal.ID)
		if err := w.reserveFirst(); err != nil {
			x.refuseExhausted(c, err)
			return
		}
	}
	result, err := c.Run(ctx)
	x.task = c.TaskID
	if err != nil {
		x.respondRPC(c, nil, err)
		return
	}
	stream := result.(rpc.Stream)
	if stream.Started {
		w.open()
	}
	for item, err := range stream.Items {
		if err != nil {
			w.fail(err)
			return
		}
		if !w.writeItem(item) {
			return
		}
	}
	w.open() // the stream may have no events
}

func (x *exchange) refuseRPC(status int, c *rpc.Call, err error) {
	x.setWriteDeadline()
	x.respond(status, c.AppendError(nil, x.publicError(err), x.id))
}

// eventWriter writes the events of one stream, and heartbeats while there are none. If a
// write fails or exceeds WriteTimeout, the stream ends.
type eventWriter struct {
	x        *exchange
	c        *rpc.Call
	cancel   func()      // ends the source of events
	readSlot memory.Hold // the slot for reading the first item

	mu        sync.Mutex
	out       *buffer // pending data; nil if there is none
	started   bool
	closed    bool
	err       error
	seq       int64
	heartbeat *time.Timer
}

// reserveFirst reserves memory for reading the first item.
func (w *eventWriter) reserveFirst() error {
	if err := w.x.reserveResult(w.x.s.sizes.expected(w.x.principal.ID)); err != nil {
		return err
	}
	return w.readSlot.Grow(w.x.r.Context(), 1)
}

// open sends the status and headers once. From then on errors are events.
func (w *eventWriter) open() {
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
	h := w.x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.x.WriteHeader(http.StatusOK)
	w.heartbeat = time.AfterFunc(w.x.s.cfg.Heartbeat, w.sendHeartbeat)
}

// writeItem writes an item. It reports whether the stream continues.
func (w *eventWriter) writeItem(item rpc.Item) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHead()
	if w.err != nil {
		return false
	}
	err := w.x.reserveEncoding(item.Event)
	w.readSlot.Release()
	if err != nil {
		w.writeError(err)
		return false
	}
	w.seq = item.Seq
	w.ensureBuffer()
	b := append(w.out.b, "id: "...)
	b = append(strconv.AppendInt(b, item.Seq, 10), "\ndata: "...)
	w.out.b = append(w.x.appendSizedEvent(b, w.c, item.Event), "\n\n"...)
	if !item.More || len(w.out.b) >= flushAt {
		w.flush()
	}
	return w.err == nil
}

// fail ends the stream with an error: as an ordinary response if the stream has not started,
// otherwise as an event.
func (w *eventWriter) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.started {
		w.x.respondRPC(w.c, nil, err)
		return
	}
	w.writeError(err)
}

// writeError writes an error as the last event. The caller holds w.mu.
func (w *eventWriter) writeError(err error) {
	w.ensureBuffer()
	b := w.x.appendError(append(w.out.b, "data: "...), w.c, err)
	w.out.b = append(b, "\n\n"...)
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
	w.out.b = append(w.out.b, ": heartbeat\n\n"...)
	w.flush()
}

// ensureBuffer ensures that w.out is set. Idle streams have no buffer.
func (w *eventWriter) ensureBuffer() {
	if w.out == nil {
		w.out = newBuffer()
	}
}

// flush sends the pending data. The caller holds w.mu.
func (w *eventWriter) flush() {
	if w.err != nil {
		return
	}
	w.x.setWriteDeadline()
	if w.out != nil {
		_, w.err = w.x.w.Write(w.out.b)
		w.out.free()
		w.out = nil
		w.x.responseMemory.Release()
	}
	if w.err == nil {
		w.err = http.NewResponseController(w.x.w).Flush()
	}
	if w.err != nil {
		w.x.s.log.Debug("stream aborted", "request", w.x.id, "task", w.x.task, "last", w.seq, "error", w.err)
		w.cancel()
		return
	}
	w.heartbeat.Reset(w.x.s.cfg.Heartbeat)
}

// close stops the heartbeats. The writer must not be used afterwards.
func (w *eventWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.readSlot.Release()
	if !w.started {
		return
	}
	if w.out != nil {
		w.flush()
	}
	w.heartbeat.Stop()
}
