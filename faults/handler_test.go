//go:build faults

package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
)

func TestPanicFailsOnlyItsTask(t *testing.T) {
	parallel(t)
	s := newSite(t)
	p := s.start()
	otherTask := p.send("chunks 50 10ms")
	for range 20 {
		task := p.awaitEnd(p.send("panic"))
		wantState(t, task, a2a.StateFailed)
		if said(task) == "" {
			t.Error("the failed task does not say why")
		}
	}
	wantState(t, p.awaitEnd(otherTask), a2a.StateCompleted)
	p.kill()
	s.prove()
}

func TestBlockedHandlerFailsAtTimeout(t *testing.T) {
	parallel(t)
	s := newSite(t, "-timeout", "1s", "-handler-grace", "200ms", "-concurrency", "2", "-stop-grace", "500ms")
	p := s.start()
	var blocked []string
	for range 4 { // more than the number of turns at once: abandoned handlers must free theirs
		blocked = append(blocked, p.send("block"))
	}
	for _, id := range blocked {
		wantState(t, p.awaitEnd(id), a2a.StateFailed)
	}
	var health struct{ Abandoned int }
	p.getJSON("health", &health)
	if health.Abandoned != 4 {
		t.Errorf("/health reports %d abandoned handlers, want 4", health.Abandoned)
	}
	await.Success(t, func() error { // the next turn has the same timeout, which a busy machine may exceed
		if state := p.awaitEnd(p.send("work 1ms")).Status.State; state != a2a.StateCompleted {
			return fmt.Errorf("a turn after those that block is %s", state)
		}
		return nil
	})
	p.signal(syscall.SIGTERM)
	if code := p.exit(await.Limit); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	s.prove()
}

func TestBlockedHandlerCanBeCanceled(t *testing.T) {
	parallel(t)
	s := newSite(t, "-handler-grace", "100ms")
	p := s.start()
	for _, text := range []string{"block", "leak", "deaf until canceled"} {
		id := p.send(text)
		s.await("begin", id, "")
		if _, err := p.client.Cancel(t.Context(), id); err != nil {
			t.Fatalf("cancel of %q: %v", text, err)
		}
		if ended := slices.ContainsFunc(s.done(), func(e effect) bool { return e.task == id && e.what == "end" }); ended && text != "leak" {
			t.Errorf("cancel of %q has waited for its handler", text)
		}
		wantState(t, p.awaitEnd(id), a2a.StateCanceled)
		if text == "leak" {
			s.await("refused", id, "")
		}
		if text == "deaf until canceled" {
			s.release("canceled")
			s.await("end", id, "") // the handler has returned its result
		}
		wantState(t, p.task(id), a2a.StateCanceled)
	}
	p.kill()
	report := s.prove()
	for id, events := range report.Logs {
		for _, e := range events {
			if e.Artifact != nil && e.Artifact.Name == "late" {
				t.Errorf("task %s was given an artifact after its end", id)
			}
		}
	}
}

func TestPoisonTaskFailsAfterMaxAttempts(t *testing.T) {
	parallel(t)
	const attempts = 3
	s := newSite(t, "-attempts", fmt.Sprint(attempts))
	p := s.start()
	m := withIDs("kill")
	id := m.TaskID
	_, _ = p.trySend(t.Context(), m, "") // there may be no response
	p.exit(await.Limit)
	for range attempts - 1 {
		s.spawn().exit(await.Limit) // the server may end before it responds
	}
	p = s.start()
	task := p.awaitEnd(id)
	wantState(t, task, a2a.StateFailed)
	wantState(t, p.awaitEnd(p.send("work 1ms")), a2a.StateCompleted)
	p.kill()
	s.prove()
	started := 0
	for _, e := range s.done() {
		if e.what == "begin" && e.task == id {
			started++
		}
	}
	if started != attempts {
		t.Errorf("the task that kills was run %d times, want %d", started, attempts)
	}
}

