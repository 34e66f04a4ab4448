package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/transfer"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/contract/all"
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
		return usagef("--owner and --context must not be empty")
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
		report, err = c.export(ctx, a, a.out.w, st, others)
	} else {
		to = c.Output
		err = replaceFile(c.Output, func(w io.Writer) (err error) {
			report, err = c.export(ctx, a, w, st, others)
			return err
		})
	}
	if err = errors.Join(err, others.Close(), st.Close()); err != nil { // closed also when ctx is done
		return c.explain(ctx, err)
	}
	if a.json && to != "stdout" {
		return a.writeResult(report)
	}
	a.info("exported %s to %s", describeCounts(report.Document), to)
	for _, note := range report.Notes {
		a.info("%s %s", a.err.red("note:"), note)
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
		return &hintError{coded, "if it has another owner, set --owner"}
	}
	return err
}

// describeCounts returns n as text.
func describeCounts(n contract.Counts) string {
	text := fmt.Sprintf("%s, %s, %s, %d feedback",
		plural(n[transfer.Contexts], "context"), plural(n[transfer.Tasks], "task"), plural(n[transfer.Events], "event"), n[transfer.Feedback])
	if records := n[transfer.Records]; records > 0 {
		text += ", " + plural(records, "record")
	}
	for _, kind := range all.Kinds() {
		for _, items := range describeItems(n, kind) {
			text += ", " + items
		}
	}
	return text
}

// describeItems returns the numbers of the items of a contract as texts, without zeros.
func describeItems(n contract.Counts, kind *contract.Kind) (items []string) {
	for i := range kind.Lines {
		if line := &kind.Lines[i]; n[line.Counts] > 0 {
			items = append(items, plural(n[line.Counts], line.Name))
		}
	}
	return items
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (a *app) writeResult(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	a.out.json(raw)
	return nil
}

// replaceFile calls write to write a file with mode 0600. It replaces an existing file atomically,
// after everything is on disk.
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
