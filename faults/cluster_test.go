//go:build faults

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/faults/check"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/internal/testport"
)

// long returns the factor by which tests do more work: FAULTS_LONG, default 1.
func long(t *testing.T) int {
	t.Helper()
	text := os.Getenv("FAULTS_LONG")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("FAULTS_LONG is %q, want how many times as long: 1 or more", text)
	}
	return n
}

// cluster is a number of servers on one database.
type cluster struct {
	*site
	db, schema string
	addrs      []string
	replicas   []*process
	lb         *balancer
	// any sends each request to the next server in turn.
	any *process
}

// newCluster starts three scripted agents on a new schema.
func newCluster(t *testing.T, db string, args ...string) *cluster {
	t.Helper()
	c := newEmptyCluster(t, db, 3)
	c.args = args
	for i := range c.addrs {
		c.start(i, c.db)
	}
	return c
}

func newEmptyCluster(t *testing.T, db string, replicas int) *cluster {
	t.Helper()
	c := &cluster{site: newSite(t), db: db, schema: "t_" + strings.ReplaceAll(newID(), "-", ""), replicas: make([]*process, replicas)}
	for range c.replicas {
		c.addrs = append(c.addrs, testport.Addr(t))
	}
	c.lb = &balancer{addrs: c.addrs}
	through, err := client.New(client.Config{URL: "http://" + c.addrs[0] + "/", HTTPClient: &http.Client{Transport: c.lb}, Reconnects: 200})
	if err != nil {
		t.Fatal(err)
	}
	c.any = &process{t: t, client: through, log: new(processLog)}
	return c
}

// start starts the i-th server with a database URL.
func (c *cluster) start(i int, url string) {
	c.t.Helper()
	args := append([]string{"-database", url, "-schema", c.schema, "-effects", c.effects, "-addr", c.addrs[i]}, c.args...)
	c.replicas[i] = launch(c.t, c.addrs[i], exec.Command(agentBin, args...))
}

// prove stops the servers and checks the stored data: there are no tasks except ids, and each has
// ended or waits for its client.
func (c *cluster) prove(ids map[string]bool) *check.Report {
	c.t.Helper()
	for _, p := range c.replicas {
		p.kill()
	}
	report, err := check.Postgres(context.Background(), c.db, c.schema)
	if err != nil {
		c.t.Fatalf("the store is not sound: %v", err)
	}
	for id := range ids {
		if missing := report.Missing(id); len(missing) > 0 {
			c.t.Errorf("task %v was acknowledged and is lost", missing)
		}
	}
	if len(report.States) != len(ids) {
		c.t.Errorf("the store has %d tasks, want %d", len(report.States), len(ids))
	}
	for id, state := range report.States {
		if !state.Final() {
			c.t.Errorf("task %s is %s", id, state)
		}
	}
	return report
}

// execute runs a statement on a new connection.
func execute(ctx context.Context, url, text string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(ctx, text)
	return err
}

// ownDatabase is held by the test that has a database server of its own. Such a test stops or suspends
// the server under load, after which all replicas open their connections again: two at once need
// more than a slow machine has.
var ownDatabase sync.Mutex

// private starts a database server for one test, after other tests have ended theirs.
func private(t *testing.T, cfg pgtest.Config) *pgtest.Server {
	t.Helper()
	ownDatabase.Lock()
	t.Cleanup(ownDatabase.Unlock)
	db, err := pgtest.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// balancer is a transport that sends each request to the next server, or to the one after it if
// the connect fails.
type balancer struct {
	addrs []string

	mu   sync.Mutex
	next int
	out  []string // servers that get no requests
}

func (b *balancer) leaveOut(addrs ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out = addrs
}

func (b *balancer) pick() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		b.next++
		if addr := b.addrs[b.next%len(b.addrs)]; !slices.Contains(b.out, addr) {
			return addr
		}
	}
}

// RoundTrip implements http.RoundTripper.
func (b *balancer) RoundTrip(req *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		one := req.Clone(req.Context())
		one.URL.Host, one.Host = b.pick(), ""
		if req.GetBody != nil {
			body, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			one.Body = body
		}
		resp, err := httpClient.Transport.RoundTrip(one)
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" && try < len(b.addrs) {
			continue
		}
		return resp, err
	}
}

