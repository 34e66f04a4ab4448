package server

import (
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/rpc"
)

// limitLists limits concurrent calls of a method that reads a list to Config.MaxLists, of which
// one owner may use half. Further calls wait up to memory.Wait.
func limitLists[P, R any](s *Server, run func(context.Context, *rpc.Call, P) (R, error)) func(context.Context, *rpc.Call, P) (R, error) {
	return func(ctx context.Context, c *rpc.Call, p P) (r R, err error) {
		slot := s.listSlots.Hold(c.Principal.ID)
		if err := slot.Grow(ctx, 1); err != nil {
			if ctx.Err() != nil {
				return r, ctx.Err()
			}
			return r, a2a.Errorf(a2a.CodeExhausted, "too many concurrent lists (--max-lists=%d, half of them for one owner); retry later", s.cfg.MaxLists)
		}
		defer slot.Release()
		return run(ctx, c, p)
	}
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
