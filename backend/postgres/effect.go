package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
)

// Effects that are guarded statements are part of the group of their changes. If one of these guards fails,
// or if an effect must read, the request is applied in a transaction of its own with several round trips. It
// runs the statements of the changes first. Their guards fail unless all changes are applied. Then it applies
// the effects.

// errUngrouped is the outcome of a request that a group cannot apply because of its effects.
var errUngrouped = errors.New("effects need a transaction of their own")

// effectCalls has the statements of an effect.
type effectCalls struct {
	order string // of the row that they lock first, see callRequest
	calls []*call
}

// commitInGroup submits a request with the statements of its effects. It returns errUngrouped if an effect has no
// statements, or if the guard of one fails. If effects are planned, it plans them up to sqlkit.MostPlans times.
func (s *changeWriter) commitInGroup(ctx context.Context, r *request) error {
	planned := r.plannedRows()
	if len(planned) > 0 && len(r.changes) > 1 {
		return errUngrouped // one plan would make another obsolete
	}
	for _, rows := range planned {
		unlock, err := s.plans.Lock(ctx, rows)
		if err != nil {
			return err
		}
		defer unlock()
	}
	size := r.bytes
	for try := 0; s.prepareEffects(ctx, r); try++ {
		r.ungrouped = false
		r.state.Store(requestQueued)
		if err := s.submit(ctx, r); !errors.Is(err, errUngrouped) || len(planned) == 0 || try+1 == sqlkit.MostPlans {
			return err
		}
		r.bytes = size
	}
	return errUngrouped
}

// plannedRows returns the names of the rows that effects of the request read, in their order.
func (r *request) plannedRows() (all []string) {
	for i := range r.changes {
		for _, e := range r.changes[i].Effects {
			if p, ok := e.(sqlkit.PipelinedEffect); ok && p.Planned() != "" {
				all = append(all, p.Planned())
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// prepareEffects sets the statements of the effects of a request. It returns false if an effect has none.
func (s *changeWriter) prepareEffects(ctx context.Context, r *request) bool {
	k := &kit{database: s.database}
	for i := range r.changes {
		ch := &r.changes[i]
		ch.effects = nil
		for _, e := range sqlkit.JoinEffects(ch.Effects, k.in) {
			p, ok := e.(sqlkit.PipelinedEffect)
			if !ok {
				return false
			}
			order, calls := p.Calls(ctx, k.in)
			if len(calls) == 0 {
				return false
			}
			for _, c := range calls {
				r.bytes += argsSize(c.Args)
			}
			ch.effects = append(ch.effects, effectCalls{order, k.calls(calls)})
		}
	}
	return true
}

// argsSize returns the size of the texts and bytes of arguments.
func argsSize(args []any) (n int) {
	for _, a := range args {
		switch a := a.(type) {
		case string:
			n += len(a)
		case []byte:
			n += len(a)
		case []string:
			for _, s := range a {
				n += len(s)
			}
		}
	}
	return n
}

// effects returns the statements of the effects of changes, in the order of the rows that they lock. Effects
// of the same row keep their order.
func effects(accepted []*change) (calls []*call) {
	var all []effectCalls
	for _, ch := range accepted {
		all = append(all, ch.effects...)
	}
	slices.SortStableFunc(all, func(a, b effectCalls) int { return cmp.Compare(a.order, b.order) })
	for _, e := range all {
		calls = append(calls, e.calls...)
	}
	return calls
}

// ungroup marks the request of a group that has the failed call of an effect or, if all is set, every request that
// has effects. It returns the pending changes of the other requests.
func ungroup(group []*request, failed *call, all bool, pending []*change) []*change {
	out := make(map[*change]bool)
	for _, r := range group {
		r.ungrouped = r.ungrouped || slices.ContainsFunc(r.changes, func(ch change) bool {
			return all && len(ch.effects) > 0 || ch.hasCall(failed)
		})
		for i := range r.changes {
			out[&r.changes[i]] = r.ungrouped
		}
	}
	return slices.DeleteFunc(slices.Clone(pending), func(ch *change) bool { return out[ch] })
}

// hasCall reports whether a call is one of the change's effects.
func (c *change) hasCall(k *call) bool {
	return slices.ContainsFunc(c.effects, func(e effectCalls) bool { return slices.Contains(e.calls, k) })
}

// failedEffect returns the call with the failed guard if it is one of an effect, else nil.
func failedEffect(err error, changes []*change) *call {
	var failed *callError
	if !guardFailed(err) || !errors.As(err, &failed) {
		return nil
	}
	if slices.ContainsFunc(changes, func(ch *change) bool { return ch.hasCall(failed.call) }) {
		return failed.call
	}
	return nil
}

// commitWithEffects applies a request on a connection of client calls. If ctx ends before it has
// one, the request is not applied.
func (s *changeWriter) commitWithEffects(ctx context.Context, r *request) error {
	for i := range r.changes {
		r.changes[i].effects = nil
	}
	r.ungrouped = false
	if err := s.callSlots.acquire(ctx, s.cfg.Timeout); err != nil {
		return err
	}
	defer s.callSlots.release()
	c := s.newCommitter()
	deadline := time.Now().Add(s.cfg.CommandTimeout)
	err := c.apply([]*request{r})
	for lockTimedOut(err) && time.Now().Before(deadline) && runtime.Sleep(context.Background(), blockedRetryInterval) == nil {
		err = c.apply([]*request{r})
	}
	c.finish(r, err)
	return <-r.done
}

// transactCalls runs the statements and the effects of changes in one transaction. If the statements of the
// effects are among them, this is one round trip.
func (s *database) transactCalls(ctx context.Context, calls []*call, changes []*change) error {
	if !slices.ContainsFunc(changes, func(c *change) bool { return len(c.Effects) > 0 && len(c.effects) == 0 }) {
		return s.pipeline(ctx, calls)
	}
	return s.withConn(ctx, func(c *pgx.Conn) error {
		t := &kitWrite{ctx: ctx, kit: &kit{database: s}, conn: c.PgConn(), started: true}
		defer func() { rollbackOpen(ctx, t.conn) }()
		if err := s.exchange(ctx, t.conn, false, append([]*call{newCall(stmtBegin)}, calls...)...); err != nil {
			return err
		}
		for _, ch := range changes {
			if err := applyEffects(t, ch); err != nil {
				return err
			}
		}
		return s.exchange(ctx, t.conn, true, newCall(stmtCommit))
	})
}

// applyEffects applies the effects of a change. It returns the failure of a statement, or a
// *refusedEffect.
func applyEffects(t *kitWrite, ch *change) error {
	refusal := ch.ApplyEffects(t)
	if err := kitOutcome(t.failure, refusal); !errors.Is(err, errKitRejected) {
		return err
	}
	return &refusedEffect{ch, refusal}
}

// refusedEffect is the error of a transaction that was rolled back because an effect of a change
// failed.
type refusedEffect struct {
	change *change
	err    error
}

func (e *refusedEffect) Error() string { return e.err.Error() }

// others sets the result of the change and returns the other changes of the transaction.
func (e *refusedEffect) others(accepted []*change) []*change {
	e.change.result = store.Result{Err: e.err}
	return slices.DeleteFunc(slices.Clone(accepted), func(ch *change) bool { return ch == e.change })
}
