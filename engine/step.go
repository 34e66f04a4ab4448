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

// Step runs fn once per turn, however often the turn is begun: its result is recorded,
// and a later attempt gets the record. The same name used again in one attempt is another
// step, distinguished by order; names must therefore be used in the same order in every
// attempt. An error of fn is not recorded.
//
// What is written to artifacts while fn runs belongs to the step: a later attempt that
// gets the record writes it again, too. A step within fn must be given the context that
// fn got. While steps run that are not within each other, writes are refused.
func (t *Turn) Step(ctx context.Context, name string, fn func(context.Context) ([]byte, error)) ([]byte, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if err := checkStepName(name); err != nil {
		return nil, err
	}
	name = t.stepName(ctx, name)
	if done := t.recorded(name); done != nil {
		return slices.Clone(done.result), t.repeat(ctx, done)
	}
	if err := t.r.hold(ctx); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s, result, err := t.runStep(ctx, fn)
	if err != nil {
		return nil, err
	}
	return result, t.record(ctx, name, result, s)
}

func (t *Turn) runStep(ctx context.Context, fn func(context.Context) ([]byte, error)) (*scope, []byte, error) {
	s, ctx := t.enter(ctx)
	defer s.leave()
	result, err := fn(ctx)
	return s, result, err
}

func checkStepName(name string) error {
	const limit = 256
	if name == "" || len(name) > limit || strings.ContainsRune(name, 0) {
		return a2a.Invalid("step name", "%s must have 1 to %d bytes and no NUL", a2a.Quote(name), limit)
	}
	return nil
}

// stepName returns the name of the next step that is called so, and counts it.
func (t *Turn) stepName(ctx context.Context, name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.countStep(t.scopeOf(ctx), name)
	if n := t.names[name]; n > 1 {
		name += "#" + strconv.Itoa(n)
	}
	return name
}

// countStep counts a use of a step's name, for the steps around it, too: with their
// records it is counted without being run. The caller holds t.mu.
func (t *Turn) countStep(in *scope, name string) {
	t.names[name]++
	for ; in != nil; in = in.parent {
		in.steps = append(in.steps, name)
	}
}

// recorded returns a step if an earlier attempt has completed it, else nil.
func (t *Turn) recorded(name string) *doneStep {
	if t.earlier == nil {
		return nil
	}
	return t.earlier.steps[name]
}

// record commits the result of a step, together with all that was reported before.
func (t *Turn) record(ctx context.Context, name string, result []byte, s *scope) error {
	if limit := t.r.e.cfg.Limits.StepBytes; len(result) > limit {
		return a2a.Errorf(a2a.CodeTooLarge, "step %s: result has %d bytes, at most %d are kept", a2a.Quote(name), len(result), limit)
	}
	if err := t.usable(); err != nil {
		return err // the step took longer than its turn
	}
	did, err := s.record()
	if err != nil {
		return fmt.Errorf("step %s: artifacts: %w", a2a.Quote(name), err)
	}
	step := store.Step{Turn: t.run.Turn, Name: name, Result: slices.Clone(result), Artifacts: did}
	if err := t.r.insist(ctx, &runChange{steps: []store.Step{step}}); err != nil {
		return fmt.Errorf("step %s: %w", a2a.Quote(name), unstored(err))
	}
	return nil
}
