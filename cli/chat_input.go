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

	"github.com/holdfast-dev/holdfast/cli/command"
)

// prompt reads messages from the user.
type prompt struct {
	a *app
	// interactive reports whether a user types at a terminal.
	interactive bool
	lines       lineReader
	// pending receives the line of a read that an interrupt has abandoned; nil if none.
	pending chan inputLine
	// warned reports whether the last event was an interrupt.
	warned bool
}

// inputLine is the result of lineReader.readLine.
type inputLine struct {
	text string
	err  error
}

// lineReader reads lines. Only one call of readLine may be active.
type lineReader interface {
	// start prepares the terminal and shows the prompt. It may be called while readLine waits.
	start(prompt string)
	// restore restores the terminal's state. It may be called while readLine waits.
	restore()
	// readLine returns a line without its line break. It returns errInterrupted for Ctrl-C, and
	// [term.ErrPasteIndicator] with a pasted line.
	readLine() (string, error)
	// discard discards the current input line and prints why.
	discard(why string)
}

func newPrompt(a *app) *prompt {
	p := &prompt{a: a, interactive: command.IsTerminal(a.Stdin) && a.Err.Terminal && !a.JSON}
	f, isFile := a.Stdin.(*os.File)
	if p.interactive && isFile && a.env.get("TERM") != "dumb" {
		p.lines = newEditor(f, a.Err)
		return p
	}
	r := a.Stdin
	if r == nil {
		r = strings.NewReader("")
	}
	p.lines = &plainReader{r: bufio.NewReader(r), o: a.Err, shown: p.interactive}
	return p
}

// next returns the next message: one line, or several if they are continued or pasted. It
// returns [io.EOF] at the end of the input and errInterrupted after two consecutive interrupts.
func (p *prompt) next(ctx context.Context, interrupts <-chan struct{}, answer bool) (string, error) {
	mark := "> "
	if answer {
		mark = "answer> "
	}
	defer p.lines.restore()
	var lines []string
	for {
		p.lines.start(p.a.Err.Bold(mark))
		text, err := p.line(ctx, interrupts)
		pasted := errors.Is(err, term.ErrPasteIndicator)
		switch {
		case errors.Is(err, errInterrupted) && p.warned:
			p.endLine()
			return "", err
		case errors.Is(err, errInterrupted):
			p.warned, lines = true, nil
			p.lines.discard("press Ctrl-C again to end the chat")
			continue
		case errors.Is(err, io.EOF) && len(lines) > 0:
			return p.join(lines), nil
		case err != nil && !pasted:
			p.endLine()
			return "", err
		}
		p.warned, mark = false, "… "
		rest, continued := strings.CutSuffix(text, `\`)
		lines = append(lines, rest)
		if !continued && !pasted {
			return p.join(lines), nil
		}
	}
}

// endLine ends the line of the prompt on a terminal.
func (p *prompt) endLine() {
	if p.lines.restore(); p.interactive {
		p.a.Err.Line("")
	}
}

func (p *prompt) join(lines []string) string {
	text := strings.ToValidUTF8(strings.Join(lines, "\n"), "\ufffd")
	p.echo(text)
	return text
}

// echo prints a message that was not typed at a terminal.
func (p *prompt) echo(text string) {
	if !p.interactive && strings.TrimSpace(text) != "" {
		p.a.Info("> %s", strings.ReplaceAll(command.Clean(text), "\n", "\n… "))
	}
}

func (p *prompt) line(ctx context.Context, interrupts <-chan struct{}) (string, error) {
	if p.pending == nil {
		pending := make(chan inputLine, 1)
		p.pending = pending
		go func() {
			text, err := p.lines.readLine()
			pending <- inputLine{text, err}
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

// plainReader reads lines from any reader, without editing.
type plainReader struct {
	r     *bufio.Reader
	o     *command.Output
	shown bool // show a prompt
}

func (r *plainReader) start(prompt string) {
	if r.shown {
		r.o.Raw([]byte(prompt))
	}
}

func (*plainReader) restore() {}

func (r *plainReader) readLine() (string, error) {
	text, err := r.r.ReadString('\n')
	if text == "" && err != nil {
		return "", err
	}
	return strings.TrimRight(text, "\r\n"), nil
}

func (r *plainReader) discard(why string) { r.o.Line("\n%s", r.o.Dim(why)) }

// editor reads lines from a terminal with a line editor.
type editor struct {
	f     *os.File
	o     *command.Output
	term  *term.Terminal
	saved *term.State // nil unless the terminal is in raw mode
}

func newEditor(f *os.File, o *command.Output) *editor {
	e := &editor{f: f, o: o}
	e.term = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{interruptReader{f}, o.W}, "")
	return e
}

func (e *editor) start(prompt string) {
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

func (e *editor) restore() {
	if e.saved != nil {
		e.term.SetBracketedPasteMode(false)
		_ = term.Restore(int(e.f.Fd()), e.saved)
		e.saved = nil
	}
}

func (e *editor) readLine() (string, error) { return e.term.ReadLine() }

// discard prints why above the input line, which the terminal then shows again, empty.
func (e *editor) discard(why string) { _, _ = e.term.Write([]byte(e.o.Dim(why) + "\n")) }

// interruptReader returns errInterrupted for Ctrl-C and sends the line editor the keys that erase
// the line.
type interruptReader struct{ r io.Reader }

const (
	ctrlC     = 0x03
	eraseLine = "\x05\x15" // Ctrl-E, Ctrl-U: move to the end, delete to the start
)

func (i interruptReader) Read(p []byte) (int, error) {
	if len(p) <= len(eraseLine) {
		return i.r.Read(p)
	}
	n, err := i.r.Read(p[:len(p)-len(eraseLine)+1])
	if at := bytes.IndexByte(p[:n], ctrlC); at >= 0 {
		return at + copy(p[at:], eraseLine), errInterrupted
	}
	return n, err
}
