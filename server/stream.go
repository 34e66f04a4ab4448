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

// flushAt is how much of a stream is collected at most before it is sent.
const flushAt = 32 << 10

// streamsInfo counts streams: those refused since the start.
type streamsInfo struct {
	Open    int64 `json:"open"`
	Refused int64 `json:"refused"`
}

func (s *Server) streamsInfo() streamsInfo {
	stats := s.streams.Stats()
	return streamsInfo{Open: stats.Held, Refused: stats.Refused}
}

// stream answers with server-sent events, or with an error if there is one
// before the first of them.
func (x *exchange) stream(id rpc.ID, c *rpc.Call, p rpc.Prepared) {
	s := x.s
	place := s.streams.Hold(x.principal.ID)
	defer place.Release()
	if !place.TryGrow(1) {
		x.exhausted(id, a2a.Errorf(a2a.CodeExhausted, "too many streams are open: one owner may have %d (--max-streams); retry later", s.streams.Share()))
		return
	}
	if s.stopping.Err() != nil {
		x.answerRPC(id, nil, engine.ErrShutdown)
		return
	}
	ctx, cancel := x.until(s.stopping)
	defer cancel()
	x.unhurried()
	w := &eventWriter{x: x, id: id, cancel: cancel}
	defer w.close()
	if c.Method.Idempotent && c.LastEventID == "" { // it begins with a whole task that is to be read
		w.first = s.reads.Hold(x.principal.ID)
		if err := w.expect(); err != nil {
			x.exhausted(id, err)
			return
		}
	}
	stream, err := p.Stream(ctx)
	x.task = c.TaskID
	if err != nil {
		x.answerRPC(id, nil, err)
		return
	}
	if stream.Begun {
		w.begin()
	}
	for item, err := range stream.Items {
		if err != nil {
			w.fail(err)
			return
		}
		if !w.item(item) {
			return
		}
	}
	w.begin() // there may have been no event
}

func (x *exchange) refuseRPC(status int, id rpc.ID, err error) {
	x.hurried()
	x.answer(status, x.s.cfg.Dialect.AppendError(nil, id, x.told(err), x.id))
}

// eventWriter writes the events of one stream, and heartbeats when there are
// none. What cannot be written in time ends the stream.
type eventWriter struct {
	x      *exchange
	id     rpc.ID
	cancel func()      // ends the stream's source
	first  memory.Hold // a place to read the first item

	mu     sync.Mutex
	out    *buffer // what has been collected; nil when there is nothing
	begun  bool
	closed bool
	err    error
	seq    int64
	beat   *time.Timer
}

// expect holds what reading the first item is expected to take.
func (w *eventWriter) expect() error {
	if err := w.x.expect(w.x.s.sizes.of(w.x.principal.ID)); err != nil {
		return err
	}
	return w.first.Grow(w.x.r.Context(), 1)
}

// begin sends the head of the answer, once. From then on there is a stream.
func (w *eventWriter) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.start()
	w.flush()
}

func (w *eventWriter) start() {
	if w.begun {
		return
	}
	w.begun = true
	h := w.x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.x.WriteHeader(http.StatusOK)
	w.beat = time.AfterFunc(w.x.s.cfg.Heartbeat, w.heartbeat)
}

// item tells an item. It reports whether the stream goes on.
func (w *eventWriter) item(item rpc.Item) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.start()
	if w.err != nil {
		return false
	}
	err := w.x.hold(item.Result)
	w.first.Release()
	if err != nil {
		w.end(err)
		return false
	}
	w.seq = item.Seq
	w.collect()
	b := append(w.out.b, "id: "...)
	b = append(strconv.AppendInt(b, item.Seq, 10), "\ndata: "...)
	w.out.b = append(w.x.appendSized(b, w.id, item.Result), "\n\n"...)
	if !item.More || len(w.out.b) >= flushAt {
		w.flush()
	}
	return w.err == nil
}

// fail tells the error that ends the stream, as an ordinary answer if it has not
// begun.
func (w *eventWriter) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun {
		w.x.answerRPC(w.id, nil, err)
		return
	}
	w.end(err)
}

// end tells the error that ends the stream. The caller holds w.mu.
func (w *eventWriter) end(err error) {
	w.collect()
	b := w.x.appendAnswer(append(w.out.b, "data: "...), w.id, nil, err)
	w.out.b = append(b, "\n\n"...)
	w.flush()
}

// heartbeat breaks a silence. When something is being written there is none, and
// that something asks for the next heartbeat.
func (w *eventWriter) heartbeat() {
	if !w.mu.TryLock() {
		return
	}
	defer w.mu.Unlock()
	if w.closed || w.err != nil {
		return
	}
	w.collect()
	w.out.b = append(w.out.b, ": heartbeat\n\n"...)
	w.flush()
}

// collect sees to it that there is a buffer. A stream that is silent has none.
func (w *eventWriter) collect() {
	if w.out == nil {
		w.out = newBuffer()
	}
}

// flush sends what has been collected. The caller holds w.mu.
func (w *eventWriter) flush() {
	if w.err != nil {
		return
	}
	w.x.hurried()
	if w.out != nil {
		_, w.err = w.x.w.Write(w.out.b)
		w.out.free()
		w.out = nil
		w.x.reply.Release()
	}
	if w.err == nil {
		w.err = http.NewResponseController(w.x.w).Flush()
	}
	if w.err != nil {
		w.x.s.log.Debug("stream cut off", "request", w.x.id, "task", w.x.task, "last", w.seq, "error", w.err)
		w.cancel()
		return
	}
	w.beat.Reset(w.x.s.cfg.Heartbeat)
}

// close ends the heartbeats. Nothing is written after it.
func (w *eventWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.first.Release()
	if !w.begun {
		return
	}
	if w.out != nil {
		w.flush()
	}
	w.beat.Stop()
}
