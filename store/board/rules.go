package board

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
)

// check returns an error if a text is not valid UTF-8 without NUL of up to limit bytes.
func check(field, text string, limit int, required bool) error {
	switch {
	case strings.ContainsRune(text, 0) || !utf8.ValidString(text):
		return a2a.Errorf(a2a.CodeInvalid, "board: %s: must be UTF-8 without NUL", field)
	case required && strings.TrimSpace(text) == "":
		return a2a.Errorf(a2a.CodeInvalid, "board: %s: must not be empty", field)
	case len(text) > limit:
		return a2a.Errorf(a2a.CodeInvalid, "board: %s: has %d bytes, limit is %d", field, len(text), limit)
	}
	return nil
}

func checkTitles(titles []string) error {
	for i, title := range titles {
		if err := check(fmt.Sprintf("title %d", i+1), title, MaxTitle, true); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error if the params are not valid, and applies the default of MaxRetries.
func (p *CreateParams) check() error {
	for _, part := range []struct {
		field, text string
		limit       int
		required    bool
	}{
		{"owner", p.Owner, len(p.Owner), true},
		{"conversation", p.Conversation, MaxConversation, true},
		{"agent", p.Agent, MaxAgent, false},
		{"label", p.Label, MaxLabel, false},
		{"parent agent", p.ParentAgent, MaxAgent, false},
	} {
		if err := check(part.field, part.text, part.limit, part.required); err != nil {
			return err
		}
	}
	if p.MaxRetries > MaxMaxRetries {
		return a2a.Errorf(a2a.CodeInvalid, "board: max retries: is %d, limit is %d", p.MaxRetries, MaxMaxRetries)
	}
	if p.MaxRetries == 0 {
		p.MaxRetries = DefaultMaxRetries
	}
	p.MaxRetries = max(p.MaxRetries, 0)
	return checkTitles(p.Titles)
}

// state is a stored board. It is changed by the operations below.
type state struct {
	Board
	// created is the number of tasks that were ever created; ids are these numbers.
	created int
}

// add appends tasks and returns the index of the first.
func (s *state) add(titles []string) (first int, err error) {
	if n := len(s.Tasks) + len(titles); n > MaxTasks {
		return 0, fmt.Errorf("board: would have %d tasks, limit is %d: %w", n, MaxTasks, ErrTooLarge)
	}
	first = len(s.Tasks)
	for _, title := range titles {
		s.created++
		s.Tasks = append(s.Tasks, Task{ID: strconv.Itoa(s.created), Title: title, Status: Planned})
	}
	return first, nil
}

// task returns a task of the board, or nil.
func (s *state) task(id string) *Task {
	if i := slices.IndexFunc(s.Tasks, func(t Task) bool { return t.ID == id }); i >= 0 {
		return &s.Tasks[i]
	}
	return nil
}

func (s *state) setStatus(t *Task, to Status, note string) error {
	if err := CheckMove(t.Status, to); err != nil {
		return err
	}
	t.Status = to
	if note != "" {
		t.Note = note
	}
	return nil
}

func (s *state) incrementRetry(t *Task) error {
	switch {
	case t.Status != Failed:
		return fmt.Errorf("board: only a failed task can be retried: %w", &MoveError{From: t.Status, To: Planned})
	case t.RetryCount >= s.MaxRetries:
		return fmt.Errorf("board: task %s was retried %d times, the maximum: %w", t.ID, t.RetryCount, ErrRetriesExhausted)
	}
	t.RetryCount++
	t.Status = Planned
	return nil
}

func (s *state) forceRetry(t *Task) {
	t.RetryCount = 0
	if t.Status == Failed || t.Status.Terminal() {
		t.Status = Planned
	}
}

// reorder puts the tasks in the order of ids.
func (s *state) reorder(ids []string) error {
	tasks := make([]Task, 0, len(ids))
	for _, id := range ids {
		t := s.task(id)
		if t == nil {
			return fmt.Errorf("board: task %s: %w", a2a.Quote(id), ErrNotFound)
		}
		tasks = append(tasks, *t)
	}
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		if seen[id] {
			return a2a.Errorf(a2a.CodeInvalid, "board: order: task %s is named twice", a2a.Quote(id))
		}
		seen[id] = true
	}
	if len(ids) != len(s.Tasks) {
		return a2a.Errorf(a2a.CodeInvalid, "board: order: names %d tasks, the board has %d", len(ids), len(s.Tasks))
	}
	s.Tasks = tasks
	return nil
}
