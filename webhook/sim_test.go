package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store"
)

var simCount = flag.Int("webhook.schedules", 150, "number of simulations of each kind")

// plan configures a simulation.
type plan struct {
	replicas       int
	tasks          int
	hooks          int // webhooks of a task, each at a different endpoint
	endpoints      int
	events         int // maximum number of artifact chunks of a task
	storeFaultRate float64
	storeSlow      time.Duration
	sendFaultRate  float64
	rejectRate     float64 // share of events that receivers reject
	pauses         int
	kills          int
	restarts       int
	outage         time.Duration // duration of the outage of one endpoint
	deletes        int           // of webhooks
	replays        int
	sets           int     // saves of existing webhooks
	rollbacks      float64 // probability of a change that is rolled back before each event
	jumps          int     // jumps of the store's clock by an hour
	config         func(*Config)
}

// post is a request as seen by the receiver.
type post struct {
	lane        laneID
	host        string
	replica     int // number of the sender, which changes with restarts
	id          string
	body        string
	sequence    int64
	final       bool
	started     time.Time
	ended       time.Time // zero while in progress
	status      int       // received by the sender, 0 for none
	excused     bool      // the sender was paused or killed
	uncommitted bool      // its event was not committed at the start
}

type world struct {
	t       *testing.T
	seed    uint64
	plan    plan
	dice    *dice
	store   store.Store
	started time.Time

	mu              sync.Mutex
	posts           []*post
	faultsOff       bool
	down            map[string]bool
	answer          func(endpoint string, p *post, nth int) (safehttp.Response, error) // nil: according to plan
	attempts        map[string]int
	lanes           []laneID
	replicas        []*replica
	replicasStarted int
	clock           *storeClock                   // nil for the wall clock
	deleted         map[laneID]time.Time          // when deletions returned
	deadLetters     map[laneID][]store.DeadLetter // all stored ones, including replayed ones
}

type replica struct {
	w       *world
	n       int
	store   *flaky
	s       *Service
	hanging atomic.Bool // its requests get no response and end with their ctx
}

func (r *replica) setHanging(hanging bool) { r.hanging.Store(hanging) }

func newWorld(t *testing.T, seed uint64, p plan) *world {
	w := &world{
		t: t, seed: seed, plan: p, dice: newDice(seed), store: inmem.New(), started: time.Now(),
		down: make(map[string]bool), attempts: make(map[string]int), deleted: make(map[laneID]time.Time),
		deadLetters: make(map[laneID][]store.DeadLetter),
	}
	if p.jumps > 0 {
		w.clock = new(storeClock)
	}
	for range max(p.replicas, 1) {
		w.replicas = append(w.replicas, w.start())
	}
	return w
}

