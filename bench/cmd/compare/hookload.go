package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

// The events of a task are: working, its chunks, completed.
const (
	taskChunks = 8
	chunkBytes = 400
	taskEvents = taskChunks + 2
)

// hooked is an agent with webhooks and their receiver.
type hooked struct {
	*server
	storage string
	client  *http.Client
	to      *receiver
}

// startAgent starts an agent on an empty store.
func (b *bench) startAgent(ctx context.Context, storage, name string, to *receiver) (*hooked, error) {
	binary, err := b.binary(ctx, hooks)
	if err != nil {
		return nil, err
	}
	args := []string{"-kind", "agent", "-storage", storage}
	switch storage {
	case storageSQLite:
		args = append(args, "-data", filepath.Join(b.dir, "hooks-"+name))
	case storagePostgres:
		db, err := b.database(ctx)
		if err != nil {
			return nil, err
		}
		args = append(args, "-database-url", db.url, "-schema", db.schema())
	}
	s, err := startServer(ctx, binary, filepath.Join(b.dir, "hooks-"+name+".log"), func(addr string) []string {
		return append(args, "-addr", addr)
	})
	if err != nil {
		return nil, err
	}
	if storage == storagePostgres {
		s.db = b.db
	}
	return &hooked{server: s, storage: storage, to: to, client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 2 * b.concurrency}, Timeout: loadgen.DefaultTimeout,
	}}, nil
}

func (h *hooked) stop() {
	h.client.CloseIdleConnections()
	h.server.stop()
}

var messages atomic.Int64

// send sends a message, with a webhook unless url is "", and returns the task.
func (h *hooked) send(ctx context.Context, text, url string, blocking bool) (task string, err error) {
	id := fmt.Sprintf("hook-%d-%d", time.Now().UnixNano(), messages.Add(1))
	webhook := ""
	if url != "" {
		webhook = fmt.Sprintf(`,"pushNotificationConfig":{"url":%q}`, url)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":%q,"role":"user",`+
		`"parts":[{"kind":"text","text":%q}]},"configuration":{"blocking":%t%s}}}`, id, text, blocking, webhook)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := h.client.Do(req)
	if err != nil {
		return "", err
	}
	answer, err := io.ReadAll(resp.Body)
	if closed := resp.Body.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return "", err
	}
	var parsed struct {
		Result struct{ ID string }
		Error  json.RawMessage
	}
	if err := json.Unmarshal(answer, &parsed); err != nil || parsed.Result.ID == "" {
		return "", fmt.Errorf("HTTP %d: no task: %.200s", resp.StatusCode, answer)
	}
	return parsed.Result.ID, nil
}

func taskText(chunks, bytes int, apart time.Duration) string {
	return fmt.Sprintf("%d %d %s", chunks, bytes, apart)
}

// sendAll sends n messages with several workers, or messages until ctx is done if n is below 1. A
// worker calls follow after each message, before it sends the next one.
func (h *hooked) sendAll(ctx context.Context, workers, n int, text string, blocking bool, url func(i int) string, follow func(task string)) (tasks []string, err error) {
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if n > 0 && i >= n {
					return
				}
				task, sendErr := h.send(ctx, text, url(i), blocking)
				if sendErr != nil && ctx.Err() != nil {
					return
				}
				mu.Lock()
				if sendErr != nil {
					err = sendErr
				} else {
					tasks = append(tasks, task)
				}
				mu.Unlock()
				if sendErr != nil {
					return
				}
				follow(task)
			}
		})
	}
	wg.Wait()
	return tasks, err
}

func (h *hooked) here(int) string { return h.to.url() }

// measured runs f and returns its results and its cost.
func (h *hooked) measured(ctx context.Context, f func() error) (s hookSample, err error) {
	m := meter{db: h.db, servers: []*server{h.server}}
	m.start(ctx)
	events, wrong, started := h.to.events.Load(), h.to.wrong.Load(), time.Now()
	if err := f(); err != nil {
		if why := h.exited(); why != nil {
			return s, why
		}
		return s, err
	}
	var spent sample
	err = m.end(ctx, &spent)
	s.Elapsed = time.Since(started)
	s.Events, s.Wrong = h.to.events.Load()-events, h.to.wrong.Load()-wrong
	s.PerSecond = float64(s.Events) / s.Elapsed.Seconds()
	s.ServerCPU, s.DatabaseCPU = spent.ServerCPU, spent.DatabaseCPU
	return s, err
}

// backlog blocks the receiver until the webhooks of a number of tasks wait, then unblocks it and
// measures until all events are delivered.
func (h *hooked) backlog(ctx context.Context, tasks int) (hookSample, error) {
	release := h.to.hold()
	open := sync.OnceFunc(release)
	defer open()
	limited, cancel := context.WithTimeout(ctx, longestHold)
	defer cancel()
	sent, err := h.sendAll(limited, 2*hookConnections, tasks, taskText(taskChunks, chunkBytes, 0), true, h.here, func(string) {})
	if err != nil {
		return hookSample{}, err
	}
	return h.measured(ctx, func() error {
		open()
		return h.to.await(ctx, sent, drainTimeout)
	})
}

