//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/await"
)

func TestKillDuringARunningTask(t *testing.T) {
	parallel(t)
	s := newSite(t)
	p := s.start()
	id := p.send("until killed")
	s.await("begin", id, "")
	p.kill()
	s.release("killed")
	started := time.Now()
	p = s.start()
	wantState(t, p.awaitEnd(id), a2a.StateCompleted)
	t.Logf("answered %s after the start, task over after %s", p.ready, time.Since(started))
	p.kill()
	s.prove()
}

func TestKillBetweenDurableSteps(t *testing.T) {
	parallel(t)
	const steps = 5
	for _, where := range []string{"after", "within"} {
		for k := range steps {
			t.Run(fmt.Sprintf("%s step %d", where, k), func(t *testing.T) {
				parallel(t)
				s := newSite(t)
				p := s.start()
				id := p.send(fmt.Sprintf("steps %d 1ms %s %d", steps, where, k))
				if where == "after" {
					s.await("recorded", id, strconv.Itoa(k))
				} else {
					s.await("step", id, strconv.Itoa(k))
				}
				p.kill()
				p = s.start()
				task := p.awaitEnd(id)
				wantState(t, task, a2a.StateCompleted)
				if got, want := said(task), fmt.Sprintf("sum %d", steps*(steps-1)/2); got != want {
					t.Errorf("reply = %q, want %q: results of steps got lost", got, want)
				}
				p.kill()
				s.prove()
				wantSteps(t, s.done(), id, steps, where, k)
			})
		}
	}
}

// wantSteps asserts that every step ran once, except the one during which the process was killed,
// which ran once per attempt.
func wantSteps(t *testing.T, effects []effect, id string, steps int, where string, k int) {
	t.Helper()
	runs := make(map[string][]int) // attempts by step
	for _, e := range effects {
		if e.what == "step" && e.task == id {
			runs[e.detail] = append(runs[e.detail], e.attempt)
		}
	}
	for step := range steps {
		want := "[1]"
		switch {
		case step == k && where == "within":
			want = "[1 2]"
		case step > k:
			want = "[2]"
		}
		if got := fmt.Sprint(runs[strconv.Itoa(step)]); got != want {
			t.Errorf("step %d ran in attempts %s, want %s", step, got, want)
		}
	}
}

// acknowledged records sends and their responses.
type acknowledged struct {
	mu   sync.Mutex
	sent []sentTask
}

// sentTask is a message and the task that the server created for it. id is "" if there was no
// response.
type sentTask struct {
	message a2a.Message
	key     string
	id      string
	config  *a2a.MessageSendConfiguration // nil: none
}

func (a *acknowledged) add(s sentTask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent = append(a.sent, s)
}

// load sends messages until there is no response. It records each message, with or without
// response. In turn it uses ids chosen by the client, an idempotency key, and only the id of the
// message.
func (a *acknowledged) load(ctx context.Context, p *process, senders int, text string) {
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				s := sentTask{message: client.Text(text)}
				switch i % 3 {
				case 0:
					s.message = withIDs(text)
				case 1:
					s.key = newID()
				}
				task, err := p.trySend(ctx, s.message, s.key)
				if err == nil {
					s.id = task.ID
				}
				if a.add(s); err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
}

// repeat sends all messages again, and asserts that acknowledged ones get the same task. It
// returns the ids of all tasks that must exist.
func (a *acknowledged) repeat(t *testing.T, p *process) map[string]bool {
	t.Helper()
	ids := make(map[string]bool)
	for _, s := range a.sent {
		task, err := p.trySend(t.Context(), s.message, s.key)
		if err != nil {
			t.Fatalf("repeated send: %v", err)
		}
		if s.id != "" && task.ID != s.id {
			t.Errorf("repeated send created task %s, first it was %s", task.ID, s.id)
		}
		ids[task.ID] = true
	}
	return ids
}

func (a *acknowledged) answered() (n int) {
	for _, s := range a.sent {
		if s.id != "" {
			n++
		}
	}
	return n
}

// seed returns a random source. FAULTS_SEED sets its seed.
func seed(t *testing.T) *rand.Rand {
	t.Helper()
	n := uint64(time.Now().UnixNano())
	if text := os.Getenv("FAULTS_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("FAULTS_SEED: %v", err)
		}
	}
	t.Logf("FAULTS_SEED=%d", n)
	return rand.New(rand.NewPCG(n, 1))
}

// place identifies a step or an attempt of a task.
type place struct {
	task   string
	turn   int
	detail string
}

// wantRecordedOnce asserts that no step ran again after it was recorded.
func wantRecordedOnce(t *testing.T, effects []effect) {
	t.Helper()
	recorded := make(map[place]bool)
	for _, e := range effects {
		step := place{e.task, e.turn, e.detail}
		if e.what == "step" && recorded[step] {
			t.Errorf("task %s: step %s ran again in attempt %d after it was recorded", e.task, e.detail, e.attempt)
		}
		recorded[step] = recorded[step] || e.what == "recorded"
	}
}

