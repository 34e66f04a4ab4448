package boardtest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// mutant is a store of boards that replaces some methods.
type mutant struct {
	board.Store
	get            func(board.Board) board.Board
	key            func(*board.Key)
	setStatus      func(task board.Task, to board.Status, err error) (board.Task, error)
	incrementRetry func(board.Task, error) (board.Task, error)
	note           func(string) string
	order          func([]string) []string
	list           func([]board.Board) []board.Board
	keeps          bool // boards and tasks that are deleted
	forgetsForce   bool
	ignoresCancel  bool
	opens          func(s board.Store, ctx context.Context, p board.CreateParams) (board.Board, error)
}

func (m *mutant) OpenRoot(ctx context.Context, p board.CreateParams) (board.Board, error) {
	if m.opens != nil {
		return m.opens(m.Store, ctx, p)
	}
	return m.Store.OpenRoot(ctx, p)
}

func (m *mutant) args(ctx context.Context, k board.Key) (context.Context, board.Key) {
	suite.Mutate(m.key, &k)
	if m.ignoresCancel {
		ctx = context.WithoutCancel(ctx)
	}
	return ctx, k
}

func (m *mutant) Get(ctx context.Context, k board.Key) (board.Board, error) {
	ctx, k = m.args(ctx, k)
	b, err := m.Store.Get(ctx, k)
	if m.get != nil && err == nil {
		b = m.get(b)
	}
	return b, err
}

func (m *mutant) List(ctx context.Context, owner, conversation string) ([]board.Board, error) {
	all, err := m.Store.List(ctx, owner, conversation)
	if m.list != nil {
		all = m.list(all)
	}
	return all, err
}

func (m *mutant) SetStatus(ctx context.Context, k board.Key, task string, to board.Status, note string) (board.Task, error) {
	if m.note != nil {
		note = m.note(note)
	}
	t, err := m.Store.SetStatus(ctx, k, task, to, note)
	if m.setStatus != nil {
		return m.setStatus(t, to, err)
	}
	return t, err
}

func (m *mutant) IncrementRetry(ctx context.Context, k board.Key, task string) (board.Task, error) {
	t, err := m.Store.IncrementRetry(ctx, k, task)
	if m.incrementRetry != nil {
		return m.incrementRetry(t, err)
	}
	return t, err
}

func (m *mutant) ForceRetry(ctx context.Context, k board.Key, task string) (board.Task, error) {
	if m.forgetsForce {
		return m.SetNote(ctx, k, task, "")
	}
	return m.Store.ForceRetry(ctx, k, task)
}

func (m *mutant) Reorder(ctx context.Context, k board.Key, tasks []string) (board.Board, error) {
	if m.order != nil {
		tasks = m.order(tasks)
	}
	return m.Store.Reorder(ctx, k, tasks)
}

func (m *mutant) DeleteTask(ctx context.Context, k board.Key, task string) error {
	if m.keeps {
		_, err := m.SetNote(ctx, k, task, "")
		return err
	}
	return m.Store.DeleteTask(ctx, k, task)
}

var mutants = map[string]func(*mutant, *Options){
	"mixes up owners": func(m *mutant, _ *Options) { m.key = func(k *board.Key) { k.Owner = "alice" } },
	"accepts every move": func(m *mutant, _ *Options) {
		m.setStatus = func(t board.Task, to board.Status, err error) (board.Task, error) {
			if errors.Is(err, board.ErrMove) {
				return board.Task{Status: to}, nil
			}
			return t, err
		}
	},
	"never refuses a retry": func(m *mutant, _ *Options) {
		m.incrementRetry = func(t board.Task, err error) (board.Task, error) {
			if errors.Is(err, board.ErrRetriesExhausted) {
				err = nil
			}
			return t, err
		}
	},
	"opens another root board": func(m *mutant, _ *Options) {
		m.opens = func(s board.Store, ctx context.Context, p board.CreateParams) (board.Board, error) {
			return s.Create(ctx, p)
		}
	},
	"creates a root board after a look": func(m *mutant, _ *Options) {
		another := make(chan struct{})
		m.opens = func(s board.Store, ctx context.Context, p board.CreateParams) (board.Board, error) {
			b, err := s.ByConversation(ctx, p.Owner, p.Conversation)
			if errors.Is(err, board.ErrNotFound) && p.ParentAgent == "" {
				select { // another caller looks too
				case another <- struct{}{}:
				case <-another:
				case <-time.After(100 * time.Millisecond):
				}
				b, err = s.Create(ctx, p)
			}
			if p.ParentAgent != "" {
				return s.OpenRoot(ctx, p)
			}
			return b, err
		}
	},
	"loses notes": func(m *mutant, _ *Options) { m.note = func(string) string { return "" } },
	"ignores the order": func(m *mutant, _ *Options) {
		m.order = func(ids []string) []string { return slices.Sorted(slices.Values(ids)) }
	},
	"lists one board": func(m *mutant, _ *Options) {
		m.list = func(all []board.Board) []board.Board { return all[:min(1, len(all))] }
	},
	"lists newest first":  func(m *mutant, _ *Options) { m.list = reversed },
	"keeps deleted tasks": func(m *mutant, _ *Options) { m.keeps = true },
	"ignores ForceRetry":  func(m *mutant, _ *Options) { m.forgetsForce = true },
	"ignores canceled contexts": func(m *mutant, _ *Options) {
		m.ignoresCancel = true
	},
	"never expires":   func(_ *mutant, o *Options) { o.TTL = 0 },
	"loses versions":  func(m *mutant, _ *Options) { m.get = func(b board.Board) board.Board { b.Version = 1; return b } },
	"loses the label": func(m *mutant, _ *Options) { m.get = func(b board.Board) board.Board { b.Label = ""; return b } },
	"returns its own memory": func(m *mutant, _ *Options) {
		known := map[string]board.Board{}
		m.get = func(b board.Board) board.Board {
			if old, ok := known[b.ID]; ok && old.Version == b.Version {
				return old
			}
			known[b.ID] = b
			return b
		}
	},
}

func reversed(all []board.Board) (out []board.Board) {
	for i := range all {
		out = append(out, all[len(all)-1-i])
	}
	return out
}

func TestSuiteCatchesBrokenStores(t *testing.T) {
	t.Parallel()
	inner := OverRecords(storetest.Harness{Open: func(storetest.T) store.Store { return inmem.New() }})
	inner.Second = nil
	correct := suite.NewRecorder(t.Context())
	if RunOn(correct, inner); correct.Failed() {
		t.Fatalf("a correct store fails: %v", correct.Failures())
	}
	suite.Mutants(t, mutants, func(t suite.T, mutate func(*mutant, *Options)) {
		h := inner
		h.Open = func(t storetest.T, o Options) board.Store {
			m := &mutant{}
			mutate(m, &o)
			m.Store = inner.Open(t, o)
			return m
		}
		RunOn(t, h)
	})
}
