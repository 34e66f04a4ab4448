package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
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

// growth measures servers that differ only in how many tasks their
// stores hold, side by side. What claiming costs is seen from outside only,
// as part of send-get, whose tasks wait for a worker when all are busy.
func (b *bench) growth(ctx context.Context, fill filler) (outcome, error) {
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