func (w *world) start() *replica {
	w.replicasStarted++
	r := &replica{w: w, n: w.replicasStarted}
	r.store = (&flaky{dice: w.dice, faultRate: w.plan.storeFaultRate, slow: w.plan.storeSlow, shared: w.plan.replicas > 1, onDeadLetters: w.recordDeadLetters}).over(w.store)
	ids := 0
	cfg := Config{
		Store: r.store, Sender: r, NewID: func() string { ids++; return fmt.Sprintf("replica-%d-%d", r.n, ids) },
		Settings: Settings{
			Timeout: 2 * time.Second, Lease: 6 * time.Second,
			Schedule: []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 5 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute},
		}, random: w.dice.float,
	}
	if os.Getenv("WEBHOOK_SIM_LOG") != "" {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("replica", r.n)
	}
	if w.clock != nil {
		cfg.clock = w.clock.now
	}
	if w.plan.config != nil {
		w.plan.config(&cfg)
	}
	var err error
	if r.s, err = New(cfg); err != nil {
		w.t.Fatal(err)
	}
	for err = r.s.Start(w.t.Context()); errors.Is(err, errFault); {
		if r.s, err = New(cfg); err == nil {
			err = r.s.Start(w.t.Context())
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// stop stops a replica gracefully.
func (w *world) stop(i int, grace time.Duration) {
	ctx, cancel := context.WithTimeout(w.t.Context(), grace)
	defer cancel()
	if err := w.replicas[i].s.Stop(ctx); err != nil {
		w.t.Errorf("seed %d: Stop() = %v, want nil", w.seed, err)
	}
}

// kill stops a replica like kill -9: its later operations have no effect.
func (w *world) kill(i int) {
	r := w.replicas[i]
	r.store.kill()
	w.mu.Lock()
	for _, p := range w.posts {
		if p.replica == r.n && p.ended.IsZero() {
			p.excused = true
		}
	}
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(w.t.Context())
	cancel()
	r.s.Stop(ctx)
}

// pause suspends a replica for a while.
func (w *world) pause(i int, d time.Duration) {
	r := w.replicas[i]
	r.store.pause()
	time.Sleep(d)
	w.mu.Lock()
	for _, p := range w.posts {
		if p.replica == r.n && p.ended.IsZero() {
			p.excused = true
		}
	}
	w.mu.Unlock()
	r.store.resume()
}

// Check implements Sender.
func (r *replica) Check(context.Context, string) error { return nil }

// Post implements Sender. It simulates the network and the receiver.
func (r *replica) Post(ctx context.Context, req safehttp.Request) (safehttp.Response, error) {
	w := r.w
	if err := r.store.pass(); err != nil || ctx.Err() != nil {
		return safehttp.Response{}, &safehttp.Error{Outcome: safehttp.OutcomeCanceled, Err: context.Canceled}
	}
	if r.hanging.Load() {
		return safehttp.Response{}, waitOrFail(ctx, time.Hour)
	}
	p, nth := w.receive(r.n, req)
	resp, err := w.serve(ctx, req.URL, p, nth)
	paused := r.store.paused()
	gated := r.store.pass()
	w.mu.Lock()
	defer w.mu.Unlock()
	p.ended, p.excused = time.Now(), p.excused || paused
	if gated != nil {
		return safehttp.Response{}, &safehttp.Error{Outcome: safehttp.OutcomeCanceled, Err: gated}
	}
	p.status = resp.Status
	return resp, err
}

func (w *world) receive(by int, req safehttp.Request) (p *post, nth int) {
	var body struct {
		Sequence int64 `json:"sequence"`
		Final    bool  `json:"final"`
	}
	if err := json.Unmarshal(req.Body, &body); err != nil {
		w.t.Errorf("seed %d: body %q: %v", w.seed, req.Body, err)
	}
	q := req.URL.Query()
	p = &post{
		lane: laneID{store.Key{Owner: q.Get("owner"), ID: q.Get("task")}, q.Get("hook")}, host: req.URL.Host, replica: by, body: string(req.Body),
		id: req.Header.Get("Webhook-Id"), sequence: body.Sequence, final: body.Final, started: time.Now(),
	}
	p.uncommitted = !w.committed(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.posts = append(w.posts, p)
	key := p.lane.id + p.id
	w.attempts[key]++
	return p, w.attempts[key]
}

// serve returns the response to a request, determined by the seed.
func (w *world) serve(ctx context.Context, u *url.URL, p *post, nth int) (safehttp.Response, error) {
	w.mu.Lock()
	calm, down, answer := w.faultsOff, w.down[u.Host], w.answer
	w.mu.Unlock()
	if answer != nil {
		resp, err := answer(u.Host, p, nth)
		if errors.Is(err, errNoAnswer) {
			err = waitOrFail(ctx, time.Hour)
		}
		return resp, err
	}
	x := func(what string) float64 { return chance(w.seed, what, p.lane.id, p.id, nth) }
	latency := time.Duration(x("latency") * float64(30*time.Millisecond))
	ok := safehttp.Response{Status: 200 + int(x("ok")*5)}
	switch {
	case chance(w.seed, "dead", p.lane.id, p.id) < w.plan.rejectRate:
		return safehttp.Response{Status: 404}, nil
	case down:
		return safehttp.Response{}, &safehttp.Error{Outcome: safehttp.OutcomeConnect, Err: errors.New("refused")}
	case calm || x("fault") >= w.plan.sendFaultRate:
		return ok, waitOrFail(ctx, latency)
	}
	switch int(x("kind") * 6) {
	case 0:
		return safehttp.Response{}, waitOrFail(ctx, time.Hour)
	case 1:
		return safehttp.Response{Status: 503, RetryAfter: time.Duration(x("after")*3) * time.Second}, nil
	case 2:
		return safehttp.Response{Status: 429}, nil
	case 3:
		return safehttp.Response{}, &safehttp.Error{Outcome: safehttp.OutcomeConnect, Err: errors.New("refused")}
	case 4: // delivered, but the response is lost
		return safehttp.Response{}, &safehttp.Error{Outcome: safehttp.OutcomeProtocol, Err: errors.New("connection reset")}
	default:
		return ok, waitOrFail(ctx, time.Duration(x("slow")*float64(1500*time.Millisecond)))
	}
}

// errNoAnswer is the error of an answer that does not come.
var errNoAnswer = errors.New("no answer")

// waitOrFail waits for d. If ctx ends first, it returns the error of such an attempt.
func waitOrFail(ctx context.Context, d time.Duration) error {
	runtime.Sleep(ctx, d)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &safehttp.Error{Outcome: safehttp.OutcomeTimeout, Err: ctx.Err()}
	case ctx.Err() != nil:
		return &safehttp.Error{Outcome: safehttp.OutcomeCanceled, Err: ctx.Err()}
	}
	return nil
}

func (w *world) newHook(task store.Key, n int) store.NewWebhook {
	return w.newHookWithFormat(task, n, "")
}

// newHookWithFormat returns a webhook of a task at endpoint n with a format.
func (w *world) newHookWithFormat(task store.Key, n int, format a2a.PayloadFormat) store.NewWebhook {
	id := fmt.Sprintf("%s-hook-%d", task.ID, n)
	endpoint := fmt.Sprintf("endpoint-%d.example.com", n)
	q := url.Values{"owner": {task.Owner}, "task": {task.ID}, "hook": {id}}
	data, err := sealer(nil).encode(settings{URL: "https://" + endpoint + "/?" + q.Encode(), Format: format}, task, id)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lanes = append(w.lanes, laneID{task, id})
	return store.NewWebhook{ID: id, Endpoint: "https://" + endpoint + ":443", Data: data}
}

func (w *world) now() time.Time {
	if w.clock != nil {
		return w.clock.now()
	}
	return time.Now()
}

// commit commits a change, which must succeed.
func (w *world) commit(c store.Change) {
	results, err := w.store.Commit(w.t.Context(), c)
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		w.t.Errorf("seed %d: Commit() = %v, want nil", w.seed, err)
	}
}

// rollBack tries a change that conflicts with a concurrent one and is not committed.
func (w *world) rollBack(task store.Key, version int64) {
	events := []store.Event{chunk(uncommittedText), {State: a2a.StateFailed}}
	events[0].Time, events[1].Time = w.now(), w.now()
	results, err := w.store.Commit(w.t.Context(), store.Change{Key: task, Version: version - 1, Events: events})
	if err != nil || !errors.Is(results[0].Err, store.ErrConflict) {
		w.t.Errorf("seed %d: Commit() to an old version = %v, %v, want a conflict", w.seed, results, err)
	}
}

// create creates a task with webhooks.
func (w *world) create(task store.Key, hooks ...store.NewWebhook) {
	question := &a2a.Message{ID: "m1", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: "hi"}}}
	w.commit(store.Change{
		Key: task, Create: &store.Create{ContextID: "context"}, Queue: &store.QueueEntry{Phase: store.PhaseIdle}, Webhooks: hooks,
		Events: []store.Event{
			{Time: w.now(), State: a2a.StateSubmitted, Received: question},
			{Time: w.now(), State: a2a.StateWorking},
		},
	})
}

