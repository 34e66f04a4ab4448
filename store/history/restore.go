package history

import (
	"context"
	"time"
)

// Restorer is implemented by stores into which transcripts can be imported.
type Restorer interface {
	// Restore adds messages to a session, with the sequences, runs and times that they had in
	// another store, and sets the times of the session. It creates the session if it does not
	// exist. Sequences ascend and may have gaps. It returns [ErrConflict] if the session has
	// a message at or after the first one. It has the limits of Append. It does nothing if
	// the session has expired by s.ExpiresAt. Fences and idempotency keys are not restored.
	Restore(ctx context.Context, s Session, messages []Message) error
}

// TTL returns the time after each append until the session expires, 0 if it does not.
func (s *Session) TTL() time.Duration {
	if s.ExpiresAt.IsZero() {
		return 0
	}
	return s.ExpiresAt.Sub(s.UpdatedAt)
}
