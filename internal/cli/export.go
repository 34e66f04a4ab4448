package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/transfer"
	"github.com/holdfast-dev/holdfast/store"
)

// exportCmd writes conversations to a file.
type exportCmd struct {
	Context string `required:"" xor:"what" placeholder:"ID" help:"The conversation to export."`
	All     bool   `required:"" xor:"what" help:"All conversations of the owner."`
	Data    string `placeholder:"DIR" envvar:"HOLDFAST_DATA" default:"./holdfast-data" help:"The data directory of SQLite; a server may be using it. Default: ${default}."`
	Owner   string `placeholder:"PRINCIPAL" default:"anonymous" help:"Whose conversations. Default: ${default}, the owner of servers without tokens."`
	Output  string `short:"o" placeholder:"FILE" help:"Write to a file, which only you can read, instead of stdout; it is replaced once all is written."`

	storageFlags
}

// Help has examples.
func (exportCmd) Help() string {
	return `An export is JSON Lines: a conversation with all its tasks, their events and feedback, which holdfast import brings into any other store. docs/export.md describes it for other programs.

Examples:

    holdfast export --context 0199a7c2-7d1e-7b9a-8f5e-1d2c3b4a5968 -o conversation.jsonl
    holdfast export --all --data /var/lib/holdfast | gzip > all.jsonl.gz
    holdfast export --all --owner alice | jq -r 'select(.type == "task") | .task.status.state'`
}

// Run exports.
func (c *exportCmd) Run(ctx context.Context, a *app) error {
	if c.Owner == "" || !c.All && c.Context == "" {
		return usagef("--owner and --context must not be empty")
	}
	from, err := c.choose(a, c.Data)
	if err = errors.Join(err, from.lasting()); err != nil {
		return err
	}
	from.tell(a)
	st, err := from.openToRead(ctx, a)
	if err != nil {
		return err
	}
	var report transfer.Report
	to := "stdout"
	if c.Output == "" || c.Output == "-" {
		report, err = c.export(ctx, a, a.out.w, st)
	} else {
		to = c.Output
		err = replaceFile(c.Output, func(w io.Writer) (err error) {
			report, err = c.export(ctx, a, w, st)
			return err
		})
	}
	if err = errors.Join(err, st.Close()); err != nil { //nolint:contextcheck // closed also when ctx is done
		return c.explain(ctx, err)
	}
	if a.json && to != "stdout" {
		return a.writeResult(report)
	}
	n := report.Document
	a.say("exported %s to %s", count(n), to)
	return nil
}

func (c *exportCmd) export(ctx context.Context, a *app, w io.Writer, s store.Store) (transfer.Report, error) {
	if c.All {
		report, err := transfer.ExportAll(ctx, w, s, c.Owner)
		if n := report.Document; err == nil && a.set.origins["owner"].rank == byFlag && n.Contexts+n.Tasks == 0 {
			err = a2a.Errorf(a2a.CodeContextNotFound, "owner %s has no conversations and no tasks", a2a.Quote(c.Owner))
		}
		return report, err
	}
	return transfer.Export(ctx, w, s, store.ContextKey{Owner: c.Owner, ID: c.Context})
}

// explain adds to an error what to do about it.
func (c *exportCmd) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var coded *a2a.Error
	if errors.As(err, &coded) && coded.Code == a2a.CodeContextNotFound && !c.All {
		return &hinted{coded, "if it is another's, name the owner with --owner"}
	}
	return err
}

// count says how much was exported or imported.
func count(n transfer.Counts) string {
	return fmt.Sprintf("%s, %s, %s and %d feedback",
		several(n.Contexts, "conversation"), several(n.Tasks, "task"), several(n.Events, "event"), n.Feedback)
}

func several(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (a *app) writeResult(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	a.out.raw(append(raw, '\n'))
	return nil
}

// replaceFile has write fill a file that nobody else can read. Until all is on disk a
// file of that name stays as it was.
func replaceFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreClosed(f.Close()), os.Remove(f.Name()))
		}
	}()
	if err = write(f); err != nil {
		return err
	}
	if err = errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
