package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/cli/transfer"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// exportCmd exports contexts to a file.
type exportCmd struct {
	Context string `required:"" xor:"what" placeholder:"ID" help:"Export this context."`
	All     bool   `required:"" xor:"what" help:"Export all data of the owner: contexts, records, transcripts, facts, documents, graphs and blobs."`
	Data    string `placeholder:"DIR" envvar:"HOLDFAST_DATA" default:"./holdfast-data" help:"SQLite data directory; a server may be using it."`
	Owner   string `placeholder:"PRINCIPAL" default:"anonymous" help:"Owner of the contexts (default ${default}, the owner on servers without tokens)."`
	Output  string `short:"o" placeholder:"FILE" help:"Write to this file instead of stdout. Only you can read it. An existing file is replaced after the export is complete."`

	storageFlags
}

// Run exports.
func (c *exportCmd) Run(ctx context.Context, a *app) error {
	if c.Owner == "" || !c.All && c.Context == "" {
		return command.Usagef("--owner and --context must not be empty")
	}
	from, err := c.resolve(a, c.Data)
	if err = errors.Join(err, from.requirePersistent()); err != nil {
		return err
	}
	from.printNotes(a)
	st, err := from.openExisting(ctx, a)
	if err != nil {
		return err
	}
	others, err := from.openContracts(ctx, a, openContractsParams{main: st, existing: true})
	if err != nil {
		return errors.Join(err, st.Close())
	}
	var report transfer.Report
	to := "stdout"
	if c.Output == "" || c.Output == "-" {
		report, err = c.export(ctx, a, a.Out.W, st, others)
	} else {
		to = c.Output
		err = command.ReplaceFile(c.Output, func(w io.Writer) (err error) {
			report, err = c.export(ctx, a, w, st, others)
			return err
		})
	}
	if err = errors.Join(err, others.Close(), st.Close()); err != nil { // closed also when ctx is done
		return c.explain(ctx, err)
	}
	if a.JSON && to != "stdout" {
		return a.WriteResult(report)
	}
	a.Info("exported %s to %s", a.describeCounts(report.Document), to)
	for _, note := range report.Notes {
		a.Info("%s %s", a.Err.Red("note:"), note)
	}
	return nil
}

// keptIn returns the stores of kept data of a store of tasks and of those that the URLs of contracts
// select.
func keptIn(main store.Store, others *openContracts) engine.Contracts {
	c := others.Contracts
	c.Embedder = nil // documents keep their embeddings, and those without have none
	return c.WithParts(main, nil)
}

func (c *exportCmd) export(ctx context.Context, a *app, w io.Writer, s store.Store, others *openContracts) (transfer.Report, error) {
	tasks := transfer.Source(s)
	contracts := keptIn(s, others)
	if files := blobs.In(contracts.Stores); files != nil {
		tasks = transfer.WithFiles(s, files)
	}
	if c.All {
		report, err := transfer.ExportAll(ctx, w, tasks, c.Owner)
		if err == nil {
			var kept transfer.Report
			kept, err = transfer.ExportKept(ctx, w, contracts.Stores, c.Owner)
			report.Add(kept)
		}
		if err == nil && a.set.origins["owner"].rank == byFlag && len(report.Document) == 0 {
			err = a2a.Errorf(a2a.CodeContextNotFound, "owner %s has no data", a2a.Quote(c.Owner))
		}
		return report, err
	}
	return transfer.Export(ctx, w, tasks, store.ContextKey{Owner: c.Owner, ID: c.Context})
}

// explain adds a hint to an error.
func (c *exportCmd) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var coded *a2a.Error
	if errors.As(err, &coded) && coded.Code == a2a.CodeContextNotFound && !c.All {
		return command.WithHint(coded, "if it has another owner, set --owner")
	}
	return err
}

// describeCounts returns n as text.
func (a *app) describeCounts(n contract.Counts) string {
	text := fmt.Sprintf("%s, %s, %s, %d feedback",
		command.Plural(n[transfer.Contexts], "context"), command.Plural(n[transfer.Tasks], "task"), command.Plural(n[transfer.Events], "event"), n[transfer.Feedback])
	if records := n[transfer.Records]; records > 0 {
		text += ", " + command.Plural(records, "record")
	}
	for _, kind := range a.kinds {
		for _, items := range command.DescribeItems(n, kind) {
			text += ", " + items
		}
	}
	return text
}
