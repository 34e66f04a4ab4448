package sqlite

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

const sqlExpireKeys = `DELETE FROM idempotency_keys WHERE (owner, key) IN
	(SELECT owner, key FROM idempotency_keys WHERE created_at < ? ORDER BY created_at LIMIT ?)`

// Idempotency implements store.Tasks.
func (s *Store) Idempotency(ctx context.Context, owner, key string) (k store.IdempotencyRecord, err error) {
	defer s.gate.RUnlock()
	if s.gate.RLock(); s.closed {
		return k, store.ErrClosed
	}
	// Read the recent records first: a record is added to the index before it is removed
	// from the recent ones.
	name, found := keyName{owner, key}, false
	if !s.cfg.ReadOnly {
		if r, found := s.writer.recent.get(name); found {
			return r.record(name), ctx.Err()
		}
	}
	err = s.withReader(ctx, func(r *reader) error {
		if s.cfg.ReadOnly {
			if k, found, err = r.recentKey(name); err != nil || found {
				return err
			}
		}
		k, found, err = readKey(context.Background(), r.key, owner, key)
		return err
	})
	if err == nil && !found {
		err = store.ErrNotFound
	}
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

// ExpireIdempotency implements store.Maintenance.
func (s *Store) ExpireIdempotency(ctx context.Context, before time.Time, limit int) (n int, err error) {
	defer s.gate.RUnlock()
	if s.gate.RLock(); s.closed {
		return 0, store.ErrClosed
	}
	for limit > 0 && !s.cfg.ReadOnly && s.writer.recent.olderThan(millis(before)) {
		if err := s.submit(ctx, &request{weight: moveBatch, apply: (*writer).moveKeys}); err != nil {
			return 0, err
		}
	}
	err = s.submit(ctx, &request{weight: max(limit, 1), apply: func(w *writer) error {
		if limit <= 0 {
			return nil
		}
		removed, err := w.expireKeys.exec(millis(before), int64(limit))
		n = int(removed)
		return err
	}})
	return n, err
}

// write submits a request to the writer.
func (s *Store) write(ctx context.Context, r *request) error {
	defer s.gate.RUnlock()
	if s.gate.RLock(); s.closed {
		return store.ErrClosed
	}
	return s.submit(ctx, r)
}
