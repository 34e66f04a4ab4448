//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

func TestEveryReplicaServesTasksOfOthers(t *testing.T) {
	parallel(t)
	// A third of a lease is longer than the test waits: no cancellation is detected by a renewal.
	c := newCluster(t, pgtest.URL(t), "-lease", (6 * await.Limit).String())
	ids := make(map[string]bool)
	id := c.replicas[0].send("chunks 75 20ms until read")
	ids[id] = true
	a, others := c.runner(id)
	b, other := others[0], others[1]
	wantState(t, b.task(id), a2a.StateWorking)
	c.release("read")
	var streams sync.WaitGroup
	for _, p := range []*process{b, other, c.any} {
		streams.Go(func() {
			if err := follow(t.Context(), p.client, id); err != nil {
				t.Errorf("stream of a task that runs elsewhere: %v", err)
			}
		})
		streams.Go(func() {
			if err := c.followHandedOn(id); err != nil {
				t.Errorf("stream that continues on another replica: %v", err)
			}
		})
	}
	streams.Wait()
	task := other.task(id)
	wantState(t, task, a2a.StateCompleted)
	if n := len(strings.Fields(task.Artifacts[0].Text())); n != 75 {
		t.Errorf("the artifact has %d chunks, want 75", n)
	}

	canceled := a.send("work 1h")
	ids[canceled] = true
	ranIt, others := c.runner(canceled)
	b, other = others[0], others[1]
	started := time.Now()
	if _, err := other.client.Cancel(t.Context(), canceled); err != nil {
		t.Fatalf("cancel of a task that runs elsewhere: %v", err)
	}
	wantState(t, b.task(canceled), a2a.StateCanceled)
	c.await("end", canceled, "")
	t.Logf("the handler was canceled through another replica after %s", time.Since(started))
	wantState(t, ranIt.task(canceled), a2a.StateCanceled)
	wantWholeChunks(t, c.prove(ids))
	c.wantRunBy(a, id)
	c.wantRunBy(ranIt, canceled)
}

// followHandedOn follows a task, and changes to the next server after every tenth event.
func (c *cluster) followHandedOn(id string) error {
	last, next := "0", 1
	for server := 0; ; server++ {
		here := 0
		for u, err := range c.replicas[server%len(c.replicas)].client.Resubscribe(c.t.Context(), id, last) {
			if err != nil {
				return err
			}
			if u.ID != strconv.Itoa(next) {
				return fmt.Errorf("after event %s comes %s", last, u.ID)
			}
			last, next = u.ID, next+1
			if status, ok := u.Event.(*a2a.TaskStatusUpdateEvent); ok && status.Final {
				return nil
			}
			if here++; here == 10 {
				break
			}
		}
		if here == 0 {
			return fmt.Errorf("the stream ended after event %s, which is not the last", last)
		}
	}
}

// wantRunBy asserts that only one server started a task.
func (c *cluster) wantRunBy(p *process, id string) {
	c.t.Helper()
	for _, e := range c.done() {
		if e.what == "begin" && e.task == id && e.pid != p.cmd.Process.Pid {
			c.t.Errorf("task %s was started by process %d, want %d", e.task, e.pid, p.cmd.Process.Pid)
		}
	}
}

