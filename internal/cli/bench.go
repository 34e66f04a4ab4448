package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-dev/holdfast/internal/loadgen"
)

// benchCmd measures servers.
type benchCmd struct {
	Run  benchRunCmd  `cmd:"" default:"withargs" help:"Load a running server and show rates and latencies."`
	Fill benchFillCmd `cmd:"" help:"Fill a store with finished tasks, to measure what size costs."`
}

type benchRunCmd struct {
	Scenario    []string      `placeholder:"NAME" enum:"${scenarios}" group:"Load:" help:"What to measure: ${enum}; again for more. Default: all but echo, which is for plain servers that send back what they get."`
	Concurrency int           `short:"c" placeholder:"N" default:"64" group:"Load:" help:"Connections, each with one request at a time. Default: ${default}."`
	Duration    time.Duration `short:"d" placeholder:"DURATION" default:"5s" group:"Load:" help:"How long each scenario is measured. Default: ${default}."`
	Payload     size          `placeholder:"SIZE" default:"100B" group:"Load:" help:"The size of the text in each message. Default: ${default}."`
	WarmUp      time.Duration `placeholder:"DURATION" default:"1s" group:"Load:" help:"Load before the measurement begins. Default: ${default}."`

	connection
}

// Help says how to read the result.
func (benchRunCmd) Help() string {
	return `Each connection sends its next request when the answer to the last one has been read and checked; wrong answers are errors and count neither in rates nor in latencies. The server should run the echo agent, which does no work of its own. Beware: tasks that are made here stay in the server's store. To fill a store beforehand see holdfast help bench fill.

Examples:

    holdfast serve --agent echo --data /tmp/bench &
    holdfast bench
    holdfast bench --scenario send --scenario get -c 16 -d 10s --json`
}

func scenarioNames() []string {
	var names []string
	for _, s := range loadgen.Scenarios() {
		names = append(names, string(s))
	}
	return names
}

// Run measures one scenario after the other.
func (c *benchRunCmd) Run(ctx context.Context, a *app) error {
	if c.Concurrency < 1 || c.Duration <= 0 || c.WarmUp < 0 {
		return usagef("--concurrency and --duration must be more than 0, and --warm-up not negative")
	}
	scenarios := c.Scenario
	if len(scenarios) == 0 {
		for _, name := range scenarioNames() {
			if name != string(loadgen.Echo) {
				scenarios = append(scenarios, name)
			}
		}
		cl, err := c.client(nil)
		if err != nil {
			return err
		}
		if _, err := cl.CardJSON(ctx); err != nil {
			return c.explain(ctx, a, err)
		}
	}
	var reports []loadgen.Report
	var failed error
	for _, name := range scenarios {
		a.say("measuring %s at %s with %d connections for %s", name, c.url(), c.Concurrency, c.Duration)
		r, err := loadgen.Run(ctx, loadgen.Config{
			URL: strings.TrimRight(c.url(), "/") + "/", Token: c.Token, Scenario: loadgen.Scenario(name),
			Concurrency: c.Concurrency, Duration: c.Duration, PayloadBytes: int(c.Payload), WarmUp: c.WarmUp,
		})
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			failed = err
			break
		}
		reports = append(reports, r)
	}
	if len(reports) == 0 {
		return failed
	}
	return errors.Join(a.showReports(reports), failed)
}

func (a *app) showReports(reports []loadgen.Report) error {
	errs := int64(0)
	for _, r := range reports {
		errs += r.Errors
	}
	if a.json {
		raw, err := json.Marshal(reports)
		if err != nil {
			return err
		}
		a.out.raw(append(raw, '\n'))
	} else {
		a.writeReports(reports)
	}
	if errs > 0 {
		return fmt.Errorf("%d requests failed or were answered wrongly", errs)
	}
	return nil
}

func (a *app) writeReports(reports []loadgen.Report) {
	w := tabwriter.NewWriter(a.out.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "scenario\treq/s\tp50\tp95\tp99\tmax\trequests\terrors\t")
	for _, r := range reports {
		l := r.Latency
		_, _ = fmt.Fprintf(w, "%s\t%.0f\t%s\t%s\t%s\t%s\t%d\t%d\t\n", r.Scenario, r.PerSecond,
			millis(l.P50), millis(l.P95), millis(l.P99), millis(l.Max), r.Requests, r.Errors)
	}
	_ = w.Flush()
	for _, r := range reports {
		for _, e := range r.ErrorTexts {
			a.err.line("%s: %d times: %s", r.Scenario, e.Count, strings.TrimSpace(e.Text))
		}
	}
}

func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 10 {
		return fmt.Sprintf("%.2fms", ms)
	}
	return fmt.Sprintf("%.0fms", ms)
}
