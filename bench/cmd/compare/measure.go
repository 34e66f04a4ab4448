package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-dev/holdfast/internal/loadgen"
)

// bench runs measurements in a directory of its own.
type bench struct {
	options
	dir      string
	progress io.Writer
	programs map[program]string // path of each, empty until built
}

// compare measures all contenders in all scenarios.
func (b *bench) compare(ctx context.Context, all []contender) (outcome, error) {
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	out := newOutcome(names)
	out.goals = goals()
	servers := map[string]*server{}
	defer func() {
		for _, s := range servers {
			s.stop()
		}
	}()
	for _, c := range all {
		s, err := b.start(ctx, c)
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		if err != nil {
			out.Missing[c.name] = err.Error()
			if !errors.Is(err, errAbsent) {
				out.failed = append(out.failed, fmt.Errorf("%s: %w", c.name, err))
			}
			fmt.Fprintf(b.progress, "%s is missing: %v\n", c.name, err)
			continue
		}
		servers[c.name] = s
	}
	for _, scenario := range b.scenarios {
		rows, failed, err := b.scenario(ctx, scenario, all, servers)
		if err != nil {
			return out, err
		}
		out.Rows = append(out.Rows, rows...)
		out.failed = append(out.failed, failed...)
	}
	return out, nil
}

func (b *bench) start(ctx context.Context, c contender) (*server, error) {
	binary, err := b.binary(ctx, c.program)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "data-"+c.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if c.fill != nil {
		if err := c.fill(ctx, binary, dir); err != nil {
			return nil, err
		}
	}
	return startServer(ctx, binary, filepath.Join(b.dir, c.name+".log"), func(addr string) []string { return c.args(addr, dir) })
}

// scenario runs rounds in which each server has its turn, so that a
// disturbance of the machine meets all of them, and begins each round with
// another one.
func (b *bench) scenario(ctx context.Context, s loadgen.Scenario, all []contender, servers map[string]*server) (rows []row, failed []error, err error) {
	rows = make([]row, len(all))
	for i, c := range all {
		rows[i] = row{Scenario: s, Contender: c.name, Skipped: c.lacks[s]}
	}
	for round := range b.rounds {
		for i := range all {
			i = (i + round) % len(all)
			server := servers[all[i].name]
			if server == nil || rows[i].Skipped != "" {
				continue
			}
			fmt.Fprintf(b.progress, "round %d of %d: %s, %s ... ", round+1, b.rounds, s, all[i].name)
			sample, err := b.sample(ctx, all[i].scenario(s), server)
			if ctx.Err() != nil {
				return nil, nil, context.Cause(ctx)
			}
			if err != nil {
				fmt.Fprintln(b.progress, err)
				rows[i].Skipped = err.Error()
				failed = append(failed, fmt.Errorf("%s of %s: %w", s, all[i].name, err))
				continue
			}
			fmt.Fprintf(b.progress, "%.0f/s\n", sample.PerSecond)
			rows[i].Samples = append(rows[i].Samples, sample)
		}
	}
	return rows, failed, nil
}

func (b *bench) sample(ctx context.Context, s loadgen.Scenario, server *server) (sample, error) {
	var theirs, ours time.Duration // at the begin of the window
	report, err := loadgen.Run(ctx, loadgen.Config{
		URL:          server.url,
		Scenario:     s,
		Concurrency:  b.concurrency,
		Duration:     b.duration,
		PayloadBytes: b.payload,
		WarmUp:       b.duration / 5,
		Begin:        func() { theirs, ours = server.cpu(), ownCPU() },
	})
	if err != nil {
		if why := server.exited(); why != nil {
			return sample{}, why
		}
		return sample{}, err
	}
	return sample{Report: report, ServerCPU: server.cpu() - theirs, GeneratorCPU: ownCPU() - ours}, nil
}
