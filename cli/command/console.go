package command

import (
	"context"
	"encoding/json"
	"io"
)

// Console is what a command reads and prints to. Its methods are called by one goroutine.
type Console struct {
	Stdin io.Reader // nil if the program has no stdin
	Out   *Output   // results
	Err   *Output   // messages and errors
	JSON  bool      // --json is set

	// Report prints an error after which the command continues.
	Report func(err error)
	// ReadText returns the text of a file with a document, or of stdin for "-".
	ReadText func(ctx context.Context, file string) (string, error)
}

// Info prints a message to stderr, unless --json is set.
func (a *Console) Info(format string, args ...any) {
	if !a.JSON {
		a.Err.Line(format, args...)
	}
}

// WriteResult writes a result as JSON.
func (a *Console) WriteResult(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	a.Out.JSON(raw)
	return nil
}

// Done prints the result of a change: as JSON with --json, else as text.
func (a *Console) Done(result map[string]any, text string) error {
	if a.JSON {
		return a.WriteResult(result)
	}
	a.Out.Line("%s", Clean(text))
	return nil
}

// Each calls do for every id, also after errors. It returns the first error and reports the
// others.
func (a *Console) Each(ctx context.Context, ids []string, do func(id string) error) error {
	var first error
	for _, id := range ids {
		err := do(id)
		switch {
		case err == nil:
		case first == nil:
			first = err
		default:
			a.Report(err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return first
}

// ExportLines writes items as JSON Lines to a file, or to stdout if file is "" or "-". write passes each item to line.
// what names an item.
func (a *Console) ExportLines(file, what string, write func(line func(item any) error) error) error {
	n := int64(0)
	export := func(w io.Writer) error {
		lines := json.NewEncoder(w)
		lines.SetEscapeHTML(false)
		return write(func(item any) error {
			n++
			return lines.Encode(item)
		})
	}
	if file == "" || file == "-" {
		return export(a.Out.W)
	}
	if err := ReplaceFile(file, export); err != nil {
		return err
	}
	if a.JSON {
		return a.WriteResult(map[string]any{what + "s": n})
	}
	a.Info("exported %s to %s", Plural(n, what), file)
	return nil
}
