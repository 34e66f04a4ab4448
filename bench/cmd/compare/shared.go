package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

// The loads of one database, in the order of the table.
const (
	inserts  = "pgbench, inserts"
	jobs     = "River, in this process"
	allJobs  = "River, 2048 callers"
	replica  = "1 replica"
	replicas = "3 replicas"
	insert   = "pgbench, inserts, 1 client"
	halfLoad = "1 replica at 50 % load"
)

// Goals of the loads.
const (
	// replicaCount is the number of servers that share the load replicas.
	replicaCount = 3
	// insertLatency is the maximum ratio between the p99 at half load and the p99 of an insert by
	// one client.
	insertLatency = 5
	// jobCallers is the number of callers that saturate River: it reports completed jobs in batches, for
	// which each caller waits up to a quarter of a second.
	jobCallers = 2048
	// jobTimes is the minimum ratio between messages per second and the jobs per second of a saturated River.
	jobTimes = 2.5
	// tolerance is the minimum ratio of two rates that count as equal.
	tolerance = 0.9
)

// shared measures the throughput of replicas on one database, and the maximum rate of the database,
// in interleaved rounds. Each number of replicas has its own store.
func (b *bench) shared(ctx context.Context, out *outcome) (err error) {
	bencher, err := newPgbench(ctx, b.db, b.dir, b.payload)
	if err != nil {
		out.failed = append(out.failed, fmt.Errorf("pgbench: %w", err))
		return nil
	}
	queue, err := startRiver(ctx, b.db, jobCallers)
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	defer func() { err = errors.Join(err, queue.stop()) }()
	alone, err := b.startReplicas(ctx, 1)
	defer stopAll(alone)
	if err != nil {
		return err
	}
	many, err := b.startReplicas(ctx, replicaCount)
	defer stopAll(many)
	if err != nil {
		return err
	}
	var full float64
	loads := []struct {
		name string
		run  func() (sample, error)
	}{
		{inserts, func() (sample, error) { return bencher.run(ctx, b.concurrency, b.duration/5, b.duration) }},
		{jobs, func() (sample, error) { return queue.run(ctx, b.concurrency, b.payload, b.duration/5, b.duration) }},
		{allJobs, func() (sample, error) { return queue.run(ctx, jobCallers, b.payload, b.duration/5, b.duration) }},
		{replica, func() (sample, error) {
			s, err := b.sample(ctx, loadgen.Send, alone...)
			full = s.PerSecond
			return s, err
		}},
		{replicas, func() (sample, error) { return b.sample(ctx, loadgen.Send, many...) }},
		{insert, func() (sample, error) { return bencher.run(ctx, 1, b.duration/5, b.duration) }},
		{halfLoad, func() (sample, error) {
			return pacer{
				// At least ten messages, also if a server was not scheduled during a short round.
				url: alone[0].url, perSecond: max(full/2, 10/b.duration.Seconds()), connections: b.concurrency, payload: b.payload, warmUp: b.duration / 5, duration: b.duration,
			}.run(ctx, &meter{db: b.db, servers: alone})
		}},
	}
	out.Shared = make([]row, len(loads))
	for i, l := range loads {
		out.Shared[i] = row{Scenario: loadgen.Send, Contender: l.name}
	}
	for round := range b.rounds {
		for i, l := range loads {
			fmt.Fprintf(b.progress, "round %d of %d: PostgreSQL, %s ... ", round+1, b.rounds, l.name)
			s, err := l.run()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				fmt.Fprintln(b.progress, err)
				out.Shared[i].Skipped = err.Error()
				out.failed = append(out.failed, fmt.Errorf("%s: %w", l.name, err))
				continue
			}
			fmt.Fprintf(b.progress, "%.0f/s\n", s.PerSecond)
			out.Shared[i].Samples = append(out.Shared[i].Samples, s)
		}
	}
	return nil
}

// startReplicas starts n servers on one new store.
func (b *bench) startReplicas(ctx context.Context, n int) (all []*server, err error) {
	c := ours(storagePostgres)
	binary, err := b.binary(ctx, c.program)
	if err != nil {
		return nil, err
	}
	flags, err := b.store(ctx, binary, c)
	if err != nil {
		return nil, err
	}
	for i := range n {
		c.name = fmt.Sprintf("replica-%d-of-%d", i+1, n)
		s, err := b.startOn(ctx, binary, c, flags)
		if err != nil {
			return all, fmt.Errorf("%s: %w", c.name, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func stopAll(all []*server) {
	for _, s := range all {
		s.stop()
	}
}

func (o outcome) load(name string) row {
	for _, r := range o.Shared {
		if r.Contender == name {
			return r
		}
	}
	return row{}
}

// writeShared prints the loads of one database.
func (o outcome) writeShared(w io.Writer) {
	if len(o.Shared) == 0 {
		return
	}
	fmt.Fprintf(w, "\none database: blocking message/send concurrently with pgbench, which inserts a row per commit, and River, with callers that wait for a job\n")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "  load\treq/s\tp50\tp99\terrors\tcpu/req\tcommits/s\tx pgbench\tWAL/req\tgoal\n")
	base := median(o.load(inserts).Samples, rate)
	for _, r := range o.Shared {
		if len(r.Samples) == 0 {
			fmt.Fprintf(tw, "  %s\tnot measured: %s\n", r.Contender, r.Skipped)
			continue
		}
		commits := median(r.Samples, commitRate)
		share := "-"
		if base > 0 {
			share = fmt.Sprintf("%.2f", commits/base)
		}
		wal := "-"
		if bytes := median(r.Samples, walPerRequest); bytes > 0 {
			wal = fmt.Sprintf("%.1f kB", bytes/1000)
		}
		fmt.Fprintf(tw, "  %s\t%.0f\t%s\t%s\t%d\t%s\t%.0f\t%s\t%s\t%s\n", r.Contender, median(r.Samples, rate), brief(median(r.Samples, p50)),
			brief(median(r.Samples, p99)), r.errors(), r.cpuText(), commits, share, wal, o.loadGoal(r.Contender))
	}
	_ = tw.Flush() // into memory
}

func (o outcome) loadGoal(name string) string {
	met := func(text string, ok bool) string {
		if ok {
			return text + ": met"
		}
		return text + ": NOT MET"
	}
	switch name {
	case replica:
		river := max(median(o.load(jobs).Samples, rate), median(o.load(allJobs).Samples, rate))
		if river == 0 {
			return ""
		}
		times := median(o.load(replica).Samples, rate) / river
		return met(fmt.Sprintf(">= %gx the rate of River, is %.2fx", jobTimes, times), times >= jobTimes)
	case replicas:
		one, all := o.load(replica).Samples, o.load(replicas).Samples
		same := median(all, rate) >= tolerance*median(one, rate)
		limit := median(all, commitRate) >= tolerance*median(o.load(inserts).Samples, rate)
		return met("no slower than 1, or commits/s as pgbench", same || limit)
	case halfLoad:
		single := median(o.load(insert).Samples, p99)
		if single == 0 {
			return ""
		}
		times := float64(median(o.load(halfLoad).Samples, p99)) / float64(single)
		return met(fmt.Sprintf("p99 <= %dx that of pgbench with 1 client, is %.1fx", insertLatency, times), times <= insertLatency)
	}
	return ""
}

func p50(s sample) time.Duration { return s.Latency.P50 }

func p99(s sample) time.Duration { return s.Latency.P99 }

func commitRate(s sample) float64 { return float64(s.Commits) / s.Elapsed.Seconds() }

func walPerRequest(s sample) float64 { return float64(s.WALBytes) / float64(max(s.Requests, 1)) }
