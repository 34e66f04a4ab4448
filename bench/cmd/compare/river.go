package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

// Settings of River's own benchmark, for throughput.
const (
	riverFetchCooldown = 2 * time.Millisecond
	riverPoll          = 20 * time.Millisecond
	riverWorkers       = river.QueueNumWorkersMax
)

// riverQueue measures River, a job queue on PostgreSQL, in this process. Callers insert a job that
// records its output, and wait until it is completed.
type riverQueue struct {
	db      *database
	pool    *pgxpool.Pool
	client  *river.Client[pgx.Tx]
	cancel  func() // ends the subscription
	waiting sync.Map
	reading sync.WaitGroup
}

type echoJob struct {
	Text string `json:"text"`
}

// Kind implements river.JobArgs.
func (echoJob) Kind() string { return "echo" }

type echoWorker struct{ river.WorkerDefaults[echoJob] }

// Work records the response with the job.
func (echoWorker) Work(ctx context.Context, job *river.Job[echoJob]) error {
	return river.RecordOutput(ctx, "echo: "+job.Args.Text)
}

func startRiver(ctx context.Context, db *database, callers int) (_ *riverQueue, err error) {
	q := &riverQueue{db: db}
	defer func() {
		if err != nil {
			err = errors.Join(err, q.stop())
		}
	}()
	schema := db.schema()
	if _, err := db.conn.Exec(ctx, "CREATE SCHEMA "+schema); err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(db.url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(min(callers, 24)) // small; more connections are slower
	if q.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, err
	}
	driver, quiet := riverpgxv5.New(q.pool), slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: schema, Logger: quiet})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, echoWorker{})
	q.client, err = river.NewClient(driver, &river.Config{
		Schema: schema, Logger: quiet, Workers: workers, FetchCooldown: riverFetchCooldown, FetchPollInterval: riverPoll,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
	})
	if err != nil {
		return nil, err
	}
	events, cancel := q.client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 64 * callers, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	q.cancel = cancel
	q.reading.Go(func() {
		for e := range events {
			q.completed(e.Job.ID) <- struct{}{}
		}
	})
	return q, q.client.Start(context.WithoutCancel(ctx))
}

// completed returns a channel that receives once when a job is completed. The event may arrive
// before the caller that inserted the job knows its id.
func (q *riverQueue) completed(id int64) chan struct{} {
	c, _ := q.waiting.LoadOrStore(id, make(chan struct{}, 1))
	return c.(chan struct{})
}

func (q *riverQueue) stop() (err error) {
	if q.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		err = q.client.StopAndCancel(ctx)
	}
	if q.cancel != nil {
		q.cancel()
	}
	q.reading.Wait()
	if q.pool != nil {
		q.pool.Close()
	}
	return err
}

// run inserts jobs with the given number of callers, each of which waits for its job, during warmUp
// and length. A job that is completed after warmUp counts if it was inserted before the end, so
// each caller completes at least one, even on a slow machine.
func (q *riverQueue) run(ctx context.Context, callers, payload int, warmUp, length time.Duration) (sample, error) {
	started := time.Now()
	from, until := started.Add(warmUp), started.Add(warmUp+length)
	limited, cancel := context.WithDeadlineCause(ctx, until.Add(loadgen.DefaultTimeout), errors.New("a job of River is not completed"))
	defer cancel()
	m := meter{db: q.db}
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() {
		if sleepUntil(limited, from) {
			m.start(limited)
		}
	})
	// A short round lasts until at least one job is completed.
	none := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(took) == 0
	}
	text := strings.Repeat("x", payload)
	for range callers {
		wg.Go(func() {
			for time.Now().Before(until) || none() {
				start := time.Now()
				err := q.work(limited, text)
				end := time.Now()
				mu.Lock()
				if err != nil {
					failed = err
				} else if end.After(from) {
					took = append(took, end.Sub(start))
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(from)
	if failed != nil {
		return sample{}, failed
	}
	out := sample{Report: loadgen.Report{
		Scenario: loadgen.Send, Concurrency: callers, PayloadBytes: payload, Requests: int64(len(took)), Elapsed: elapsed,
		PerSecond: float64(len(took)) / elapsed.Seconds(), Latency: quantiles(took),
	}}
	return out, m.end(ctx, &out)
}

func (q *riverQueue) work(ctx context.Context, text string) error {
	inserted, err := q.client.Insert(ctx, echoJob{Text: text}, nil)
	if err != nil {
		return err
	}
	id := inserted.Job.ID
	defer q.waiting.Delete(id)
	select {
	case <-q.completed(id):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
