package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/holdfast-dev/holdfast/internal/loadgen"
)

// filler puts tasks that have long ended into the empty store that flags name,
// with the holdfast program binary.
type filler func(ctx context.Context, binary string, flags []string, tasks int) error

// fillStore runs holdfast bench fill.
func fillStore(ctx context.Context, binary string, flags []string, tasks int) error {
	cmd := exec.CommandContext(ctx, binary, append([]string{"bench", "fill", "--tasks", strconv.Itoa(tasks)}, flags...)...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fill with %d tasks: %w: %s", tasks, err, firstLine(text))
	}
	return nil
}

// measureGrowth measures servers that differ only in how many tasks their
// stores hold, side by side. What claiming costs is seen from outside only,
// as part of send-get, whose tasks wait for a worker when all are busy.
func (b *bench) measureGrowth(ctx context.Context, fill filler) (outcome, error) {
	var all []contender
	for _, tasks := range b.options.growth {
		c := ours(b.storage)
		c.name = fmt.Sprintf("%s with %d", b.storage, tasks)
		c.fill = func(ctx context.Context, binary string, flags []string) error {
			fmt.Fprintf(b.progress, "filling a store with %d tasks\n", tasks)
			if err := fill(ctx, binary, flags, tasks); err != nil || b.db == nil {
				return err
			}
			return b.db.settle(ctx)
		}
		all = append(all, c)
	}
	out, err := b.compare(ctx, all)
	out.growth, out.goals = true, nil
	return out, err
}

// contextSizes measures lists of contexts in stores of different sizes, of each storage
// that is measured.
func (b *bench) contextSizes(ctx context.Context, out *outcome, fill filler) error {
	before := b.options
	defer func() { b.options = before }()
	b.scenarios, b.growth = []loadgen.Scenario{loadgen.Contexts}, before.contexts
	for _, storage := range []string{storageSQLite, storagePostgres} {
		if name := ours(storage).name; !slices.Contains(b.servers, name) || out.Missing[name] != "" {
			continue
		}
		b.storage = storage
		one, err := b.measureGrowth(ctx, fill)
		if err != nil {
			return err
		}
		out.Sizes = append(out.Sizes, one)
	}
	return nil
}

// writeSizes prints what contextSizes has measured.
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
