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

// Step runs fn and stores its result. A later attempt of the turn returns the stored result
// without running fn. An error of fn is not stored: a later attempt runs fn again, as it does if
// the process dies before the result is stored. A name that is used again in one attempt is
// another step, distinguished by its order. Therefore names must be used in the same order in
// every attempt.
//
// Artifact content that is written while fn runs belongs to the step. A later attempt that
// returns the stored result writes that content again. A nested step must be given the context
// that was passed to fn. While steps run that are not nested in each other, artifact writes
// return an error.
func (t *Turn) Step(ctx context.Context, name string, fn func(context.Context) ([]byte, error)) ([]byte, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if err := checkStepName(name); err != nil {
		return nil, err
	}
	name = t.stepName(ctx, name)
	if done := t.recorded(name); done != nil {
		return slices.Clone(done.result), t.repeatStep(ctx, done)
	}
	if err := t.r.ensureLease(ctx); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s, result, err := t.runStep(ctx, name, fn)
	if err != nil {
		return nil, err
	}
	return result, t.record(ctx, name, result, s)
}

func (t *Turn) runStep(ctx context.Context, name string, fn func(context.Context) ([]byte, error)) (*stepScope, []byte, error) {
	s, ctx := t.enterStep(ctx, name)
	defer s.leave()
	result, err := fn(ctx)
	return s, result, err
}

func checkStepName(name string) error {
	const limit = 256
	if name == "" || len(name) > limit || strings.ContainsRune(name, 0) || strings.HasPrefix(name, callsPrefix) {
		return a2a.Invalid("step name", "%s must have 1 to %d bytes, no NUL, and not start with U+0001", a2a.Quote(name), limit)
	}
	return nil
}

// stepName returns the unique name of the next use of a step name, and counts the use.
func (t *Turn) stepName(ctx context.Context, name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.countStep(t.scopeOf(ctx), name)
	if n := t.nameUses[name]; n > 1 {
		name += "#" + strconv.Itoa(n)
	}
	return name
}

// countStep counts a use of a step name, also for the steps around it: a later attempt that
// reads their records counts it without running it. The caller holds t.mu.
func (t *Turn) countStep(in *stepScope, name string) {
	t.nameUses[name]++
	for ; in != nil; in = in.parent {
		in.steps = append(in.steps, name)
	}
}

// recorded returns a step that an earlier attempt completed, or nil.
func (t *Turn) recorded(name string) *doneStep {
	if t.earlier == nil {
		return nil
	}
	return t.earlier.steps[name]
}

// record commits the result of a step, together with everything that was reported before.
func (t *Turn) record(ctx context.Context, name string, result []byte, s *stepScope) error {
	if limit := t.r.e.cfg.Limits.StepBytes; len(result) > limit {
		return a2a.Errorf(a2a.CodeTooLarge, "step %s: result has %d bytes, want at most %d", a2a.Quote(name), len(result), limit)
	}
	if err := t.usable(); err != nil {
		return err // the step ran longer than its turn
	}
	artifacts, err := s.record()
	if err != nil {
		return fmt.Errorf("step %s: artifacts: %w", a2a.Quote(name), err)
	}
	step := store.Step{Turn: t.entry.Turn, Name: name, Result: slices.Clone(result), Artifacts: artifacts}
	if err := t.r.out.commitWithRetry(ctx, &runChange{steps: []store.Step{step}}); err != nil {
		return fmt.Errorf("step %s: %w", a2a.Quote(name), t.r.stores.hide(err))
	}
	return nil
}
