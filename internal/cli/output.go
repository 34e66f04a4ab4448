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
	w *errWriter
	// bestEffort ignores write errors.
	bestEffort bool
	// terminal reports whether the output is a terminal; width is its number of columns.
	terminal bool
	width    int
	colour   bool
}

func newOutput(w io.Writer, env environment) *output {
	o := &output{w: &errWriter{w: w}}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		o.terminal, o.width = true, 80
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			o.width = width
		}
		o.colour = env.get("NO_COLOR") == "" && env.get("TERM") != "dumb"
	}
	return o
}

// errWriter is a writer that records the first error, which the command reports at its end.
type errWriter struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

func (k *errWriter) Write(p []byte) (int, error) {
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

// writeError returns an error if a write has failed, unless bestEffort is set.
func (o *output) writeError() error {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	if o.bestEffort || o.w.err == nil {
		return nil
	}
	return fmt.Errorf("not all of the output was written: %w", o.w.err)
}

// isTerminal reports whether r is a terminal.
func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// line writes one line. writeError returns errors; a closed pipe ends the process with SIGPIPE.
func (o *output) line(format string, args ...any) {
	_, _ = fmt.Fprintf(o.w, format+"\n", args...)
}

func (o *output) raw(b []byte) { _, _ = o.w.Write(b) }

// json writes JSON as a line.
func (o *output) json(b []byte) { o.raw(append(b, '\n')) }

// text writes untrusted text: without control characters to a terminal, else unchanged.
func (o *output) text(s string) {
	if o.terminal {
		s = clean(s)
	}
	_, _ = io.WriteString(o.w, s)
}

// row writes a name and its value, unless the value is empty. Further lines of the value are
// indented, so that they do not look like rows.
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

// clean removes control characters and bidirectional formatting, except line breaks and tabs.
func clean(s string) string {
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

// oneLine returns s as one line of at most width characters; 0 is no limit.
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