func TestTaskAcceptedByBusyReplicaRunsOnAnother(t *testing.T) {
	parallel(t)
	c := newCluster(t, pgtest.URL(t), "-concurrency", "1")
	a := c.replicas[0]
	ids := make(map[string]bool)
	busy := c.sendTo(a, "until served", ids)
	// The server with the waiting client is notified by the other that runs the task.
	started := time.Now()
	event, err := a.client.Send(t.Context(), client.SendParams{
		Message: client.Text("length x"), Configuration: &a2a.MessageSendConfiguration{Blocking: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	task := event.(*a2a.Task)
	ids[task.ID] = true
	wantState(t, task, a2a.StateCompleted)
	blocking := time.Since(started)
	started = time.Now()
	next := 1
	for u, err := range a.client.Stream(t.Context(), client.SendParams{Message: client.Text("chunks 20 10ms")}) {
		if err != nil {
			t.Fatal(err)
		}
		if u.ID != strconv.Itoa(next) {
			t.Fatalf("event %d of the stream has id %s", next, u.ID)
		}
		if first, ok := u.Event.(*a2a.Task); ok {
			ids[first.ID] = true
		}
		next++
	}
	t.Logf("answered for what runs elsewhere: blocking after %s, stream of 200ms after %s", blocking, time.Since(started))
	wantState(t, a.task(busy), a2a.StateWorking)
	c.release("served")
	c.awaitAll(ids)
	wantWholeChunks(t, c.prove(ids))
}

func TestFollowUpReachesRunOnOtherReplica(t *testing.T) {
	parallel(t)
	c := newCluster(t, pgtest.URL(t))
	id := c.replicas[0].send("until joined") // a completed task accepts no more messages
	p, _ := c.runner(id)
	const each = 5
	var wg sync.WaitGroup
	for _, p := range c.replicas {
		wg.Go(func() {
			for i := range each {
				m := client.Text(fmt.Sprintf("work %dms", i))
				m.TaskID = id
				if task, err := p.trySend(t.Context(), m, ""); err != nil || task.ID != id {
					t.Errorf("message to a task that runs elsewhere = %v, %v", task, err)
				}
			}
		})
	}
	wg.Wait()
	c.release("joined")
	task := c.replicas[2].awaitEnd(id)
	wantState(t, task, a2a.StateCompleted)
	received := 0
	for _, m := range task.History {
		if m.Role == a2a.RoleUser {
			received++
		}
	}
	if want := 1 + each*len(c.replicas); received != want {
		t.Errorf("the history has %d messages of the client, want %d", received, want)
	}
	c.prove(map[string]bool{id: true})
	c.wantRunBy(p, id)
}

func TestKillReplicaUnderLoad(t *testing.T) {
	parallel(t)
	const lease = 2 * time.Second
	c := newCluster(t, pgtest.URL(t), "-lease", lease.String(), "-attempts", "100", "-concurrency", "32")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sends acknowledged
	loaded := make(chan int)
	go func() {
		loaded <- sends.storm(ctx, c.any, 6, "steps 3 20ms", "chunks 20 5ms", "work 100ms", "ask", "steps 2 400ms", "chunks 50 20ms")
	}()
	type death struct {
		pid int
		at  time.Time
	}
	var deaths []death
	for round := range 3 * long(t) {
		time.Sleep(1200 * time.Millisecond)
		p := c.replicas[round%len(c.replicas)]
		p.kill()
		deaths = append(deaths, death{p.cmd.Process.Pid, time.Now()})
		c.wantLeasesWithin(lease)
		time.Sleep(800 * time.Millisecond)
		c.start(round%len(c.replicas), c.db)
	}
	cancel()
	refused := <-loaded
	ids := sends.repeatAll(c.any)
	c.awaitAll(ids)
	all := time.Since(deaths[len(deaths)-1].at)
	took, more := c.healed()
	for id := range more {
		ids[id] = true
	}
	t.Logf("%d sends, %d acknowledged, %d refused; all over %s after the last kill; healed after %s", len(sends.sent), sends.answered(), refused, all, took)
	report := c.prove(ids)
	wantWholeChunks(t, report)
	wantOnce(t, c.done())
	taken := 0
	for _, d := range deaths {
		slowest, n := c.takeover(d.pid, d.at)
		t.Logf("%d runs of the killed process were taken over, the last after %s", n, slowest)
		taken += n
	}
	if taken == 0 {
		t.Error("no kill hit a run: the load is too small")
	}
}

// wantLeasesWithin asserts that all leases of tasks end within a duration.
func (c *cluster) wantLeasesWithin(lease time.Duration) {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.db)
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var until int64
	if err := conn.QueryRow(c.t.Context(), fmt.Sprintf("SELECT coalesce(max(lease_until), 0) FROM %s.task_rows", c.schema)).Scan(&until); err != nil {
		c.t.Fatal(err)
	}
	if left := time.Until(time.UnixMilli(until)); left > lease {
		c.t.Errorf("a lease ends in %s, want at most %s", left, lease)
	}
}

func TestReplicasAreReplacedUnderLoad(t *testing.T) {
	parallel(t)
	// With these long leases no task is claimed after its lease: the stopped server requeues it.
	c := newCluster(t, pgtest.URL(t), "-lease", "10m", "-stop-grace", "300ms", "-concurrency", "32")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sends acknowledged
	loaded := make(chan int)
	go func() {
		loaded <- sends.storm(ctx, c.any, 6, "steps 3 20ms", "chunks 20 5ms", "work 100ms", "steps 5 300ms", "chunks 50 20ms")
	}()
	var slowest time.Duration
	for round := range 3 * long(t) {
		time.Sleep(700 * time.Millisecond)
		p, started := c.replicas[round%len(c.replicas)], time.Now()
		p.signal(syscall.SIGTERM)
		if code := p.exit(await.Limit); code != 0 {
			t.Errorf("exit code = %d, want 0\n%s", code, p.log.tail(2000))
		}
		slowest = max(slowest, time.Since(started))
		c.start(round%len(c.replicas), c.db)
	}
	cancel()
	refused, over := <-loaded, time.Now()
	ids := sends.repeatAll(c.any)
	c.awaitAll(ids)
	t.Logf("%d sends, %d acknowledged, %d refused; the slowest server ended after %s, all over after %s", len(sends.sent), sends.answered(), refused, slowest, time.Since(over))
	wantWholeChunks(t, c.prove(ids))
	wantRecordedOnce(t, c.done())
}

func TestSuspendedReplicaCannotCommitAfterItResumes(t *testing.T) {
	parallel(t)
	// Tasks sent to the first replica run there until it is suspended, then on others until it resumes.
	const lease = 3 * time.Second
	c := newCluster(t, pgtest.URL(t), "-lease", lease.String())
	a, pid := c.replicas[0], c.replicas[0].cmd.Process.Pid
	ids := make(map[string]bool)
	for n := range 2 * long(t) {
		var round []string
		woken := fmt.Sprint("until woken", n)
		for _, text := range []string{"chunks 60 100ms ", "steps 8 500ms ", "", "deaf "} {
			round = append(round, c.sendTo(a, text+woken, ids))
		}
		steps := c.sendTo(a, "steps 8 500ms "+woken, ids)
		round = append(round, steps)
		c.await("step", steps, "1")
		a.signal(syscall.SIGSTOP)
		stopped := time.Now()
		c.lb.leaveOut(c.addrs[0])
		await.Success(t, func() error {
			if _, n := c.takeover(pid, stopped); n != len(round) {
				return fmt.Errorf("%d of %d runs of the suspended process were taken over", n, len(round))
			}
			return nil
		})
		slowest, _ := c.takeover(pid, stopped)
		a.signal(syscall.SIGCONT) // while others run its tasks
		resumed := time.Now()
		c.lb.leaveOut()
		c.release(strings.TrimPrefix(woken, "until "))
		c.awaitAll(ids)
		t.Logf("%d runs were taken over within %s (lease %s), over %s after the sleeper woke", len(round), slowest, lease, time.Since(resumed))
		for _, id := range []string{steps, round[0]} {
			await.Success(t, func() error {
				for _, e := range c.done() {
					if e.what == "lost" && e.task == id && e.pid == pid && e.attempt == 1 {
						return nil
					}
				}
				return fmt.Errorf("the handler of task %s has not been stopped after it lost its lease", id)
			})
		}
		if got, want := said(c.any.task(steps)), "sum 28"; got != want {
			t.Errorf("reply = %q, want %q", got, want)
		}
	}
	_, more := c.healed()
	for id := range more {
		ids[id] = true
	}
	wantWholeChunks(t, c.prove(ids))
	wantOnce(t, c.done())
}

func TestConcurrentFirstSendsStartOneTask(t *testing.T) {
	parallel(t)
	const senders = 200
	c := newCluster(t, pgtest.URL(t))
	ids := make(map[string]bool)
	for range 3 * long(t) {
		s := sentTask{message: withIDs("steps 2 20ms")}
		s.message.ID = newID()
		ids[s.message.TaskID] = true
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range senders {
			wg.Go(func() {
				one, p := s, c.replicas[i%len(c.replicas)]
				<-start
				if err := one.send(p); err != nil {
					t.Errorf("send: %v", err)
				} else if one.id != s.message.TaskID {
					t.Errorf("send created task %s, want %s", one.id, s.message.TaskID)
				}
			})
		}
		started := time.Now()
		close(start)
		wg.Wait()
		t.Logf("%d sends of one task answered after %s", senders, time.Since(started))
	}
	c.awaitAll(ids)
	report := c.prove(ids)
	for id, events := range report.Logs {
		received := 0
		for _, e := range events {
			if e.Received != nil {
				received++
			}
		}
		if received != 1 {
			t.Errorf("task %s has %d messages of its client, want 1", id, received)
		}
	}
	started := make(map[string]int)
	for _, e := range c.done() {
		if e.what == "begin" {
			started[e.task]++
		}
	}
	for id := range ids {
		if started[id] != 1 {
			t.Errorf("task %s was started %d times, want once", id, started[id])
		}
	}
	wantOnce(t, c.done())
}

// command returns a holdfast command on the cluster's database, configured by environment
// variables.
func (c *cluster) command(i int, args ...string) *exec.Cmd {
	cmd := exec.Command(holdfastBin, append([]string{"serve", "--addr", c.addrs[i], "--schema", c.schema}, args...)...)
	cmd.Env = append(os.Environ(), "STORAGE_TYPE=postgres", "DATABASE_URL="+c.db, "STORAGE__RUN_MIGRATIONS_ON_STARTUP=true")
	return cmd
}

func TestTenReplicasStartOnAnEmptyDatabase(t *testing.T) {
	parallel(t)
	c := newEmptyCluster(t, pgtest.URL(t), 10)
	started := time.Now()
	for i, addr := range c.addrs {
		c.replicas[i] = spawn(t, addr, c.command(i, "--agent", "echo"))
	}
	for i, p := range c.replicas {
		await.Success(t, func() error {
			select {
			case <-p.exited:
				t.Fatalf("server %d ended: %s", i, p.log)
			default:
			}
			_, err := p.client.Card(t.Context())
			return err
		})
	}
	t.Logf("all answer after %s", time.Since(started))
	_, ids := c.healed()
	if len(ids) != len(c.replicas) {
		t.Errorf("%d servers have started %d tasks", len(c.replicas), len(ids))
	}
	c.prove(ids)
}

func TestSummarizerResumesInAnotherProcess(t *testing.T) {
	parallel(t)
	c := newEmptyCluster(t, pgtest.URL(t), 3)
	for i, addr := range c.addrs {
		c.replicas[i] = launch(t, addr, c.command(i, "--agent", "summarize", "--page-delay", "500ms", "--lease", "5s"))
	}
	var text strings.Builder
	for page := range 7 {
		fmt.Fprintf(&text, "\f")
		for i := range 20 {
			fmt.Fprintf(&text, "Sentence %d of page %d says something about durable servers and lost work. ", i, page)
		}
	}
	task, err := c.replicas[0].trySend(t.Context(), client.Text(text.String()), "")
	if err != nil {
		t.Fatal(err)
	}
	// The stream of the server that is killed continues on another.
	followed := make(chan error, 1)
	go func() { followed <- follow(t.Context(), c.any.client, task.ID) }()
	awaitPage(t, c.any, task.ID, 3)
	c.replicas[0].kill()
	killed := time.Now()
	if err := <-followed; err != nil {
		t.Fatalf("stream across a kill: %v", err)
	}
	t.Logf("over %s after the kill", time.Since(killed))
	report := c.prove(map[string]bool{task.ID: true})
	read, resumed := make(map[string]int), false
	for _, e := range report.Logs[task.ID] {
		if e.Message == nil {
			continue
		}
		if said := e.Message.Text(); strings.Contains(said, "reading page") {
			read[said]++
		} else if strings.Contains(said, "resuming at page") {
			resumed = true
		}
	}
	twice := 0
	for _, n := range read {
		twice += n - 1
	}
	if !resumed || twice > 1 || report.Count(a2a.StateCompleted) != 1 {
		t.Errorf("resumed: %t, pages read twice: %d, want at most the one that was under way; %v", resumed, twice, read)
	}
}

// Other servers count the waiting tasks that a killed one has queued.
func TestHealthReportsQueueOfKilledReplica(t *testing.T) {
	parallel(t)
	const sent = 12
	c := newCluster(t, pgtest.URL(t), "-concurrency", "1", "-lease", "2s")
	ids := make(map[string]bool)
	// Each replica runs one task at a time, but not always the one that it was sent.
	for _, p := range c.replicas {
		id := p.send("until counted")
		ids[id] = true
		c.await("begin", id, "")
	}
	for range sent {
		ids[c.replicas[0].send("work 100ms")] = true
	}
	c.replicas[0].kill()
	agree := func(want int64) {
		t.Helper()
		for _, p := range c.replicas[1:] {
			await.Success(t, func() error {
				var got struct{ Queued int64 }
				if p.getJSON("health", &got); got.Queued != want {
					return fmt.Errorf("a replica reports %d queued tasks, want %d", got.Queued, want)
				}
				return nil
			})
		}
	}
	agree(int64(len(ids) - len(c.replicas))) // each replica runs one
	c.release("counted")
	c.awaitAll(ids)
	agree(0)
	c.prove(ids)
}
