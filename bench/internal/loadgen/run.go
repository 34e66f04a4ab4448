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

// Run measures the server of cfg and returns the results. It blocks for the preparation, cfg.WarmUp
// and the window, and then for the requests in progress, at most one timeout. If ctx ends earlier,
// it returns immediately with the error and the report so far, which omits interrupted requests.
func Run(ctx context.Context, cfg Config) (Report, error) {
	cfg = cfg.withDefaults()
	u, err := cfg.validate()
	if err != nil {
		return Report{}, err
	}
	r := newRun(cfg, u)
	workers := make([]*worker, cfg.Concurrency)
	if cfg.Binding == GRPC10 {
		for range (cfg.Concurrency + callsPerConn - 1) / callsPerConn {
			r.shared = append(r.shared, newSharedConn(cfg, u))
		}
	}
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

// run is the data that the workers of one measurement share. It is read-only while they work,
// except for tickets.
type run struct {
	cfg    Config
	url    *url.URL
	series string
	clock  clock
	send   template
	list   template

	getHead, get, getEnd string // the parts of a request for a task

	shared []*sharedConn // connections of gRPC, each of several workers

	tasks [][]byte // ids of the tasks created beforehand

	contexts []template // lists of contexts
	context  template   // creates a context

	from, until time.Duration // the window
	tickets     atomic.Int64  // requests started in the window, if their number is limited
}

// forever is a time that is never reached. Sums with it do not overflow.
const forever = time.Duration(1 << 62)

// clock returns the time since the start of a run. It costs less than time.Now.
type clock struct{ base time.Time }

func (c *clock) now() time.Duration { return time.Since(c.base) }

func newRun(cfg Config, u *url.URL) *run {
	r := &run{
		cfg:    cfg,
		url:    u,
		series: newSeries(),
		clock:  clock{base: time.Now()},
	}
	r.setTemplates(cfg, u)
	return r
}

// watch interrupts the workers when ctx ends, and calls Config.OnStart when the window starts.
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

// prepare connects all workers and creates the tasks and contexts that the scenario reads.
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
	// The error of one worker suffices: the others have the same one, or were interrupted.
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
			w.tally.before, w.tally.events = *w.wire.counted(), 0
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
		if !w.wire.connected() {
			// A server that does not respond must not cause a busy loop.
			if w.pause(ctx, time.Millisecond<<min(failures, 8)) != nil {
				return
			}
			failures++
			begin = r.clock.now()
		}
	}
}

// each calls do for all workers concurrently and waits for all.
func each(workers []*worker, do func(*worker)) {
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() { do(w) })
	}
	wg.Wait()
}
