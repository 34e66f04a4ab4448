package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// With synchronous replication a commit waits until standbys have confirmed it. If that
// wait is canceled, by a command timeout or by an operator, the server completes the commit
// locally and reports success with a warning. All sessions see such a commit, but a standby
// that becomes the primary may lack it: its outcome is indeterminate. Standbys receive commits
// in order, so it is replicated when a later write on the same server has committed without
// that warning.

// errUnreplicated reports a commit that no standby has confirmed.
var errUnreplicated = errors.New("no standby confirmed the commit")

const (
	// syncRepRoutine is the server function that sends the warning about such a commit.
	// The texts of warnings are localized.
	syncRepRoutine  = "SyncRepWaitForLSN"
	unreplicatedKey = "holdfast.unreplicated"
)

// noteNotice marks a connection after a commit that was not replicated.
func noteNotice(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == syncRepRoutine {
		c.CustomData()[unreplicatedKey] = true
	}
}

// replicated returns an error if a commit on the connection since the last call was not
// replicated.
func replicated(c *pgx.Conn) error {
	data := c.PgConn().CustomData()
	if data[unreplicatedKey] == nil {
		return nil
	}
	delete(data, unreplicatedKey)
	return commitError{errUnreplicated}
}

// confirm commits a write if an earlier commit was not answered or not replicated. It fails
// if the same happens to that write. Claims call it first, because a claim with a lost
// answer leases tasks to no worker and counts an attempt.
func (s *database) confirm(ctx context.Context) error {
	if !s.unconfirmed.Swap(false) {
		return nil
	}
	return s.runOnce(ctx, func(ctx context.Context, c *pgx.Conn) error {
		_, err := s.resolveMark(ctx, c, s.newMark())
		return err
	})
}
