package board

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// Namespace is the namespace of the records that contain boards.
const Namespace = "boards"

// Config configures [New].
type Config struct {
	// Records reads and changes the records of a store; see store.NewUpdater. Required.
	Records store.RecordUpdater
	// Now returns the current time. Default: time.Now.
	Now func() time.Time
	// NewID returns an id of up to 64 bytes for a new board, unique in its
	// conversation. Default: 8 random bytes in hex.
	NewID func() string
	// TTL is how long a board is stored after its last change. 0 stores it without limit.
	TTL time.Duration
}

// Records is a [Store] that stores each board as a record. The id of a board starts with a hash
// of its conversation, so that the boards of a conversation are adjacent.
type Records struct{ cfg Config }

// New returns a [Store] over the records of a store.
func New(cfg Config) (*Records, error) {
	switch {
	case cfg.Records == nil:
		return nil, a2a.Errorf(a2a.CodeInvalid, "board: Records: is required")
	case cfg.TTL < 0:
		return nil, a2a.Errorf(a2a.CodeInvalid, "board: TTL: is %s, must not be negative", cfg.TTL)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.NewID == nil {
		cfg.NewID = func() string {
			var id [8]byte
			_, _ = rand.Read(id[:]) // never fails
			return hex.EncodeToString(id[:])
		}
	}
	return &Records{cfg}, nil
}

// prefix returns the start of the ids of a conversation's boards.
func prefix(conversation string) string {
	sum := sha256.Sum256([]byte(conversation))
	return hex.EncodeToString(sum[:10]) + "-"
}

// InConversation reports whether a board of this package with an id belongs to a conversation.
func InConversation(id, conversation string) bool { return strings.HasPrefix(id, prefix(conversation)) }

// Create implements [Boards].
func (s *Records) Create(ctx context.Context, p CreateParams) (Board, error) {
	if err := p.check(); err != nil {
		return Board{}, err
	}
	if err := s.checkCount(ctx, &p, MaxBoards-1); err != nil {
		return Board{}, err
	}
	b, err := s.create(ctx, &p, s.cfg.NewID(), false)
	if err != nil {
		return Board{}, err
	}
	// Others may have created boards since the first check. Of the callers that keep their board, the last
	// one that checks sees all boards, so no more than the maximum remain.
	if err := s.checkCount(ctx, &p, MaxBoards); err != nil {
		if errors.Is(err, ErrTooLarge) {
			err = errors.Join(err, s.Delete(ctx, b.Key()))
		}
		return Board{}, err
	}
	return b, nil
}

// rootID is the end of the id of a board that OpenRoot creates.
const rootID = "root"

// OpenRoot implements [Boards].
func (s *Records) OpenRoot(ctx context.Context, p CreateParams) (Board, error) {
	if err := p.check(); err != nil {
		return Board{}, err
	}
	if p.ParentAgent != "" {
		return Board{}, a2a.Errorf(a2a.CodeInvalid, "board: parentAgent: must be empty for a root board")
	}
	boards, err := s.List(ctx, p.Owner, p.Conversation)
	if err != nil {
		return Board{}, err
	}
	if root := rootOf(boards); root != nil {
		return *root, nil
	}
	if err := checkCount(boards, &p, MaxBoards-1); err != nil {
		return Board{}, err
	}
	return s.create(ctx, &p, rootID, true)
}

// create creates a board. If it exists, create returns it, or an error unless keep is set.
func (s *Records) create(ctx context.Context, p *CreateParams, id string, keep bool) (Board, error) {
	created := state{Board: Board{
		ID: prefix(p.Conversation) + id, Owner: p.Owner, Conversation: p.Conversation, Agent: p.Agent, Label: p.Label,
		ParentAgent: p.ParentAgent, MaxRetries: p.MaxRetries, CreatedAt: store.Time(s.cfg.Now()),
	}}
	if _, err := created.add(p.Titles); err != nil {
		return Board{}, err
	}
	c, err := s.change(&created)
	if err != nil {
		return Board{}, err
	}
	return s.board(s.cfg.Records.UpdateRecord(ctx, recordKey(created.Key()), func(r store.Record) (*store.RecordChange, error) {
		switch {
		case r.Version == 0, keep && r.Expired(s.cfg.Now()):
			again := *c
			return &again, nil
		case keep:
			return nil, nil
		}
		return nil, a2a.Errorf(a2a.CodeConflict, "board: id: %s exists", a2a.Quote(created.ID))
	}))
}

// checkCount returns ErrTooLarge if a conversation has more boards than a limit.
func (s *Records) checkCount(ctx context.Context, p *CreateParams, limit int) error {
	boards, err := s.List(ctx, p.Owner, p.Conversation)
	if err != nil {
		return err
	}
	return checkCount(boards, p, limit)
}

func checkCount(boards []Board, p *CreateParams, limit int) error {
	if len(boards) > limit {
		return fmt.Errorf("board: conversation %s would have more than %d boards: %w", a2a.Quote(p.Conversation), MaxBoards, ErrTooLarge)
	}
	return nil
}

// rootOf returns the root board of a conversation, nil if it has none.
func rootOf(boards []Board) *Board {
	if i := slices.IndexFunc(boards, func(b Board) bool { return b.ParentAgent == "" }); i >= 0 {
		return &boards[i]
	}
	return nil
}

// Get implements [Boards].
func (s *Records) Get(ctx context.Context, key Key) (Board, error) {
	if err := key.check(); err != nil {
		return Board{}, err
	}
	return s.board(s.cfg.Records.ReadRecord(ctx, recordKey(key)))
}

func (k Key) check() error {
	if k.Owner == "" || len(k.ID) > store.MaxRecordKey || check("", k.Owner+k.ID, len(k.Owner+k.ID), true) != nil {
		return fmt.Errorf("board %s: %w", a2a.Quote(k.ID), ErrNotFound)
	}
	return nil
}

// ByConversation implements [Boards].
func (s *Records) ByConversation(ctx context.Context, owner, conversation string) (Board, error) {
	boards, err := s.List(ctx, owner, conversation)
	if err != nil {
		return Board{}, err
	}
	if root := rootOf(boards); root != nil {
		return *root, nil
	}
	return Board{}, fmt.Errorf("board of conversation %s: %w", a2a.Quote(conversation), ErrNotFound)
}

// List implements [Boards].
func (s *Records) List(ctx context.Context, owner, conversation string) ([]Board, error) {
	if err := (&CreateParams{Owner: owner, Conversation: conversation}).check(); err != nil {
		return nil, err
	}
	start := prefix(conversation)
	q := store.RecordQuery{Owner: owner, Namespace: Namespace, After: store.RecordKey{Namespace: Namespace, Key: start}, Limit: MaxBoards}
	var boards []Board
	for {
		page, err := s.cfg.Records.Records(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Records {
			if !strings.HasPrefix(r.Key.Key, start) {
				page.More = false
				break
			}
			if r.Expired(s.cfg.Now()) {
				continue
			}
			b, err := s.board(r, nil)
			if err != nil {
				return nil, err
			}
			boards = append(boards, b)
		}
		if !page.More {
			break
		}
		q.After = page.Records[len(page.Records)-1].Key
	}
	slices.SortStableFunc(boards, func(a, b Board) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) })
	return boards, nil
}

