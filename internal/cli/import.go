package cli

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/transfer"
)

// importCmd reads conversations from a file.
type importCmd struct {
	File       string `arg:"" help:"What holdfast export has written; - is stdin."`
	Data       string `placeholder:"DIR" envvar:"HOLDFAST_DATA" default:"./holdfast-data" help:"The data directory of SQLite, made if need be; no server may be using it. Default: ${default}."`
	Owner      string `placeholder:"PRINCIPAL" help:"Who is to own the conversations. Default: who owned them."`
	Unfinished string `placeholder:"WHAT" default:"refuse" enum:"refuse,queue,cancel" help:"What to do with tasks that were waiting or running: refuse the import, queue them to be run here, or cancel them. Default: ${default}."`

	storageFlags
}

// Help has examples.
func (importCmd) Help() string {
	return `The file is read through and checked before anything is written, and refused if it is damaged or if what is there already is something else. An import that was interrupted is finished by the next one; to import again what is there changes nothing.

Examples:

    holdfast import conversation.jsonl
    holdfast import conversation.jsonl --data /var/lib/holdfast --owner alice
    gunzip < all.jsonl.gz | holdfast import - --unfinished queue`
}

// Run imports.
func (c *importCmd) Run(ctx context.Context, a *app) error {
	to, err := c.choose(a, c.Data)
	if err = errors.Join(err, to.lasting()); err != nil {
		return err
	}
	to.tell(a)
	in := a.stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	st, err := to.open(ctx, a, nil)
	if a2a.CodeOf(err) == a2a.CodeUnavailable && to.kind == kindSQLite {
		return &hinted{err, "an import needs the data for itself: stop the server, import, and start it again"}
	}
	if err != nil {
		return err
	}
	report, err := transfer.Import(ctx, readerOrNothing(in), st, transfer.ImportOptions{
		Owner: c.Owner, Unfinished: transfer.Unfinished(c.Unfinished),
	})
	if err = errors.Join(err, st.Close()); err != nil { //nolint:contextcheck // closed also when ctx is done
		return c.explain(ctx, err)
	}
	if a.json {
		return a.writeResult(report)
	}
	c.report(a, report, to)
	return nil
}

func (c *importCmd) report(a *app, r transfer.Report, to storage) {
	if r.Written == (transfer.Counts{}) {
		a.out.line("nothing to do: all of it is there already (%s)", count(r.Document))
	} else {
		a.out.line("imported %s", count(r.Written))
	}
	place := c.Data
	if to.kind == kindPostgres {
		place = to.place()
	}
	if r.Queued > 0 {
		a.out.line("%s will run when a server starts on %s", several(r.Queued, "unfinished task"), place)
	}
	if r.Canceled > 0 {
		a.out.line("canceled %s", several(r.Canceled, "unfinished task"))
	}
	for _, note := range r.Notes {
		a.say("%s %s", a.err.red("note:"), note)
	}
}

// explain adds to an error what to do about it.
func (c *importCmd) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var unfinished *transfer.UnfinishedError
	if errors.As(err, &unfinished) {
		return &hinted{err, "--unfinished queue has them run here, --unfinished cancel ends them"}
	}
	return err
}

// readerOrNothing is r, which may be nil where a program has no stdin.
func readerOrNothing(r io.Reader) io.Reader {
	if r == nil {
		return io.MultiReader()
	}
	return r
}
