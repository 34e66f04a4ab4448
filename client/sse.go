package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// errEventTooLarge is returned by eventReader.next if an event or a line exceeds
// the limit.
var errEventTooLarge = errors.New("event is too large")

// maxRetry is the upper bound of the retry field of a stream.
const maxRetry = time.Minute

// serverEvent is an event of a stream.
type serverEvent struct {
	// id is the last event id of the stream, this event's or an earlier one's.
	id   string
	name string // "" means "message"
	data []byte
}

// eventReader reads a text/event-stream (HTML standard, section 9.2.6). Lines end
// with CR, LF or CRLF. Data lines are joined by LF. Comments are skipped. An id
// applies until the next one. An incomplete event at the end of the stream is
// dropped.
type eventReader struct {
	r   *bufio.Reader
	max int // maximum size of an event in bytes, without field names and line ends

	// lastID is the id of the last complete event.
	lastID string
	// retry is the reconnection time that the server sent, or 0.
	retry time.Duration

	idBuffer    string
	line        []byte
	data        []byte
	markChecked bool // a byte order mark was skipped or is missing
	afterCR     bool // a following LF belongs to the previous line
}

func newEventReader(r io.Reader, limit int) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, 32<<10), max: limit}
}

// next returns the next event with data, or the error of the stream, which is
// io.EOF at its end. It returns an event as soon as it has read the line end that
// completes it, and does not wait for more.
func (e *eventReader) next() (serverEvent, error) {
	name, hasData := "", false
	e.data = nil // the caller may still use the previous event
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

// readLine returns a line without its line end. It is valid until the next call. An
// incomplete last line is not returned.
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

// skipMark skips an optional byte order mark at the start of the stream.
func (e *eventReader) skipMark() error {
	if e.markChecked {
		return nil
	}
	mark := []byte("\ufeff")
	for n := range mark {
		head, err := e.r.Peek(n + 1)
		if err != nil || head[n] != mark[n] {
			e.markChecked = true
			return nil // the next read returns the error again
		}
	}
	e.markChecked = true
	_, err := e.r.Discard(len(mark))
	return err
}
