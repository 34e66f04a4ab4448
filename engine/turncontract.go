package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// Calls of a handler on contracts are numbered and recorded like calls on records; see turnrecords.go. A
// write to a part of the engine's store is an effect of the next commit. A write to another store is made
// at once, under a key that each attempt of the turn uses for this call. The results of reads are
// committed before, so that each attempt makes the same call.

// maxEffectBytes is the size of effects above which a call waits for their commit.
const maxEffectBytes = 1 << 20

// callFailure is the stored form of the error of a call on a contract.
type callFailure struct {
	Code a2a.Code `json:"code"`
	Text string   `json:"text"`
}

// lasting returns the stored form of an error, nil if a repeated call may succeed.
func (c *storeCalls) lasting(err error) *callFailure {
	if refused(err) {
		return nil
	}
	if known := c.contracts.lasting(func(known error) bool { return errors.Is(err, known) }); known != nil {
		return &callFailure{a2a.CodeOf(known), known.Error()}
	}
	if code := a2a.CodeOf(err); code != a2a.CodeInternal && !code.Retryable() {
		return &callFailure{code, clientText(err)}
	}
	return nil
}

// error returns the error of a repeated call.
func (f *callFailure) error(c *Contracts) error {
	if known := c.lasting(func(known error) bool { return f.Text == known.Error() }); known != nil {
		return known
	}
	return a2a.Errorf(f.Code, "%s", f.Text)
}

// result returns the result of a recorded call.
func (c *callRecord) result(contracts *Contracts, to any) error {
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
	return f.error(contracts)
}

// contractTurn implements [contract.Turn].
type contractTurn struct{ t *Turn }

// Contracts returns the turn for the methods of contracts, such as facts.For.
func (t *Turn) Contracts() contract.Turn { return contractTurn{t} }

func (c contractTurn) Session() contract.Session {
	return c.t.r.e.cfg.session(store.ContextKey{Owner: c.t.Owner(), ID: c.t.ContextID()})
}

func (c contractTurn) TaskID() string { return c.t.TaskID() }

func (c contractTurn) Fence() int64 { return c.t.r.lease.Fence }

func (c contractTurn) Now() time.Time { return c.t.r.e.cfg.clock() }

func (c contractTurn) Age(kind string) time.Duration { return c.t.r.e.cfg.Retention.Age(kind) }

func (c contractTurn) Log() *slog.Logger { return c.t.r.e.log }

func (c contractTurn) Store(k *contract.Kind) (s contract.Store, own bool) {
	cfg := &c.t.r.e.cfg
	return contract.Find(cfg.Contracts.Stores, k), cfg.own[k]
}

func (c contractTurn) Records(silent bool) (store.RecordUpdater, func() time.Time) {
	u := newTurnRecords(c.t, silent)
	return u, u.clock
}

func (c contractTurn) NewID(ctx context.Context, kind string) string {
	scope := c.t.scopeOf(ctx).scopeName()
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	sum := callKey(c.t, kind, scope, c.t.calls.takeID(idSeries{kind, scope}))
	return hex.EncodeToString(sum[:8])
}

// callKey returns the key of the nth use of a kind in a scope, which is the same in each attempt of the turn.
func callKey(t *Turn, kind, scope string, n int) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %d %d %q %q %d", t.TaskID(), t.task.CreatedAt.UnixNano(), t.Number(), kind, scope, n))
}

func (c contractTurn) OpenContent(ctx context.Context, op string, open func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	if err := newTurnRecords(c.t, true).commit(ctx); err != nil {
		return nil, err
	}
	return c.t.r.stores.openContent(ctx, op, open)
}

// Call makes a call, or returns the recorded result of an earlier attempt.
func (c contractTurn) Call(ctx context.Context, call contract.Call) error {
	t, kind := c.t, writeCall
	switch {
	case call.Read != nil:
		kind = queryCall
	case call.Effect == nil && call.Direct == nil:
		return a2a.Errorf(a2a.CodeInvalid, "call %s has no Read, Effect or Direct", call.Op)
	}
	u := newTurnRecords(t, true)
	if call.Direct != nil {
		u.write = &directWrite{op: call.Op, args: argsDigest(call.Args)}
		defer u.release()
	}
	done, err := u.recorded(ctx, func(r *callRecord) bool { return r.Kind == kind && r.Op == call.Op })
	if err != nil {
		return err
	}
	if done != nil {
		return done.result(&t.r.e.cfg.Contracts, call.Result)
	}
	if err := t.r.ensureLease(ctx); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	switch {
	case call.Direct != nil:
		err = u.commitReads(ctx)
	case call.Read != nil || call.After:
		err = u.commit(ctx)
	}
	if err != nil {
		return err
	}
	return u.perform(ctx, &recordCall{result: callRecord{Kind: kind, Op: call.Op}}, call)
}

// perform makes a call that no earlier attempt has made, and adds its result to the next commit.
func (u *turnRecords) perform(ctx context.Context, c *recordCall, call contract.Call) (err error) {
	if u.write != nil {
		u.write.started = true // only this goroutine uses it while it is in flight
	}
	stores, once := &u.t.r.stores, u.onceKey(ctx)
	failure := stores.waitOut(ctx, call.Op, call.Again, func() error { return c.do(ctx, &call, once) })
	data := call.Result
	if failure != nil {
		f := stores.lasting(failure)
		switch {
		case f != nil:
		case refused(failure):
			if u.write != nil {
				u.write.started = false
			}
			return failure
		default:
			failure = stores.hide(failure)
			if u.write != nil {
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
	return errors.Join(stores.hide(failure), err)
}

// do does the work of a call.
func (c *recordCall) do(ctx context.Context, call *contract.Call, once string) error {
	switch {
	case call.Read != nil:
		return call.Read(ctx)
	case call.Effect != nil:
		e, size, err := call.Effect(ctx, once)
		c.effects, c.size = []store.Effect{e}, size
		return err
	}
	c.written = true
	err := call.Direct(ctx, once)
	if errors.Is(err, contract.ErrFenced) {
		return ErrLeaseLost
	}
	return err
}

// onceKey returns the key of the next call, which is the same in each attempt of the turn.
func (u *turnRecords) onceKey(ctx context.Context) string {
	t, scope := u.t, u.t.scopeOf(ctx).scopeName()
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := callKey(t, "", scope, t.calls.next[scope])
	return "turn/" + hex.EncodeToString(sum[:16])
}