// Delete implements [Boards].
func (s *Records) Delete(ctx context.Context, key Key) error {
	if err := key.check(); err != nil {
		return err
	}
	_, err := s.cfg.Records.UpdateRecord(ctx, recordKey(key), func(r store.Record) (*store.RecordChange, error) {
		if _, err := s.decode(r); err != nil {
			return nil, err
		}
		return &store.RecordChange{Delete: true}, nil
	})
	return err
}

// AddTasks implements [Tasks].
func (s *Records) AddTasks(ctx context.Context, key Key, titles ...string) ([]Task, error) {
	if err := checkTitles(titles); err != nil {
		return nil, err
	}
	b, err := s.update(ctx, key, func(s *state) error {
		_, err := s.add(titles)
		return err
	})
	if err != nil {
		return nil, err
	}
	return b.Tasks[len(b.Tasks)-len(titles):], nil
}

// SetStatus implements [Tasks].
func (s *Records) SetStatus(ctx context.Context, key Key, task string, to Status, note string) (Task, error) {
	if !to.Valid() {
		return Task{}, a2a.Errorf(a2a.CodeInvalid, "board: status: %s is not a state", a2a.Quote(string(to)))
	}
	if err := check("note", note, MaxNote, false); err != nil {
		return Task{}, err
	}
	return s.updateTask(ctx, key, task, func(s *state, t *Task) error { return s.setStatus(t, to, note) })
}

// Rename implements [Tasks].
func (s *Records) Rename(ctx context.Context, key Key, task, title string) (Task, error) {
	if err := check("title", title, MaxTitle, true); err != nil {
		return Task{}, err
	}
	return s.updateTask(ctx, key, task, func(_ *state, t *Task) error { t.Title = title; return nil })
}

// SetNote implements [Tasks].
func (s *Records) SetNote(ctx context.Context, key Key, task, note string) (Task, error) {
	if err := check("note", note, MaxNote, false); err != nil {
		return Task{}, err
	}
	return s.updateTask(ctx, key, task, func(_ *state, t *Task) error { t.Note = note; return nil })
}

// Reorder implements [Tasks].
func (s *Records) Reorder(ctx context.Context, key Key, tasks []string) (Board, error) {
	return s.update(ctx, key, func(s *state) error { return s.reorder(tasks) })
}

// DeleteTask implements [Tasks].
func (s *Records) DeleteTask(ctx context.Context, key Key, task string) error {
	_, err := s.update(ctx, key, func(s *state) error {
		before := len(s.Tasks)
		s.Tasks = slices.DeleteFunc(s.Tasks, func(t Task) bool { return t.ID == task })
		if len(s.Tasks) == before {
			return fmt.Errorf("board: task %s: %w", a2a.Quote(task), ErrNotFound)
		}
		return nil
	})
	return err
}