func TestThousandStreamsReceiveEveryEventInOrder(t *testing.T) {
	parallel(t)
	raiseFileLimit(t, 4096)
	s := newSite(t)
	p := s.start()
	const tasks, readers = 10, 100
	var ids []string
	for range tasks {
		ids = append(ids, p.send("chunks 100 20ms"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	var wg sync.WaitGroup
	var whole atomic.Int64
	started := time.Now()
	for _, id := range ids {
		for range readers {
			wg.Go(func() {
				if err := follow(ctx, p.client, id); err != nil {
					t.Errorf("stream of task %s: %v", id, err)
					return
				}
				whole.Add(1)
			})
		}
	}
	wg.Wait()
	t.Logf("%d streams over after %s", whole.Load(), time.Since(started))
	var health struct{ Streams struct{ Open int } }
	await.Success(t, func() error {
		if p.getJSON("health", &health); health.Streams.Open != 0 {
			return fmt.Errorf("%d streams are still open", health.Streams.Open)
		}
		return nil
	})
	p.kill()
	s.prove()
}

func TestStreamsResumeAfterRestart(t *testing.T) {
	parallel(t)
	s := newSite(t, "-stop-grace", "50ms")
	p := s.start()
	id := p.send("chunks 60 20ms")
	const readers = 50
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	failed := make(chan error, readers)
	for range readers {
		go func() { failed <- follow(ctx, p.client, id) }()
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		time.Sleep(200 * time.Millisecond) // during the task
		p.signal(sig)
		p.exit(await.Limit)
		p = s.start()
	}
	for range readers {
		if err := <-failed; err != nil {
			t.Errorf("stream across restarts: %v", err)
		}
	}
	task := p.task(id)
	wantState(t, task, a2a.StateCompleted)
	want := ""
	for i := range 60 {
		want += fmt.Sprintf("%d ", i)
	}
	if got := task.Artifacts[0].Text(); got != want {
		t.Errorf("artifact = %q, want the last attempt's alone, %q", got, want)
	}
	p.kill()
	s.prove()
}

func TestConcurrentCancelAndCompletionHaveOneWinner(t *testing.T) {
	parallel(t)
	s := newSite(t)
	p := s.start()
	const rounds, racers = 20, 20
	won := make(map[string]int64)
	for round := range rounds {
		id := p.send("work 10ms")
		var wg sync.WaitGroup
		var winners atomic.Int64
		for i := range racers {
			wg.Go(func() {
				time.Sleep(time.Duration(round+i%3) * time.Millisecond) // around the end of the work
				_, err := p.client.Cancel(t.Context(), id)
				switch {
				case err == nil:
					winners.Add(1)
				case a2a.CodeOf(err) != a2a.CodeTaskNotCancelable:
					t.Errorf("cancel: %v, want task_not_cancelable", err)
				}
			})
		}
		wg.Wait()
		won[id] = winners.Load()
	}
	for id := range won {
		p.awaitEnd(id)
	}
	p.kill()
	report := s.prove()
	for id, winners := range won {
		want := int64(0)
		if report.States[id] == a2a.StateCanceled {
			want = 1
		}
		if winners != want {
			t.Errorf("task %s is %s, and %d cancels were answered with success", id, report.States[id], winners)
		}
		ends := slices.DeleteFunc(slices.Clone(report.Logs[id]), func(e store.Event) bool { return !e.State.Terminal() })
		if len(ends) != 1 {
			t.Errorf("task %s has %d terminal events", id, len(ends))
		}
	}
	t.Logf("%d of %d were canceled", report.Count(a2a.StateCanceled), rounds)
	if n := report.Count(a2a.StateCanceled) + report.Count(a2a.StateCompleted); n != rounds {
		t.Errorf("%d tasks are completed or canceled, want all %d", n, rounds)
	}
}

func TestTasksBeyondTheQueueLimitAreRejected(t *testing.T) {
	parallel(t)
	s := newSite(t, "-concurrency", "1", "-queued", "20")
	p := s.start()
	var ids []string
	var refused error
	for range 500 {
		task, err := p.trySend(t.Context(), withIDs("until refused"), "")
		if err != nil {
			refused = err
			break
		}
		ids = append(ids, task.ID)
	}
	s.release("refused")
	wantCode(t, refused, a2a.CodeExhausted)
	for _, id := range ids {
		wantState(t, p.awaitEnd(id), a2a.StateCompleted)
	}
	wantState(t, p.awaitEnd(p.send("work 1ms")), a2a.StateCompleted)
	p.kill()
	s.prove()
}

// getJSON reads a page such as /health.
func (p *process) getJSON(path string, v any) {
	p.t.Helper()
	resp, err := httpClient.Get(p.url + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
		p.t.Fatalf("%s: %v", path, err)
	}
}

// raiseFileLimit sets the limit of open files of this process, and of those that it starts, to at
// least n.
func raiseFileLimit(t *testing.T, n uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur >= n {
		return
	}
	limit.Cur = min(n, limit.Max)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < n {
		t.Fatalf("this test needs %d open files, the limit is %d: %v", n, limit.Max, err)
	}
}
