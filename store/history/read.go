package history

import (
	"context"
	"iter"
)

// All returns an iterator over the messages of a session after a sequence, oldest first. It reads
// pages, so messages that are appended during the iteration may be part of it.
func All(ctx context.Context, p Provider, k Key, after int64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		q := After(after, MaxPage)
		for more := true; more; {
			page, err := p.Page(ctx, k, q)
			if err != nil {
				yield(Message{}, err)
				return
			}
			for _, m := range page.Messages {
				if q.After = m.Seq; !yield(m, nil) {
					return
				}
			}
			more = page.More
		}
	}
}
