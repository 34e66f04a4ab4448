package server

import (
	"context"
	"net/http"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/rpc"
)

// serveBatch executes the requests of a batch one after the other, in order. The whole batch
// shares one BlockingTimeout.
func (x *exchange) serveBatch(body *buffer) {
	defer body.free()
	items, err := rpc.ParseBatch(body.b, x.s.cfg.MaxBatch)
	if err == nil && x.r.Header.Get("Idempotency-Key") != "" {
		err = a2a.Errorf(a2a.CodeInvalidRequest, "Idempotency-Key cannot be used with a batch")
	}
	if err != nil {
		x.respondRPC(x.newCall(), nil, err)
		return
	}
	x.clearDeadlines()
	ctx, cancel := context.WithTimeout(x.r.Context(), x.s.cfg.BlockingTimeout)
	defer cancel()
	w := &batchWriter{x: x, ctx: ctx, remaining: x.s.cfg.MaxBatchBytes, out: newBuffer()}
	defer w.out.free()
	w.out.b = append(w.out.b, '[')
	for i, item := range items {
		if i > 0 {
			w.out.b = append(w.out.b, ',')
		}
		w.writeItem(item)
	}
	w.out.b = append(w.out.b, ']')
	x.method = "batch"
	if w.started {
		w.flush()
		return
	}
	x.setWriteDeadline()
	x.respond(http.StatusOK, w.out.b)
}

// batchesInfo counts the items rejected because of Config.MaxBatchBytes since the start.
type batchesInfo struct {
	Refused int64 `json:"refused"`
}

// batchWriter writes the response to a batch item by item. It buffers at most one large item.
type batchWriter struct {
	x         *exchange
	ctx       context.Context
	remaining int64 // of MaxBatchBytes
	out       *buffer
	started   bool // the response status has been sent
}

// refuseItem returns the error for an item whose response does not fit, and counts it.
func (w *batchWriter) refuseItem(format string, args ...any) error {
	w.x.s.batchRefusals.Add(1)
	return a2a.Errorf(a2a.CodeTooLarge, format, args...)
}

// writeItem runs one request and writes its response.
func (w *batchWriter) writeItem(text []byte) {
	c := w.x.newCall()
	err := w.x.prepare(c, text)
	c.OnStored = nil // the batch's text is needed until its last item
	switch {
	case err != nil:
	case c.Method.Streaming:
		err = a2a.Errorf(a2a.CodeInvalidRequest, "%s returns a stream and cannot be part of a batch", c.Codec.MethodName(c.Method))
	case w.remaining <= 0:
		err = w.refuseItem("earlier responses of the batch used all of its %d bytes (--max-batch); send the request separately", w.x.s.cfg.MaxBatchBytes)
	default:
		if err = w.runItem(c); err == nil {
			return
		}
	}
	w.out.b = w.x.appendError(w.out.b, c, err)
	w.flushLarge()
}

func (w *batchWriter) runItem(c *rpc.Call) error {
	defer w.x.responseMemory.Release()
	encode := func(result any, err error) *buffer {
		response := newBuffer()
		if err != nil {
			response.b = w.x.appendError(response.b, c, err)
		} else {
			response.b = w.x.appendSizedResponse(response.b, c, result)
		}
		return response
	}
	var response *buffer
	var err error
	prefix := ""
	if c.Method.Idempotent {
		response, err = w.x.readReserved(func() *buffer { return encode(w.x.run(w.ctx, c)) })
	} else {
		prefix = "the request was executed, but "
		result, failed := w.x.run(w.ctx, c)
		if err = w.x.reserveEncoding(result); err == nil {
			response = encode(result, failed)
		}
	}
	if err != nil {
		return err
	}
	defer response.free()
	if int64(len(response.b)) > w.remaining {
		return w.refuseItem("%sits response of %d bytes exceeds the rest of the batch's %d bytes (--max-batch); send the request separately", prefix, len(response.b), w.x.s.cfg.MaxBatchBytes)
	}
	w.remaining -= int64(len(response.b))
	if len(w.out.b)+len(response.b) < flushAt {
		w.out.b = append(w.out.b, response.b...)
		return nil
	}
	w.flush()
	w.write(response.b)
	return nil
}

func (w *batchWriter) flushLarge() {
	if len(w.out.b) >= flushAt {
		w.flush()
	}
}

func (w *batchWriter) flush() {
	w.write(w.out.b)
	w.out.b = w.out.b[:0]
}

func (w *batchWriter) write(b []byte) {
	if !w.started {
		w.started = true
		w.x.w.Header()["Content-Type"] = jsonType
		w.x.WriteHeader(http.StatusOK)
	}
	w.x.setWriteDeadline()
	_, _ = w.x.Write(b) // fails only if the client has disconnected
}
