package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

// streamsLoad is the name under which streams are selected.
const streamsLoad = "streams"

// Goals of streams.
const (
	streamP99   = 50 * time.Millisecond // from the write of a chunk to its arrival at a subscriber
	streamsRSS  = 400 << 20             // bytes, with idle streams
	streamsCost = 0.9                   // of the rate of sends without idle streams
)

// streamSizes are the sizes of the loads.
type streamSizes struct {
	subscribers, events, idle, idleTasks int
	pause, connect                       time.Duration
}

func (o options) streamSizes() streamSizes {
	if o.short {
		return streamSizes{subscribers: 50, events: 5, idle: 200, idleTasks: 10, pause: 20 * time.Millisecond, connect: time.Second}
	}
	return streamSizes{subscribers: 1000, events: 100, idle: 10_000, idleTasks: 100, pause: 100 * time.Millisecond, connect: 5 * time.Second}
}

// streamRow has the results of one server.
type streamRow struct {
	Server   string        `json:"server"`
	Failed   string        `json:"failed,omitempty"`
	P50      time.Duration `json:"p50Ns"`
	P99      time.Duration `json:"p99Ns"`
	Max      time.Duration `json:"maxNs"`
	RSS      int64         `json:"rssBytes,omitempty"` // with idle streams
	IdleRSS  int64         `json:"idleRSSBytes,omitempty"`
	Sends    float64       `json:"sendsPerSecond,omitempty"` // without idle streams
	IdleRate float64       `json:"idleSendsPerSecond,omitempty"`
	NoIdle   string        `json:"noIdle,omitempty"` // why idle streams were not measured
}

