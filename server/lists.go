package server

import (
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/rpc"
)

// listed bounds a method that reads a list: Config.MaxLists are read at once, and one owner
// has half of them at most. Others wait, up to memory.Wait.
func listed[P any](s *Server, run func(context.Context, *rpc.Call, P) (any, error)) func(context.Context, *rpc.Call, P) (any, error) {
	return func(ctx context.Context, c *rpc.Call, p P) (any, error) {
		place := s.lists.Hold(c.Principal.ID)
		if err := place.Grow(ctx, 1); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, a2a.Errorf(a2a.CodeExhausted, "too many lists are being read (--max-lists is %d, half of them for one owner); try again", s.cfg.MaxLists)
		}
		defer place.Release()
		return run(ctx, c, p)
	}
}

// listsInfo counts calls of methods that read lists.
type listsInfo struct {
	Reading int64 `json:"reading"`
	Waiting int   `json:"waiting"`
	Refused int64 `json:"refused"`
}

func (s *Server) listsInfo() listsInfo {
	stats := s.lists.Stats()
	return listsInfo{Reading: stats.Held, Waiting: stats.Waiting, Refused: stats.Refused}
}
