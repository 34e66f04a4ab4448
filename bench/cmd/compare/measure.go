package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

// bench runs measurements in its own directory.
type bench struct {
	options
	dir      string
	progress io.Writer
	programs map[program]string // path of each built program

	open  func(ctx context.Context, url string) (*database, error)
	db    *database // nil before its first use
	dbErr error     // why db could not be opened
}

// database returns the PostgreSQL server of the run, opened on first use.
func (b *bench) database(ctx context.Context) (*database, error) {
	if b.db == nil && b.dbErr == nil {
		b.db, b.dbErr = b.open(ctx, b.databaseURL)
	}
	return b.db, b.dbErr
}

// close stops everything that the measurements share.
func (b *bench) close(ctx context.Context) error {
	if b.db == nil {
		return nil
	}
	return b.db.close(context.WithoutCancel(ctx))
}

// compare measures all contenders in all scenarios.
func (b *bench) compare(ctx context.Context, all []contender) (outcome, error) {
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	out := newOutcome(names)
	out.goals = slices.DeleteFunc(goals(), func(g goal) bool { return !slices.Contains(names, g.contender) })
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
	if b.db != nil {
		out.Database = b.db.about
	}
	return out, nil
}

func (b *bench) start(ctx context.Context, c contender) (*server, error) {
	binary, err := b.binary(ctx, c.program)
	if err != nil {
		return nil, err
	}
	flags, err := b.store(ctx, binary, c)
	if err != nil {
		return nil, err
	}
	if c.fill != nil {
		if err := c.fill(ctx, flags); err != nil {
			return nil, err
		}
	}
	return b.startOn(ctx, binary, c, flags)
}

// startOn starts a server of c on the store that flags select.
func (b *bench) startOn(ctx context.Context, binary string, c contender, flags []string) (*server, error) {
	grpc := ""
	if c.grpcFlag != "" {
		var err error
		if grpc, err = freeAddr(ctx); err != nil {
			return nil, err
		}
		flags = append(slices.Clone(flags), c.grpcFlag, grpc)
	}
	s, err := startServer(ctx, binary, filepath.Join(b.dir, c.name+".log"), func(addr string) []string { return c.args(addr, flags) })
	if err != nil {
		return nil, err
	}
	s.binding, s.path, s.grpc = c.binding, c.path, grpc
	if grpc != "" {
		if err := s.readyGRPC(ctx); err != nil {
			s.stop()
			return nil, err
		}
	}
	if c.storage == storagePostgres {
		s.db = b.db
	}
	return s, nil
}

// store creates an empty store for c and returns the flags that select it.
func (b *bench) store(ctx context.Context, binary string, c contender) ([]string, error) {
	switch c.storage {
	case "":
		return nil, nil
	case storagePostgres:
		db, err := b.database(ctx)
		if err != nil {
			return nil, err
		}
		flags, _ := db.flags()
		if c.program == holdfast {
			err = db.migrate(ctx, binary, flags)
		}
		return flags, err
	}
	dir := filepath.Join(b.dir, "data-"+c.name)
	return []string{"--storage", c.storage, "--data", dir}, os.MkdirAll(dir, 0o755)
}

// scenario runs rounds in which each server is measured in turn, so that other load of the machine
// affects all of them. Each round starts with another server.
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

// sample measures servers that share a load.
func (b *bench) sample(ctx context.Context, s loadgen.Scenario, servers ...*server) (sample, error) {
	db := servers[0].db
	m := meter{db: db, servers: servers}
	reports := make([]loadgen.Report, len(servers))
	errs := make([]error, len(servers))
	var once sync.Once
	var wg sync.WaitGroup
	for i, server := range servers {
		wg.Go(func() {
			reports[i], errs[i] = loadgen.Run(ctx, loadgen.Config{
				URL:          server.target(),
				Binding:      server.binding,
				Scenario:     s,
				Concurrency:  max(1, (b.concurrency+i)/len(servers)),
				Duration:     b.duration,
				PayloadBytes: b.payload,
				WarmUp:       b.duration / 5,
				OnStart:      func() { once.Do(func() { m.start(ctx) }) },
			})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		for _, server := range servers {
			if why := server.exited(); why != nil {
				return sample{}, why
			}
		}
		return sample{}, err
	}
	out := sample{Report: merge(reports)}
	return out, m.end(ctx, &out)
}

// meter measures the cost of a measurement.
type meter struct {
	db           *database // nil for none
	servers      []*server
	theirs, ours time.Duration
	used         usage
	err          error
}

func (m *meter) serverCPU() (sum time.Duration) {
	for _, s := range m.servers {
		sum += s.cpu()
	}
	return sum
}

func (m *meter) start(ctx context.Context) {
	if m.db != nil {
		m.used, m.err = m.db.usage(ctx)
	}
	m.theirs, m.ours = m.serverCPU(), ownCPU()
}

func (m *meter) end(ctx context.Context, to *sample) error {
	to.ServerCPU, to.GeneratorCPU = m.serverCPU()-m.theirs, ownCPU()-m.ours
	if m.db == nil || m.err != nil {
		return m.err
	}
	now, err := m.db.usage(ctx)
	used := now.since(m.used)
	to.DatabaseCPU, to.Commits, to.WALBytes = used.cpu, used.commits, used.wal
	return err
}

// merge adds the results of servers that were measured at the same time. Of their latencies it
// returns the highest.
func merge(all []loadgen.Report) loadgen.Report {
	out := all[0]
	for _, r := range all[1:] {
		out.Concurrency += r.Concurrency
		out.Requests += r.Requests
		out.Errors += r.Errors
		out.ErrorTexts = append(out.ErrorTexts, r.ErrorTexts...)
		out.Elapsed = max(out.Elapsed, r.Elapsed)
		out.PerSecond += r.PerSecond
		l := &out.Latency
		l.P50, l.P90, l.P95 = max(l.P50, r.Latency.P50), max(l.P90, r.Latency.P90), max(l.P95, r.Latency.P95)
		l.P99, l.Max = max(l.P99, r.Latency.P99), max(l.Max, r.Latency.Max)
		out.Calls += r.Calls
		out.Reconnects += r.Reconnects
		out.BytesOut += r.BytesOut
		out.BytesIn += r.BytesIn
	}
	return out
}
