package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// Calls of a handler on transcripts, facts, blobs, and on states outside of the agent's database are
// numbered and recorded like those on records; see turnrecords.go. A write to a part of the engine's
// store is an effect of the next commit. A write to another store is made at once, under a key that
// each attempt of the turn uses for this call. The results of reads are committed before, so that
// each attempt makes the same call.

// maxEffectBytes is the size of effects above which a call waits for their commit.
const maxEffectBytes = 1 << 20

// callFailure is the stored form of the error of a call on a contract.
type callFailure struct {
	Code a2a.Code `json:"code"`
	Text string   `json:"text"`
}

// lastingErrors are errors without a code, or that handlers test for, that a repeated call has again.
var lastingErrors = []error{
	blob.ErrNotFound, blob.ErrSize, blob.ErrDigest, blob.ErrTooLarge, blob.ErrRange, blob.ErrHolders, blob.ErrConflict,
	memory.ErrFactNotFound, memory.ErrNoEmbedder, memory.ErrStateConflict, memory.ErrStateTooLarge,
	vector.ErrCollectionNotFound, vector.ErrExists, vector.ErrMismatch,
	graph.ErrRelationshipNotFound, graph.ErrEndpointNotFound, graph.ErrConflict, graph.ErrTooLarge,
	graph.ErrCypher, graph.ErrCypherUnsupported, graph.ErrBudget,
}

// lasting returns the stored form of an error, nil if a repeated call may succeed.
func lasting(err error) *callFailure {
	if refused(err) {
		return nil
	}
	for _, known := range lastingErrors {
		if errors.Is(err, known) {
			return &callFailure{a2a.CodeOf(known), known.Error()}
		}
	}
	if code := a2a.CodeOf(err); code != a2a.CodeInternal && !code.Retryable() {
		return &callFailure{code, clientText(err)}
	}
	return nil
}

// error returns the error of a repeated call.
func (f *callFailure) error() error {
	for _, known := range lastingErrors {
		if f.Text == known.Error() {
			return known
		}
	}
	return a2a.Errorf(f.Code, "%s", f.Text)
}

// result returns the result of a recorded call.
func (c *callRecord) result(to any) error {
	if !c.Failed {
		if to == nil {
			return nil
		}
		return json.Unmarshal(c.Data, to)
	}
	var f callFailure
	if err := json.Unmarshal(c.Data, &f); err != nil {
		return err
	}
	return f.error()
}

// contractCall is a call of a handler on a contract.
type contractCall struct {
	kind callKind
	op   string
	// direct is set for a write that is made at once. args are its arguments, nil if they cannot be
	// compared.
	direct bool
	args   []any
	// after is set for a write that depends on what the turn has written.
	after bool
	// again prepares a repetition of the call, and reports false if the call cannot be repeated. nil means
	// that it always can.
	again func() bool
	// result points to the result, which has a form that JSON keeps. nil means none.
	result any
	// do makes the call, or adds effects to c. once identifies the call in all attempts.
	do func(ctx context.Context, c *recordCall, once string) error
}

// onContract makes a call, or returns the recorded result of an earlier attempt.
func (t *Turn) onContract(ctx context.Context, call contractCall) error {
	u := t.records(true)
	if call.direct {
		u.write = &directWrite{op: call.op, args: argsDigest(call.args)}
		defer t.release(u)
	}
	done, err := u.recorded(ctx, func(c *callRecord) bool { return c.Kind == call.kind && c.Op == call.op })
	if err != nil {
		return err
	}
	if done != nil {
		return done.result(call.result)
	}
	if err := t.r.ensureLease(ctx); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	switch {
	case call.direct:
		err = u.commitReads(ctx)
	case call.kind == queryCall || call.after:
		err = u.commit(ctx)
	}
	if err != nil {
		return err
	}
	c := &recordCall{result: callRecord{Kind: call.kind, Op: call.op}}
	if call.direct {
		u.write.started = true // only this goroutine uses it while it is in flight
	}
	once := t.onceKey(ctx)
	failure := t.r.waitOut(ctx, call.op, call.again, func() error { return call.do(ctx, c, once) })
	data := call.result
	if failure != nil {
		f := lasting(failure)
		switch {
		case f != nil:
		case refused(failure):
			if call.direct {
				u.write.started = false
			}
			return failure
		default:
			failure = hideStoreError(failure)
			if call.direct {
				u.write.failure = failure
			}
			return failure
		}
		c.result.Failed, data = true, f
		c.effects, c.written = nil, false
	}
	if data != nil {
		if c.result.Data, err = json.Marshal(data); err != nil {
			return err
		}
	}
	full := false
	err = u.add(ctx, c, func(p *pendingRecords) {
		p.add(c)
		full = p.size > maxEffectBytes
	})
	if err == nil && full {
		err = u.commit(ctx)
	}
	return errors.Join(hideStoreError(failure), err)
}

// onceKey returns a key of the next call. Each attempt of the turn gets the same one.
func (t *Turn) onceKey(ctx context.Context) string {
	scope := t.scopeName(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %d %q %d", t.TaskID(), t.task.CreatedAt.UnixNano(), t.Number(), scope, t.calls[scope]))
	return "turn/" + hex.EncodeToString(sum[:16])
}

// contractWrite is a write of a handler on a contract.
type contractWrite struct {
	op   string
	args []any // not nil
	size int   // of the effect in bytes
	// effect returns the write as an effect. It is nil if the contract is not part of the engine's
	// store; direct then makes the write at once.
	effect func(ctx context.Context) (store.Effect, error)
	direct func(ctx context.Context, once string) error
}

// write makes a write.
func (t *Turn) write(ctx context.Context, w contractWrite) error {
	return t.onContract(ctx, contractCall{kind: writeCall, op: w.op, direct: w.effect == nil, args: w.args, do: func(ctx context.Context, c *recordCall, once string) error {
		if w.effect == nil {
			c.written = true
			return fenced(w.direct(ctx, once))
		}
		e, err := w.effect(ctx)
		c.effects, c.size = []store.Effect{e}, w.size
		return err
	}})
}

// fenced returns ErrLeaseLost for a write that a newer attempt has fenced.
func fenced(err error) error {
	if errors.Is(err, history.ErrFenced) {
		return ErrLeaseLost
	}
	return err
}

// unsupported returns the error for a contract that the agent does not have.
func unsupported(contract string) error {
	return a2a.Errorf(a2a.CodeUnsupported, "the agent has no store of %s", contract)
}
