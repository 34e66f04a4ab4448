package server

import (
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/rpc"
)

// lists limits concurrent calls of bulk methods to Requests.MaxLists. One owner may use at most
// half of them.
type lists struct {
	slots *memory.Budget // one unit is one call
	limit int
}

func newLists(limit int) *lists { return &lists{slots: memory.New(int64(limit)), limit: limit} }

// intercept limits bulk methods. Further calls wait up to memory.Wait.
func (l *lists) intercept(m *a2a.Method, next rpc.Handler) rpc.Handler {
	if !m.Bulk {
		return next
	}
	return func(ctx context.Context, c *rpc.Call) (any, error) {
		slot := l.slots.Hold(c.Principal.ID)
		if err := slot.Grow(ctx, 1); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, a2a.Errorf(a2a.CodeExhausted, "too many concurrent lists (--max-lists=%d, half of them for one owner); retry later", l.limit)
		}
		defer slot.Release()
		return next(ctx, c)
	}
}

// listsInfo counts calls of methods that read lists; Refused counts since the start.
type listsInfo struct {
	Reading int64 `json:"reading"`
	Waiting int   `json:"waiting"`
	Refused int64 `json:"refused"`
}

func (l *lists) info() listsInfo {
	stats := l.slots.Stats()
	return listsInfo{Reading: stats.Held, Waiting: stats.Waiting, Refused: stats.Refused}
}
