package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// measureExpiry prints the rate at which n finished tasks are removed by their age, and the rate at
// which callers created and finished them.
func measureExpiry(ctx context.Context, name string, s store.Store, n int, creation time.Duration, out io.Writer) (err error) {
	// All tasks must be old enough when the janitor starts its pass.
	const age = time.Second
	wait := time.NewTimer(age + 100*time.Millisecond)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	e, err := engine.New(engine.Config{
		Store: s, NewID: newID, Handler: func(context.Context, *engine.Turn) error { return nil },
		Retention: engine.Retention{engine.RetainTasks: age},
	})
	if err != nil {
		return err
	}
	started := time.Now()
	if err := e.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Stop(context.WithoutCancel(ctx))) }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		if e.Health(ctx).Expired.Tasks >= int64(n) {
			break
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Since(started) > time.Minute+10*creation {
			return fmt.Errorf("%s: %+v were removed, want %d tasks", name, e.Health(ctx).Expired, n)
		}
	}
	took := time.Since(started)
	verdict := "met"
	if took > creation {
		verdict = "NOT MET"
	}
	_, err = fmt.Fprintf(out, "%-9s %.0f tasks/s created, %.0f/s deleted by age: %.2fx (goal >= 1: %s)\n", name,
		float64(n)/creation.Seconds(), float64(n)/took.Seconds(), creation.Seconds()/took.Seconds(), verdict)
	return err
}
