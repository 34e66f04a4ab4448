package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

const (
	// The lock prevents the deletion of the task before its feedback is added.
	sqlLockTaskShare = `SELECT 1 FROM {s}.task_rows WHERE owner = $1::text COLLATE "POSIX" AND id = $2::text COLLATE "POSIX" FOR SHARE`
	sqlAddFeedback   = `INSERT INTO {s}.feedback_rows (owner, task_id, id, rating, created_at, data)
		VALUES ($1::text, $2::text, $3::text, $4::bigint, $5::bigint, $6::text) ON CONFLICT DO NOTHING`

	sqlFeedback = `SELECT f.task_id, f.id, f.rating, f.created_at, f.data FROM {s}.feedback_rows f
		WHERE %s ORDER BY f.created_at DESC, f.id DESC, f.task_id DESC LIMIT $2::bigint`
)

// feedbackStore implements [store.Feedbacks].
type feedbackStore struct{ *taskStore }

// AddFeedback implements [store.Feedbacks].
func (s *feedbackStore) AddFeedback(ctx context.Context, f store.Feedback) error {
	data, err := encoding.Feedback(&f)
	if err != nil {
		return err
	}
	return s.transact(ctx, "add feedback", func(ctx context.Context, tx pgx.Tx) error {
		if !storable(f.Key.Owner, f.Key.ID) {
			return store.ErrNotFound
		}
		found, err := s.exists(ctx, tx, sqlLockTaskShare, f.Key.Owner, f.Key.ID)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		n, err := s.exec(ctx, tx, sqlAddFeedback, f.Key.Owner, f.Key.ID, f.ID, f.Rating, millis(f.CreatedAt), string(data))
		if err == nil && n == 0 {
			err = store.ErrExists
		}
		for _, owner := range []string{f.Key.Owner, ""} {
			if err == nil {
				err = s.addCounter(ctx, tx, owner, ratingKind(f.Rating), 1)
			}
		}
		return err
	})
}

// Feedback implements [store.Feedbacks].
func (s *feedbackStore) Feedback(ctx context.Context, q store.FeedbackQuery) (page store.FeedbackPage, err error) {
	where, args := []string{"f.owner = $1::text"}, []any{q.Owner, q.Limit + 1}
	if q.TaskID != "" {
		args = append(args, q.TaskID)
		where = append(where, "f.task_id = $3::text")
	}
	if at := q.Cursor; at != nil {
		n := len(args)
		args = append(args, millis(at.Time), at.ID, at.TaskID)
		where = append(where, fmt.Sprintf("f.created_at <= $%[1]d::bigint AND (f.created_at, f.id, f.task_id) < ($%[1]d::bigint, $%[2]d::text, $%[3]d::text)", n+1, n+2, n+3))
	}
	err = s.readList(ctx, "list feedback", func(ctx context.Context, c *pgx.Conn) error {
		page = store.FeedbackPage{}
		if !storable(q.Owner, q.TaskID) {
			return nil
		}
		return s.eachRow(ctx, c, fmt.Sprintf(sqlFeedback, strings.Join(where, " AND ")), func(r record) error {
			f := store.Feedback{
				Key: store.Key{Owner: q.Owner, ID: r.text(0)}, ID: r.text(1), Rating: int(r.int(2)), CreatedAt: fromMillis(r.int(3)),
			}
			if err := encoding.DecodeFeedback(&f, r[4]); err != nil {
				return fmt.Errorf("feedback %s: %w", f.ID, err)
			}
			page.Feedback = append(page.Feedback, f)
			return nil
		}, args...)
	})
	if err != nil {
		return store.FeedbackPage{}, err
	}
	if len(page.Feedback) > q.Limit {
		page.Feedback = page.Feedback[:q.Limit]
		last := &page.Feedback[q.Limit-1]
		page.Next = &store.FeedbackCursor{Time: last.CreatedAt, ID: last.ID, TaskID: last.Key.ID}
	}
	return page, nil
}

// FeedbackSummary implements [store.Feedbacks].
func (s *feedbackStore) FeedbackSummary(ctx context.Context, owner string) (sum store.FeedbackSummary, err error) {
	err = s.readList(ctx, "count feedback", func(ctx context.Context, c *pgx.Conn) error {
		sum = store.FeedbackSummary{}
		if !storable(owner) {
			return nil
		}
		counts, err := s.readCounters(ctx, c, owner)
		for kind, n := range counts {
			if r, ok := rating(kind); ok && r >= 0 && r < len(sum.Ratings) {
				sum.Ratings[r] = n
			}
		}
		return err
	})
	return sum, err
}