// storm sends texts from several senders until ctx is done, and records each message. It asserts
// that every rejection is marked as retryable, and returns their number. A task takes more work than
// its message, so senders are slower on a slow machine, where the tasks would never end otherwise.
func (a *acknowledged) storm(ctx context.Context, p *process, senders int, texts ...string) (refused int) {
	var wg sync.WaitGroup
	for n := range senders {
		wg.Go(func() {
			for i := n; ctx.Err() == nil; i++ {
				s := sentTask{message: withIDs(texts[i%len(texts)])}
				if i%2 == 1 {
					s = sentTask{message: client.Text(texts[i%len(texts)]), key: newID()}
				}
				started := time.Now()
				err := s.send(p)
				a.add(s)
				if err == nil {
					time.Sleep(min(max(25*time.Millisecond, 10*time.Since(started)), time.Second))
					continue
				}
				if a2a.CodeOf(err).Retryable() || errors.Is(err, context.DeadlineExceeded) {
					a.mu.Lock()
					refused++
					a.mu.Unlock()
				} else {
					p.t.Errorf("send = %v (%s), want an answer or an error that may pass", err, a2a.CodeOf(err))
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	return refused
}

// send sends the message and waits a limited time for the response.
func (s *sentTask) send(p *process) error {
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	event, err := p.client.Send(ctx, client.SendParams{Message: s.message, IdempotencyKey: s.key, Configuration: s.config})
	if err == nil {
		s.id = event.(*a2a.Task).ID
	}
	return err
}

// each calls f for every item, several at once.
func each[T any](items []T, f func(item T)) {
	var wg sync.WaitGroup
	room := make(chan struct{}, 8)
	for _, item := range items {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			f(item)
		})
	}
	wg.Wait()
}

// repeatAll is repeat with several senders at once. It retries until there is a response.
func (a *acknowledged) repeatAll(p *process) map[string]bool {
	var mu sync.Mutex
	ids := make(map[string]bool)
	each(a.sent, func(s sentTask) {
		again := s
		for end := time.Now().Add(await.Limit); ; time.Sleep(100 * time.Millisecond) {
			err := again.send(p)
			if err == nil {
				break
			}
			if time.Now().After(end) || !a2a.CodeOf(err).Retryable() && !errors.Is(err, context.DeadlineExceeded) {
				p.t.Errorf("repeated send: %v", err)
				return
			}
		}
		if s.id != "" && again.id != s.id {
			p.t.Errorf("repeated send created task %s, first it was %s", again.id, s.id)
		}
		mu.Lock()
		defer mu.Unlock()
		ids[again.id] = true
	})
	return ids
}

// awaitAll follows all tasks to their end, on different servers, and asserts that they are
// completed or wait for input.
func (c *cluster) awaitAll(ids map[string]bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), await.Limit)
	defer cancel()
	var list []string
	for id := range ids {
		list = append(list, id)
	}
	each(list, func(id string) {
		if err := follow(ctx, c.any.client, id); err != nil {
			c.t.Errorf("follow task %s: %v", id, err)
			return
		}
		task, err := c.any.client.Task(ctx, a2a.TaskQueryParams{ID: id})
		switch {
		case err != nil:
			c.t.Errorf("tasks/get %s: %v", id, err)
		case task.Status.State != a2a.StateCompleted && task.Status.State != a2a.StateInputRequired:
			c.t.Errorf("task %s is %s (%s)", id, task.Status.State, said(task))
		}
	})
}

// healed waits until each server completes a new message and reports that it is healthy. It
// returns the time that this took, and the tasks.
func (c *cluster) healed() (time.Duration, map[string]bool) {
	c.t.Helper()
	started := time.Now()
	ids := make(map[string]bool)
	for i, p := range c.replicas {
		await.Success(c.t, func() error {
			ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
			defer cancel()
			event, err := p.client.Send(ctx, client.SendParams{
				Message: client.Text("work 1ms"), Configuration: &a2a.MessageSendConfiguration{Blocking: true},
				IdempotencyKey: c.schema + strconv.Itoa(i) + started.String(),
			})
			if err != nil {
				return fmt.Errorf("server %d: %w", i, err)
			}
			task := event.(*a2a.Task)
			if ids[task.ID] = true; task.Status.State != a2a.StateCompleted {
				return fmt.Errorf("server %d: task %s is %s", i, task.ID, task.Status.State)
			}
			return nil
		})
	}
	took := time.Since(started)
	for i, p := range c.replicas {
		await.Success(c.t, func() error {
			var health map[string]any
			if p.getJSON("health", &health); health["status"] != "ok" {
				return fmt.Errorf("server %d says %v", i, health)
			}
			return nil
		})
	}
	return took, ids
}

// runner waits until a task runs. It returns the server that runs it, and the others.
func (c *cluster) runner(id string) (p *process, others []*process) {
	c.t.Helper()
	c.await("begin", id, "")
	pid := 0
	for _, e := range c.done() {
		if e.what == "begin" && e.task == id {
			pid = e.pid
		}
	}
	for _, r := range c.replicas {
		if r.cmd.Process.Pid == pid {
			p = r
		} else {
			others = append(others, r)
		}
	}
	if p == nil {
		c.t.Fatalf("task %s is run by process %d, which is none of the servers", id, pid)
	}
	return p, others
}

// sendTo sends a text to a server, and repeats this until that server runs the task. It records
// all tasks that it starts.
func (c *cluster) sendTo(p *process, text string, ids map[string]bool) string {
	c.t.Helper()
	for range 20 {
		id := p.send(text)
		ids[id] = true
		if r, _ := c.runner(id); r == p {
			return id
		}
	}
	c.t.Fatalf("server %s runs nothing of what is sent to it", p.url)
	return ""
}

// takeover returns the number of tasks that a process was running, and the time from since until
// another process had started the last of them.
func (c *cluster) takeover(pid int, since time.Time) (slowest time.Duration, tasks int) {
	running := make(map[string]bool)
	for _, e := range c.done() {
		switch {
		case e.pid == pid && e.what == "begin" && e.at.Before(since):
			running[e.task] = true
		case e.pid == pid && e.what == "end":
			delete(running, e.task)
		case e.pid != pid && e.what == "begin" && running[e.task] && e.at.After(since):
			delete(running, e.task)
			slowest = max(slowest, e.at.Sub(since))
			tasks++
		}
	}
	return slowest, tasks
}

// wantWholeChunks asserts that tasks with the text "chunks N D" have the artifacts of a single
// attempt.
func wantWholeChunks(t *testing.T, report *check.Report) {
	t.Helper()
	for id, events := range report.Logs {
		var f []string
		if len(events) > 0 && events[0].Received != nil {
			f = strings.Fields(events[0].Received.Text())
		}
		if len(f) < 2 || f[0] != "chunks" {
			continue
		}
		want := ""
		for i, n := 0, must(strconv.Atoi(f[1])); i < n; i++ {
			want += fmt.Sprintf("%d ", i)
		}
		got := ""
		for _, e := range events {
			if e.Artifact != nil {
				if !e.Append {
					got = ""
				}
				got += e.Artifact.Text()
			}
		}
		if got != want {
			t.Errorf("artifact of task %s = %q, want %q", id, got, want)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
