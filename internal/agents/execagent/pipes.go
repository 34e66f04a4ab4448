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

// input writes to a program. The program may read late or never: only one
// goroutine waits for it, and it ends when the pipe is closed.
type input struct {
	file  *os.File
	queue chan line
	done  chan struct{}
	once  sync.Once
}

// line is what a program is to read. release, if set, is called once it is written.
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
				break // the program has closed its end, or gone
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

// finish closes the program's input behind what has been written, and last if
// there is room for it. Nothing may be sent any more.
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

// abandon closes the pipe at once and returns when nothing writes any more.
func (in *input) abandon() {
	in.finish(nil)
	_ = in.file.Close()
	<-in.done
}

// chunk is a piece of a program's output: a line, or in plain mode some text.
type chunk struct {
	line int // its number, from 1
	data []byte
	long bool // the line is longer than may be; data is its beginning
}

// output reads from a program. When nobody wants its chunks any more it goes on
// reading, so that the program does not wait.
type output struct {
	chunks chan chunk // closed at the end
	quiet  chan struct{}
	once   sync.Once
	extra  int // chunks that nobody wanted; read it after chunks is closed
}

func newOutput(r io.Reader, plain bool, maxLine int) *output {
	o := &output{chunks: make(chan chunk), quiet: make(chan struct{})}
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

// ignore makes the rest of the output unwanted.
func (o *output) ignore() { o.once.Do(func() { close(o.quiet) }) }

// drain waits for the end of the output.
func (o *output) drain() {
	o.ignore()
	for range o.chunks {
	}
}

func (o *output) tell(c chunk) {
	select {
	case <-o.quiet:
		o.extra++
		return
	default:
	}
	select {
	case o.chunks <- c:
	case <-o.quiet:
		o.extra++
	}
}

func (o *output) readLines(r io.Reader, maxLine int) {
	lines := &lineReader{r: bufio.NewReaderSize(r, 64<<10), limit: maxLine}
	for n := 1; ; n++ {
		line, long, err := lines.next()
		if len(bytes.TrimSpace(line)) > 0 && !errors.Is(err, errCutOff) {
			o.tell(chunk{line: n, data: bytes.Clone(line), long: long})
		}
		if err != nil {
			return
		}
	}
}

// readText tells text as it comes, cut between characters.
func (o *output) readText(r io.Reader) {
	buf := make([]byte, 32<<10)
	kept := 0 // bytes of a character that is not complete
	for {
		n, err := r.Read(buf[kept:])
		n += kept
		kept = 0
		if err == nil {
			kept = incomplete(buf[:n])
		}
		if text := buf[:n-kept]; len(text) > 0 {
			o.tell(chunk{data: bytes.ToValidUTF8(text, []byte("\uFFFD"))})
		}
		copy(buf, buf[n-kept:n])
		if err != nil {
			return
		}
	}
}

// incomplete returns how many bytes at the end of b begin a character whose
// other bytes are missing.
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
	skip  bool // the rest of a line that was too long
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
		part, _ := l.r.Peek(l.r.Buffered()) // cannot fail
		part, _, ended := bytes.Cut(part, []byte("\n"))
		if l.skip {
			l.consume(len(part), ended)
			l.skip = !ended
			continue
		}
		taken := min(len(part), l.limit+1-len(l.buf)) // one more for a carriage return
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
	_, _ = l.r.Discard(n) // they are buffered
}

// errorLog logs what a program writes to standard error and remembers its last
// line.
type errorLog struct {
	log  *slog.Logger
	done chan struct{}
	last string // read it after done
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
	const longest, most = 4 << 10, 1000
	lines := &lineReader{r: bufio.NewReader(r), limit: longest}
	logged := 0
	for {
		line, long, err := lines.next()
		if text := string(bytes.ToValidUTF8(bytes.TrimRight(line, " \t"), []byte("\uFFFD"))); text != "" {
			e.last = text
			switch logged++; {
			case logged <= most:
				if long {
					text += " [truncated]"
				}
				e.log.Info("program wrote to standard error", "line", text)
			case logged == most+1:
				e.log.Warn("program writes more to standard error than is logged", "lines", most)
			}
		}
		if err != nil {
			return
		}
	}
}
