package execagent

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"unicode/utf8"
)

// input writes lines to a program, which may read late or never. One goroutine waits for the
// program and ends when the pipe is closed.
type input struct {
	file  *os.File
	queue chan line
	done  chan struct{}
	once  sync.Once
}

// line is a line to write to the program. release, if set, is called after it is written.
type line struct {
	data    []byte
	release func()
}

func newInput(f *os.File) *input {
	const waiting = 16
	in := &input{file: f, queue: make(chan line, waiting), done: make(chan struct{})}
	go func() {
		defer close(in.done)
		defer closeAll(f)
		for l := range in.queue {
			if _, err := f.Write(l.data); err != nil {
				break // the program has closed its input or exited
			}
			if l.release != nil {
				l.data = nil
				l.release()
			}
		}
		for range in.queue {
		}
	}()
	return in
}

// finish closes the program's input after the queued lines and, if the queue has room, last.
// Nothing may be queued afterwards.
func (in *input) finish(last []byte) {
	in.once.Do(func() {
		if last != nil {
			select {
			case in.queue <- line{data: last}:
			default:
			}
		}
		close(in.queue)
	})
}

// abandon closes the pipe immediately and returns when the writing goroutine has ended.
func (in *input) abandon() {
	in.finish(nil)
	_ = in.file.Close()
	<-in.done
}

// chunk is a line of a program's output or, in plain mode, a piece of text.
type chunk struct {
	line int // line number, starting at 1
	data []byte
	long bool // the line exceeds the limit; data is its start
}

// output reads the output of a program. After ignore is called it continues to read, so that
// the program does not block.
type output struct {
	chunks        chan chunk    // closed at the end
	ignored       chan struct{} // closed by ignore
	once          sync.Once
	ignoredChunks int // number of ignored chunks; valid after chunks is closed
}

func newOutput(r io.Reader, plain bool, maxLine int) *output {
	o := &output{chunks: make(chan chunk), ignored: make(chan struct{})}
	read := func() { o.readLines(r, maxLine) }
	if plain {
		read = func() { o.readText(r) }
	}
	go func() {
		defer close(o.chunks)
		read()
	}()
	return o
}

// ignore discards the rest of the output.
func (o *output) ignore() { o.once.Do(func() { close(o.ignored) }) }

// drain ignores the rest of the output and waits for its end.
func (o *output) drain() {
	o.ignore()
	for range o.chunks {
	}
}

func (o *output) emit(c chunk) {
	select {
	case <-o.ignored:
		o.ignoredChunks++
		return
	default:
	}
	select {
	case o.chunks <- c:
	case <-o.ignored:
		o.ignoredChunks++
	}
}

func (o *output) readLines(r io.Reader, maxLine int) {
	lines := &lineReader{r: bufio.NewReaderSize(r, 64<<10), limit: maxLine}
	for n := 1; ; n++ {
		line, long, err := lines.next()
		if len(bytes.TrimSpace(line)) > 0 && !errors.Is(err, errCutOff) {
			o.emit(chunk{line: n, data: bytes.Clone(line), long: long})
		}
		if err != nil {
			return
		}
	}
}

// readText sends text as it arrives, split between characters.
func (o *output) readText(r io.Reader) {
	buf := make([]byte, 32<<10)
	partial := 0 // bytes of an incomplete character
	for {
		n, err := r.Read(buf[partial:])
		n += partial
		partial = 0
		if err == nil {
			partial = incomplete(buf[:n])
		}
		if text := buf[:n-partial]; len(text) > 0 {
			o.emit(chunk{data: bytes.ToValidUTF8(text, []byte("\uFFFD"))})
		}
		copy(buf, buf[n-partial:n])
		if err != nil {
			return
		}
	}
}

// incomplete returns the number of bytes at the end of b that are the start of an incomplete
// character.
func incomplete(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// lineReader reads lines of at most limit bytes.
type lineReader struct {
	r     *bufio.Reader
	limit int
	buf   []byte
	skip  bool // discard the rest of a line that was too long
}

// next returns a line without its line feed; it is valid until the next call. When a line
// exceeds the limit, next returns its first limit bytes without waiting for the line feed, and
// the following call discards the rest. The last line may lack a line feed; next returns it
// with the error.
func (l *lineReader) next() (line []byte, long bool, err error) {
	if cap(l.buf) > 1<<20 {
		l.buf = nil
	}
	l.buf = l.buf[:0]
	for {
		if _, err := l.r.Peek(1); err != nil {
			return l.buf[:min(len(l.buf), l.limit)], len(l.buf) > l.limit, err
		}
		part, _ := l.r.Peek(l.r.Buffered()) // the bytes are buffered
		part, _, ended := bytes.Cut(part, []byte("\n"))
		if l.skip {
			l.consume(len(part), ended)
			l.skip = !ended
			continue
		}
		taken := min(len(part), l.limit+1-len(l.buf)) // one more byte for a carriage return
		l.buf = append(l.buf, part[:taken]...)
		ended = ended && taken == len(part)
		l.consume(taken, ended)
		switch {
		case ended:
			line := bytes.TrimSuffix(l.buf, []byte("\r"))
			return line[:min(len(line), l.limit)], len(line) > l.limit, nil
		case taken < len(part), len(l.buf) > l.limit && l.buf[l.limit] != '\r':
			l.skip = true
			return l.buf[:l.limit], true, nil
		}
	}
}

// consume discards n buffered bytes and the line feed that ends them.
func (l *lineReader) consume(n int, ended bool) {
	if ended {
		n++
	}
	_, _ = l.r.Discard(n) // the bytes are buffered
}

// errorLog logs the lines that a program writes to standard error and remembers the last one.
type errorLog struct {
	log  *slog.Logger
	done chan struct{}
	last string // valid after done is closed
}

func newErrorLog(r io.Reader, log *slog.Logger) *errorLog {
	e := &errorLog{log: log, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		e.read(r)
	}()
	return e
}

func (e *errorLog) read(r io.Reader) {
	const longest, maxLines = 4 << 10, 1000
	lines := &lineReader{r: bufio.NewReader(r), limit: longest}
	logged := 0
	for {
		line, long, err := lines.next()
		if text := string(bytes.ToValidUTF8(bytes.TrimRight(line, " \t"), []byte("\uFFFD"))); text != "" {
			e.last = text
			switch logged++; {
			case logged <= maxLines:
				if long {
					text += " [truncated]"
				}
				e.log.Info("program wrote to standard error", "line", text)
			case logged == maxLines+1:
				e.log.Warn("program exceeded the limit of logged lines, further lines are dropped", "limit", maxLines)
			}
		}
		if err != nil {
			return
		}
	}
}
