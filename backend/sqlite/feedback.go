package sqlite

import (
	"context"
	"strconv"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

const (
	sqlInsertFeedback = `INSERT INTO feedback_rows (task_pk, id, rating, text, metadata, created_at, owner, task_id)
		VALUES (?,?,?,?,?,?,?,?) ON CONFLICT (task_pk, id) DO NOTHING`
	sqlRatingsOf    = `SELECT rating FROM feedback_rows WHERE task_pk = ?`
	sqlDropFeedback = `DELETE FROM feedback_rows WHERE task_pk = ?`

	sqlFeedback = `SELECT task_id, id, rating, text, metadata, created_at FROM feedback_rows INDEXED BY feedback_rows_created
		WHERE owner = ?1 AND (created_at, id, task_id) < (?2, ?3, ?4) ORDER BY created_at DESC, id DESC, task_id DESC LIMIT ?5`
	sqlTaskFeedback = `SELECT task_id, id, rating, text, metadata, created_at FROM feedback_rows INDEXED BY feedback_rows_task_created
		WHERE owner = ?1 AND task_id = ?6 AND (created_at, id, ?6) < (?2, ?3, ?4) ORDER BY created_at DESC, id DESC LIMIT ?5`
)

// feedbackStore has the feedback on tasks.
type feedbackStore struct{ *changeWriter }

// AddFeedback implements store.Feedbacks.
func (s *feedbackStore) AddFeedback(ctx context.Context, f store.Feedback) error {
	metadata, err := encoding.FeedbackMetadata(&f)
	if err != nil {
		return err
	}
	var refusal error
	err = s.write(ctx, &request{weight: 1, apply: func(w *writer) error {
		row, found, err := w.row(f.Key)
		if refusal = nil; err != nil || !found {
			refusal = store.ErrNotFound
			return err
		}
		n, err := w.exec(sqlInsertFeedback, row.PK, f.ID, int64(f.Rating), f.Text, textOrNull(string(metadata)), millis(f.CreatedAt), f.Key.Owner, f.Key.ID)
		if err != nil {
			return err
		}
		if n == 0 {
			refusal = store.ErrExists
			return nil
		}
		w.countRating(f.Key.Owner, int64(f.Rating), 1)
		return nil
	}})
	if err != nil {
		return err
	}
	return refusal
}

// countRating adds to the number of ratings of an owner and of all owners.
func (w *writer) countRating(owner string, rating, by int64) {
	bucket := strconv.FormatInt(rating, 10)
	w.addCount(owner, labelRating, bucket, by)
	w.addCount("", labelRating, bucket, by)
}

// removeFeedback removes all feedback on a task.
func (w *writer) removeFeedback(t *taskRow) error {
	found := false
	err := w.query(sqlRatingsOf, func(r record) error {
		found = true
		w.countRating(t.Key.Owner, r.int(0), -1)
		return nil
	}, t.PK)
	if err != nil || !found {
		return err
	}
	_, err = w.exec(sqlDropFeedback, t.PK)
	return err
}

// Feedback implements store.Feedbacks.
func (s *feedbackStore) Feedback(ctx context.Context, q store.FeedbackQuery) (page store.FeedbackPage, err error) {
	var end any = latest
	id, task := "", ""
	if c := q.Cursor; c != nil {
		end, id, task = millis(c.Time), c.ID, c.TaskID
	}
	err = s.readList(ctx, func(r *reader) error {
		walk, args := sqlFeedback, []any{q.Owner, end, id, task, int64(q.Limit) + 1}
		if q.TaskID != "" {
			walk, args = sqlTaskFeedback, append(args, q.TaskID)
		}
		return r.query(walk, func(rec record) error {
			f, err := scanFeedback(q.Owner, rec)
			page.Feedback = append(page.Feedback, f)
			return err
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

func scanFeedback(owner string, r record) (store.Feedback, error) {
	f := store.Feedback{
		Key: store.Key{Owner: owner, ID: r.text(0)}, ID: r.text(1), Rating: int(r.int(2)), Text: r.text(3), CreatedAt: fromMillis(r.int(5)),
	}
	if r.null(4) {
		return f, nil
	}
	return f, encoding.DecodeFeedbackMetadata(&f, r.json(4))
}

// FeedbackSummary implements store.Feedbacks.
func (s *feedbackStore) FeedbackSummary(ctx context.Context, owner string) (sum store.FeedbackSummary, err error) {
	err = s.readList(ctx, func(r *reader) error {
		return r.eachCounter(owner, labelRating, func(bucket string, n int) {
			if rating, err := strconv.Atoi(bucket); err == nil && rating >= 0 && rating < len(sum.Ratings) {
				sum.Ratings[rating] += n
			}
		})
	})
	return sum, err
}
