package store

import "time"

// Feedback is a client's rating of or comment on a task.
type Feedback struct {
	Key       Key
	ID        string // unique within the task
	Rating    int    // 1 to 5, or 0 for none
	Text      string
	Metadata  map[string]any
	CreatedAt time.Time
}

// FeedbackQuery selects feedback of one owner. Zero fields do not filter.
type FeedbackQuery struct {
	Owner  string
	TaskID string
	// Cursor continues after the last feedback of the previous page; nil starts the list.
	Cursor *FeedbackCursor
	// Limit is the maximum size of the page, at least 1.
	Limit int
}

// FeedbackCursor is a position in the order of Store.Feedback. Feedback on different
// tasks with the same time and id is ordered by task id, descending.
type FeedbackCursor struct {
	Time   time.Time
	ID     string
	TaskID string
}

// FeedbackPage is a page of a list of feedback.
type FeedbackPage struct {
	Feedback []Feedback
	// Next continues the list; nil at its end.
	Next *FeedbackCursor
}

// FeedbackSummary counts feedback.
type FeedbackSummary struct {
	// Ratings[n] is the number of items with rating n. Ratings[0] counts those without.
	Ratings [6]int
}

// Count returns the number of items.
func (s FeedbackSummary) Count() (n int) {
	for _, k := range s.Ratings {
		n += k
	}
	return n
}

// Average returns the mean of the ratings, or 0 if there are none.
func (s FeedbackSummary) Average() float64 {
	n, sum := 0, 0
	for rating, k := range s.Ratings {
		if rating > 0 {
			n, sum = n+k, sum+rating*k
		}
	}
	if n == 0 {
		return 0
	}
	return float64(sum) / float64(n)
}

// Copy returns a deep copy of f.
func (f Feedback) Copy() Feedback {
	f.Metadata = CopyMap(f.Metadata)
	return f
}
