package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// TestArtifactsEqualUninterruptedRun runs random handlers that ask for retries, and kills their
// processes at random commits. It compares the artifacts with the artifacts of the same
// handlers without interruption. A reader of the stream, a reader that resumes it, and the
// receiver of a webhook must get the same artifacts.
func TestArtifactsEqualUninterruptedRun(t *testing.T) {
	t.Parallel()
	runs := map[string]int{"memory": 250, "sqlite": 40, "postgres": 30}
	onAllStores(t, func(t *testing.T, name string, s store.Store) {
		hooks := newWebhookReceiver(t, s)
		for seed := range testseed.Each(t, runs[name]) {
			checkSeed(t, s, hooks, seed)
		}
	})
}

// checkSeed runs the script of a seed in processes that are killed, then without interruption,
// and compares the results.
func checkSeed(t *testing.T, s store.Store, hooks *webhookReceiver, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	p := &scriptRun{script: newScript(r), id: newID(), contextID: newID(), recorded: map[string]int{}, attempts: map[int]int{}, startArtifacts: map[int]string{}}
	task := p.execute(t, s, r, hooks)

	uninterrupted := &scriptRun{script: p.script, id: p.id, contextID: p.contextID, recorded: p.recorded, attempts: p.attempts, uninterrupted: true, startArtifacts: map[int]string{}}
	want := uninterrupted.execute(t, inmem.New(), nil, nil)
	if diff := cmp.Diff(artifactLines(t, want), artifactLines(t, task)); diff != "" {
		t.Errorf("seed %d: artifacts (-without interruption +with):\n%s\nscript:\n%s", seed, diff, p.script)
	}
	if task.Status.State != want.Status.State {
		t.Errorf("seed %d: state %s, want %s", seed, task.Status.State, want.Status.State)
	}
	if diff := cmp.Diff(uninterrupted.startArtifacts, p.startArtifacts); diff != "" {
		t.Errorf("seed %d: Turn.Artifacts() by turn (-without interruption +with):\n%s", seed, diff)
	}
	if t.Failed() {
		events, _ := s.Events(t.Context(), task.Key, 0, 100_000)
		for _, e := range events {
			if e.Artifact != nil {
				raw, _ := wire.Marshal(e.Artifact)
				t.Logf("%d append=%v last=%v %s", e.Seq, e.Append, e.LastChunk, raw)
			} else {
				t.Logf("%d %s", e.Seq, e.State)
			}
		}
	}
	checkReader(t, s, task)
	checkStream(t, s, task, r)
	hooks.check(t, task)
}

func artifactLines(t *testing.T, task *store.Task) (lines []string) {
	t.Helper()
	for i := range task.Artifacts {
		raw, err := wire.Marshal(&task.Artifacts[i])
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(raw))
	}
	return lines
}

// checkStream follows a finished task from its first event, reconnecting at random intervals.
func checkStream(t *testing.T, s store.Store, task *store.Task, r *rand.Rand) {
	t.Helper()
	e := start(t, engine.Config{Store: s, Handler: func(context.Context, *engine.Turn) error { return nil }})
	defer stop(t, e)
	var got eventReader
	var after int64
	for after < task.Seq {
		left := 1 + r.IntN(8)
		for u, err := range e.Follow(t.Context(), alice, task.Key.ID, &after) {
			if err != nil {
				t.Fatalf("Follow() = %v", err)
			}
			if after = u.Seq; u.Event != nil {
				got.apply(t, u.Event)
			}
			if left--; left == 0 {
				break
			}
		}
	}
	wantReader(t, &got, task)
}

// scriptRun runs a script as the handler of one task.
type scriptRun struct {
	script        *script
	id, contextID string
	uninterrupted bool // without interruption, repeating the final attempts of another scriptRun

	mu             sync.Mutex
	attempts       map[int]int    // number of attempts of each turn
	recorded       map[string]int // the attempt in which each step was completed
	startArtifacts map[int]string // artifacts at the start of each turn
	err            error
}

