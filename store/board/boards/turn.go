package boards

import (
	"cmp"
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// Boards are the boards of a turn's context; see package board. Changes are committed before they
// return, with everything that was reported before, and applied exactly once like the changes of a
// session state. A board expires when it was not changed for the age [Retention] of the server's
// retention.
type Boards struct{ t contract.Turn }

// For returns the boards of a turn's context.
func For(t contract.Turn) *Boards { return &Boards{t} }

// store returns the store of boards for one operation.
func (b *Boards) store(ctx context.Context) (*board.Records, error) {
	r, now := b.t.Records(false)
	return board.New(board.Config{
		Records: r, Now: now, TTL: b.t.Age(Retention), NewID: func() string { return b.t.NewID(ctx, Kind.Name) },
	})
}

func (b *Boards) owner() string { return b.t.Session().Owner }

// conversation returns the id of the turn's context.
func (b *Boards) conversation() string { return b.t.Session().ID }

// Params are the arguments of Create.
type Params struct {
	// Agent is the agent that works on the board. Default: the agent of the turn.
	Agent string
	// Label is a name for people. ParentAgent is the agent that delegated the work, "" for the
	// root board.
	Label, ParentAgent string
	// MaxRetries is how often each task may be retried. 0 means board.DefaultMaxRetries; a
	// negative value permits no retries.
	MaxRetries int
}

// Create creates a board with tasks that are planned.
func (b *Boards) Create(ctx context.Context, p Params, titles ...string) (board.Board, error) {
	s, err := b.store(ctx)
	if err != nil {
		return board.Board{}, err
	}
	return s.Create(ctx, b.createParams(p, titles))
}

func (b *Boards) createParams(p Params, titles []string) board.CreateParams {
	return board.CreateParams{
		Owner: b.owner(), Conversation: b.conversation(), Agent: cmp.Or(p.Agent, b.t.Session().Agent), Label: p.Label, ParentAgent: p.ParentAgent,
		MaxRetries: p.MaxRetries, Titles: titles,
	}
}

// OpenRoot returns the root board of the context. If there is none, it creates one like Create. Turns that call it
// at the same time get the same board.
func (b *Boards) OpenRoot(ctx context.Context, p Params, titles ...string) (board.Board, error) {
	s, err := b.store(ctx)
	if err != nil {
		return board.Board{}, err
	}
	return s.OpenRoot(ctx, b.createParams(p, titles))
}

// Root returns the root board of the context: the oldest one without ParentAgent, or
// board.ErrNotFound.
func (b *Boards) Root(ctx context.Context) (board.Board, error) {
	s, err := b.store(ctx)
	if err != nil {
		return board.Board{}, err
	}
	return s.ByConversation(ctx, b.owner(), b.conversation())
}

// List returns the boards of the context, the oldest first.
func (b *Boards) List(ctx context.Context) ([]board.Board, error) {
	s, err := b.store(ctx)
	if err != nil {
		return nil, err
	}
	return s.List(ctx, b.owner(), b.conversation())
}

// Get returns a board of the context, or board.ErrNotFound.
func (b *Boards) Get(ctx context.Context, id string) (board.Board, error) {
	s, k, err := b.of(ctx, id)
	if err != nil {
		return board.Board{}, err
	}
	return s.Get(ctx, k)
}

// of returns the store and the key of a board, or board.ErrNotFound for one of another context.
func (b *Boards) of(ctx context.Context, id string) (*board.Records, board.Key, error) {
	if !board.InConversation(id, b.conversation()) {
		return nil, board.Key{}, fmt.Errorf("board %q: %w", id, board.ErrNotFound)
	}
	s, err := b.store(ctx)
	return s, board.Key{Owner: b.owner(), ID: id}, err
}

// Delete removes a board.
func (b *Boards) Delete(ctx context.Context, id string) error {
	s, k, err := b.of(ctx, id)
	if err != nil {
		return err
	}
	return s.Delete(ctx, k)
}

// AddTasks appends tasks that are planned and returns them.
func (b *Boards) AddTasks(ctx context.Context, id string, titles ...string) ([]board.Task, error) {
	s, k, err := b.of(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.AddTasks(ctx, k, titles...)
}

// change changes a task of a board.
func (b *Boards) change(ctx context.Context, id string, do func(*board.Records, board.Key) (board.Task, error)) (board.Task, error) {
	s, k, err := b.of(ctx, id)
	if err != nil {
		return board.Task{}, err
	}
	return do(s, k)
}

// SetStatus moves a task to a state; see board.CheckMove. A note that is not empty replaces the
// note of the task.
func (b *Boards) SetStatus(ctx context.Context, id, task string, to board.Status, note string) (board.Task, error) {
	return b.change(ctx, id, func(s *board.Records, k board.Key) (board.Task, error) { return s.SetStatus(ctx, k, task, to, note) })
}

// Rename changes the title of a task.
func (b *Boards) Rename(ctx context.Context, id, task, title string) (board.Task, error) {
	return b.change(ctx, id, func(s *board.Records, k board.Key) (board.Task, error) { return s.Rename(ctx, k, task, title) })
}

// SetNote replaces the note of a task.
func (b *Boards) SetNote(ctx context.Context, id, task, note string) (board.Task, error) {
	return b.change(ctx, id, func(s *board.Records, k board.Key) (board.Task, error) { return s.SetNote(ctx, k, task, note) })
}

// IncrementRetry returns a failed task to planned and counts the retry. It returns
// board.ErrRetriesExhausted above the board's MaxRetries.
func (b *Boards) IncrementRetry(ctx context.Context, id, task string) (board.Task, error) {
	return b.change(ctx, id, func(s *board.Records, k board.Key) (board.Task, error) { return s.IncrementRetry(ctx, k, task) })
}

// ForceRetry sets the count of retries to 0 and returns a task that has ended to planned.
func (b *Boards) ForceRetry(ctx context.Context, id, task string) (board.Task, error) {
	return b.change(ctx, id, func(s *board.Records, k board.Key) (board.Task, error) { return s.ForceRetry(ctx, k, task) })
}

// DeleteTask removes a task.
func (b *Boards) DeleteTask(ctx context.Context, id, task string) error {
	s, k, err := b.of(ctx, id)
	if err != nil {
		return err
	}
	return s.DeleteTask(ctx, k, task)
}

// Reorder puts the tasks of a board in an order, which contains the id of each task once.
func (b *Boards) Reorder(ctx context.Context, id string, tasks []string) (board.Board, error) {
	s, k, err := b.of(ctx, id)
	if err != nil {
		return board.Board{}, err
	}
	return s.Reorder(ctx, k, tasks)
}
