package server

import (
	"context"
	"net/http"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/rpc"
)

// batch answers the requests of a batch one after the other, in order. The time
// that a blocking request may take is that of the whole batch.
func (x *exchange) batch(body *buffer) {
	defer body.free()
	items, err := rpc.ParseBatch(body.b, x.s.cfg.MaxBatch)
	if err == nil && x.r.Header.Get("Idempotency-Key") != "" {
		err = a2a.Errorf(a2a.CodeInvalidRequest, "Idempotency-Key cannot be used with a batch")
	}
	if err != nil {
		x.answerRPC(nil, nil, err)
		return
	}
	x.unhurried()
	ctx, cancel := context.WithTimeout(x.r.Context(), x.s.cfg.BlockingTimeout)
	defer cancel()
	w := &batchWriter{x: x, ctx: ctx, left: x.s.cfg.MaxBatchBytes, out: newBuffer()}
	defer w.out.free()
	w.out.b = append(w.out.b, '[')
	for i, item := range items {
		if i > 0 {
			w.out.b = append(w.out.b, ',')
		}
		w.item(item)
	}
	w.out.b = append(w.out.b, ']')
	x.method = "batch"
	if w.begun {
		w.flush()
		return
	}
	x.hurried()
	x.answer(http.StatusOK, w.out.b)
}

// batchesInfo counts items that got an error because of Config.MaxBatchBytes, since the start.
type batchesInfo struct {
	Refused int64 `json:"refused"`
}

// batchWriter writes the response to a batch item by item. It holds no more than one
// large item.
type batchWriter struct {
	x     *exchange
	ctx   context.Context
	left  int64 // of MaxBatchBytes
	out   *buffer
	begun bool
}

// refuse returns the error of an item whose response has no room, and counts it.
func (w *batchWriter) refuse(format string, args ...any) error {
	w.x.s.batchRefusals.Add(1)
	return a2a.Errorf(a2a.CodeTooLarge, format, args...)
}

// item runs one request and writes its response.
func (w *batchWriter) item(text []byte) {
	var c rpc.Call
	var p rpc.Prepared
	req, err := rpc.Parse(text)
	if err == nil {
		p, err = w.x.prepare(&c, &req)
	}
	c.Stored = nil // the batch is needed to its end
	switch {
	case err != nil:
	case p.Stream != nil:
		err = a2a.Errorf(a2a.CodeInvalidRequest, "%s answers with a stream and cannot be part of a batch", req.Method)
	case w.left <= 0:
		err = w.refuse("the responses before this one have used up the %d bytes that those of a batch may have (--max-batch): send it by itself", w.x.s.cfg.MaxBatchBytes)
	default:
		if err = w.call(req.ID, &c, p); err == nil {
			return
		}
	}
	w.out.b = w.x.appendAnswer(w.out.b, req.ID, nil, err)
	w.flushLarge()
}

func (w *batchWriter) call(id rpc.ID, c *rpc.Call, p rpc.Prepared) error {
	defer w.x.reply.Release()
	encode := func(result any, err error) *buffer {
		piece := newBuffer()
		if err != nil {
			piece.b = w.x.appendAnswer(piece.b, id, nil, err)
		} else {
			piece.b = w.x.appendSized(piece.b, id, result)
		}
		return piece
	}
	var piece *buffer
	var err error
	after := ""
	if c.Method.Idempotent {
		piece, err = w.x.read(func() *buffer { return encode(w.x.run(w.ctx, c, p)) })
	} else {
		after = "it was carried out, but "
		result, failed := w.x.run(w.ctx, c, p)
		if err = w.x.hold(result); err == nil {
			piece = encode(result, failed)
		}
	}
	if err != nil {
		return err
	}
	defer piece.free()
	if int64(len(piece.b)) > w.left {
		return w.refuse("%sits response of %d bytes exceeds what is left of the %d bytes that those of a batch may have (--max-batch): send it by itself", after, len(piece.b), w.x.s.cfg.MaxBatchBytes)
	}
	w.left -= int64(len(piece.b))
	if len(w.out.b)+len(piece.b) < flushAt {
		w.out.b = append(w.out.b, piece.b...)
		return nil
	}
	w.flush()
	w.write(piece.b)
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
	if !w.begun {
		w.begun = true
		w.x.w.Header()["Content-Type"] = jsonType
		w.x.WriteHeader(http.StatusOK)
	}
	w.x.hurried()
	_, _ = w.x.Write(b) // fails only if the client has gone
}