// IncrementRetry implements [Tasks].
func (s *Records) IncrementRetry(ctx context.Context, key Key, task string) (Task, error) {
	return s.updateTask(ctx, key, task, (*state).incrementRetry)
}

// ForceRetry implements [Tasks].
func (s *Records) ForceRetry(ctx context.Context, key Key, task string) (Task, error) {
	return s.updateTask(ctx, key, task, func(s *state, t *Task) error { s.forceRetry(t); return nil })
}

// updateTask changes a task and returns it.
func (s *Records) updateTask(ctx context.Context, key Key, task string, change func(*state, *Task) error) (Task, error) {
	b, err := s.update(ctx, key, func(s *state) error {
		if t := s.task(task); t != nil {
			return change(s, t)
		}
		return fmt.Errorf("board: task %s: %w", a2a.Quote(task), ErrNotFound)
	})
	if err != nil {
		return Task{}, err
	}
	return *(&state{Board: b}).task(task), nil
}

// update changes a board and returns it.
func (s *Records) update(ctx context.Context, key Key, change func(*state) error) (Board, error) {
	if err := key.check(); err != nil {
		return Board{}, err
	}
	return s.board(s.cfg.Records.UpdateRecord(ctx, recordKey(key), func(r store.Record) (*store.RecordChange, error) {
		b, err := s.decode(r)
		if err == nil {
			err = change(b)
		}
		if err != nil {
			return nil, err
		}
		return s.change(b)
	}))
}

func recordKey(k Key) store.RecordKey {
	return store.RecordKey{Owner: k.Owner, Namespace: Namespace, Key: k.ID}
}

// board returns the board of a record unless err is set.
func (s *Records) board(r store.Record, err error) (Board, error) {
	if err != nil {
		return Board{}, err
	}
	b, err := s.decode(r)
	if err != nil {
		return Board{}, err
	}
	return b.Board, nil
}

// stored is the JSON of a board.
type stored struct {
	Conversation string       `json:"conversation"`
	Agent        string       `json:"agent,omitempty"`
	Label        string       `json:"label,omitempty"`
	ParentAgent  string       `json:"parentAgent,omitempty"`
	MaxRetries   int          `json:"maxRetries,omitempty"`
	CreatedAt    time.Time    `json:"createdAt"`
	Created      int          `json:"created,omitempty"`
	Tasks        []storedTask `json:"tasks,omitempty"`
}

type storedTask struct {
	ID         string `json:"id"`
	Title      string `json:"title"`
	Status     Status `json:"status"`
	RetryCount int    `json:"retryCount,omitempty"`
	Note       string `json:"note,omitempty"`
}

// change returns the change that stores a board.
func (s *Records) change(b *state) (*store.RecordChange, error) {
	out := stored{
		Conversation: b.Conversation, Agent: b.Agent, Label: b.Label, ParentAgent: b.ParentAgent, MaxRetries: b.MaxRetries,
		CreatedAt: b.CreatedAt, Created: b.created,
	}
	for _, t := range b.Tasks {
		out.Tasks = append(out.Tasks, storedTask{ID: t.ID, Title: t.Title, Status: t.Status, RetryCount: t.RetryCount, Note: t.Note})
	}
	value, err := wire.Marshal(&out)
	if err != nil {
		return nil, err
	}
	if len(value) > MaxBoardBytes {
		return nil, fmt.Errorf("board: would have %d bytes, limit is %d: %w", len(value), MaxBoardBytes, ErrTooLarge)
	}
	c := &store.RecordChange{Value: value}
	if s.cfg.TTL > 0 {
		c.Expires = s.cfg.Now().Add(s.cfg.TTL)
	}
	return c, nil
}

// decode returns the board of a record, or ErrNotFound if it does not exist or has expired.
func (s *Records) decode(r store.Record) (*state, error) {
	if r.Version == 0 || r.Expired(s.cfg.Now()) {
		return nil, fmt.Errorf("board %s: %w", a2a.Quote(r.Key.Key), ErrNotFound)
	}
	var in stored
	if err := wire.Unmarshal(r.Value, &in); err != nil {
		return nil, a2a.Wrap(a2a.CodeInternal, err, "board %s cannot be read", a2a.Quote(r.Key.Key))
	}
	b := &state{created: in.Created, Board: Board{
		ID: r.Key.Key, Owner: r.Key.Owner, Conversation: in.Conversation, Agent: in.Agent, Label: in.Label, ParentAgent: in.ParentAgent,
		MaxRetries: in.MaxRetries, Version: r.Version, CreatedAt: in.CreatedAt,
	}}
	for i, t := range in.Tasks {
		b.Tasks = append(b.Tasks, Task{ID: t.ID, Title: t.Title, Status: t.Status, Order: i, RetryCount: t.RetryCount, Note: t.Note})
	}
	return b, nil
}
