package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

// hookLoad is a load of webhooks.
type hookLoad string

// The loads, in the order of the table.
const (
	hookBare    hookLoad = "webhooks-bare"
	hookBacklog hookLoad = "webhooks-backlog"
	hookLive    hookLoad = "webhooks-live"
	hookPaced   hookLoad = "webhooks-paced"
	hookAlone   hookLoad = "webhooks-alone"
	hookDead    hookLoad = "webhooks-dead"
	hookOutage  hookLoad = "webhooks-outage"
	hookMemory  hookLoad = "webhooks-memory"
)

// hookLoads are the loads that can be selected. The results of the others are only for comparison.
func hookLoads() []hookLoad {
	return []hookLoad{hookBacklog, hookLive, hookPaced, hookDead, hookOutage, hookMemory}
}

func hookNames() string {
	var names []string
	for _, l := range hookLoads() {
		names = append(names, string(l))
	}
	return strings.Join(names, ",")
}

const (
	// hookConnections is Holdfast's default for the number of concurrent requests to one endpoint.
	hookConnections = 8
	// longestHold is how long the receiver may block a request. It must be less than Holdfast's
	// timeout.
	longestHold  = 6 * time.Second
	drainTimeout = time.Minute
	pacedRate    = 1000 // events per second
	pacedApart   = 25 * time.Millisecond
	outageRate   = 200 // events per second
	bareBytes    = 700 // size of a body, until the size of events is known
	pendingChunk = 100 // bytes
)

// hookSizes are the sizes of the loads.
type hookSizes struct {
	backlog int // tasks
	dead    int // endpoints
	outage  time.Duration
	pending int // events
}

func sizes(short bool) hookSizes {
	if short {
		return hookSizes{backlog: 50, dead: 50, outage: 500 * time.Millisecond, pending: 2000}
	}
	return hookSizes{backlog: 3000, dead: 2000, outage: 30 * time.Second, pending: 1_000_000}
}

// hookRow has the results of a load with one kind of storage.
type hookRow struct {
	Load    hookLoad     `json:"load"`
	Storage string       `json:"storage,omitempty"`
	Failed  string       `json:"failed,omitempty"`
	Samples []hookSample `json:"samples,omitempty"`
}

// hookSample is the result of one round.
type hookSample struct {
	Events      int64           `json:"events"`
	Wrong       int64           `json:"wrong"` // events out of order or without a signature
	Elapsed     time.Duration   `json:"elapsedNs"`
	PerSecond   float64         `json:"perSecond"`
	ServerCPU   time.Duration   `json:"serverCPUNs"`
	DatabaseCPU time.Duration   `json:"databaseCPUNs,omitempty"`
	Latency     loadgen.Latency `json:"latency"`
	RSS         int64           `json:"rssBytes,omitempty"`
	Peak        int64           `json:"peakBytes,omitempty"`
}

// hookBench measures webhooks.
type hookBench struct {
	*bench
	to     *receiver
	client *server // the bare client
	agents []*hooked
	out    *outcome
}

func (b *bench) wants(l hookLoad) bool { return slices.Contains(b.hooks, l) }

