package grpc

import (
	"strconv"

	"google.golang.org/grpc/metadata"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

// streamWriter sends the items of a stream, see [exchange.Writer].
type streamWriter struct {
	*call
	reply   *exchange.Reply
	started bool
	// ended is set if no item can follow the latest one.
	ended bool
}

// status returns the status of the stream. A stream that the server ends because it stops is not
// complete, so that the client resumes it.
func (w *streamWriter) status() error {
	if w.err == nil && !w.ended && w.s.Stopping.Err() != nil {
		w.Fail(a2a.Errorf(a2a.CodeUnavailable, "the server is stopping; resume the stream"))
	}
	return w.err
}

// last reports whether an item is the last one of its stream.
func last(e a2a.Event) bool {
	switch e := e.(type) {
	case *a2a.TaskStatusUpdateEvent:
		return e.Final
	case *a2a.Task:
		return e.Status.State.Terminal()
	case *a2a.Message:
		return true
	}
	return false
}

// Open sends the metadata of the response.
func (w *streamWriter) Open() {
	_ = w.stream.SendHeader(nil) // fails if they have been sent
}

// Write sends an item and reports whether the stream continues.
func (w *streamWriter) Write(item rpc.Item) bool {
	err := w.reply.ReserveItem(w.stream.Context(), item.Event)
	if err == nil {
		err = w.write(item)
	}
	w.reply.Release()
	if err != nil {
		w.x.Log.Debug("stream aborted", "request", w.x.ID, "task", w.TaskID, "last", item.Seq, "error", err)
		w.Fail(err)
	}
	return err == nil
}

func (w *streamWriter) write(item rpc.Item) (err error) {
	out := exchange.NewBuffer()
	if out.B, err = w.AppendEvent(out.B, item.Event); err != nil {
		out.Free()
		return err
	}
	if !w.started {
		w.started = true
		_ = w.stream.SetHeader(metadata.Pairs("last-event-id", strconv.FormatInt(item.Seq, 10))) // fails if the stream has ended
	}
	w.ended = last(item.Event)
	return w.send(out)
}