// streams measures subscribers of one task, and the cost of idle streams.
func (b *bench) streams(ctx context.Context, out *outcome) error {
	reference, err := b.fanoutLatency(ctx)
	out.addStreams(reference, err)
	if slices.Contains(b.servers, official10) {
		row, err := b.streamsOfOfficial(ctx)
		out.addStreams(row, err)
	}
	for _, storage := range []string{storageMemory, storageSQLite, storagePostgres} {
		if name := "holdfast-" + storage; slices.Contains(b.servers, name) {
			row, err := b.streamsOf(ctx, storage)
			row.Server = name
			out.addStreams(row, err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (o *outcome) addStreams(r streamRow, err error) {
	if err != nil {
		r.Failed = err.Error()
		o.failed = append(o.failed, fmt.Errorf("streams of %s: %w", r.Server, err))
	}
	o.Streams = append(o.Streams, r)
}

// fanoutLatency measures a bare server that sends each event to all streams.
func (b *bench) fanoutLatency(ctx context.Context) (row streamRow, err error) {
	row.Server = "fanout"
	binary, err := b.binary(ctx, refserver)
	if err != nil {
		return row, err
	}
	s, err := startServer(ctx, binary, filepath.Join(b.dir, "fanout.log"), func(addr string) []string { return []string{"-kind", "fanout", "-addr", addr} })
	if err != nil {
		return row, err
	}
	defer s.stop()
	sizes := b.streamSizes()
	all, err := subscribers(ctx, s.url, sizes.subscribers, func(_ int, host string) string {
		return "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
	})
	if err != nil {
		return row, err
	}
	defer closeAll(all)
	post := func() error {
		for range sizes.events {
			time.Sleep(sizes.pause)
			if err := postOne(ctx, s.url, fmt.Sprintf("@%d@%s", time.Now().UnixNano(), strings.Repeat("x", 300))); err != nil {
				return err
			}
		}
		return nil
	}
	return row, row.measure(all, sizes.events, post)
}

func postOne(ctx context.Context, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// measure reads the events of all streams, which produce causes, and sets the latencies.
func (r *streamRow) measure(all []*subscriber, events int, produce func() error) error {
	errs := make([]error, len(all)+1)
	var wg sync.WaitGroup
	for i, s := range all {
		wg.Go(func() { errs[i] = s.read(events) })
	}
	if errs[len(all)] = produce(); errs[len(all)] != nil {
		closeAll(all)
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var seen []time.Duration
	for _, s := range all {
		seen = append(seen, s.seen...)
	}
	slices.Sort(seen)
	r.P50, r.P99, r.Max = seen[len(seen)/2], seen[len(seen)*99/100], seen[len(seen)-1]
	return nil
}

// streamsOf measures one kind of storage.
func (b *bench) streamsOf(ctx context.Context, storage string) (row streamRow, err error) {
	agent, err := b.startAgent(ctx, storage, "streams-"+storage, nil)
	if err != nil {
		return row, err
	}
	defer agent.stop()
	sizes := b.streamSizes()
	task, err := agent.send(ctx, fmt.Sprintf("%d 300 %s %s", sizes.events, sizes.pause, sizes.connect), "", false)
	if err != nil {
		return row, err
	}
	all, err := subscribers(ctx, agent.url, sizes.subscribers, func(_ int, host string) string { return subscription(host, task) })
	if err != nil {
		return row, err
	}
	err = row.measure(all, sizes.events, func() error { return nil })
	closeAll(all)
	if err == nil {
		err = b.idleStreams(ctx, agent, &row)
	}
	return row, err
}

// noIdleOfficial is the reason why idle streams of the official SDK are not measured.
const noIdleOfficial = "no idle streams: it ends streams of paused tasks and opens none for them"

// streamsOfOfficial measures the subscribers of a task of the official SDK.
func (b *bench) streamsOfOfficial(ctx context.Context) (row streamRow, err error) {
	row.Server = official10
	row.NoIdle = noIdleOfficial
	binary, err := b.binary(ctx, refserver)
	if err != nil {
		return row, err
	}
	s, err := startServer(ctx, binary, filepath.Join(b.dir, "streams-official.log"), func(addr string) []string {
		return []string{"-kind", "official-1.0-chunks", "-addr", addr}
	})
	if err != nil {
		return row, err
	}
	defer s.stop()
	sizes := b.streamSizes()
	task, err := sendNow10(ctx, s.url, fmt.Sprintf("%d 300 %s %s", sizes.events, sizes.pause, sizes.connect))
	if err != nil {
		return row, err
	}
	all, err := subscribers(ctx, s.url, sizes.subscribers, func(_ int, host string) string { return subscription(host, task) })
	if err != nil {
		return row, err
	}
	defer closeAll(all)
	return row, row.measure(all, sizes.events, func() error { return nil })
}

// sendNow10 sends a message of A2A 1.0 and returns the task, which is in progress.
func sendNow10(ctx context.Context, url, text string) (task string, err error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m-%d","role":"ROLE_USER","parts":[{"text":%q}]},`+
		`"configuration":{"returnImmediately":true}}}`, time.Now().UnixNano(), text)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("A2A-Version", "1.0")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	answer, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return "", err
	}
	var parsed struct {
		Result struct{ Task struct{ ID string } }
	}
	if err := json.Unmarshal(answer, &parsed); err != nil || parsed.Result.Task.ID == "" {
		return "", fmt.Errorf("HTTP %d: no task: %.200s", resp.StatusCode, answer)
	}
	return parsed.Result.Task.ID, nil
}

// subscription returns the HTTP request to subscribe to a task.
func subscription(host, task string) string {
	body := `{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"` + task + `"}}`
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: %s\r\nA2A-Version: 1.0\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		host, len(body), body)
}

// idleStreams measures the memory of streams of paused tasks, and sends without and with them in
// turn.
func (b *bench) idleStreams(ctx context.Context, agent *hooked, row *streamRow) error {
	sizes := b.streamSizes()
	var tasks []string
	for range sizes.idleTasks {
		task, err := agent.send(ctx, "wait", "", true)
		if err != nil {
			return err
		}
		tasks = append(tasks, task)
	}
	open := func() ([]*subscriber, error) {
		return subscribers(ctx, agent.url, sizes.idle, func(i int, host string) string { return subscription(host, tasks[i%len(tasks)]) })
	}
	row.RSS, _ = agent.memory()
	all, err := open()
	if err != nil {
		return err
	}
	row.IdleRSS, _ = agent.memory()
	closeAll(all)
	var without, with []sample
	for range b.rounds {
		s, err := b.sample(ctx, loadgen.Send, agent.server)
		if err != nil {
			return err
		}
		without = append(without, s)
		all, err := open()
		if err != nil {
			return err
		}
		s, err = b.sample(ctx, loadgen.Send, agent.server)
		closeAll(all)
		if err != nil {
			return err
		}
		with = append(with, s)
	}
	row.Sends, row.IdleRate = median(without, rate), median(with, rate)
	return nil
}

// writeStreams prints the results of streams.
func (o outcome) writeStreams(w io.Writer, sizes streamSizes) {
	if len(o.Streams) == 0 {
		return
	}
	fmt.Fprintf(w, "\nstreams: %d subscribers of one task, %d events of 300 B every %v, from the write of the handler, which is committed up to 20 ms later, to the arrival; fanout sends the events of bare HTTP requests and stores nothing.\n"+
		"Then %d streams of %d paused tasks: resident memory of the server, and blocking sends without and with them\n", sizes.subscribers, sizes.events, sizes.pause, sizes.idle, sizes.idleTasks)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "  server\tp50\tp99\tmax\tgoal\tMiB without\tMiB with\tgoal\tsends/s without\tsends/s with\tratio\tgoal\n")
	for _, r := range o.Streams {
		if r.Failed != "" {
			fmt.Fprintf(tw, "  %s\tnot measured: %s\n", r.Server, r.Failed)
			continue
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\t%s\t", r.Server, brief(r.P50), brief(r.P99), brief(r.Max), judged(fmt.Sprintf("p99 <= %v", streamP99), r.P99 <= streamP99))
		if r.IdleRate > 0 {
			ratio := r.IdleRate / r.Sends
			fmt.Fprintf(tw, "%d\t%d\t%s\t%.0f\t%.0f\t%.2f\t%s", r.RSS>>20, r.IdleRSS>>20, judged(fmt.Sprintf("<= %d", streamsRSS>>20), r.IdleRSS <= streamsRSS),
				r.Sends, r.IdleRate, ratio, judged(fmt.Sprintf(">= %.2f", streamsCost), ratio >= streamsCost))
		}
		if r.NoIdle != "" {
			fmt.Fprint(tw, r.NoIdle)
		}
		fmt.Fprintln(tw)
	}
	_ = tw.Flush() // into memory
}

// judged returns a goal and whether it is met.
func judged(goal string, met bool) string {
	if met {
		return goal + ": met"
	}
	return goal + ": NOT MET"
}
