package check

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/store"
)

// Lane is a webhook with its cursor, and its dead letters by sequence.
type Lane struct {
	store.Lane
	Dead map[int64]store.DeadLetter
}

// lanes checks the webhooks of an owner against the logs of the owner's tasks.
func lanes(ctx context.Context, s source, owner string, report *Report) error {
	var errs []error
	dead, err := deadLetters(ctx, s, owner)
	if err != nil {
		return fmt.Errorf("list dead letters: %w", err)
	}
	q := store.LaneQuery{Owner: owner, Limit: 100}
	for more := true; more; {
		page, err := s.Lanes(ctx, q)
		if err != nil {
			return fmt.Errorf("list webhooks: %w", err)
		}
		for _, l := range page.Lanes {
			name := store.LaneLease{Task: l.Webhook.Task, ID: l.Webhook.ID}
			q.After = &name
			lane := Lane{Lane: l, Dead: dead[name]}
			delete(dead, name)
			report.Lanes = append(report.Lanes, lane)
			if err := LaneOf(lane, report.Logs[l.Webhook.Task.ID]); err != nil {
				errs = append(errs, fmt.Errorf("task %s: webhook %s: %w", l.Webhook.Task.ID, l.Webhook.ID, err))
			}
		}
		more = page.More
	}
	for name, letters := range dead {
		errs = append(errs, fmt.Errorf("task %s has %d dead letters of webhook %s, which does not exist", name.Task.ID, len(letters), name.ID))
	}
	return errors.Join(errs...)
}

func deadLetters(ctx context.Context, s source, owner string) (map[store.LaneLease]map[int64]store.DeadLetter, error) {
	dead := make(map[store.LaneLease]map[int64]store.DeadLetter)
	q := store.WebhookQuery{Owner: owner, Limit: 100}
	for {
		page, err := s.DeadLetters(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, d := range page.Letters {
			name := store.LaneLease{Task: d.Task, ID: d.WebhookID}
			if dead[name] == nil {
				dead[name] = make(map[int64]store.DeadLetter)
			}
			dead[name][d.Sequence] = d
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return dead, nil
		}
	}
}

// LaneOf checks that the tail of a lane is the end of its task's log, that its cursor is a valid
// position in this log, and that its dead letters are events before the cursor.
func LaneOf(l Lane, log []store.Event) error {
	var errs []error
	if l.Tail != int64(len(log)) {
		errs = append(errs, fmt.Errorf("its tail is %d, the log ends at %d", l.Tail, len(log)))
	}
	if l.Cursor.Seq > l.Tail {
		errs = append(errs, fmt.Errorf("its cursor is %d, behind its tail %d", l.Cursor.Seq, l.Tail))
	}
	places := []store.WebhookCursor{{}}
	found := 0
	for i := range log {
		at := places[i]
		next, delivers := at.Next(&log[i])
		places = append(places, next)
		d, ok := l.Dead[next.Sequence]
		if !delivers || !ok {
			continue
		}
		found++
		if d.Seq != next.Seq || d.Cursor != at {
			errs = append(errs, fmt.Errorf("dead letter %d is of event %d behind %+v, want %d behind %+v", d.Sequence, d.Seq, d.Cursor, next.Seq, at))
		}
		if d.Seq > l.Cursor.Seq {
			errs = append(errs, fmt.Errorf("event %d is a dead letter, and not delivered yet: the cursor is %d", d.Seq, l.Cursor.Seq))
		}
	}
	if found != len(l.Dead) {
		errs = append(errs, fmt.Errorf("it has %d dead letters, of which %d are of delivered events", len(l.Dead), found))
	}
	if at := l.Cursor.Seq; at >= 0 && at < int64(len(places)) && l.Cursor != places[at] {
		errs = append(errs, fmt.Errorf("its cursor is %+v, by the log it should be %+v", l.Cursor, places[at]))
	}
	return errors.Join(errs...)
}
