package board

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Limits of boards. Lengths are in bytes.
const (
	MaxConversation = 256
	MaxAgent        = 128
	MaxLabel        = 256
	MaxTitle        = 512
	MaxNote         = 4096
	// MaxTasks limits the tasks of a board, and MaxBoards the boards of a conversation.
	MaxTasks  = 200
	MaxBoards = 100
	// MaxBoardBytes limits the JSON of a board.
	MaxBoardBytes = 256 << 10
	// MaxMaxRetries is the maximum of Board.MaxRetries.
	MaxMaxRetries = 100
	// DefaultMaxRetries is MaxRetries of a board that is created without one.
	DefaultMaxRetries = 3
)

// Status is the state of a task.
type Status string

// The states of a task. Succeeded and Abandoned are terminal.
const (
	Planned    Status = "planned"
	InProgress Status = "in_progress"
	Blocked    Status = "blocked"
	Succeeded  Status = "succeeded"
	Failed     Status = "failed"
	Abandoned  Status = "abandoned"
)

// moves are the moves of SetStatus.
var moves = map[Status][]Status{
	Planned:    {InProgress, Blocked, Abandoned},
	InProgress: {Planned, Blocked, Succeeded, Failed, Abandoned},
	Blocked:    {Planned, InProgress, Failed, Abandoned},
	Failed:     {Abandoned},
	Succeeded:  {},
	Abandoned:  {},
}

// Valid reports whether s is one of the six states.
func (s Status) Valid() bool { return moves[s] != nil }

// Terminal reports whether the state is final: only ForceRetry moves a task out of it.
func (s Status) Terminal() bool { return s == Succeeded || s == Abandoned }

// CheckMove returns a *MoveError if SetStatus may not move a task from one state to another. A
// task may keep its state.
func CheckMove(from, to Status) error {
	if from == to || slices.Contains(moves[from], to) {
		return nil
	}
	return &MoveError{From: from, To: to}
}

// Errors of boards. They have a code; see a2a.CodeOf.
var (
	// ErrNotFound: the owner has no such board, or the board has no such task.
	ErrNotFound error = a2a.Errorf(a2a.CodeNotFound, "board or task not found")
	// ErrRetriesExhausted: the task was retried MaxRetries times.
	ErrRetriesExhausted error = a2a.Errorf(a2a.CodeConflict, "retries exhausted")
	// ErrTooLarge: the board would exceed a limit.
	ErrTooLarge error = a2a.Errorf(a2a.CodeTooLarge, "board too large")
	// ErrMove: the task may not move to the state. The error is a *MoveError.
	ErrMove error = a2a.Errorf(a2a.CodeConflict, "move not allowed")
)

// MoveError reports a move that the table of moves does not contain.
type MoveError struct{ From, To Status }

func (e *MoveError) Error() string {
	hint := ""
	switch e.From {
	case Failed:
		hint = "; retry the task first"
	case Succeeded, Abandoned:
		hint = "; only ForceRetry moves a task that has ended"
	case Planned:
		hint = "; a planned task must be in_progress first"
	case InProgress, Blocked:
	}
	return fmt.Sprintf("board: status: a task cannot move from %s to %s%s", e.From, e.To, hint)
}

// Unwrap returns ErrMove.
func (e *MoveError) Unwrap() error { return ErrMove }

// Key identifies a board. Owner is the principal that it belongs to.
type Key struct{ Owner, ID string }

// Board is the plan of one agent in a conversation.
type Board struct {
	ID    string
	Owner string
	// Conversation is the context that the board belongs to.
	Conversation string
	// Agent is the agent that the plan belongs to, and Label its name for people. ParentAgent
	// is the agent that delegated the work, "" for the root board of the conversation.
	Agent       string
	Label       string
	ParentAgent string
	// MaxRetries is how often IncrementRetry may retry each task.
	MaxRetries int
	// Version is 1 after the creation; each change increments it.
	Version   int64
	CreatedAt time.Time
	// Tasks are in their order.
	Tasks []Task
}

// Key returns the key of the board.
func (b *Board) Key() Key { return Key{Owner: b.Owner, ID: b.ID} }

// Task is one item of a board.
type Task struct {
	// ID is unique within the board and never used again.
	ID     string
	Title  string
	Status Status
	// Order is the position on the board, from 0.
	Order      int
	RetryCount int
	// Note is the reason for the state, or any other remark.
	Note string
}

// CreateParams are the arguments of Create.
type CreateParams struct {
	Owner, Conversation string
	// Agent, Label and ParentAgent may be empty.
	Agent, Label, ParentAgent string
	// MaxRetries is the board's MaxRetries. 0 means DefaultMaxRetries; a negative value
	// permits no retries.
	MaxRetries int
	// Titles are the titles of the first tasks, in order.
	Titles []string
}

// Boards stores boards. Methods are safe for concurrent use. Arguments of a wrong form are
// errors with code invalid_params. An error that is not documented is one of the store; the
// outcome of a change is then unknown.
type Boards interface {
	// Create creates a board with tasks in the state planned. ErrTooLarge: the conversation
	// has MaxBoards boards, or gets them from concurrent calls, or the board would be too large.
	Create(ctx context.Context, p CreateParams) (Board, error)
	// OpenRoot returns the root board of a conversation as ByConversation does. If there is none, it creates
	// the board as Create does. ParentAgent must be empty. Concurrent calls return the same board.
	OpenRoot(ctx context.Context, p CreateParams) (Board, error)
	// Get returns a board, or ErrNotFound.
	Get(ctx context.Context, key Key) (Board, error)
	// ByConversation returns the root board of a conversation: the oldest one without
	// ParentAgent, or ErrNotFound.
	ByConversation(ctx context.Context, owner, conversation string) (Board, error)
	// List returns all boards of a conversation, the oldest first.
	List(ctx context.Context, owner, conversation string) ([]Board, error)
	// Delete removes a board, or returns ErrNotFound.
	Delete(ctx context.Context, key Key) error
}

// Tasks changes the tasks of boards. Each method returns ErrNotFound if the owner has no such
// board, or the board has no such task. It is atomic and safe for concurrent use. The rest is
// as for [Boards].
type Tasks interface {
	// AddTasks appends tasks in the state planned and returns them. ErrTooLarge: the board
	// would have more than MaxTasks tasks or be too large.
	AddTasks(ctx context.Context, key Key, titles ...string) ([]Task, error)
	// SetStatus moves a task to a state; see CheckMove for its error. A note that is not empty
	// replaces the task's note.
	SetStatus(ctx context.Context, key Key, task string, to Status, note string) (Task, error)
	// Rename changes the title of a task.
	Rename(ctx context.Context, key Key, task, title string) (Task, error)
	// SetNote replaces the note of a task.
	SetNote(ctx context.Context, key Key, task, note string) (Task, error)
	// Reorder puts the tasks of a board in an order. tasks must contain the id of each task
	// once.
	Reorder(ctx context.Context, key Key, tasks []string) (Board, error)
	// DeleteTask removes a task.
	DeleteTask(ctx context.Context, key Key, task string) error
	// IncrementRetry returns a failed task to planned and counts the retry. It returns
	// ErrRetriesExhausted if the count has reached MaxRetries, and a *MoveError if the task
	// has not failed.
	IncrementRetry(ctx context.Context, key Key, task string) (Task, error)
	// ForceRetry sets the count of retries to 0 and returns a task that has failed, succeeded
	// or was abandoned to planned. A task in another state keeps it.
	ForceRetry(ctx context.Context, key Key, task string) (Task, error)
}

// Store is a store of boards.
type Store interface {
	Boards
	Tasks
}
