package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/holdfast-dev/holdfast/bench/internal/fill"
	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

// fillStore adds finished tasks to the empty store that flags of holdfast serve select.
func fillStore(ctx context.Context, flags []string, tasks int) error {
	var to fill.Location
	set := flag.NewFlagSet("store", flag.ContinueOnError)
	to.Flags(set)
	if err := set.Parse(flags); err != nil {
		return err
	}
	if err := fill.Tasks(ctx, to, tasks, nil); err != nil {
		return fmt.Errorf("fill with %d tasks: %w", tasks, err)
	}
	return nil
}

// measureGrowth measures, in turn, servers that differ only in the number of tasks in their stores.
// It measures the cost of claims only indirectly, as part of send-get, because the tasks of
// send-get wait for a worker when all are busy.
func (b *bench) measureGrowth(ctx context.Context) (outcome, error) {
	var all []contender
	for _, tasks := range b.options.growth {
		c := ours(b.storage)
		c.name = fmt.Sprintf("%s with %d", b.storage, tasks)
		c.fill = func(ctx context.Context, flags []string) error {
			fmt.Fprintf(b.progress, "filling a store with %d tasks\n", tasks)
			if err := fillStore(ctx, flags, tasks); err != nil || b.db == nil {
				return err
			}
			return b.db.vacuum(ctx)
		}
		all = append(all, c)
	}
	out, err := b.compare(ctx, all)
	out.growth, out.goals = true, nil
	return out, err
}

// contextSizes measures lists of contexts in stores of different sizes, for each measured storage.
func (b *bench) contextSizes(ctx context.Context, out *outcome) error {
	before := b.options
	defer func() { b.options = before }()
	b.scenarios, b.growth = []loadgen.Scenario{loadgen.Contexts}, before.contexts
	for _, storage := range []string{storageSQLite, storagePostgres} {
		if name := ours(storage).name; !slices.Contains(b.servers, name) || out.Missing[name] != "" {
			continue
		}
		b.storage = storage
		one, err := b.measureGrowth(ctx)
		if err != nil {
			return err
		}
		out.Sizes = append(out.Sizes, one)
	}
	return nil
}

// writeSizes prints the results of contextSizes.
func (o outcome) writeSizes(w io.Writer) {
	for i, s := range o.Sizes {
		if i == 0 {
			fmt.Fprintf(w, "\ncontexts by number of tasks, ten to a context: %s\n", describe(loadgen.Contexts))
		}
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(tw, "  store\treq/s\tp50\tp99\terrors\tcpu/req\tload cpu\tx slower\tgoal\n")
		for _, name := range s.names {
			s.writeRow(tw, loadgen.Contexts, name)
		}
		_ = tw.Flush() // into memory
	}
}
