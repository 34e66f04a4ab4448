package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
)

// filler puts tasks that have long ended into the empty store in dir, with the
// holdfast program binary.
type filler func(ctx context.Context, binary, dir string, tasks int) error

// fillStore runs holdfast bench fill.
func fillStore(ctx context.Context, binary, dir string, tasks int) error {
	cmd := exec.CommandContext(ctx, binary, "bench", "fill", "--data", dir, "--tasks", strconv.Itoa(tasks))
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fill with %d tasks: %w: %s", tasks, err, firstLine(text))
	}
	return nil
}

// growth measures SQLite servers that differ only in how many tasks their
// stores hold, side by side. What claiming costs is seen from outside only,
// as part of send-get, whose tasks wait for a worker when all are busy.
func (b *bench) growth(ctx context.Context, fill filler) (outcome, error) {
	var all []contender
	for _, tasks := range b.options.growth {
		all = append(all, contender{
			name:    fmt.Sprintf("sqlite with %d", tasks),
			program: holdfast,
			args:    serve("sqlite"),
			fill: func(ctx context.Context, binary, dir string) error {
				fmt.Fprintf(b.progress, "filling a store with %d tasks\n", tasks)
				return fill(ctx, binary, dir, tasks)
			},
		})
	}
	out, err := b.compare(ctx, all)
	out.growth, out.goals = true, nil
	return out, err
}
