package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// prompt reads what is to be said.
type prompt struct {
	a *app
	// person is whether somebody types.
	person bool
	lines  lineReader
	// pending is where a line will come that was asked for already.
	pending chan typed
	// warned is whether the last thing that happened was an interrupt.
	warned bool
}

// typed is a line as it was typed.
type typed struct {
	text string
	err  error
}

// lineReader reads lines. One is asked for at a time.
type lineReader interface {
	// begin readies the terminal for a line, end gives it back. Both may be called
	// while readLine waits.
	begin(prompt string)
	end()
	// readLine returns a line without its end; errInterrupted when that was typed, and
	// [term.ErrPasteIndicator] with a line that was pasted.
	readLine() (string, error)
	// drop forgets what has been typed of a line and says why.
	drop(why string)
}

func newPrompt(a *app) *prompt {
	p := &prompt{a: a, person: isTerminal(a.stdin) && a.err.terminal && !a.json}
	f, isFile := a.stdin.(*os.File)
	if p.person && isFile && a.env.get("TERM") != "dumb" {
		p.lines = newEditor(f, a.err)
		return p
	}
	r := a.stdin
	if r == nil {
		r = strings.NewReader("")
	}
	p.lines = &plainReader{r: bufio.NewReader(r), o: a.err, shown: p.person}
	return p
}

// next returns what is said next: one line, or several that belong together.
// [io.EOF] is the end, errInterrupted the second interrupt in a row.
func (p *prompt) next(ctx context.Context, interrupts <-chan struct{}, answer bool) (string, error) {
	mark := "> "
	if answer {
		mark = "answer> "
	}
	defer p.lines.end()
	var lines []string
	for {
		p.lines.begin(p.a.err.bold(mark))
		text, err := p.line(ctx, interrupts)
		pasted := errors.Is(err, term.ErrPasteIndicator)
		switch {
		case errors.Is(err, errInterrupted) && p.warned:
			p.away()
			return "", err
		case errors.Is(err, errInterrupted):
			p.warned, lines = true, nil
			p.lines.drop("Ctrl-C again leaves, as /exit does")
			continue
		case errors.Is(err, io.EOF) && len(lines) > 0:
			return p.whole(lines), nil
		case err != nil && !pasted:
			p.away()
			return "", err
		}
		p.warned, mark = false, "… "
		rest, goesOn := strings.CutSuffix(text, `\`)
		lines = append(lines, rest)
		if !goesOn && !pasted {
			return p.whole(lines), nil
		}
	}
}

// away leaves the line of the prompt.
func (p *prompt) away() {
	if p.lines.end(); p.person {
		p.a.err.line("")
	}
}

func (p *prompt) whole(lines []string) string {
	text := strings.ToValidUTF8(strings.Join(lines, "\n"), "\ufffd")
	p.echo(text)
	return text
}

// echo shows in a log what nobody has typed.
func (p *prompt) echo(text string) {
	if !p.person && strings.TrimSpace(text) != "" {
		p.a.say("> %s", strings.ReplaceAll(clean(text), "\n", "\n… "))
	}
}

func (p *prompt) line(ctx context.Context, interrupts <-chan struct{}) (string, error) {
	if p.pending == nil {
		pending := make(chan typed, 1)
		p.pending = pending
		go func() {
			text, err := p.lines.readLine()
			pending <- typed{text, err}
		}()
	}
	select {
	case line := <-p.pending:
		p.pending = nil
		return line.text, line.err
	case <-interrupts:
		return "", errInterrupted
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// plainReader reads lines of anything. A person sees a prompt.
type plainReader struct {
	r     *bufio.Reader
	o     *output
	shown bool
}

func (r *plainReader) begin(prompt string) {
	if r.shown {
		r.o.raw([]byte(prompt))
	}
}

func (*plainReader) end() {}

func (r *plainReader) readLine() (string, error) {
	text, err := r.r.ReadString('\n')
	if text == "" && err != nil {
		return "", err
	}
	return strings.TrimRight(text, "\r\n"), nil
}

func (r *plainReader) drop(why string) { r.o.line("\n%s", r.o.dim(why)) }

// editor reads lines of a terminal that can be edited.
type editor struct {
	f     *os.File
	o     *output
	term  *term.Terminal
	saved *term.State // while the terminal is ours
}

func newEditor(f *os.File, o *output) *editor {
	e := &editor{f: f, o: o}
	e.term = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{interruptible{f}, o.w}, "")
	return e
}

func (e *editor) begin(prompt string) {
	e.term.SetPrompt(prompt)
	if e.saved != nil {
		return
	}
	if width, height, err := term.GetSize(int(e.f.Fd())); err == nil && width > 0 {
		_ = e.term.SetSize(width, height)
	}
	if saved, err := term.MakeRaw(int(e.f.Fd())); err == nil {
		e.saved = saved
		e.term.SetBracketedPasteMode(true)
	}
}

func (e *editor) end() {
	if e.saved != nil {
		e.term.SetBracketedPasteMode(false)
		_ = term.Restore(int(e.f.Fd()), e.saved)
		e.saved = nil
	}
}

func (e *editor) readLine() (string, error) { return e.term.ReadLine() }

// drop writes above the line, which the terminal then shows again, empty.
func (e *editor) drop(why string) { _, _ = e.term.Write([]byte(e.o.dim(why) + "\n")) }

// interruptible makes an error of the byte that asks for an interrupt, and has the
// line editor forget the line.
type interruptible struct{ r io.Reader }

const (
	ctrlC      = 0x03
	forgetLine = "\x05\x15" // to its end, and delete all before
)

func (i interruptible) Read(p []byte) (int, error) {
	if len(p) <= len(forgetLine) {
		return i.r.Read(p)
	}
	n, err := i.r.Read(p[:len(p)-len(forgetLine)+1])
	if at := bytes.IndexByte(p[:n], ctrlC); at >= 0 {
		return at + copy(p[at:], forgetLine), errInterrupted
	}
	return n, err
}
