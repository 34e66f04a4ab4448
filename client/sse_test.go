package client

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

type seen struct{ ID, Name, Data string }

func readAll(r io.Reader, limit int) (events []seen, last *eventReader, err error) {
	e := newEventReader(r, limit)
	for {
		event, err := e.next()
		if errors.Is(err, io.EOF) {
			return events, e, nil
		}
		if err != nil {
			return events, e, err
		}
		events = append(events, seen{event.id, event.name, string(event.data)})
	}
}

func TestEventReader(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		want     []seen
	}{
		{"one event", "data: a\n\n", []seen{{Data: "a"}}},
		{"CR", "data: a\r\rdata: b\r\r", []seen{{Data: "a"}, {Data: "b"}}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []seen{{Data: "a"}, {Data: "b"}}},
		{"all line ends at once", "data: a\rdata: b\ndata: c\r\n\n", []seen{{Data: "a\nb\nc"}}},
		{"CR LF LF is an end and a blank line", "data: a\r\n\ndata: b\n\n", []seen{{Data: "a"}, {Data: "b"}}},
		{"several data lines", "data: a\ndata:\ndata: b\n\n", []seen{{Data: "a\n\nb"}}},
		{"one space is taken off", "data:  a\n\ndata:b\n\n", []seen{{Data: " a"}, {Data: "b"}}},
		{"no colon", "data\n\ndata\ndata\n\n", []seen{{Data: ""}, {Data: "\n"}}},
		{"colons in the value", "data: a: b\n\n", []seen{{Data: "a: b"}}},
		{"comments", ": hello\n\n:\ndata: a\n: x\n\n", []seen{{Data: "a"}}},
		{"unknown fields", "foo: x\ndata: a\n data: y\nDATA: z\n\n", []seen{{Data: "a"}}},
		{"no data, no event", "event: x\n\ndata: a\n\n", []seen{{Data: "a"}}},
		{"event name", "event: x\ndata: a\n\ndata: b\n\n", []seen{{Name: "x", Data: "a"}, {Data: "b"}}},
		{"id stays", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []seen{{ID: "1", Data: "a"}, {ID: "1", Data: "b"}, {Data: "c"}}},
		{"id without data counts", "id: 1\n\ndata: a\n\n", []seen{{ID: "1", Data: "a"}}},
		{"id with NUL is ignored", "id: 1\n\nid: 2\x00\ndata: a\n\n", []seen{{ID: "1", Data: "a"}}},
		{"byte order mark", "\ufeffdata: a\n\n", []seen{{Data: "a"}}},
		{"only one mark", "\ufeff\ufeffdata: a\n\ndata: b\n\n", []seen{{Data: "b"}}},
		{"half a mark is data", "\xef\xbbdata: a\n\ndata: b\n\n", []seen{{Data: "b"}}},
		{"cut off", "data: a\n\ndata: b\n", []seen{{Data: "a"}}},
		{"cut off in a line", "data: a\n\ndata: b", []seen{{Data: "a"}}},
		{"nothing", "", nil},
		{"long lines", "data: " + strings.Repeat("x", 200_000) + "\n\n", []seen{{Data: strings.Repeat("x", 200_000)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for way, r := range map[string]io.Reader{
				"at once":      strings.NewReader(tt.in),
				"byte by byte": iotest.OneByteReader(strings.NewReader(tt.in)),
			} {
				got, _, err := readAll(r, 1<<20)
				if err != nil {
					t.Errorf("%s: read(%.80q) = %v, want no error", way, tt.in, err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s: read(%.80q) (-want +got):\n%s", way, tt.in, diff)
				}
			}
		})
	}
}

func TestEventReaderKeepsTheLastCompleteID(t *testing.T) {
	t.Parallel()
	_, e, _ := readAll(strings.NewReader("id: 1\ndata: a\n\nid: 2\ndata: b"), 100)
	if e.lastID != "1" {
		t.Errorf("lastID = %q, want 1: the second event was cut off", e.lastID)
	}
}

func TestEventReaderRetry(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Duration{
		"retry: 1500\n": 1500 * time.Millisecond, "retry: -1\n": 0, "retry: 1.5\n": 0, "retry:\n": 0,
		"retry: 999999999999\n": maxRetry, "retry: 99999999999999999999999\n": 0,
	} {
		_, e, _ := readAll(strings.NewReader(in), 100)
		if e.retry != want {
			t.Errorf("retry of %q = %v, want %v", in, e.retry, want)
		}
	}
}

func TestEventReaderLimit(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"a line":           "data: " + strings.Repeat("x", 101) + "\n\n",
		"lines":            strings.Repeat("data: 0123456789\n", 11) + "\n",
		"an endless line":  "data: " + strings.Repeat("x", 1<<20),
		"an endless field": strings.Repeat("x", 1<<20),
	} {
		if _, _, err := readAll(strings.NewReader(in), 100); !errors.Is(err, errEventTooLarge) {
			t.Errorf("%s over the limit: err = %v, want %v", name, err, errEventTooLarge)
		}
	}
	if got, _, err := readAll(strings.NewReader("data: "+strings.Repeat("x", 100)+"\n\n"), 100); err != nil || len(got) != 1 {
		t.Errorf("an event of exactly the limit: %d events, %v, want one", len(got), err)
	}
}

// A reader that waits for one more byte, to distinguish CR from CRLF, returns each
// event too late.
func TestEventReaderReturnsAnEventAtItsLineEnd(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"data: a\n\n", "data: a\r\r", "data: a\r\n\r\n"} {
		r, w := io.Pipe()
		go func() { _, _ = w.Write([]byte(in)) }()
		e := newEventReader(r, 100)
		if event, err := e.next(); err != nil || string(event.data) != "a" {
			t.Errorf("next() of %q = %q, %v, want a", in, event.data, err)
		}
		_ = w.Close()
	}
}

// referenceParse applies the algorithm of the standard to a whole text.
func referenceParse(in string) (events []seen) {
	in = strings.TrimPrefix(in, "\ufeff")
	in = strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(in, "\n")
	var id, name, data string
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if data != "" {
				events = append(events, seen{id, name, strings.TrimSuffix(data, "\n")})
			}
			name, data = "", ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data += value + "\n"
		case "event":
			name = value
		case "id":
			if !strings.Contains(value, "\x00") {
				id = value
			}
		}
	}
	return events
}

func FuzzEventReader(f *testing.F) {
	for _, in := range []string{
		"data: a\n\n", "\ufeffid: 1\r\ndata: a\r\n\r\n", "data: a\r\rdata: b\r", ":\n\nid\n\ndata\n\n", "retry: 5\nevent: x\n\n",
		"\xef\xbb", "\xef\n\n", "\r\n\r\n\r", "data: \x00\n\nid: \x00\n\n",
	} {
		f.Add(in, 3)
	}
	f.Fuzz(func(t *testing.T, in string, size int) {
		want := referenceParse(in)
		got, _, err := readAll(strings.NewReader(in), 1<<20)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("read(%s): %v (-want +got):\n%s", strconv.Quote(in), err, diff)
		}
		got, _, err = readAll(&chunks{in, 1 + uint(size)%7}, 1<<20)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("read(%s) in chunks: %v (-want +got):\n%s", strconv.Quote(in), err, diff)
		}
		_, _, _ = readAll(strings.NewReader(in), 8)
	})
}

// chunks reads in pieces of size bytes.
type chunks struct {
	rest string
	size uint
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, c.rest[:min(uint(len(c.rest)), c.size)])
	c.rest = c.rest[n:]
	return n, nil
}
