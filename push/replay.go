package push

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// Replay sends a webhook of the principal's task everything again from an event on, or
// from its first dead letter, with the same ids; from what is to be told next, if that is
// earlier: nothing is left out. The result says from which. A webhook that was parked or
// disabled is active again. Errors: task_not_found, invalid_params.
func (s *Service) Replay(ctx context.Context, p a2a.Principal, r a2a.ReplayParams) (*a2a.ReplayResult, error) {
	t, err := s.task(ctx, p.ID, r.TaskID)
	if err != nil {
		return nil, err
	}
	found, err := s.find(ctx, t.Key, r.ConfigID)
	if err != nil {
		return nil, err
	}
	return s.replay(ctx, &found.Lane, r.FromSequence)
}

func (s *Service) replay(ctx context.Context, lane *store.Lane, from int64) (*a2a.ReplayResult, error) {
	task, id := lane.Config.Task, lane.Config.ID
	out := &a2a.ReplayResult{TaskID: task.ID, ConfigID: id, FromSequence: from}
	var cursor store.PushCursor
	if from > 0 {
		c, last, err := s.before(ctx, task, from)
		if err != nil {
			return nil, taskError(task.ID, err)
		}
		if last < from {
			return nil, a2a.Invalid("fromSequence", "is %d, the task has told %d updates", from, last)
		}
		cursor = c
	} else {
		first, err := s.firstDead(ctx, task, id)
		if err != nil || first == nil {
			return out, err
		}
		cursor = first.Cursor
	}
	s.cancelLane(task, id, anyFence) // before, so that no attempt of the replay is cut short
	at, err := s.cfg.Store.ReplayPush(ctx, task, id, cursor, store.Time(s.now()))
	if err != nil {
		return nil, taskError(task.ID, err)
	}
	out.FromSequence = at.Sequence + 1
	s.reopen(ctx, s.endpointOf(&lane.Config))
	return out, nil
}

// before returns the place in a log before the event that is told with a sequence, or,
// if there is none, how many are told.
func (s *Service) before(ctx context.Context, task store.Key, sequence int64) (at store.PushCursor, last int64, err error) {
	err = store.WalkLog(ctx, s.cfg.Store, s.cfg.Memory, task, 0, math.MaxInt64, func(page []store.Event) bool {
		for i := range page {
			next, _ := at.Next(&page[i])
			if last = next.Sequence; last >= sequence {
				return false
			}
			at = next
		}
		return true
	})
	return at, last, err
}

