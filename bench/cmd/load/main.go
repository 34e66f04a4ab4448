// Command load measures a running A2A server. Each connection sends its next request when the
// response to the previous one has been read and checked. Wrong responses are errors and count
// neither in rates nor in latencies. The tasks that the command creates remain in the server's
// store. The server should run an agent that does no work of its own:
//
//	holdfast serve --agent echo --data /tmp/bench &
//	go run ./cmd/load -scenario send,get -c 16 -d 10s
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "load:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	all := slices.DeleteFunc(loadgen.Scenarios(), func(s loadgen.Scenario) bool { return s == loadgen.Echo })
	var cfg loadgen.Config
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.StringVar(&cfg.URL, "url", "http://127.0.0.1:3773/", "URL of the server")
	flags.StringVar(&cfg.Token, "token", "", "bearer token")
	flags.IntVar(&cfg.Concurrency, "c", loadgen.DefaultConcurrency, "number of connections, each with one request at a time")
	flags.DurationVar(&cfg.Duration, "d", loadgen.DefaultDuration, "how long each scenario is measured")
	flags.DurationVar(&cfg.WarmUp, "warm-up", time.Second, "load before the measurement starts")
	flags.IntVar(&cfg.PayloadBytes, "payload", loadgen.DefaultPayloadBytes, "size of the text in each message, in bytes")
	names := flags.String("scenario", "", fmt.Sprintf("scenarios to measure, separated by commas: %v, or echo for a server that returns each request (default all but echo)", all))
	binding := flags.String("binding", string(loadgen.JSONRPC03), fmt.Sprintf("version and transport of the requests, one of %v", loadgen.Bindings()))
	asJSON := flags.Bool("json", false, "print one JSON report per line")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cfg.Binding = loadgen.Binding(*binding)
	if *names != "" {
		all = nil
		for name := range strings.SplitSeq(*names, ",") {
			all = append(all, loadgen.Scenario(name))
		}
	}
	failed := int64(0)
	for _, cfg.Scenario = range all {
		report, err := loadgen.Run(ctx, cfg)
		if err != nil {
			return err
		}
		failed += report.Errors
		if *asJSON {
			err = json.NewEncoder(out).Encode(report)
		} else {
			err = report.WriteText(out)
		}
		if err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d requests failed or returned a wrong answer", failed)
	}
	return nil
}
