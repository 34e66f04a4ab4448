package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// With synchronous replication a commit waits until standbys have confirmed it. If that
// wait is cancelled, by the timeout of a command or by an operator, the server completes
// the commit locally and reports success with a warning. Everybody sees such a commit,
// but a standby that becomes the primary may lack it: its outcome is indeterminate.
// Standbys receive commits in order, so it is replicated once a later write on the same
// server has committed without that warning.

// errUnreplicated reports a commit that no standby has confirmed.
var errUnreplicated = errors.New("no standby confirmed the commit")

const (
	// syncRepRoutine is the function of the server that warns of such a commit. The
	// texts of its warnings are localised.
	syncRepRoutine  = "SyncRepWaitForLSN"
	unreplicatedKey = "holdfast.unreplicated"
)

// noteNotice remembers on a connection that a commit of it was not replicated.
func noteNotice(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == syncRepRoutine {
		c.CustomData()[unreplicatedKey] = true
	}
}

// replicated fails if a commit on the connection was not replicated since the last call.
func replicated(c *pgx.Conn) error {
	data := c.PgConn().CustomData()
	if data[unreplicatedKey] == nil {
		return nil
	}
	delete(data, unreplicatedKey)
	return commitError{errUnreplicated}
}

// confirm returns nil if every commit was answered and replicated. Otherwise it commits
// a write, and fails as long as that is not. Claims call it first: one whose answer is
// lost leases tasks to nobody and charges them an attempt.
func (s *Store) confirm(ctx context.Context) error {
	if !s.unconfirmed.Swap(false) {
		return nil
	}
	return s.once(ctx, func(ctx context.Context, c *pgx.Conn) error {
		_, err := s.ruleOut(ctx, c, s.newMark())
		return err
	})
}
