package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// errEventTooLarge is returned by eventReader.next when an event or a line is
// larger than its limit.
var errEventTooLarge = errors.New("event is too large")

// maxRetry bounds what a server may ask a client to wait.
const maxRetry = time.Minute

// serverEvent is a dispatched event.
type serverEvent struct {
	// id is the last event id of the stream, this event's or an earlier one's.
	id   string
	name string // "" is a message
	data []byte
}

// eventReader reads a text/event-stream as the HTML standard says (section
// 9.2.6): lines end with CR, LF or CRLF, data lines are joined by LF, comments
// are skipped, an id stays until another comes, an event that is cut off by the
// end of the stream is dropped.
type eventReader struct {
	r   *bufio.Reader
	max int // bytes of one event, field names and line ends not counted

	// lastID is the id of the last event that was complete.
	lastID string
	// retry is the pause the server asks for, 0 when it has not.
	retry time.Duration

	idBuffer string
	line     []byte
	data     []byte
	began    bool // the byte order mark has been looked for
	afterCR  bool // a LF that comes next belongs to the line before
}

func newEventReader(r io.Reader, limit int) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, 32<<10), max: limit}
}

// next returns the next event that has data, or the error of the stream, io.EOF
// at its end. The event is complete as soon as the line end that closes it has
// been read: nothing after that is waited for.
func (e *eventReader) next() (serverEvent, error) {
	name, hasData := "", false
	e.data = nil // the event before may still be in use
	for {
		line, err := e.readLine()
		if err != nil {
			return serverEvent{}, err
		}
		if len(line) == 0 {
			e.lastID = e.idBuffer
			if hasData {
				return serverEvent{id: e.lastID, name: name, data: bytes.TrimSuffix(e.data, []byte("\n"))}, nil
			}
			name = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			if len(e.data)+len(value) > e.max {
				return serverEvent{}, errEventTooLarge
			}
			e.data, hasData = append(append(e.data, value...), '\n'), true
		case "event":
			name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				e.idBuffer = string(value)
			}
		case "retry":
			e.setRetry(value)
		}
	}
}

func (e *eventReader) setRetry(value []byte) {
	for _, c := range value {
		if c < '0' || c > '9' {
			return
		}
	}
	if ms, err := strconv.Atoi(string(value)); err == nil {
		e.retry = min(time.Duration(min(ms, int(maxRetry/time.Millisecond)))*time.Millisecond, maxRetry)
	}
}

// readLine returns a line without its end. The line is valid until the next
// call. A last line without an end is not returned.
func (e *eventReader) readLine() ([]byte, error) {
	if err := e.skipMark(); err != nil {
		return nil, err
	}
	e.line = e.line[:0]
	for {
		if _, err := e.r.Peek(1); err != nil {
			return nil, err
		}
		chunk, _ := e.r.Peek(e.r.Buffered())
		if e.afterCR {
			e.afterCR = false
			if chunk[0] == '\n' {
				_, _ = e.r.Discard(1)
				continue
			}
		}
		end := bytes.IndexAny(chunk, "\r\n")
		if end < 0 {
			end = len(chunk)
		}
		if len(e.line)+end > e.max+len("data: ") {
			return nil, errEventTooLarge
		}
		e.line = append(e.line, chunk[:end]...)
		if end < len(chunk) {
			e.afterCR = chunk[end] == '\r'
			_, _ = e.r.Discard(end + 1)
			return e.line, nil
		}
		_, _ = e.r.Discard(end)
	}
}

// skipMark skips the byte order mark that a stream may begin with.
func (e *eventReader) skipMark() error {
	if e.began {
		return nil
	}
	mark := []byte("\ufeff")
	for n := range mark {
		head, err := e.r.Peek(n + 1)
		if err != nil || head[n] != mark[n] {
			e.began = true
			return nil // the error comes again
		}
	}
	e.began = true
	_, err := e.r.Discard(len(mark))
	return err
}
