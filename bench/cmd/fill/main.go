// Command fill adds finished tasks to a Holdfast store, to measure the effect of its size.
//
//	go run ./cmd/fill -data /tmp/bench -tasks 1000000
//	go run ./cmd/fill -storage postgres -database-url URL -schema bench -tasks 1000000
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/bench/internal/fill"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "fill:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var to fill.Location
	flags := flag.NewFlagSet("fill", flag.ContinueOnError)
	to.Flags(flags)
	n := flags.Int("tasks", 0, "number of tasks to add")
	if err := flags.Parse(args); err != nil {
		return err
	}
	start, shown := time.Now(), time.Time{}
	err := fill.Tasks(ctx, to, *n, func(done int) {
		if time.Since(shown) > time.Second || done == *n {
			shown = time.Now()
			fmt.Fprintf(os.Stderr, "%d of %d tasks, %.0f/s\n", done, *n, float64(done)/time.Since(start).Seconds())
		}
	})
	return err
}