// firstDead returns the dead letter of a webhook that came first, nil if there is none.
func (s *Service) firstDead(ctx context.Context, task store.Key, id string) (*store.DeadLetter, error) {
	var first *store.DeadLetter
	q := store.PushQuery{Owner: task.Owner, TaskID: task.ID, ID: id, Limit: 100}
	for {
		page, err := s.cfg.Store.DeadLetters(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Letters {
			if d := &page.Letters[i]; first == nil || d.Seq < first.Seq {
				first = d
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return first, nil
		}
	}
}

// DeadLetters returns a page of the principal's dead letters, the newest first. Those of
// the global webhook are not among them, so that a page that is not the last may be
// short. Errors: task_not_found, invalid_params.
func (s *Service) DeadLetters(ctx context.Context, p a2a.Principal, l a2a.ListDeadLettersParams) (*a2a.ListDeadLettersResult, error) {
	q, list, err := s.query(ctx, "dead", p.ID, l.TaskID, l.ConfigID, l.PageSize, l.PageToken)
	if err != nil {
		return nil, err
	}
	page, err := after(q, l.Offset, func(q store.PushQuery) (page store.DeadLetterPage, visible int, next string, err error) {
		page, err = s.cfg.Store.DeadLetters(ctx, q)
		for i := range page.Letters {
			visible += own(page.Letters[i].ConfigID)
		}
		return page, visible, page.Next, err
	})
	if err != nil {
		return nil, badToken(q, err)
	}
	out := &a2a.ListDeadLettersResult{DeadLetters: []a2a.DeadLetter{}, PageSize: q.Limit, NextPageToken: list.token(page.Next)}
	ids := s.eventIDs(ctx)
	for i := range page.Letters {
		d := &page.Letters[i]
		if d.ConfigID == GlobalID {
			continue
		}
		id, err := ids(d.Task, d.Seq)
		if errors.Is(err, a2a.ErrTaskNotFound) {
			continue // it has just been deleted
		}
		if err != nil {
			return nil, err
		}
		out.DeadLetters = append(out.DeadLetters, a2a.DeadLetter{
			TaskID: d.Task.ID, ConfigID: d.ConfigID, EventID: id, Sequence: d.Sequence,
			Reason: d.Reason, Attempts: d.Attempts, Status: d.Status, At: d.At,
		})
	}
	return out, nil
}

// Attempts returns a page of the attempts to deliver to webhooks of the principal's
// task, the newest first; see DeadLetters. Errors: task_not_found, invalid_params.
func (s *Service) Attempts(ctx context.Context, p a2a.Principal, l a2a.ListAttemptsParams) (*a2a.ListAttemptsResult, error) {
	q, list, err := s.query(ctx, "attempts", p.ID, l.TaskID, l.ConfigID, l.PageSize, l.PageToken)
	if err != nil {
		return nil, err
	}
	page, err := after(q, l.Offset, func(q store.PushQuery) (page store.PushAttemptPage, visible int, next string, err error) {
		page, err = s.cfg.Store.PushAttempts(ctx, q)
		for i := range page.Attempts {
			visible += own(page.Attempts[i].ConfigID)
		}
		return page, visible, page.Next, err
	})
	if err != nil {
		return nil, badToken(q, err)
	}
	out := &a2a.ListAttemptsResult{Attempts: []a2a.PushAttempt{}, PageSize: q.Limit, NextPageToken: list.token(page.Next)}
	ids := s.eventIDs(ctx)
	for i := range page.Attempts {
		a := &page.Attempts[i]
		if a.ConfigID == GlobalID {
			continue
		}
		id, err := ids(a.Task, a.Seq)
		if errors.Is(err, a2a.ErrTaskNotFound) {
			continue // it has just been deleted
		}
		if err != nil {
			return nil, err
		}
		out.Attempts = append(out.Attempts, ownAttempt(a, id))
	}
	return out, nil
}

// ownAttempt tells an attempt to the owner of its task: why there was no answer, and how
// long that took, would tell what is behind the address. That a connection was refused at
// once still shows in how soon the next attempt is made: to hide it the next would have to
// wait as if each attempt took the whole timeout.
func ownAttempt(a *store.PushAttempt, eventID string) a2a.PushAttempt {
	told := wholeAttempt(a, eventID)
	switch a.Outcome {
	case outcomeDelivered, outcomeRejected, outcomeGone, outcomeUnavailable, outcomeTooLarge, safehttp.OutcomeRefused:
	default:
		told.Outcome, told.Status, told.Millis = outcomeNone, 0, 0
	}
	return told
}

func wholeAttempt(a *store.PushAttempt, eventID string) a2a.PushAttempt {
	return a2a.PushAttempt{
		TaskID: a.Task.ID, ConfigID: a.ConfigID, EventID: eventID, Sequence: a.Sequence, Attempt: a.Attempt,
		At: a.At, Millis: a.Duration.Milliseconds(), Status: a.Status, Outcome: a.Outcome,
	}
}

// query returns what is to be asked of the store, and the list that it is.
func (s *Service) query(ctx context.Context, name, owner, task, config string, size int, token string) (store.PushQuery, list, error) {
	q := store.PushQuery{Owner: owner, TaskID: task, Limit: size}
	if q.Limit == 0 {
		q.Limit = 50
	}
	if task != "" {
		t, err := s.task(ctx, owner, task)
		if err != nil {
			return q, list{}, err
		}
		if config != "" {
			found, err := s.find(ctx, t.Key, config)
			if err != nil {
				return q, list{}, err
			}
			q.ID = found.Config.ID
		}
	}
	l := newList(name, q)
	var err error
	q.Cursor, err = l.cursor(token)
	return q, l, err
}

// after reads a page of a list after the first skip items that its owner sees.
func after[P any](q store.PushQuery, skip int, read func(store.PushQuery) (page P, visible int, next string, err error)) (P, error) {
	for skip > 0 {
		skipped := q
		skipped.Limit = min(skip, 100)
		_, visible, next, err := read(skipped)
		if err != nil || next == "" {
			var none P
			return none, err
		}
		skip -= visible
		q.Cursor = next
	}
	page, _, _, err := read(q)
	return page, err
}

// own counts a webhook that its owner sees.
func own(configID string) int {
	if configID == GlobalID {
		return 0
	}
	return 1
}

// eventIDs returns a function that tells the ids of events.
func (s *Service) eventIDs(ctx context.Context) func(task store.Key, seq int64) (string, error) {
	created := make(map[store.Key]*store.Task)
	return func(task store.Key, seq int64) (string, error) {
		t, ok := created[task]
		if !ok {
			var err error
			if t, err = s.task(ctx, task.Owner, task.ID); err != nil {
				return "", err
			}
			created[task] = t
		}
		return EventID(task, t.CreatedAt, seq), nil
	}
}

// list ties page tokens to the list that they were made for.
type list struct{ hash string }

func newList(name string, q store.PushQuery) list {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %q %q", name, q.Owner, q.TaskID, q.ID))
	return list{string(sum[:8])}
}

func (l list) token(cursor string) string {
	if cursor == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(l.hash + cursor))
}

func (l list) cursor(token string) (string, error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) <= len(l.hash) {
		return "", a2a.Invalid("pageToken", "is not one that this agent gave out")
	}
	if string(raw[:len(l.hash)]) != l.hash {
		return "", a2a.Invalid("pageToken", "was given out for another list")
	}
	return string(raw[len(l.hash):]), nil
}

// badToken words the store's error for a cursor that it did not give out.
func badToken(q store.PushQuery, err error) error {
	if q.Cursor != "" && a2a.CodeOf(err) == a2a.CodeInvalid {
		return a2a.Invalid("pageToken", "is not one that this agent gave out")
	}
	return err
}
