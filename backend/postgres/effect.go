package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

// Effects need several round trips, so a request whose changes have effects is not part of a group.
// Its transaction runs the statements of the changes first, whose guards fail unless all of them are
// applied, and then the effects.

// commitWithEffects applies a request on a connection of client calls. If ctx ends before it has
// one, the request is not applied.
func (s *changeWriter) commitWithEffects(ctx context.Context, r *request) error {
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

// transactCalls runs the statements and the effects of changes in one transaction. Without effects,
// this is one round trip.
func (s *database) transactCalls(ctx context.Context, calls []*call, changes []*change) error {
	if !slices.ContainsFunc(changes, func(c *change) bool { return len(c.Effects) > 0 }) {
		return s.pipeline(ctx, calls)
	}
	return s.withConn(ctx, func(c *pgx.Conn) error {
		t := &kitWrite{ctx: ctx, kit: &kit{s}, conn: c.PgConn(), started: true}
		defer t.rollback()
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
