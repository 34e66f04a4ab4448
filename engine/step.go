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
	t.mu.Lock()
	n := t.steps.count(t.scopeOf(ctx), name)
	t.mu.Unlock()
	if n > 1 {
		name += "#" + strconv.Itoa(n)
	}
	if done := t.earlier.step(name); done != nil {
		return slices.Clone(done.result), stepReplay{t, t.scopeOf(ctx)}.run(done)
	}
	if err := t.r.ensureLease(ctx); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s, inner := t.enterStep(ctx, name)
	result, err := s.run(inner, fn)
	if err != nil {
		return nil, err
	}
	return result, s.commit(ctx, result)
}

func (s *stepScope) run(ctx context.Context, fn func(context.Context) ([]byte, error)) ([]byte, error) {
	defer s.leave()
	return fn(ctx)
}

func checkStepName(name string) error {
	const limit = 256
	if name == "" || len(name) > limit || strings.ContainsRune(name, 0) || strings.HasPrefix(name, callsPrefix) {
		return a2a.Invalid("step name", "%s must have 1 to %d bytes, no NUL, and not start with U+0001", a2a.Quote(name), limit)
	}
	return nil
}

// count counts a use of a step name and returns the number of uses. It also adds the name to the
// steps around it: a later attempt that reads the records of these steps counts the use without
// running the step.
func (t *turnSteps) count(in *stepScope, name string) int {
	for ; in != nil; in = in.parent {
		in.steps = append(in.steps, name)
	}
	if t.uses == nil {
		t.uses = make(map[string]int)
	}
	t.uses[name]++
	return t.uses[name]
}

// step returns a step that an earlier attempt completed, or nil.
func (e *earlierAttempts) step(name string) *doneStep {
	if e == nil {
		return nil
	}
	return e.steps[name]
}

// commit commits the result of the step, together with everything that was reported before.
func (s *stepScope) commit(ctx context.Context, result []byte) error {
	t := s.t
	if limit := t.r.e.cfg.Limits.StepBytes; len(result) > limit {
		return a2a.Errorf(a2a.CodeTooLarge, "step %s: result has %d bytes, want at most %d", a2a.Quote(s.name), len(result), limit)
	}
	if err := t.usable(); err != nil {
		return err // the step ran longer than its turn
	}
	artifacts, err := s.record()
	if err != nil {
		return fmt.Errorf("step %s: artifacts: %w", a2a.Quote(s.name), err)
	}
	step := store.Step{Turn: t.entry.Turn, Name: s.name, Result: slices.Clone(result), Artifacts: artifacts}
	if err := t.r.out.commitWithRetry(ctx, &runChange{steps: []store.Step{step}}); err != nil {
		return fmt.Errorf("step %s: %w", a2a.Quote(s.name), t.r.stores.hide(err))
	}
	return nil
}
