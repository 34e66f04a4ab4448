package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Output is stdout or stderr.
type Output struct {
	W *ErrWriter
	// BestEffort ignores write errors.
	BestEffort bool
	// Terminal reports whether the output is a terminal; width is its number of columns.
	Terminal bool
	Width    int
	colour   bool
}

// NewOutput returns the output to w. env returns a variable of the environment.
func NewOutput(w io.Writer, env func(name string) string) *Output {
	o := &Output{W: &ErrWriter{W: w}}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		o.Terminal, o.Width = true, 80
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			o.Width = width
		}
		o.colour = env("NO_COLOR") == "" && env("TERM") != "dumb"
	}
	return o
}

// ErrWriter is a writer that records the first error, which the command reports at its end.
type ErrWriter struct {
	W   io.Writer
	mu  sync.Mutex
	err error
}

func (k *ErrWriter) Write(p []byte) (int, error) {
	n, err := k.W.Write(p)
	if err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.err == nil {
			k.err = err
		}
	}
	return n, err
}

// WriteError returns an error if a write has failed, unless BestEffort is set.
func (o *Output) WriteError() error {
	o.W.mu.Lock()
	defer o.W.mu.Unlock()
	if o.BestEffort || o.W.err == nil {
		return nil
	}
	return fmt.Errorf("not all of the output was written: %w", o.W.err)
}

// IsTerminal reports whether r is a terminal.
func IsTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Line writes one line. WriteError returns errors; a closed pipe ends the process with SIGPIPE.
func (o *Output) Line(format string, args ...any) {
	_, _ = fmt.Fprintf(o.W, format+"\n", args...)
}

// Raw writes bytes.
func (o *Output) Raw(b []byte) { _, _ = o.W.Write(b) }

// JSON writes JSON as a line.
func (o *Output) JSON(b []byte) { o.Raw(append(b, '\n')) }

// Text writes untrusted text: without control characters to a terminal, else unchanged.
func (o *Output) Text(s string) {
	if o.Terminal {
		s = Clean(s)
	}
	_, _ = io.WriteString(o.W, s)
}

// Row writes a name and its value, unless the value is empty. Further lines of the value are
// indented, so that they do not look like rows.
func (o *Output) Row(name, value string) {
	if value != "" {
		o.Line("  %-9s %s", name, strings.ReplaceAll(Clean(value), "\n", "\n"+strings.Repeat(" ", 12)))
	}
}

func (o *Output) paint(code, s string) string {
	if !o.colour || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Red returns a text in red on a terminal with colours.
func (o *Output) Red(s string) string { return o.paint("31", s) }

// Bold returns a text in bold.
func (o *Output) Bold(s string) string { return o.paint("1", s) }

// Dim returns a text in grey.
func (o *Output) Dim(s string) string { return o.paint("2", s) }

// Clean removes control characters and bidirectional formatting, except line breaks and tabs.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r < ' ', r >= 0x7f && r < 0xa0:
			return -1
		case r == '\u202a' || r == '\u202b' || r == '\u202d' || r == '\u202e' || (r >= '\u2066' && r <= '\u2069'):
			return -1 // would reorder the surrounding text
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// OneLine returns s as one line of at most width characters; 0 is no limit.
func OneLine(s string, width int) string {
	s = strings.Join(strings.Fields(Clean(s)), " ")
	if runes := []rune(s); width > 0 && len(runes) > width {
		return string(runes[:max(width-1, 0)]) + "…"
	}
	return s
}
