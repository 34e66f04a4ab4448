package store

import "time"

// Feedback is what a client thought of a task.
type Feedback struct {
	Key       Key
	ID        string // unique within the task
	Rating    int    // 1 to 5; 0 when there is none
	Text      string
	Metadata  map[string]any
	CreatedAt time.Time
}

// FeedbackQuery selects feedback of one owner. Zero fields do not filter.
type FeedbackQuery struct {
	Owner  string
	TaskID string
	// Cursor continues after the last of the page before; nil starts.
	Cursor *FeedbackCursor
	// Limit is the size of the page, at least 1.
	Limit int
}

// FeedbackCursor is a place in the order of Store.Feedback: feedback on different
// tasks that has the same time and id is ordered by the ids of the tasks, descending.
type FeedbackCursor struct {
	Time   time.Time
	ID     string
	TaskID string
}

// FeedbackPage is a part of a list of feedback.
type FeedbackPage struct {
	Feedback []Feedback
	// Next continues the list; nil at its end.
	Next *FeedbackCursor
}

// FeedbackSummary counts feedback.
type FeedbackSummary struct {
	// Ratings[n] is how much feedback has a rating of n, Ratings[0] how much has none.
	Ratings [6]int
}

// Count is how much feedback there is.
func (s FeedbackSummary) Count() (n int) {
	for _, k := range s.Ratings {
		n += k
	}
	return n
}

// Average is the mean of the ratings; 0 when there is none.
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

// Copy returns a copy that shares nothing that can be changed with f.
func (f Feedback) Copy() Feedback {
	f.Metadata = CopyMap(f.Metadata)
	return f
}
