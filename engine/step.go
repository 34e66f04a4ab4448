package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Step runs fn once per turn, however often the turn is begun: what it returned
// is recorded, and a later attempt is given the record. The same name used again
// in one attempt is another step, told apart by order; names must therefore be
// used in the same order in every attempt. An error of fn is not recorded.
func (t *Turn) Step(ctx context.Context, name string, fn func(context.Context) ([]byte, error)) ([]byte, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if err := checkStepName(name); err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.names[name]++
	if n := t.names[name]; n > 1 {
		name += "#" + strconv.Itoa(n)
	}
	t.mu.Unlock()
	result, found, err := t.recorded(ctx, name)
	if err != nil || found {
		return result, err
	}
	if err := t.r.hold(ctx); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if result, err = fn(ctx); err != nil {
		return nil, err
	}
	return result, t.record(ctx, name, result)
}

func checkStepName(name string) error {
	const limit = 256
	if name == "" || len(name) > limit || strings.ContainsRune(name, 0) {
		return a2a.Invalid("step name", "%s must have 1 to %d bytes and no NUL", a2a.Quote(name), limit)
	}
	return nil
}

// recorded returns the result of a step if this turn has completed it. Results
// are read from the store when an earlier run may have left some.
func (t *Turn) recorded(ctx context.Context, name string) (result []byte, found bool, err error) {
	t.stepsOnce.Lock()
	defer t.stepsOnce.Unlock()
	if t.steps == nil {
		steps := make(map[string][]byte)
		if t.r.lease.Fence > 1 && t.run.Turn == t.r.first {
			stored, err := t.r.e.cfg.Store.Steps(ctx, t.task.Key, t.run.Turn)
			if err != nil {
				return nil, false, fmt.Errorf("read steps: %w", unstored(err))
			}
			for _, s := range stored {
				steps[s.Name] = s.Result
			}
		}
		t.steps = steps
	}
	result, found = t.steps[name]
	return slices.Clone(result), found, nil
}

// record commits the result of a step, together with all that was told before.
func (t *Turn) record(ctx context.Context, name string, result []byte) error {
	if limit := t.r.e.cfg.Limits.StepBytes; len(result) > limit {
		return a2a.Errorf(a2a.CodeTooLarge, "step %s: result has %d bytes, at most %d are kept", a2a.Quote(name), len(result), limit)
	}
	if err := t.usable(); err != nil {
		return err // the step took longer than its turn
	}
	result = slices.Clone(result)
	err := t.r.insist(ctx, &runChange{steps: []store.Step{{Turn: t.run.Turn, Name: name, Result: result}}})
	if err != nil {
		return fmt.Errorf("step %s: %w", a2a.Quote(name), unstored(err))
	}
	t.stepsOnce.Lock()
	defer t.stepsOnce.Unlock()
	t.steps[name] = result
	return nil
}
