package loadgen

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Run measures the server of cfg and returns what it saw. It blocks for the
// preparation, cfg.WarmUp and the window, and then for the requests still in
// progress, at most the timeout of one. When ctx ends before, it returns at
// once with the error and the report up to then; requests cut off by that
// count as nothing.
func Run(ctx context.Context, cfg Config) (Report, error) {
	cfg = cfg.withDefaults()
	u, err := cfg.validate()
	if err != nil {
		return Report{}, err
	}
	r := newRun(cfg, u)
	workers := make([]*worker, cfg.Concurrency)
	for i := range workers {
		workers[i] = newWorker(r, i)
	}
	defer func() {
		for _, w := range workers {
			w.wire.close()
		}
	}()
	prepared, ended := make(chan struct{}), make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(ctx, workers, prepared, ended) })
	defer watch.Wait()
	defer close(ended)

	if err := r.prepare(ctx, workers); err != nil {
		return Report{}, fmt.Errorf("loadgen: prepare %s: %w", cfg.Scenario, err)
	}
	r.from = r.clock.now() + cfg.WarmUp
	r.until = forever
	if cfg.Duration > 0 {
		r.until = r.from + cfg.Duration
	}
	close(prepared)
	each(workers, func(w *worker) { w.loop(ctx) })
	report := r.report(workers)
	if err := context.Cause(ctx); err != nil {
		return report, fmt.Errorf("loadgen: %s: %w", cfg.Scenario, err)
	}
	return report, nil
}

// run is what the workers of one measurement share. It is read-only while
// they work, but for the tickets.
type run struct {
	cfg    Config
	url    *url.URL
	series string
	clock  clock
	head   string // of a request, up to its content length
	send   template
	list   template
	tasks  [][]byte // ids of tasks made beforehand

	contexts []template // lists of contexts
	context  template   // makes one

	from, until time.Duration // the window
	tickets     atomic.Int64  // requests started in it, if they are limited
}

// forever is a time that does not come, with room for sums.
const forever = time.Duration(1 << 62)

// clock returns the time since the start of a run, cheaper than time.Now.
type clock struct{ base time.Time }

func (c *clock) now() time.Duration { return time.Since(c.base) }

func newRun(cfg Config, u *url.URL) *run {
	method, accept := "message/send", "application/json"
	if cfg.Scenario == Stream {
		method, accept = "message/stream", "text/event-stream"
	}
	head := header(cfg, u, accept)
	r := &run{
		cfg:    cfg,
		url:    u,
		series: newSeries(),
		clock:  clock{base: time.Now()},
		head:   head,
		send:   newTemplate(head, sendBody(method, cfg.Scenario != SendGet, cfg.PayloadBytes)),
		list:   newTemplate(head, listBody()),

		context: newTemplate(head, contextBody()),
	}
	for _, filters := range contextFilters {
		r.contexts = append(r.contexts, newTemplate(head, contextsBody(filters)))
	}
	return r
}

// watch interrupts the workers when ctx ends, and runs the callback of the config when the window starts.
func (r *run) watch(ctx context.Context, workers []*worker, prepared, ended <-chan struct{}) {
	var begin <-chan time.Time
	for {
		select {
		case <-prepared:
			prepared = nil
			begin = time.After(r.from - r.clock.now())
		case <-begin:
			if r.cfg.OnStart != nil {
				r.cfg.OnStart()
			}
		case <-ctx.Done():
			for _, w := range workers {
				w.wire.interrupt()
			}
			return
		case <-ended:
			return
		}
	}
}

// prepare connects all workers and makes the tasks and contexts that the scenario
// reads.
func (r *run) prepare(ctx context.Context, workers []*worker) error {
	errs := make([]error, len(workers))
	made := make([][][]byte, len(workers))
	want := 0
	if slices.Contains([]Scenario{Get, List, Contexts}, r.cfg.Scenario) {
		want = r.cfg.Tasks
	}
	each(workers, func(w *worker) {
		i := w.number
		if errs[i] = plain(w.wire.ready(ctx)); errs[i] != nil {
			return
		}
		for n := i; n < want; n += len(workers) {
			if errs[i] = w.onceSend(ctx); errs[i] != nil {
				return
			}
			made[i] = append(made[i], append([]byte(nil), w.answer.task...))
			if r.cfg.Scenario != Contexts || n%10 != 0 {
				continue
			}
			if errs[i] = w.makeContext(ctx); errs[i] != nil {
				return
			}
		}
	})
	for i := range workers {
		r.tasks = append(r.tasks, made[i]...)
	}
	// One worker's error says it: the others have the same, or were cut off.
	for _, err := range errs {
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
	}
	return nil
}

// loop makes requests until the window has ended.
func (w *worker) loop(ctx context.Context) {
	r := w.run
	failures := 0
	counting := false
	for begin := r.clock.now(); begin < r.until && ctx.Err() == nil; {
		counts := begin >= r.from
		if counts && r.cfg.Requests > 0 && r.tickets.Add(1) > int64(r.cfg.Requests) {
			return
		}
		if counts && !counting {
			counting = true
			w.tally.before, w.tally.events = w.wire.counts, 0
		}
		err := w.once(ctx)
		end := r.clock.now()
		if err != nil && ctx.Err() != nil {
			return
		}
		if counts {
			w.tally.record(begin, end, end <= r.until, err)
		}
		if begin = end; err == nil {
			failures = 0
			continue
		}
		if w.wire.nc == nil {
			// A server that does not answer must not cost a busy loop.
			if w.pause(ctx, time.Millisecond<<min(failures, 8)) != nil {
				return
			}
			failures++
			begin = r.clock.now()
		}
	}
}

// each runs do for every worker at the same time and waits for all.
func each(workers []*worker, do func(*worker)) {
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() { do(w) })
	}
	wg.Wait()
}
