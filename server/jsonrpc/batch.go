package jsonrpc

import (
	"context"
	"net/http"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

// flushAt is the amount of buffered data that is sent immediately.
const flushAt = 32 << 10

// batchMethod is the method of a batch in the access log.
var batchMethod = a2a.Method{Name: "batch"}

// serveBatch executes the requests of a batch one after the other, in order. The whole batch
// shares one BatchTimeout.
func (h *Handler) serveBatch(x *exchange.Exchange, body *exchange.Buffer) {
	defer body.Free()
	items, err := rpc.ParseBatch(body.B, h.MaxBatch)
	if err == nil && x.Request.Header.Get("Idempotency-Key") != "" {
		err = a2a.Errorf(a2a.CodeInvalidRequest, "Idempotency-Key cannot be used with a batch")
	}
	if err != nil {
		h.newCall(x).Fail(err)
		return
	}
	x.ClearDeadlines()
	ctx, cancel := context.WithTimeout(x.Request.Context(), h.BatchTimeout)
	defer cancel()
	w := &batchWriter{h: h, x: x, ctx: ctx, remaining: h.MaxBatchBytes, out: exchange.NewBuffer()}
	defer w.out.Free()
	for _, item := range items {
		w.writeItem(item)
	}
	x.Call = &rpc.Call{Method: &batchMethod, TaskID: x.Call.TaskID}
	if w.responses == 0 {
		x.WriteHeader(http.StatusNoContent)
		return
	}
	w.out.B = append(w.out.B, ']')
	if w.started {
		w.flush()
		return
	}
	x.SetWriteDeadline()
	x.Respond(http.StatusOK, w.out.B)
}

// BatchesInfo counts the items rejected because of MaxBatchBytes since the start.
type BatchesInfo struct {
	Refused int64 `json:"refused"`
}

// Batches returns the number of rejected items.
func (h *Handler) Batches() BatchesInfo { return BatchesInfo{h.refusedItems.Load()} }

// batchWriter writes the response to a batch item by item. It buffers at most one large item.
type batchWriter struct {
	h         *Handler
	x         *exchange.Exchange
	ctx       context.Context
	remaining int64 // of MaxBatchBytes
	out       *exchange.Buffer
	responses int  // number of responses, without notifications
	started   bool // the response status has been sent
}

// refuseItem returns the error for an item with a response that does not fit, and counts the
// item.
func (w *batchWriter) refuseItem(format string, args ...any) error {
	w.h.refusedItems.Add(1)
	return a2a.Errorf(a2a.CodeTooLarge, format, args...)
}

// writeItem executes one request and writes its response. The text of the batch is needed until
// its last item, so storing an item's content releases no memory.
func (w *batchWriter) writeItem(text []byte) {
	c := w.h.newCall(w.x)
	err := c.prepare(text)
	if err == nil && c.notification() {
		c.notify(w.ctx)
		return
	}
	separator := byte(',')
	if w.responses == 0 {
		separator = '['
	}
	w.out.B = append(w.out.B, separator)
	w.responses++
	switch {
	case err != nil:
	case c.Method.Streaming:
		err = a2a.Errorf(a2a.CodeInvalidRequest, "%s returns a stream and cannot be part of a batch", c.Codec.MethodName(c.Method))
	case w.remaining <= 0:
		err = w.refuseItem("earlier responses of the batch used all of its %d bytes (--max-batch); send the request separately", w.h.MaxBatchBytes)
	default:
		err = w.runItem(c)
	}
	if err != nil {
		w.out.B = c.appendError(w.out.B, err)
		if len(w.out.B) >= flushAt {
			w.flush()
		}
	}
}

// runItem executes one request and writes its result.
func (w *batchWriter) runItem(c *call) error {
	reply := w.h.Replies.New(w.x, &c.Call, c)
	defer reply.Release()
	response, err := reply.Run(w.ctx)
	if err != nil {
		return err
	}
	defer response.Free()
	if int64(len(response.B)) > w.remaining {
		prefix := "the request was executed, but "
		if c.Method.Idempotent {
			prefix = ""
		}
		return w.refuseItem("%sits response of %d bytes exceeds the rest of the batch's %d bytes (--max-batch); send the request separately", prefix, len(response.B), w.h.MaxBatchBytes)
	}
	w.remaining -= int64(len(response.B))
	if len(w.out.B)+len(response.B) < flushAt {
		w.out.B = append(w.out.B, response.B...)
		return nil
	}
	w.flush()
	w.write(response.B)
	return nil
}

func (w *batchWriter) flush() {
	w.write(w.out.B)
	w.out.B = w.out.B[:0]
}

func (w *batchWriter) write(b []byte) {
	if !w.started {
		w.started = true
		w.x.Header()["Content-Type"] = exchange.JSONType
		w.x.WriteHeader(http.StatusOK)
	}
	w.x.SetWriteDeadline()
	_, _ = w.x.Write(b) // fails only if the client has disconnected
}