// wantOnce also asserts that no attempt of a turn started twice, unless its handler was stopped
// because its lease ended: such an attempt is not counted.
func wantOnce(t *testing.T, effects []effect) {
	t.Helper()
	wantRecordedOnce(t, effects)
	started := make(map[place]bool)
	for _, e := range effects {
		attempt := place{e.task, e.turn, strconv.Itoa(e.attempt)}
		switch e.what {
		case "begin":
			if started[attempt] {
				t.Errorf("task %s: attempt %d of turn %d started again", e.task, e.attempt, e.turn)
			}
			started[attempt] = true
		case "lost":
			delete(started, attempt)
		}
	}
}

func TestKillBetweenCommitAndResponse(t *testing.T) {
	parallel(t)
	random := seed(t)
	s := newSite(t, "-attempts", "100")
	var sends acknowledged
	p := s.start()
	for range 8 {
		ctx, cancel := context.WithCancel(t.Context())
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			time.Sleep(20*time.Millisecond + rand.N(150*time.Millisecond)) // the seeded source is not safe for concurrent use
			p.kill()
			cancel()
		}()
		sends.load(ctx, p, 4, fmt.Sprintf("steps %d 0ms", 1+random.IntN(3)))
		<-killed
		p = s.start()
	}
	ids := sends.repeat(t, p)
	for id := range ids {
		wantState(t, p.awaitEnd(id), a2a.StateCompleted)
	}
	t.Logf("%d sends, %d of them acknowledged", len(sends.sent), sends.answered())
	p.kill()
	if report := s.prove(); len(report.States) != len(ids) {
		t.Errorf("the store has %d tasks, %d messages were sent", len(report.States), len(ids))
	}
	wantOnce(t, s.done())
	// Turns that clients saw as ended must not run again.
	ended := make(map[string]int)
	for _, e := range s.done() {
		if e.what == "end" {
			ended[e.task]++
		}
	}
	for id := range ids {
		if ended[id] == 0 {
			t.Errorf("task %s is completed and its handler has never returned", id)
		}
	}
}

func TestKillWithAThousandQueuedTasks(t *testing.T) {
	parallel(t)
	const n = 1000
	s := newSite(t, "-concurrency", "4")
	p := s.start()
	ids := make([]string, n)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				ids[i] = p.send("steps 2 20ms")
			}
		})
	}
	wg.Wait()
	p.kill()
	s.args = []string{"-concurrency", "64"}
	started := time.Now()
	p = s.start()
	for _, id := range ids {
		wantState(t, p.awaitEnd(id), a2a.StateCompleted)
	}
	t.Logf("answered %s after the start, %d tasks over after %s", p.ready, n, time.Since(started))
	p.kill()
	if report := s.prove(); report.Count(a2a.StateCompleted) != n {
		t.Errorf("%d tasks are completed, want %d", report.Count(a2a.StateCompleted), n)
	}
	wantOnce(t, s.done())
}

func TestAcknowledgedTasksSurviveRepeatedKills(t *testing.T) {
	parallel(t)
	random := seed(t)
	s := newSite(t, "-attempts", "100", "-concurrency", "16")
	var sends acknowledged
	var slowest time.Duration
	p := s.start()
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		pause := 30*time.Millisecond + time.Duration(random.Int64N(int64(300*time.Millisecond)))
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			time.Sleep(pause)
			p.kill()
			cancel()
		}()
		texts := []string{"steps 3 5ms", "chunks 20 2ms", "work 20ms", "ask"}
		sends.load(ctx, p, 2, texts[random.IntN(len(texts))])
		<-killed
		s.prove()
		p = s.start()
		slowest = max(slowest, p.ready)
	}
	started := time.Now()
	ids := sends.repeat(t, p)
	for id := range ids {
		task := p.awaitEnd(id)
		if state := task.Status.State; state != a2a.StateCompleted && state != a2a.StateInputRequired {
			t.Errorf("task %s is %s (%s)", id, state, said(task))
		}
	}
	t.Logf("%d sends, %d of them acknowledged; slowest start %s; all over %s after the last", len(sends.sent), sends.answered(), slowest, time.Since(started))
	p.kill()
	s.prove()
	wantOnce(t, s.done())
}

func TestInboxMessageSurvivesKill(t *testing.T) {
	parallel(t)
	s := newSite(t)
	p := s.start()
	id := p.send("until killed")
	s.await("begin", id, "")
	for range 3 {
		m := client.Text("and more")
		m.TaskID = id
		if task, err := p.trySend(t.Context(), m, ""); err != nil || task.ID != id {
			t.Fatalf("message to a running task = %v, %v", task, err)
		}
	}
	p.kill()
	s.release("killed")
	p = s.start()
	task := p.awaitEnd(id)
	wantState(t, task, a2a.StateCompleted)
	received := 0
	for _, m := range task.History {
		if m.Role == a2a.RoleUser {
			received++
		}
	}
	if received != 4 {
		t.Errorf("the history has %d messages of the client, want all 4", received)
	}
	p.kill()
	s.prove()
}

func TestDelayedRetrySurvivesKill(t *testing.T) {
	parallel(t)
	s := newSite(t)
	p := s.start()
	id := p.send("retry 3")
	s.await("end", id, "")
	await.Success(t, func() error {
		if state := p.task(id).Status.State; state != a2a.StateSubmitted {
			return fmt.Errorf("task %s is %s, want it queued", id, state)
		}
		return nil
	})
	p.kill()
	p = s.start()
	wantState(t, p.awaitEnd(id), a2a.StateCompleted)
	p.kill()
	s.prove()
	wantOnce(t, s.done())
}
