package sqlite

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

const sqlExpireKeys = `DELETE FROM idempotency_keys WHERE (owner, key) IN
	(SELECT owner, key FROM idempotency_keys WHERE created_at < ? ORDER BY created_at LIMIT ?)`

// Idempotency implements store.Store.
func (s *Store) Idempotency(ctx context.Context, owner, key string) (k store.IdempotencyRecord, err error) {
	err = s.read(ctx, func(r *reader) error {
		var found bool
		k, found, err = readKey(context.Background(), r.key, owner, key)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		return err
	})
	return k, err
}

func readKey(ctx context.Context, s *stmt, owner, key string) (k store.IdempotencyRecord, found bool, err error) {
	err = s.query(ctx, func(r record) error {
		found = true
		k = store.IdempotencyRecord{
			Owner: r.text(0), Key: r.text(1), TaskID: r.text(3), Seq: r.int(4), CreatedAt: fromMillis(r.int(5)),
		}
		copy(k.Hash[:], r.text(2))
		return nil
	}, owner, key)
	return k, found, err
}

// ExpireIdempotency implements store.Store.
func (s *Store) ExpireIdempotency(ctx context.Context, before time.Time, limit int) (n int, err error) {
	err = s.write(ctx, &request{weight: max(limit, 1), apply: func(w *writer) error {
		if limit <= 0 {
			return nil
		}
		removed, err := w.expireKeys.exec(millis(before), int64(limit))
		n = int(removed)
		return err
	}})
	return n, err
}

// write runs a request of the writer.
func (s *Store) write(ctx context.Context, r *request) error {
	defer s.gate.RUnlock()
	if s.gate.RLock(); s.closed {
		return store.ErrClosed
	}
	return s.submit(ctx, r)
}
