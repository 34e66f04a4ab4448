package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Goals of webhooks.
const (
	hookShare    = 0.5                   // of the rate of a bare client
	hookStored   = 0.33                  // the same, for a backlog in a database
	hookP99      = 25 * time.Millisecond // from the commit to the response
	hookLowered  = 0.8                   // of the rate without dead endpoints
	hookDrained  = 15 * time.Second      // from the time at which the receiver responds again
	hookPeakGoal = 512 << 20             // bytes, with a million pending events
)

func (o outcome) hook(l hookLoad, storage string) hookRow {
	for _, r := range o.Hooks {
		if r.Load == l && r.Storage == storage {
			return r
		}
	}
	return hookRow{}
}

func hookMedian[T int64 | float64 | time.Duration](r hookRow, figure func(hookSample) T) (m T) {
	var all []T
	for _, s := range r.Samples {
		all = append(all, figure(s))
	}
	if len(all) == 0 {
		return m
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

func hookRate(s hookSample) float64 { return s.PerSecond }

// writeHooks prints the results of webhooks.
func (o outcome) writeHooks(w io.Writer) {
	if len(o.Hooks) == 0 {
		return
	}
	fmt.Fprintf(w, "\nwebhooks: events delivered, signed and in order, %d of a task over %d connections; the receiver is on this machine, and the bare client posts to it\n",
		taskEvents, hookConnections)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "  load\tstorage\tevents/s\tx bare\tp50\tp99\tcpu/event\twrong\tgoal\n")
	rows := slices.Clone(o.Hooks)
	order := []hookLoad{hookBare, hookBacklog, hookLive, hookPaced, hookAlone, hookDead, hookOutage, hookMemory}
	slices.SortStableFunc(rows, func(a, b hookRow) int { return slices.Index(order, a.Load) - slices.Index(order, b.Load) })
	bare := hookMedian(o.hook(hookBare, ""), hookRate)
	for _, r := range rows {
		if len(r.Samples) == 0 {
			fmt.Fprintf(tw, "  %s\t%s\tnot measured: %s\n", r.Load.text(), r.Storage, r.Failed)
			continue
		}
		share := "-"
		if rate := hookMedian(r, hookRate); bare > 0 && r.Load != hookMemory && r.Load != hookOutage {
			share = fmt.Sprintf("%.2f", rate/bare)
		}
		fmt.Fprintf(tw, "  %s\t%s\t%.0f\t%s\t%s\t%s\t%s\t%d\t%s\n", r.Load.text(), r.Storage, hookMedian(r, hookRate), share,
			brief(hookMedian(r, func(s hookSample) time.Duration { return s.Latency.P50 })),
			brief(hookMedian(r, func(s hookSample) time.Duration { return s.Latency.P99 })),
			r.cpuText(), r.wrong(), o.hookGoal(r))
	}
	_ = tw.Flush() // into memory
}

func (r hookRow) wrong() (n int64) {
	for _, s := range r.Samples {
		n += s.Wrong
	}
	return n
}

// cpuText returns the processor time per event, of the server and of the database.
func (r hookRow) cpuText() string {
	per := func(cpu func(hookSample) time.Duration) time.Duration {
		return hookMedian(r, func(s hookSample) time.Duration { return cpu(s) / time.Duration(max(s.Events, 1)) })
	}
	text := brief(per(func(s hookSample) time.Duration { return s.ServerCPU }))
	if db := per(func(s hookSample) time.Duration { return s.DatabaseCPU }); db > 0 {
		text += "+" + brief(db)
	}
	return text
}

// hookGoal returns the goal of a row, and whether it is met.
func (o outcome) hookGoal(r hookRow) string {
	rate := hookMedian(r, hookRate)
	var text string
	var ok bool
	switch r.Load {
	case hookBare, hookAlone:
		return ""
	case hookBacklog, hookLive:
		bare := hookMedian(o.hook(hookBare, ""), hookRate)
		share := hookShare
		if r.Load == hookBacklog && r.Storage != storageMemory {
			share = hookStored
		}
		text, ok = fmt.Sprintf(">= %.0f%% of bare", share*100), rate >= share*bare
	case hookPaced:
		text, ok = fmt.Sprintf("p99 < %v", hookP99), hookMedian(r, func(s hookSample) time.Duration { return s.Latency.P99 }) < hookP99
	case hookDead:
		alone := hookMedian(o.hook(hookAlone, r.Storage), hookRate)
		text, ok = fmt.Sprintf(">= %.0f%% of alone, is %.0f%%", hookLowered*100, 100*rate/max(alone, 1)), rate >= hookLowered*alone
	case hookOutage:
		took := hookMedian(r, func(s hookSample) time.Duration { return s.Elapsed })
		text, ok = fmt.Sprintf("drained <= %v after its return, is %s", hookDrained, brief(took)), took <= hookDrained
	case hookMemory:
		peak := hookMedian(r, func(s hookSample) int64 { return s.Peak })
		text = fmt.Sprintf("peak <= %d MB, is %d MB, now %d MB", hookPeakGoal>>20, peak>>20, hookMedian(r, func(s hookSample) int64 { return s.RSS })>>20)
		ok = peak <= hookPeakGoal
	}
	if ok {
		return text + ": met"
	}
	return text + ": NOT MET"
}

// text returns the load as shown in the table.
func (l hookLoad) text() string {
	switch l {
	case hookBare:
		return "bare client"
	case hookBacklog:
		return "backlog"
	case hookLive:
		return "live"
	case hookPaced:
		return fmt.Sprintf("%d events/s", pacedRate)
	case hookAlone:
		return "live, before the next"
	case hookDead:
		return "live, with dead endpoints"
	case hookOutage:
		return "after an outage"
	case hookMemory:
		return "pending events"
	}
	return string(l)
}
