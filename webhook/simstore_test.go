package webhook

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// dice is a random number generator with a seed. It is safe for concurrent use.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{r: rand.New(rand.NewPCG(seed, 1))} }

func (d *dice) float() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Float64()
}

func (d *dice) below(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

func (d *dice) upTo(t time.Duration) time.Duration { return time.Duration(d.float() * float64(t)) }

// barrier blocks the store and network operations of a paused replica, like SIGSTOP.
type barrier struct {
	mu     sync.Mutex
	open   chan struct{} // nil when it is open
	killed bool
}

var errKilled = errors.New("the process has been killed")

func (g *barrier) pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *barrier) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
	g.open = nil
}

func (g *barrier) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.killed = true
}

func (g *barrier) pass() error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	if open != nil {
		<-open
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.killed {
		return errKilled
	}
	return nil
}

func (g *barrier) paused() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open != nil
}

// flaky is the store of a replica. Calls fail before or after they take effect, are slow, and
// block at the barrier.
type flaky struct {
	store.Store
	barrier
	dice          *dice
	faultRate     float64 // share of calls that fail
	slow          time.Duration
	shared        bool                     // not exclusive
	onDeadLetters func([]store.DeadLetter) // called with stored dead letters

	mu            sync.Mutex
	faultsOff     bool
	failingMethod string        // method that always fails
	responseDelay time.Duration // delay of all responses
	counts        map[string]int
}

var errFault = errors.New("injected fault")

// stopFaults disables faults and slow calls.
func (f *flaky) stopFaults() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faultsOff = true
}

// delayResponses delays all responses.
func (f *flaky) delayResponses(late time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.responseDelay = late
}

// failMethod makes all calls of a method fail.
func (f *flaky) failMethod(method string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failingMethod = method
}

// fail makes a share of the calls fail, and delays each by up to slow.
func (f *flaky) fail(share float64, slow time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faultRate, f.slow = share, slow
}

func (f *flaky) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[method]
}

func (f *flaky) Info() store.Info {
	info := f.Store.Info()
	info.Exclusive = info.Exclusive && !f.shared
	return info
}

// flakyCalls are the calls that fail, are slow and block at the barrier.
var flakyCalls = []string{"ClaimLanes", "RenewLanes", "AckLanes", "Lanes", "WakeLanes", "Endpoints", "SaveEndpoint", "DeliveryAttempts"}

// over makes s the store of f.
func (f *flaky) over(s store.Store) *flaky {
	f.Store = storetest.Intercept(ackObserver{s, f}, f.call)
	return f
}

func (f *flaky) call(ctx context.Context, c storetest.Call, do func(context.Context) error) error {
	if !slices.Contains(flakyCalls, c.Method) {
		return do(ctx)
	}
	f.mu.Lock()
	calm, share, slow, broken := f.faultsOff, f.faultRate, f.slow, f.failingMethod == c.Method
	late := f.responseDelay
	if f.counts == nil {
		f.counts = make(map[string]int)
	}
	f.counts[c.Method]++
	f.mu.Unlock()
	if err := f.pass(); err != nil {
		return err
	}
	fault := math.Inf(1)
	if !calm {
		if fault = f.dice.float(); slow > 0 {
			runtime.Sleep(ctx, f.dice.upTo(slow))
		}
	}
	if broken || fault < share/2 {
		return errFault
	}
	err := do(ctx)
	if late > 0 {
		runtime.Sleep(ctx, late)
	}
	if gated := f.pass(); gated != nil {
		return gated
	}
	if fault < share {
		return errFault
	}
	return err
}

// ackObserver reports the dead letters that its store has stored.
type ackObserver struct {
	store.Store
	f *flaky
}

func (o ackObserver) AckLanes(ctx context.Context, acks ...store.LaneAck) ([]store.LaneLease, error) {
	lost, err := o.Store.AckLanes(ctx, acks...)
	for i := range acks {
		if err == nil && o.f.onDeadLetters != nil && !slices.Contains(lost, acks[i].Lease) {
			o.f.onDeadLetters(acks[i].Dead)
		}
	}
	return lost, err
}

// WatchLanes drops some notifications.
func (f *flaky) WatchLanes(notify func()) (stop func()) {
	return f.Store.WatchLanes(func() {
		f.mu.Lock()
		share := f.faultRate
		f.mu.Unlock()
		if f.dice.float() >= share {
			notify()
		}
	})
}

// chance returns a number in [0, 1) that is determined by its arguments.
func chance(seed uint64, what ...any) float64 {
	h := fnv(seed)
	for _, w := range what {
		switch w := w.(type) {
		case string:
			for i := range len(w) {
				h = (h ^ uint64(w[i])) * 1099511628211
			}
		case int:
			h = (h ^ uint64(w)) * 1099511628211
		}
		h ^= h >> 29
	}
	return rand.New(rand.NewPCG(h, seed)).Float64()
}

func fnv(seed uint64) uint64 { return 14695981039346656037 ^ seed*0x9e3779b97f4a7c15 }