// live runs workers that start a task when all events of their previous one were delivered. A short
// round lasts until at least one event was delivered.
func (h *hooked) live(ctx context.Context, b *bench) (hookSample, error) {
	length, cancel := context.WithCancel(ctx)
	defer cancel()
	var s hookSample
	var measuring error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		sleepUntil(length, time.Now().Add(b.duration/5))
		s, measuring = h.measured(ctx, func() error {
			started, events := time.Now(), h.to.events.Load()
			for until := started.Add(b.duration); sleepUntil(length, until) && h.to.events.Load() == events; until = until.Add(time.Millisecond) {
				if time.Since(started) > drainTimeout {
					return errNotDelivered
				}
			}
			return context.Cause(ctx)
		})
	})
	tasks, err := h.sendAll(length, b.concurrency, 0, taskText(taskChunks, chunkBytes, 0), false, h.here, func(task string) {
		select {
		case <-h.to.ended(task):
		case <-length.Done():
		}
	})
	cancel() // also if no worker could send
	wg.Wait()
	if err != nil || measuring != nil {
		return s, firstError(err, measuring)
	}
	return s, h.to.await(ctx, tasks, drainTimeout)
}

// paced starts tasks at a fixed rate. Each task writes its chunks one by one. paced measures
// the time from each event to its arrival.
func (h *hooked) paced(ctx context.Context, b *bench, perSecond int) (hookSample, error) {
	interval := time.Second * taskEvents / time.Duration(perSecond)
	started := time.Now()
	from, until := started.Add(b.duration/5), started.Add(b.duration/5+b.duration)
	var s hookSample
	var mu sync.Mutex
	var tasks []string
	var failed, measuring error
	var wg sync.WaitGroup
	wg.Go(func() {
		sleepUntil(ctx, from)
		h.to.times(true)
		s, measuring = h.measured(ctx, func() error {
			sleepUntil(ctx, until)
			return nil
		})
		s.Latency = h.to.times(false)
	})
	for due := started; due.Before(until) && sleepUntil(ctx, due); due = due.Add(interval) {
		wg.Go(func() {
			task, err := h.send(ctx, taskText(taskChunks, chunkBytes, pacedApart), h.to.url(), false)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				return
			}
			tasks = append(tasks, task)
		})
	}
	wg.Wait()
	if ctx.Err() != nil || failed != nil || measuring != nil {
		return s, firstError(context.Cause(ctx), failed, measuring)
	}
	return s, h.to.await(ctx, tasks, drainTimeout)
}

// outage sends messages at a fixed rate until the receiver responds again, which done over reports.
// It measures from then until all events are delivered.
func (h *hooked) outage(ctx, over context.Context) (hookSample, error) {
	started := time.Now()
	interval := time.Second * taskEvents / outageRate
	var tasks []string
	for due := started; sleepUntil(over, due); due = due.Add(interval) {
		task, err := h.send(ctx, taskText(taskChunks, chunkBytes, 0), h.to.url(), true)
		if err != nil {
			return hookSample{}, err
		}
		tasks = append(tasks, task)
	}
	return h.untilDelivered(ctx, tasks, time.Since(started)+drainTimeout)
}

// untilDelivered measures until all events of tasks are delivered. Other tasks may use the same
// receiver.
func (h *hooked) untilDelivered(ctx context.Context, tasks []string, most time.Duration) (hookSample, error) {
	s, err := h.measured(ctx, func() error { return h.to.await(ctx, tasks, most) })
	s.Events = int64(len(tasks) * taskEvents)
	s.PerSecond = float64(s.Events) / s.Elapsed.Seconds()
	return s, err
}

// deadURL returns the URL of one of many endpoints that refuse connections.
func deadURL(i int) string {
	return fmt.Sprintf("http://127.%d.%d.%d:9999/", 64+i/65536%64, i/256%256, i%256)
}

// addDeadEndpoints creates tasks with webhooks at the given number of dead endpoints.
func (h *hooked) addDeadEndpoints(ctx context.Context, tasks, endpoints, chunks, size int) error {
	_, err := h.sendAll(ctx, 2*hookConnections, tasks, taskText(chunks, size, 0), true, func(i int) string { return deadURL(i % endpoints) }, func(string) {})
	return err
}

// bareLoad posts bodies of the given size with a bare client.
func (b *bench) bareLoad(ctx context.Context, client *server, to *receiver, size int) (s hookSample, err error) {
	m := meter{servers: []*server{client}}
	m.start(ctx)
	started, posted := time.Now(), to.bare.Load()
	url := fmt.Sprintf("%srun?url=http://%s%s&bytes=%d&connections=%d&for=%s", client.url, to.addr, barePath, size, hookConnections, b.duration)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return s, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, err
	}
	answer, err := io.ReadAll(resp.Body)
	if closed := resp.Body.Close(); err == nil {
		err = closed
	}
	n, parseErr := strconv.Atoi(string(bytes.TrimSpace(answer)))
	if err != nil || parseErr != nil {
		return s, fmt.Errorf("bare client: HTTP %d: %.200s: %w", resp.StatusCode, answer, firstError(err, parseErr))
	}
	var spent sample
	err = m.end(ctx, &spent)
	s.Elapsed, s.Events, s.ServerCPU = time.Since(started), to.bare.Load()-posted, spent.ServerCPU
	s.PerSecond = float64(n) / s.Elapsed.Seconds()
	return s, err
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
