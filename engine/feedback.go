package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// FeedbackList is a page of feedback, newest first.
type FeedbackList struct {
	Feedback []store.Feedback
	// PageSize is the page size that was applied.
	PageSize int
	// NextPageToken requests the next page; empty on the last page.
	NextPageToken string
	// Summary counts all feedback of the principal, regardless of the list's filters.
	Summary store.FeedbackSummary
}

// AddFeedback stores the principal's feedback on a task. The task may be in any state and its
// context in any status. The text may be empty if there is a rating. With an Idempotency-Key,
// the same feedback on a task is stored once and a repeated call returns it; a key applies to
// one task. Errors: task_not_found, invalid_params naming the field, conflict for the key of
// other feedback.
func (e *Engine) AddFeedback(ctx context.Context, p a2a.Principal, params a2a.TaskFeedbackParams, opts SendOptions) (store.Feedback, error) {
	if err := checkKey(opts.IdempotencyKey); err != nil {
		return store.Feedback{}, err
	}
	if a2a.CheckID("taskId", params.TaskID) != nil {
		return store.Feedback{}, a2a.TaskNotFound(params.TaskID)
	}
	if err := e.checkFeedback(params); err != nil {
		return store.Feedback{}, err
	}
	f := store.Feedback{
		Key: store.Key{Owner: p.ID, ID: params.TaskID}, ID: e.cfg.NewID(), Text: params.Feedback,
		Metadata: params.Metadata, CreatedAt: store.Time(e.cfg.clock()),
	}
	if params.Rating != nil {
		f.Rating = *params.Rating
	}
	if opts.IdempotencyKey != "" {
		f.ID = hashID(sha256.Sum256([]byte("feedback\x00" + p.ID + "\x00" + params.TaskID + "\x00" + opts.IdempotencyKey)))
	}
	err := e.cfg.Store.AddFeedback(context.WithoutCancel(ctx), f)
	if opts.IdempotencyKey != "" && errors.Is(err, store.ErrExists) {
		stored, serr := e.storedFeedback(ctx, f)
		if serr != nil {
			return store.Feedback{}, serr
		}
		if stored != nil && !sameFeedback(stored, &f) {
			return store.Feedback{}, keyConflict(opts.IdempotencyKey)
		}
		if stored != nil {
			return *stored, nil
		}
	}
	if err != nil {
		return store.Feedback{}, taskError(f.Key.ID, err)
	}
	return f, nil
}

func (s *settings) checkFeedback(params a2a.TaskFeedbackParams) error {
	if r := params.Rating; r != nil && (*r < 1 || *r > 5) {
		return a2a.Invalid("rating", "is %d, want 1 to 5", *r)
	}
	if strings.TrimSpace(params.Feedback) == "" && params.Rating == nil {
		return a2a.Invalid("feedback", "is required, unless there is a rating")
	}
	if err := checkText("feedback", params.Feedback, s.cfg.Limits.FeedbackBytes, true); err != nil {
		return err
	}
	return s.checkMap("metadata", params.Metadata)
}

// storedFeedback returns the stored feedback that has the task and the id of f, or nil.
func (e *Engine) storedFeedback(ctx context.Context, f store.Feedback) (*store.Feedback, error) {
	q := store.FeedbackQuery{Owner: f.Key.Owner, TaskID: f.Key.ID, Limit: e.cfg.Limits.PageSize}
	for {
		page, err := e.cfg.Store.Feedback(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Feedback {
			if page.Feedback[i].ID == f.ID {
				return &page.Feedback[i], nil
			}
		}
		if q.Cursor = page.Next; q.Cursor == nil {
			return nil, nil
		}
	}
}

// sameFeedback reports whether two feedback entries have the same content.
func sameFeedback(a, b *store.Feedback) bool {
	if a.Rating != b.Rating || a.Text != b.Text || len(a.Metadata) != len(b.Metadata) {
		return false
	}
	x, errX := wire.Marshal(a.Metadata)
	y, errY := wire.Marshal(b.Metadata)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// Feedback returns a page of the principal's feedback, limited to one task if the params name
// one. The default page size is 50. Errors: invalid_params naming the field.
func (e *Engine) Feedback(ctx context.Context, p a2a.Principal, params a2a.ListTaskFeedbackParams) (*FeedbackList, error) {
	if err := e.checkPageSize(params.PageSize); err != nil {
		return nil, err
	}
	if params.TaskID != "" {
		if err := a2a.CheckID("taskId", params.TaskID); err != nil {
			return nil, err
		}
	}
	offset := 0
	if params.Offset != nil {
		offset = *params.Offset
	}
	if rule := a2a.OffsetRule(offset, params.PageToken); rule != "" {
		return nil, a2a.Invalid("offset", "%s", rule)
	}
	hash := func() []byte { return filterHash("feedback", []string{p.ID, params.TaskID}) }
	token, err := decodeToken("pageToken", params.PageToken, hash)
	if err != nil {
		return nil, err
	}
	q := store.FeedbackQuery{Owner: p.ID, TaskID: params.TaskID, Limit: e.pageLimit(params.PageSize)}
	if token != nil {
		q.Cursor = &store.FeedbackCursor{Time: token.at(), ID: token.ID, TaskID: token.TaskID}
	}
	page, err := e.feedbackAfter(ctx, q, offset)
	if err != nil {
		return nil, err
	}
	summary, err := e.cfg.Store.FeedbackSummary(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	out := &FeedbackList{Feedback: page.Feedback, PageSize: q.Limit, Summary: summary}
	if next := page.Next; next != nil {
		t := pageToken{Time: next.Time.UnixMilli(), ID: next.ID, TaskID: next.TaskID, Page: pageNumber(token, offset, q.Limit) + 1}
		out.NextPageToken = t.next(token, hash)
	}
	return out, nil
}

// feedbackAfter reads a page of feedback after skipping the first skip entries.
func (e *Engine) feedbackAfter(ctx context.Context, q store.FeedbackQuery, skip int) (store.FeedbackPage, error) {
	for skip > 0 {
		skipped := q
		skipped.Limit = min(skip, e.cfg.Limits.PageSize)
		page, err := e.cfg.Store.Feedback(ctx, skipped)
		if err != nil || page.Next == nil {
			return store.FeedbackPage{}, err
		}
		skip -= len(page.Feedback)
		q.Cursor = page.Next
	}
	return e.cfg.Store.Feedback(ctx, q)
}
