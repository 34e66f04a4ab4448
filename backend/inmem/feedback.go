package inmem

import (
	"cmp"
	"context"
	"math"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// feedback is immutable once stored.
type feedback struct {
	store.Feedback
}

func (f *feedback) compare(g *feedback) int {
	return cmp.Or(strings.Compare(f.ID, g.ID), strings.Compare(f.Key.ID, g.Key.ID))
}

// taskFeedback is the feedback on one task.
type taskFeedback struct {
	all index[*feedback] // by creation time
	ids map[string]bool
}

// feedbackStore implements [store.Feedbacks].
type feedbackStore struct {
	*database
	summary store.FeedbackSummary // of all owners
}

// AddFeedback implements [store.Feedbacks].
func (s *feedbackStore) AddFeedback(ctx context.Context, f store.Feedback) error {
	f = f.Copy()
	f.CreatedAt = store.Time(f.CreatedAt)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return err
	}
	t := s.task(f.Key)
	switch {
	case f.Rating < 0 || f.Rating >= len(s.summary.Ratings):
		return a2a.Errorf(a2a.CodeInternal, "feedback %s has rating %d, want 0 to 5", f.ID, f.Rating)
	case t == nil:
		return store.ErrNotFound
	case t.feedback == nil:
		t.feedback = &taskFeedback{ids: make(map[string]bool)}
	case t.feedback.ids[f.ID]:
		return store.ErrExists
	}
	at, added := millis(f.CreatedAt), &feedback{f}
	t.feedback.ids[f.ID] = true
	t.feedback.all.add(at, added)
	t.owner.feedback.add(at, added)
	t.owner.summary.Ratings[f.Rating]++
	s.summary.Ratings[f.Rating]++
	return nil
}

// removeFeedback removes all feedback on a task.
func (s *feedbackStore) removeFeedback(t *task) {
	if t.feedback == nil {
		return
	}
	for e := range t.feedback.all.ascend(nil) {
		t.owner.feedback.remove(e.at, e.rec)
		t.owner.summary.Ratings[e.rec.Rating]--
		s.summary.Ratings[e.rec.Rating]--
	}
	t.feedback = nil
}

// Feedback implements [store.Feedbacks].
func (s *feedbackStore) Feedback(ctx context.Context, q store.FeedbackQuery) (store.FeedbackPage, error) {
	found, more, err := s.feedbackPage(ctx, q)
	if err != nil {
		return store.FeedbackPage{}, err
	}
	var page store.FeedbackPage
	for _, f := range found {
		page.Feedback = append(page.Feedback, f.Copy())
	}
	if n := len(found); more && n > 0 {
		last := found[n-1]
		page.Next = &store.FeedbackCursor{Time: last.CreatedAt, ID: last.ID, TaskID: last.Key.ID}
	}
	return page, nil
}

func (s *feedbackStore) feedbackPage(ctx context.Context, q store.FeedbackQuery) (found []*feedback, more bool, err error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, false, err
	}
	w := walk[*feedback]{after: math.MinInt64, before: math.MaxInt64}
	o := s.owners[q.Owner]
	switch {
	case o == nil:
	case q.TaskID == "":
		w.indexes = []*index[*feedback]{&o.feedback}
	case o.tasks[q.TaskID] != nil && o.tasks[q.TaskID].feedback != nil:
		w.indexes = []*index[*feedback]{&o.tasks[q.TaskID].feedback.all}
	}
	if c := q.Cursor; c != nil {
		last := entry[*feedback]{ceilMillis(c.Time), &feedback{store.Feedback{Key: store.Key{ID: c.TaskID}, ID: c.ID}}}
		w.skip = func(e entry[*feedback]) bool { return e.compare(last) >= 0 }
	}
	found, more = w.page(0, q.Limit)
	return found, more, nil
}

// FeedbackSummary implements [store.Feedbacks].
func (s *feedbackStore) FeedbackSummary(ctx context.Context, owner string) (store.FeedbackSummary, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return store.FeedbackSummary{}, err
	}
	if owner == "" {
		return s.summary, nil
	}
	if o := s.owners[owner]; o != nil {
		return o.summary, nil
	}
	return store.FeedbackSummary{}, nil
}
