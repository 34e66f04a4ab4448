package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// State is the state of a turn's session: a JSON object that belongs to the task's owner and
// context and to the agent. Tasks of the same context share it.
//
// Set, Update and Clear are committed with the next commit of the turn, at the latest with its
// end; calls of the same turn see them before. They are applied exactly once: after a crash, a
// lost lease or a retry, a later attempt of the turn gets the results of the calls that are
// already committed, and does not repeat them. Therefore every attempt must make the same calls
// on the state and on boards in the same order, within each step and outside of steps, where a
// call belongs to the step that its context comes from. Concurrent calls belong in different
// steps. A concurrent change by another task is kept: Update is applied again to the newer
// state.
//
// The state ends when it was not changed for the age [RetainState] of [Retention]. It may have
// [memory.MaxStateBytes] of JSON.
//
// If Config.Contracts.State stores the states of sessions, a change is made at once. A repeated
// attempt does not repeat it if that store is a [memory.OnceUpdater], as the Redis store is.
type State struct{ t *Turn }

// State returns the state of the turn's session.
func (t *Turn) State() *State { return &State{t} }

func (s *State) key() memory.Key {
	k := memory.Key{Owner: s.t.Owner(), Agent: s.t.r.e.cfg.agentKey(), Session: s.t.ContextID()}
	return k
}

// agentKey returns the agent's name, or a hash of a name that is no valid key.
func (c *Config) agentKey() string {
	if (memory.Key{Owner: "o", Agent: c.Agent, Session: "s"}).Check() == nil {
		return c.Agent
	}
	sum := sha256.Sum256([]byte(c.Agent))
	return hex.EncodeToString(sum[:])
}

// store returns the state's store for one operation.
func (s *State) store(silent bool) (*memory.ShortTermRecords, error) {
	u := s.t.records(silent)
	return memory.NewShortTerm(memory.ShortTermConfig{Records: u, Now: u.clock, TTL: s.t.r.e.cfg.Retention.Age(RetainState)})
}

// Get returns the state with the changes of this turn. Without a state, its Version is 0.
func (s *State) Get(ctx context.Context) (memory.State, error) {
	if other := s.other(); other != nil {
		return s.onOther(ctx, queryCall, "state.get", nil, func(ctx context.Context, _ string) (memory.State, error) { return other.Get(ctx, s.key()) })
	}
	m, err := s.store(false)
	if err != nil {
		return memory.State{}, err
	}
	return m.Get(ctx, s.key())
}

// Update applies a JSON merge patch (RFC 7396): nil removes a member, objects (map[string]any)
// merge recursively, any other value replaces.
func (s *State) Update(ctx context.Context, patch map[string]any) error {
	if s.other() != nil {
		return s.updateOther(ctx, patch)
	}
	m, err := s.store(true)
	if err == nil {
		_, err = m.Update(ctx, s.key(), patch, memory.AnyVersion)
	}
	return err
}

// Set replaces the state. It also replaces concurrent changes by other tasks; see Replace.
func (s *State) Set(ctx context.Context, values map[string]any) error {
	if s.other() != nil {
		_, err := s.setOther(ctx, "state.set", values, memory.AnyVersion)
		return err
	}
	m, err := s.store(true)
	if err == nil {
		_, err = m.Set(ctx, s.key(), values, memory.AnyVersion)
	}
	return err
}

// Replace replaces the state if it has a version, 0 for none, and commits the change before it
// returns the new state. It returns memory.ErrStateConflict if the version differs.
func (s *State) Replace(ctx context.Context, values map[string]any, version int64) (memory.State, error) {
	if s.other() != nil {
		return s.setOther(ctx, "state.replace", values, version)
	}
	m, err := s.store(false)
	if err != nil {
		return memory.State{}, err
	}
	return m.Set(ctx, s.key(), values, version)
}

// Clear removes the state.
func (s *State) Clear(ctx context.Context) error {
	if s.other() != nil {
		return s.clearOther(ctx)
	}
	m, err := s.store(true)
	if err != nil {
		return err
	}
	return m.Clear(ctx, s.key())
}

// Boards are the boards of a turn's context; see package board. Changes are committed before
// they return, with everything that was reported before, and applied exactly once like the
// changes of [State]. A board ends when it was not changed for the age [RetainState] of
// [Retention].
type Boards struct{ t *Turn }

// Board returns the boards of the turn's context.
func (t *Turn) Board() *Boards { return &Boards{t} }

// store returns the store of boards for one operation.
func (b *Boards) store(ctx context.Context) (*board.Records, error) {
	u := b.t.records(false)
	return board.New(board.Config{
		Records: u, Now: u.clock, TTL: b.t.r.e.cfg.Retention.Age(RetainState), NewID: func() string { return b.t.boardID(ctx) },
	})
}

// boardID returns the id of the next board. Each attempt gets the same ids.
func (t *Turn) boardID(ctx context.Context) string {
	scope := t.scopeName(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.boards[scope]++
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %d %q %d", t.TaskID(), t.task.CreatedAt.UnixNano(), t.Number(), scope, t.boards[scope]))
	return hex.EncodeToString(sum[:8])
}

// BoardParams are the arguments of Create.
type BoardParams struct {
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
func (b *Boards) Create(ctx context.Context, p BoardParams, titles ...string) (board.Board, error) {
	s, err := b.store(ctx)
	if err != nil {
		return board.Board{}, err
	}
	return s.Create(ctx, b.createParams(p, titles))
}

func (b *Boards) createParams(p BoardParams, titles []string) board.CreateParams {
	return board.CreateParams{
		Owner: b.t.Owner(), Conversation: b.t.ContextID(), Agent: cmp.Or(p.Agent, b.t.r.e.cfg.agentKey()), Label: p.Label, ParentAgent: p.ParentAgent,
		MaxRetries: p.MaxRetries, Titles: titles,
	}
}

// OpenRoot returns the root board of the context. If there is none, it creates it like Create. Of turns that call it
// at the same time, all get the same board.
func (b *Boards) OpenRoot(ctx context.Context, p BoardParams, titles ...string) (board.Board, error) {
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
	return s.ByConversation(ctx, b.t.Owner(), b.t.ContextID())
}

// List returns the boards of the context, the oldest first.
func (b *Boards) List(ctx context.Context) ([]board.Board, error) {
	s, err := b.store(ctx)
	if err != nil {
		return nil, err
	}
	return s.List(ctx, b.t.Owner(), b.t.ContextID())
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
	if !board.InConversation(id, b.t.ContextID()) {
		return nil, board.Key{}, fmt.Errorf("board %q: %w", id, board.ErrNotFound)
	}
	s, err := b.store(ctx)
	return s, board.Key{Owner: b.t.Owner(), ID: id}, err
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
