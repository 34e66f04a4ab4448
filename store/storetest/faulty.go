package storetest

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Fault is the outcome of a call of a faulty store.
type Fault int

// Faults.
const (
	// Pass makes the call.
	Pass Fault = iota
	// FailBefore fails the call without making it.
	FailBefore
	// FailAfter makes the call and fails it: its effects remain, but its result is lost.
	// A claim of several tasks returns the first one with a *store.ClaimError.
	FailAfter
)

// Plan returns the fault of each call. Faulty never calls it concurrently.
type Plan func(Call) Fault

// FailCall returns the plan that fails the nth call of a method.
func FailCall(method string, n int, fault Fault) Plan {
	return func(c Call) Fault {
		if c.Method == method && c.N == n {
			return fault
		}
		return Pass
	}
}

// FailRandomly returns the plan that fails a share of all calls, between 0 and 1, half of them
// before and half after the call. The seed determines which.
func FailRandomly(seed uint64, share float64) Plan {
	r := rand.New(rand.NewPCG(seed, 0))
	return func(Call) Fault {
		switch x := r.Float64(); {
		case x < share/2:
			return FailBefore
		case x < share:
			return FailAfter
		}
		return Pass
	}
}

// Faulty returns a store that forwards its calls to s and fails those that the plan selects
// with an error of code unavailable. WatchLanes, Info and Close never fail.
func Faulty(s store.Store, plan Plan) store.Store {
	var mu sync.Mutex
	return Intercept(s, func(ctx context.Context, c Call, do func(context.Context) error) error {
		mu.Lock()
		fault := plan(c)
		mu.Unlock()
		if fault == FailBefore {
			return a2a.Errorf(a2a.CodeUnavailable, "injected fault before %s", c.Method)
		}
		err := do(ctx)
		if err == nil && fault == FailAfter {
			return a2a.Errorf(a2a.CodeUnavailable, "injected fault after %s", c.Method)
		}
		return err
	})
}