// webhooks measures the selected loads.
func (b *bench) webhooks(ctx context.Context, out *outcome) error {
	to, err := newReceiver(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := &hookBench{bench: b, to: to, out: out}
	defer func() {
		stopAgents(h.agents)
		if h.client != nil {
			h.client.stop()
		}
		_ = to.close()
	}()
	binary, err := b.binary(ctx, hooks)
	if err != nil {
		return err
	}
	h.client, err = startServer(ctx, binary, filepath.Join(b.dir, "hooks-post.log"), func(addr string) []string {
		return []string{"-kind", "post", "-addr", addr}
	})
	if err != nil {
		return err
	}
	for _, storage := range []string{storageMemory, storageSQLite, storagePostgres} {
		if !slices.Contains(b.servers, "holdfast-"+storage) {
			continue
		}
		a, err := b.startAgent(ctx, storage, storage, to)
		if err != nil {
			h.add(hookRow{Load: hookBacklog, Storage: storage}, hookSample{}, err)
			continue
		}
		h.agents = append(h.agents, a)
	}
	for _, part := range []func(context.Context){h.rates, h.outages, h.dead, h.pending} {
		if part(ctx); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if b.db != nil {
		out.Database = b.db.about
	}
	return nil
}

func stopAgents(all []*hooked) {
	for _, a := range all {
		a.stop()
	}
}

// add adds a sample to its row.
func (h *hookBench) add(r hookRow, s hookSample, err error) {
	at := slices.IndexFunc(h.out.Hooks, func(o hookRow) bool { return o.Load == r.Load && o.Storage == r.Storage })
	if at < 0 {
		at, h.out.Hooks = len(h.out.Hooks), append(h.out.Hooks, r)
	}
	name := strings.TrimSpace(string(r.Load) + " " + r.Storage)
	if err != nil {
		fmt.Fprintf(h.progress, "%s: %v\n", name, err)
		h.out.Hooks[at].Failed = err.Error()
		h.out.failed = append(h.out.failed, fmt.Errorf("%s: %w", name, err))
		return
	}
	fmt.Fprintf(h.progress, "%s: %.0f events/s\n", name, s.PerSecond)
	h.out.Hooks[at].Samples = append(h.out.Hooks[at].Samples, s)
}

// rates measures the bare client and the webhooks of all agents, in turn.
func (h *hookBench) rates(ctx context.Context) {
	size := bareBytes
	for range h.rounds {
		if h.wants(hookBacklog) || h.wants(hookLive) {
			s, err := h.bareLoad(ctx, h.client, h.to, size)
			h.add(hookRow{Load: hookBare}, s, err)
		}
		for _, load := range []struct {
			name hookLoad
			run  func(*hooked) (hookSample, error)
		}{
			{hookBacklog, func(a *hooked) (hookSample, error) { return a.backlog(ctx, sizes(h.short).backlog) }},
			{hookLive, func(a *hooked) (hookSample, error) { return a.live(ctx, h.bench) }},
			{hookPaced, func(a *hooked) (hookSample, error) { return a.paced(ctx, h.bench, pacedRate) }},
		} {
			for _, a := range h.agents {
				if ctx.Err() != nil || !h.wants(load.name) {
					continue
				}
				s, err := load.run(a)
				h.add(hookRow{Load: load.name, Storage: a.storage}, s, err)
			}
		}
		if events := h.to.events.Load(); events > 0 {
			size = int(h.to.bytes.Load() / events)
		}
	}
}

// outages measures all agents during the same outage.
func (h *hookBench) outages(ctx context.Context) {
	if !h.wants(hookOutage) || ctx.Err() != nil || len(h.agents) == 0 {
		return
	}
	samples, errs := make([]hookSample, len(h.agents)), make([]error, len(h.agents))
	err := h.to.close()
	over, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for i, a := range h.agents {
		wg.Go(func() { samples[i], errs[i] = a.outage(ctx, over) })
	}
	sleepUntil(ctx, time.Now().Add(sizes(h.short).outage))
	err = firstError(err, h.to.listen(ctx, h.to.addr))
	end()
	wg.Wait()
	for i, a := range h.agents {
		h.add(hookRow{Load: hookOutage, Storage: a.storage}, samples[i], firstError(err, errs[i]))
	}
}

// dead measures live loads of two agents, in turn. One of them has webhooks at dead endpoints.
func (h *hookBench) dead(ctx context.Context) {
	for _, alone := range h.agents {
		if !h.wants(hookDead) || ctx.Err() != nil {
			continue
		}
		withDead, err := h.startAgent(ctx, alone.storage, "dead-"+alone.storage, h.to)
		if err == nil {
			err = withDead.addDeadEndpoints(ctx, sizes(h.short).dead, sizes(h.short).dead, taskChunks, chunkBytes)
		}
		if err != nil {
			h.add(hookRow{Load: hookDead, Storage: alone.storage}, hookSample{}, err)
		}
		for range h.rounds {
			if err != nil || ctx.Err() != nil {
				break
			}
			s, liveErr := alone.live(ctx, h.bench)
			h.add(hookRow{Load: hookAlone, Storage: alone.storage}, s, liveErr)
			s, liveErr = withDead.live(ctx, h.bench)
			h.add(hookRow{Load: hookDead, Storage: alone.storage}, s, liveErr)
		}
		if withDead != nil {
			withDead.stop()
		}
	}
}

// pending measures the memory of a server with undelivered events.
func (h *hookBench) pending(ctx context.Context) {
	if !h.wants(hookMemory) || !slices.Contains(h.servers, "holdfast-"+storageSQLite) || ctx.Err() != nil {
		return
	}
	const chunks = 98
	row := hookRow{Load: hookMemory, Storage: storageSQLite}
	a, err := h.startAgent(ctx, storageSQLite, "pending", h.to)
	if err != nil {
		h.add(row, hookSample{}, err)
		return
	}
	defer a.stop()
	begin := time.Now()
	tasks := sizes(h.short).pending / (chunks + 2)
	err = a.addDeadEndpoints(ctx, tasks, 1, chunks, pendingChunk)
	s := hookSample{Events: int64(tasks * (chunks + 2)), Elapsed: time.Since(begin)}
	s.PerSecond = float64(s.Events) / s.Elapsed.Seconds()
	s.RSS, s.Peak = a.memory()
	h.add(row, s, err)
}
