package loadgen

import (
	"bytes"
	"errors"
)

// events reads a stream of server-sent events in pieces of any length, and checks it as the
// response to a message/stream. It reuses its buffers.
type events struct {
	binding Binding

	id    []byte // of the request
	line  []byte // start of a line until its end arrives
	data  []byte // of the event in progress
	n     int64
	final bool
	last  answer // its slices are valid only while its event is checked
	state []byte
}

func (e *events) reset(id []byte) {
	e.id, e.line, e.data = id, e.line[:0], e.data[:0]
	e.n, e.final, e.state = 0, false, e.state[:0]
}

// feed reads the next piece of the stream.
func (e *events) feed(piece []byte) error {
	for {
		end := bytes.IndexByte(piece, '\n')
		if end < 0 {
			if len(e.line)+len(piece) > maxBody {
				return errTooLarge
			}
			e.line = append(e.line, piece...)
			return nil
		}
		line := piece[:end]
		if len(e.line) > 0 {
			e.line = append(e.line, line...)
			line = e.line
		}
		if err := e.take(bytes.TrimSuffix(line, []byte("\r"))); err != nil {
			return err
		}
		e.line = e.line[:0]
		piece = piece[end+1:]
	}
}

func (e *events) take(line []byte) error {
	if len(line) == 0 {
		if len(e.data) == 0 {
			return nil
		}
		err := e.event(e.data)
		e.data = e.data[:0]
		return err
	}
	if line[0] == '{' {
		return e.noStream(line)
	}
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return nil // a comment, or an id, event or retry field
	}
	if len(e.data)+len(data) > maxBody {
		return errTooLarge
	}
	if len(e.data) > 0 {
		e.data = append(e.data, '\n')
	}
	e.data = append(e.data, bytes.TrimPrefix(data, []byte(" "))...)
	return nil
}

func (e *events) event(data []byte) error {
	a := &e.last
	if err := a.scan(data, e.binding); err != nil {
		return err
	}
	if err := a.result(e.id); err != nil {
		return err
	}
	if e.final {
		return errors.New("stream continues after its final event")
	}
	e.n++
	switch string(a.kind) {
	case "status-update":
		e.final = a.final || e.binding != JSONRPC03 && terminal(a.state)
	case "task":
		e.final = terminal(a.state)
	}
	e.state = append(e.state[:0], a.state...)
	return nil
}

// noStream returns the error for a plain JSON-RPC response instead of a stream.
func (e *events) noStream(text []byte) error {
	err := e.last.scan(text, e.binding)
	if err == nil {
		err = e.last.result(e.id)
	}
	if err == nil {
		err = errors.New("answer is not an event stream")
	}
	return err
}

// end returns an error if the stream, which has ended, was not a correct response.
func (e *events) end() error {
	switch {
	case len(e.line) > 0 && e.line[0] == '{':
		return e.noStream(e.line)
	case len(e.line) > 0 || len(e.data) > 0:
		return errors.New("stream ends within an event")
	case !e.final:
		return errors.New("stream ends without a final event")
	}
	e.last.state = e.state
	return e.last.completed()
}

func terminal(state []byte) bool {
	switch string(state) {
	case "completed", "canceled", "failed", "rejected":
		return true
	}
	return false
}
