package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

// write prints a table per scenario.
func (o outcome) write(w io.Writer, opts options) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; concurrency %d, payload %d B, median of %d rounds of %v\n", o.Machine, opts.concurrency, opts.payload, opts.rounds, opts.duration)
	for _, s := range opts.scenarios {
		fmt.Fprintf(&b, "\n%s: %s\n", s, describe(s))
		tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		last := "x official\tx echo\tgoal"
		if o.growth {
			last = "x slower\tgoal"
		}
		fmt.Fprintf(tw, "  server\treq/s\tp50\tp99\terrors\tcpu/req\tload cpu\t%s\n", last)
		for _, name := range o.names {
			o.writeRow(tw, s, name)
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	for _, g := range o.goals {
		if _, ok := o.row(g.scenario, g.contender); !ok && o.Missing[g.contender] == "" && slices.Contains(opts.scenarios, g.scenario) {
			fmt.Fprintf(&b, "\n%s, %s: %s\n", g.scenario, g.contender, g.text(0, 0))
		}
	}
	fmt.Fprintf(&b, "\ncpu/req is the server's and, after +, PostgreSQL's; load cpu is the generator's share of all processors.\n")
	if o.Database != "" {
		fmt.Fprintf(&b, "\n%s\n", o.Database)
	}
	o.writeShared(&b)
	o.writeSizes(&b)
	o.writeHeld(&b)
	o.writeStreams(&b, opts.streamSizes())
	o.writeHooks(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (o outcome) writeRow(w io.Writer, s loadgen.Scenario, name string) {
	r, _ := o.row(s, name)
	if why, ok := o.Missing[name]; ok {
		fmt.Fprintf(w, "  %s\tmissing: %s\n", name, why)
		return
	}
	switch r.Skipped {
	case onlySends, only03, onlyUnary:
		return
	}
	if len(r.Samples) == 0 {
		fmt.Fprintf(w, "  %s\tnot measured: %s\n", name, r.Skipped)
		return
	}
	fmt.Fprintf(w, "  %s\t%.0f\t%s\t%s\t%d\t%s\t%.0f%%\t", name, median(r.Samples, rate),
		brief(median(r.Samples, p50)),
		brief(median(r.Samples, p99)),
		r.errors(), r.cpuText(), 100*median(r.Samples, generatorShare))
	if o.growth {
		fmt.Fprintf(w, "%s\n", o.growthText(s, name))
		return
	}
	fmt.Fprintf(w, "%s\t%s\t%s\n", o.ratio(s, name, official), o.ratio(s, name, echo), o.goalText(s, name))
}

func (o outcome) row(s loadgen.Scenario, name string) (row, bool) {
	for _, r := range o.Rows {
		if r.Scenario == s && r.Contender == name {
			return r, true
		}
	}
	return row{}, false
}

func (o outcome) rate(s loadgen.Scenario, name string) float64 {
	r, _ := o.row(s, name)
	return median(r.Samples, rate)
}

func (o outcome) ratio(s loadgen.Scenario, name, base string) string {
	b := o.rate(s, base)
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", o.rate(s, name)/b)
}

func (o outcome) goalText(s loadgen.Scenario, name string) string {
	var texts []string
	for _, g := range o.goals {
		if g.scenario == s && g.contender == name {
			texts = append(texts, g.text(o.rate(s, name), o.rate(s, g.against)))
		}
	}
	return strings.Join(texts, "; ")
}

// growthText compares a store with the smallest one, which is the first contender.
func (o outcome) growthText(s loadgen.Scenario, name string) string {
	small, got := o.rate(s, o.names[0]), o.rate(s, name)
	if name == o.names[0] || small == 0 || got == 0 {
		return "-\t"
	}
	met := "met"
	if small/got > withinGrowth {
		met = "NOT MET"
	}
	return fmt.Sprintf("%.2f\t<= %gx: %s", small/got, withinGrowth, met)
}

// cpuText returns the processor time per request, of the server and of the database.
func (r row) cpuText() string {
	text := brief(median(r.Samples, cpuPerRequest))
	if db := median(r.Samples, databaseCPUPerRequest); db > 0 {
		text += "+" + brief(db)
	}
	return text
}

func databaseCPUPerRequest(s sample) time.Duration {
	return s.DatabaseCPU / time.Duration(max(s.Requests, 1))
}

func cpuPerRequest(s sample) time.Duration {
	return s.ServerCPU / time.Duration(max(s.Requests, 1))
}

func generatorShare(s sample) float64 {
	return s.GeneratorCPU.Seconds() / s.Elapsed.Seconds() / float64(runtime.NumCPU())
}

// brief formats a figure with three digits.
func brief(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d >= 100*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

func describe(s loadgen.Scenario) string {
	switch s {
	case loadgen.Send:
		return "blocking message/send, one artifact"
	case loadgen.SendGet:
		return "non-blocking message/send, then tasks/get until completed (submit, claim, work, poll)"
	case loadgen.Stream:
		return "message/stream to the end"
	case loadgen.Get:
		return "tasks/get of a completed task"
	case loadgen.List:
		return "tasks/list, a page of 20"
	case loadgen.Contexts:
		return "contexts/list, a page of 20: all, active ones, with a tag, with two, by name"
	case loadgen.Echo:
		return "JSON there and back"
	}
	return ""
}
