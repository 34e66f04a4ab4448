package board

import (
	"context"

	"github.com/holdfast-dev/holdfast/store"
)

// Lister is implemented by stores that can list the boards of all conversations of an owner.
type Lister interface {
	// OfOwner returns up to limit boards, in the order of their ids, after a board; "" starts
	// the list. limit is 1 to [MaxBoards]. more reports that more boards follow.
	OfOwner(ctx context.Context, owner, after string, limit int) (boards []Board, more bool, err error)
}

var _ Lister = (*Records)(nil)

// OfOwner implements [Lister].
func (s *Records) OfOwner(ctx context.Context, owner, after string, limit int) (boards []Board, more bool, err error) {
	if err := (&CreateParams{Owner: owner, Conversation: "c"}).check(); err != nil {
		return nil, false, err
	}
	limit = min(max(limit, 1), MaxBoards)
	q := store.RecordQuery{Owner: owner, Namespace: Namespace, Limit: limit}
	if after != "" {
		if err := (Key{Owner: owner, ID: after}).check(); err != nil {
			return nil, false, err
		}
		q.After = store.RecordKey{Namespace: Namespace, Key: after}
	}
	for {
		page, err := s.cfg.Records.Records(ctx, q)
		if err != nil {
			return nil, false, err
		}
		for _, r := range page.Records {
			q.After = r.Key
			if r.Expired(s.cfg.Now()) {
				continue
			}
			if len(boards) == limit {
				return boards, true, nil
			}
			b, err := s.board(r, nil)
			if err != nil {
				return nil, false, err
			}
			boards = append(boards, b)
		}
		if !page.More {
			return boards, false, nil
		}
	}
}
