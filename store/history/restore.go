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

// maxRestoredSeq is the greatest sequence of a restored message. Later ones have room for appends
// before a double cannot represent them.
const maxRestoredSeq = 1 << 52

// CheckRestore returns an error if the params of Restore are invalid.
func CheckRestore(s *Session, messages []Message) error {
	p := AppendParams{Messages: messages}
	if err := p.Check(s.Key); err != nil {
		return err
	}
	last := int64(0)
	for i := range messages {
		m := &messages[i]
		switch {
		case m.Seq <= last:
			return invalid("message %d: sequence: is %d, want more than %d", i, m.Seq, last)
		case m.Seq > maxRestoredSeq:
			return invalid("message %d: sequence: is %d, limit is %d", i, m.Seq, maxRestoredSeq)
		case m.CreatedAt.IsZero():
			return invalid("message %d: creation time: is required", i)
		}
		if err := checkOptional("run", m.Run); err != nil {
			return err
		}
		last = m.Seq
	}
	switch {
	case s.CreatedAt.IsZero() || s.UpdatedAt.Before(s.CreatedAt):
		return invalid("session: times: want a creation time, and an update time that is not before it")
	case s.UpdatedAt.Year() > 9999 || s.ExpiresAt.Year() > 9999:
		return invalid("session: times: must be before the year 10000")
	case !s.ExpiresAt.IsZero() && !s.ExpiresAt.After(s.UpdatedAt):
		return invalid("session: expiry: must be after the update time")
	}
	return nil
}

// TTL returns the time after each append until the session expires, 0 if it does not.
func (s *Session) TTL() time.Duration {
	if s.ExpiresAt.IsZero() {
		return 0
	}
	return s.ExpiresAt.Sub(s.UpdatedAt)
}

// Batches calls f with parts of messages. The messages of a part have the same run and
// consecutive sequences.
func Batches(messages []Message, f func(part []Message) error) error {
	for len(messages) > 0 {
		n := 1
		for n < len(messages) && messages[n].Run == messages[0].Run && messages[n].Seq == messages[n-1].Seq+1 {
			n++
		}
		if err := f(messages[:n]); err != nil {
			return err
		}
		messages = messages[n:]
	}
	return nil
}
