package server

import (
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/rpc"
)

// limitBulk limits concurrent calls of bulk methods to Config.MaxLists, of which one owner may
// use half. Further calls wait up to memory.Wait.
func (s *Server) limitBulk(ctx context.Context, c *rpc.Call) (any, error) {
	if !c.Method.Bulk {
		return c.Next(ctx)
	}
	slot := s.listSlots.Hold(c.Principal.ID)
	if err := slot.Grow(ctx, 1); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, a2a.Errorf(a2a.CodeExhausted, "too many concurrent lists (--max-lists=%d, half of them for one owner); retry later", s.cfg.MaxLists)
	}
	defer slot.Release()
	return c.Next(ctx)
}

// listsInfo counts calls of methods that read lists; Refused counts since the start.
type listsInfo struct {
	Reading int64 `json:"reading"`
	Waiting int   `json:"waiting"`
	Refused int64 `json:"refused"`
}

func (s *Server) listsInfo() listsInfo {
	stats := s.listSlots.Stats()
	return listsInfo{Reading: stats.Held, Waiting: stats.Waiting, Refused: stats.Refused}
}
