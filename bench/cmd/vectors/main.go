// Command vectors measures the recall and the rate of searches for documents by their embeddings, with
// filters and after changes, and compares them with chromem-go and with scans. It also measures the
// start and the memory of a store.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

type options struct {
	seed                          uint64
	dim, clusters, rows, searches int
	queries                       int
	dir, out                      string
	build, open, plot             bool
	gogc                          int
	duration                      time.Duration
}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	var o options
	flags := flag.NewFlagSet("vectors", flag.ContinueOnError)
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the vectors")
	flags.IntVar(&o.dim, "dim", 384, "dimension of the vectors")
	flags.IntVar(&o.clusters, "clusters", 2000, "number of clusters")
	flags.IntVar(&o.rows, "rows", 100_000, "number of vectors")
	flags.StringVar(&o.dir, "data", "", "data directory for -build and -open")
	flags.BoolVar(&o.build, "build", false, "store vectors in -data")
	flags.BoolVar(&o.open, "open", false, "measure the start of the store in -data")
	flags.IntVar(&o.searches, "searches", 10_000, "number of searches of -open")
	flags.IntVar(&o.gogc, "gogc", 100, "GOGC of -open")
	flags.StringVar(&o.out, "out", "../docs", "directory of the results and plots")
	flags.BoolVar(&o.plot, "plot", false, "draw the plots of the results in -out")
	flags.IntVar(&o.queries, "queries", 200, "number of queries")
	flags.DurationVar(&o.duration, "duration", time.Second, "processor time of each measurement")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case o.build:
		return build(ctx, w, &o)
	case o.open:
		return open(ctx, w, &o)
	case o.plot:
		r, err := readResults(o.out)
		if err != nil {
			return err
		}
		return r.plot(o.out)
	}
	return compare(ctx, w, &o)
}