// execute sends the messages of the script and returns the task after its last turn. Processes
// are killed at random commits chosen by r.
func (p *scriptRun) execute(t *testing.T, s store.Store, r *rand.Rand, hooks *webhookReceiver) *store.Task {
	t.Helper()
	key := store.Key{Owner: alice.ID, ID: p.id}
	kills := 0
	if r != nil {
		kills = r.IntN(5)
	}
	var proc *process
	var e *engine.Engine
	next := func() {
		if e != nil {
			stop(t, e)
		}
		killAt, flush := 0, time.Hour
		if kills > 0 {
			kills--
			killAt = 1 + r.IntN(8)
			if r.IntN(3) == 0 {
				flush = time.Millisecond
			}
		}
		proc = newProcess(s, killAt, r != nil && r.IntN(2) == 0)
		e = start(t, engine.Config{
			Store: proc, Handler: p.handle, Turns: engine.Turns{
				FlushInterval: flush, HandlerGrace: time.Minute, MaxAttempts: 1000,
				RetryDelay: time.Millisecond, RetryDelayMax: time.Millisecond, Poll: 2 * time.Millisecond,
			},
		})
	}
	next()
	defer func() { stop(t, e) }()
	for turn := range p.script.turns {
		m := message("go")
		m.Message.TaskID = p.id
		opts := engine.SendOptions{}
		if turn == 0 {
			m.Message.ContextID = p.contextID
			opts.Webhook = hooks.webhooksFor(t)
		}
		for {
			_, err := e.Send(t.Context(), alice, m, opts)
			if err == nil {
				break
			}
			if !proc.isKilled() {
				t.Fatalf("Send() = %v", err)
			}
			next()
		}
		for !p.turnEnded(t, s, key, turn) {
			p.waitForEnd(t, e, proc)
			if proc.isKilled() {
				next()
			}
		}
	}
	if p.err != nil {
		t.Error(p.err)
	}
	task, err := s.Task(t.Context(), key, store.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// waitForEnd returns when the task may have ended or the process has been killed.
func (p *scriptRun) waitForEnd(t *testing.T, e *engine.Engine, proc *process) {
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	go func() {
		select {
		case <-proc.killed:
			cancel()
		case <-ctx.Done():
		}
	}()
	for u := range e.Follow(ctx, alice, p.id, nil) {
		if u.Last {
			return
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Fatal("the task did not end")
	}
}

func (p *scriptRun) turnEnded(t *testing.T, s store.Store, key store.Key, turn int) bool {
	task, err := s.Task(t.Context(), key, store.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return task.Queue.Phase == store.PhaseIdle && task.Queue.Turn == turn+1
}

func (p *scriptRun) handle(ctx context.Context, turn *engine.Turn) error {
	n := turn.Number()
	p.mu.Lock()
	if !p.uninterrupted {
		p.attempts[n]++
	}
	a := &attemptRunner{p: p, turn: turn, number: n, attempt: p.attempts[n], uninterrupted: p.uninterrupted}
	artifacts, err := wire.Marshal(turn.Artifacts())
	if old, ok := p.startArtifacts[n]; err != nil {
		p.err = err
	} else if ok && old != string(artifacts) {
		p.err = fmt.Errorf("Turn.Artifacts() = %s in attempt %d, %s before", artifacts, a.attempt, old)
	}
	p.startArtifacts[n] = string(artifacts)
	p.mu.Unlock()
	ops := p.script.turns[n-1]
	if err := a.runOps(ctx, ops, a.attempt, nil); err != nil {
		return err
	}
	if !p.uninterrupted && a.attempt <= p.script.retries[n-1] {
		return engine.Retry(errors.New("again"))
	}
	if n < len(p.script.turns) {
		return turn.RequireInput()
	}
	return p.script.end(turn)
}

// attemptRunner runs one attempt.
type attemptRunner struct {
	p               *scriptRun
	turn            *engine.Turn
	number, attempt int
	uninterrupted   bool
}

// runOps runs operations. attempt is the number that texts of operations contain: within a
// step, the attempt in which the step is recorded.
func (a *attemptRunner) runOps(ctx context.Context, ops []op, attempt int, open []*engine.ArtifactWriter) error {
	for i := range ops {
		o := &ops[i]
		if o.parity >= 0 && attempt%2 != o.parity {
			continue
		}
		var err error
		switch o.kind {
		case "open":
			open = append(open[:len(open):len(open)], a.turn.Artifact(o.name))
		case "step":
			err = a.step(ctx, o, attempt, open)
		case "flush":
			err = a.turn.Flush()
		case "add":
			if parts := o.partsFor(attempt); len(parts) > 0 {
				err = a.turn.AddArtifact(a2a.Artifact{ID: o.id, Name: o.name, Description: o.name, Parts: parts})
			}
		default:
			err = a.write(o, attempt, open)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *attemptRunner) write(o *op, attempt int, open []*engine.ArtifactWriter) error {
	var w *engine.ArtifactWriter
	switch {
	case o.name != "":
		w = a.turn.OpenArtifact(o.name)
	case len(open) == 0:
		return nil
	default:
		w = open[o.slot%len(open)]
	}
	switch o.kind {
	case "describe":
		w.Describe(o.id, map[string]any{"n": 7, "of": o.id})
		return nil
	case "close":
		return w.Close()
	}
	if err := w.WriteParts(o.partsFor(attempt)...); a2a.CodeOf(err) != a2a.CodeInvalid {
		return err
	}
	return nil // it is closed
}

var errStep = errors.New("a step that fails")

func (a *attemptRunner) step(ctx context.Context, o *op, attempt int, open []*engine.ArtifactWriter) error {
	of := attempt
	if !o.fails {
		of = a.attempt
		if a.uninterrupted {
			a.p.mu.Lock()
			of = a.p.recorded[o.id]
			a.p.mu.Unlock()
		}
	}
	result, err := a.turn.Step(ctx, o.name, func(ctx context.Context) ([]byte, error) {
		if err := a.runOps(ctx, o.ops, of, open); err != nil {
			return nil, err
		}
		if o.fails {
			return nil, errStep
		}
		return []byte(strconv.Itoa(of)), nil
	})
	if errors.Is(err, errStep) {
		return nil
	}
	if err != nil {
		return err
	}
	of, err = strconv.Atoi(string(result))
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	a.p.recorded[o.id] = of
	return err
}
