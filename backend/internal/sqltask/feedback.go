package sqltask

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

const (
	// sqlLockTask prevents the deletion of the task before its feedback is added.
	sqlLockTask    = `SELECT 1 FROM {s}.task_rows WHERE owner = $1::text COLLATE "POSIX" AND id = $2::text COLLATE "POSIX" FOR SHARE`
	sqlAddFeedback = `INSERT INTO {s}.feedback_rows (owner, task_id, id, rating, created_at, data)
		VALUES ($1::text, $2::text, $3::text, $4::bigint, $5::bigint, $6::text) ON CONFLICT DO NOTHING`

	sqlFeedback     = sqlFeedbackOf + sqlFeedbackPage
	sqlTaskFeedback = sqlFeedbackOf + ` AND task_id = $6::text` + sqlFeedbackPage
	sqlFeedbackOf   = `SELECT task_id, id, rating, created_at, data FROM {s}.feedback_rows WHERE owner = $1::text`
	sqlFeedbackPage = ` AND (created_at, id, task_id) < ($2::bigint, $3::text, $4::text) ORDER BY created_at DESC, id DESC, task_id DESC LIMIT $5::bigint`
)

// FeedbackStore implements [store.Feedbacks].
type FeedbackStore struct {
	db      sqlkit.DB
	ratings Ratings
}

// Ratings counts ratings. Backends do it in different ways.
type Ratings struct {
	// Add adds one to the number of a rating, for an owner and for all owners, the owner "". It is called last in
	// its transaction.
	Add func(tx sqlkit.Tx, owner string, rating int) error
	// Sum is the statement that returns the ratings of the owner $1 and their numbers.
	Sum string
}

// NewFeedbackStore returns the feedback in a database.
func NewFeedbackStore(db sqlkit.DB, ratings Ratings) FeedbackStore { return FeedbackStore{db, ratings} }

// AddFeedback implements [store.Feedbacks].
func (s FeedbackStore) AddFeedback(ctx context.Context, f store.Feedback) error {
	data, err := encoding.Feedback(&f)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(tx sqlkit.Tx) error {
		if !s.db.Dialect().Storable(f.Key.Owner, f.Key.ID) {
			return store.ErrNotFound
		}
		found, err := sqlkit.QueryOne(tx, sqlLockTask, func(sqlkit.Row) {}, f.Key.Owner, f.Key.ID)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		added, err := tx.Exec(sqlAddFeedback, f.Key.Owner, f.Key.ID, f.ID, f.Rating, encoding.Millis(f.CreatedAt), string(data))
		if err == nil && added == 0 {
			err = store.ErrExists
		}
		if err == nil {
			err = s.ratings.Add(tx, f.Key.Owner, f.Rating)
		}
		return err
	})
}

// Feedback implements [store.Feedbacks].
func (s FeedbackStore) Feedback(ctx context.Context, q store.FeedbackQuery) (page store.FeedbackPage, err error) {
	if !s.db.Dialect().Storable(q.Owner, q.TaskID) {
		return page, nil
	}
	text, args := sqlFeedback, []any{q.Owner, int64(sqlkit.NoBound), "", "", q.Limit + 1}
	if c := q.Cursor; c != nil {
		args[1], args[2], args[3] = encoding.Millis(c.Time), c.ID, c.TaskID
	}
	if q.TaskID != "" {
		text, args = sqlTaskFeedback, append(args, q.TaskID)
	}
	err = s.db.Read(ctx, func(on sqlkit.Querier) error {
		page = store.FeedbackPage{}
		return on.Query(text, func(r sqlkit.Row) error {
			f := store.Feedback{
				Key: store.Key{Owner: q.Owner, ID: r.Text(0)}, ID: r.Text(1), Rating: int(r.Int(2)), CreatedAt: encoding.FromMillis(r.Int(3)),
			}
			if err := encoding.DecodeFeedback(&f, r.View(4)); err != nil {
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
func (s FeedbackStore) FeedbackSummary(ctx context.Context, owner string) (sum store.FeedbackSummary, err error) {
	if !s.db.Dialect().Storable(owner) {
		return sum, nil
	}
	err = s.db.Read(ctx, func(q sqlkit.Querier) error {
		sum = store.FeedbackSummary{}
		return q.Query(s.ratings.Sum, func(r sqlkit.Row) error {
			if rating := r.Int(0); rating >= 0 && rating < int64(len(sum.Ratings)) {
				sum.Ratings[rating] = int(r.Int(1))
			}
			return nil
		}, owner)
	})
	return sum, err
}