// appendEvent appends an event to a task at a version.
func (w *world) appendEvent(task store.Key, version int64, e store.Event) {
	e.Time = w.now()
	w.commit(store.Change{Key: task, Version: version, Events: []store.Event{e}})
}

func chunk(text string) store.Event {
	return store.Event{State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a", Parts: []a2a.Part{a2a.TextPart{Text: text}}}, Append: true}
}

// writeTask writes task n from its first event to its last.
func (w *world) writeTask(n int) {
	task := store.Key{Owner: fmt.Sprintf("owner-%d", n%3), ID: fmt.Sprintf("task-%d", n)}
	var hooks []store.NewWebhook
	for i := range w.plan.hooks {
		hooks = append(hooks, w.newHook(task, (n+i)%w.plan.endpoints))
	}
	time.Sleep(w.dice.upTo(time.Second))
	w.create(task, hooks...)
	version := int64(2)
	for range 1 + w.dice.below(max(w.plan.events, 1)) {
		if w.dice.float() < 0.5 {
			time.Sleep(w.dice.upTo(3 * time.Second))
		}
		if w.plan.rollbacks > 0 && w.dice.float() < w.plan.rollbacks {
			w.rollBack(task, version)
		}
		w.appendEvent(task, version, chunk(fmt.Sprint(version)))
		version++
	}
	w.appendEvent(task, version, store.Event{State: a2a.StateCompleted})
}

// runPlan runs the plan until all events are delivered or dead letters.
func (w *world) runPlan() {
	var writers, faults sync.WaitGroup
	for n := range w.plan.tasks {
		writers.Go(func() { w.writeTask(n) })
	}
	faults.Go(w.injectFaults)
	if w.plan.outage > 0 {
		faults.Go(func() {
			time.Sleep(w.dice.upTo(2 * time.Second))
			w.setDown("endpoint-0.example.com", true)
			time.Sleep(w.plan.outage)
			w.setDown("endpoint-0.example.com", false)
		})
	}
	writers.Wait()
	faults.Wait()
	w.mu.Lock()
	w.faultsOff = true
	w.mu.Unlock()
	for _, r := range w.replicas {
		r.store.stopFaults()
	}
	w.drain(3 * time.Hour)
	for i := range w.replicas {
		w.stop(i, time.Minute)
	}
}

func (w *world) setDown(host string, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down[host] = down
}

// drain waits until no lane is pending.
func (w *world) drain(most time.Duration) {
	started := time.Now()
	for end := started.Add(most); ; time.Sleep(max(500*time.Millisecond, time.Since(started)/100)) {
		backlog, err := w.store.WebhookBacklog(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if w.checkWaiting(); backlog.Pending == 0 {
			return
		}
		if time.Now().After(end) {
			w.t.Errorf("seed %d: %d lanes are pending %s after the last fault, want none", w.seed, backlog.Pending, most)
			return
		}
	}
}

// simulate runs the simulations of a plan, each with its own seed.
func simulate(t *testing.T, p plan, check func(w *world)) {
	t.Helper()
	t.Parallel()
	count := *simCount / raceShare
	if testing.Short() {
		count /= 20
	}
	for seed := range testseed.Each(t, count) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed, p)
			w.runPlan()
			check(w)
		})
	}
}
