package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/term"
)

// output is stdout or stderr.
type output struct {
	w *keeper
	// passing output may get lost without harm: nobody asked for it.
	passing bool
	// terminal is whether a person reads it; width its columns then.
	terminal bool
	width    int
	colour   bool
}

func newOutput(w io.Writer, env environment) *output {
	o := &output{w: &keeper{w: w}}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		o.terminal, o.width = true, 80
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			o.width = width
		}
		o.colour = env.get("NO_COLOR") == "" && env.get("TERM") != "dumb"
	}
	return o
}

// keeper writes and keeps the first error, so that what cannot be written is told
// once, at the end.
type keeper struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

func (k *keeper) Write(p []byte) (int, error) {
	n, err := k.w.Write(p)
	if err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.err == nil {
			k.err = err
		}
	}
	return n, err
}

// lost returns why not all of it was written.
func (o *output) lost() error {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	if o.passing || o.w.err == nil {
		return nil
	}
	return fmt.Errorf("not all of the output was written: %w", o.w.err)
}

// isTerminal reports whether r is a person's keyboard.
func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// line writes one line. Errors are kept for the end, see lost; a closed pipe ends
// the process by its signal.
func (o *output) line(format string, args ...any) {
	_, _ = fmt.Fprintf(o.w, format+"\n", args...)
}

func (o *output) raw(b []byte) { _, _ = o.w.Write(b) }

// text writes text that came from elsewhere: as it is for programs, without
// control characters for terminals.
func (o *output) text(s string) {
	if o.terminal {
		s = clean(s)
	}
	_, _ = io.WriteString(o.w, s)
}

// row writes what a thing has under a name, if it has it. All lines of it stand below
// each other, so that none looks like a row of its own.
func (o *output) row(name, value string) {
	if value != "" {
		o.line("  %-9s %s", name, strings.ReplaceAll(clean(value), "\n", "\n"+strings.Repeat(" ", 12)))
	}
}

func (o *output) paint(code, s string) string {
	if !o.colour || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (o *output) red(s string) string  { return o.paint("31", s) }
func (o *output) bold(s string) string { return o.paint("1", s) }
func (o *output) dim(s string) string  { return o.paint("2", s) }

// clean removes what would command a terminal; line breaks and tabs stay.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r < ' ', r >= 0x7f && r < 0xa0:
			return -1
		case r == '\u202a' || r == '\u202b' || r == '\u202d' || r == '\u202e' || (r >= '\u2066' && r <= '\u2069'):
			return -1 // would reorder the text around it
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// oneLine makes a line of at most width columns of s. A wide character counts as
// one column: the line may be cut later than need be by a terminal.
func oneLine(s string, width int) string {
	s = strings.Join(strings.Fields(clean(s)), " ")
	if runes := []rune(s); width > 0 && len(runes) > width {
		return string(runes[:max(width-1, 0)]) + "…"
	}
	return s
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
