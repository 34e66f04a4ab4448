package storetest

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
)

func (m *model) AddFeedback(ctx context.Context, f store.Feedback) error {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return err
	}
	t := m.tasks[f.Key]
	if t == nil {
		return store.ErrNotFound
	}
	if slices.ContainsFunc(t.feedback, func(o store.Feedback) bool { return o.ID == f.ID }) {
		return store.ErrExists
	}
	f = f.Copy()
	f.CreatedAt = store.Time(f.CreatedAt)
	t.feedback = append(t.feedback, f)
	return nil
}

func (m *model) Feedback(ctx context.Context, q store.FeedbackQuery) (store.FeedbackPage, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return store.FeedbackPage{}, err
	}
	var all []store.Feedback
	for _, t := range m.tasks {
		for _, f := range t.feedback {
			all = append(all, f.Copy())
		}
	}
	return feedbackPageOf(all, q), nil
}

// feedbackPageOf returns the page of feedback that a query selects.
func feedbackPageOf(feedback []store.Feedback, q store.FeedbackQuery) store.FeedbackPage {
	var all []store.Feedback
	for _, f := range feedback {
		after := q.Cursor == nil || feedbackOrder(feedbackCursorOf(f), *q.Cursor) > 0
		if after && f.Key.Owner == q.Owner && (q.TaskID == "" || f.Key.ID == q.TaskID) {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b store.Feedback) int { return feedbackOrder(feedbackCursorOf(a), feedbackCursorOf(b)) })
	page := store.FeedbackPage{Feedback: all}
	if len(all) > q.Limit {
		page.Feedback, page.Next = all[:q.Limit], ptr(feedbackCursorOf(all[q.Limit-1]))
	}
	return page
}

func feedbackCursorOf(f store.Feedback) store.FeedbackCursor {
	return store.FeedbackCursor{Time: f.CreatedAt, ID: f.ID, TaskID: f.Key.ID}
}

func feedbackOrder(a, b store.FeedbackCursor) int {
	return cmp.Or(b.Time.Compare(a.Time), strings.Compare(b.ID, a.ID), strings.Compare(b.TaskID, a.TaskID))
}

func (m *model) FeedbackSummary(ctx context.Context, owner string) (store.FeedbackSummary, error) {
	defer m.mu.Unlock()
	var s store.FeedbackSummary
	if err := m.startCall(ctx); err != nil {
		return s, err
	}
	for _, t := range m.tasks {
		for _, f := range t.feedback {
			if owner == "" || owner == t.key.Owner {
				s.Ratings[f.Rating]++
			}
		}
	}
	return s, nil
}
