package cli

import (
	"context"
	"errors"
	"os"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/cli/transfer"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
)

// importCmd imports contexts from a file.
type importCmd struct {
	File       string `arg:"" help:"File written by holdfast export; - is stdin."`
	Data       string `placeholder:"DIR" envvar:"HOLDFAST_DATA" default:"./holdfast-data" help:"SQLite data directory, created if missing; no server may be using it."`
	Owner      string `placeholder:"PRINCIPAL" help:"Owner of the imported contexts (default the exported owner)."`
	Unfinished string `placeholder:"WHAT" default:"refuse" enum:"refuse,queue,cancel" help:"Treatment of tasks that were waiting or running: refuse rejects the import, queue runs them here, cancel cancels them."`

	storageFlags
}

// Run imports.
func (c *importCmd) Run(ctx context.Context, a *app) error {
	to, err := c.resolve(a, c.Data)
	if err = errors.Join(err, to.requirePersistent()); err != nil {
		return err
	}
	to.printNotes(a)
	in := a.Stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	st, err := to.open(ctx, a, nil)
	if a2a.CodeOf(err) == a2a.CodeUnavailable && !to.shared {
		return command.WithHint(err, "an import needs exclusive access: stop the server, import, and start it again")
	}
	if err != nil {
		return err
	}
	others, err := to.openContracts(ctx, a, openContractsParams{main: st})
	if err != nil {
		return errors.Join(err, st.Close())
	}
	contracts := keptIn(st, others)
	report, err := transfer.Import(ctx, command.NonNilReader(in), st, transfer.ImportOptions{
		Owner: c.Owner, Unfinished: transfer.Unfinished(c.Unfinished), Contracts: contracts.Stores, Kinds: contracts.Kinds, Files: blobs.In(contracts.Stores),
	})
	if err = errors.Join(err, others.Close(), st.Close()); err != nil { // closed also when ctx is done
		return c.explain(ctx, err)
	}
	if a.JSON {
		return a.WriteResult(report)
	}
	c.report(a, report, to)
	return nil
}

func (c *importCmd) report(a *app, r transfer.Report, to storage) {
	if len(r.Written) == 0 {
		a.Out.Line("nothing to do: everything exists already (%s)", a.describeCounts(r.Document))
	} else {
		a.Out.Line("imported %s", a.describeCounts(r.Written))
	}
	place := c.Data
	if to.url != "" {
		place = to.location()
	}
	if r.Queued > 0 {
		a.Out.Line("%s will run when a server starts on %s", command.Plural(r.Queued, "unfinished task"), place)
	}
	if r.Canceled > 0 {
		a.Out.Line("canceled %s", command.Plural(r.Canceled, "unfinished task"))
	}
	for _, note := range r.Notes {
		a.Info("%s %s", a.Err.Red("note:"), note)
	}
}

// explain adds a hint to an error.
func (c *importCmd) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var unfinished *transfer.UnfinishedError
	if errors.As(err, &unfinished) {
		return command.WithHint(err, "--unfinished queue runs them here, --unfinished cancel cancels them")
	}
	return err
}
