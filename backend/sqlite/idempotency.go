package sqlite

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	sqlSelectKey = `SELECT owner, key, hash, task_id, seq, created_at FROM idempotency_keys WHERE owner = ? AND key = ?`
	sqlInsertKey = `INSERT INTO idempotency_keys (owner, key, hash, task_id, seq, created_at, lookup) VALUES (?,?,?,?,?,?,?)
		ON CONFLICT DO NOTHING`
	sqlDropKey    = `DELETE FROM idempotency_keys WHERE owner = ? AND key = ?`
	sqlExpireKeys = `DELETE FROM idempotency_keys WHERE (owner, key) IN
		(SELECT owner, key FROM idempotency_keys WHERE created_at < ? ORDER BY created_at LIMIT ?)`
)

// Idempotency implements store.Tasks.
func (s *taskStore) Idempotency(ctx context.Context, owner, key string) (k store.IdempotencyRecord, err error) {
	if err := s.enter(ctx); err != nil {
		return k, err
	}
	defer s.leave()
	// Read the recent records first: a record is added to the index before it is removed
	// from the recent ones.
	name, found := keyName{owner, key}, false
	if !s.cfg.ReadOnly {
		if r, found := s.committer.recent.get(name); found {
			return r.record(name), nil
		}
	}
	err = s.withReader(ctx, func(r *reader) error {
		if s.cfg.ReadOnly {
			if k, found, err = r.recentKey(name); err != nil || found {
				return err
			}
		}
		k, found, err = r.readKey(owner, key)
		return err
	})
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return k, err
}

// readKey reads an idempotency record from the index.
func (c *conn) readKey(owner, key string) (k store.IdempotencyRecord, found bool, err error) {
	err = c.query(sqlSelectKey, func(r record) error {
		found = true
		k = store.IdempotencyRecord{
			Owner: r.text(0), Key: r.text(1), TaskID: r.text(3), Seq: r.int(4), CreatedAt: fromMillis(r.int(5)),
		}
		copy(k.Hash[:], r.text(2))
		return nil
	}, owner, key)
	return k, found, err
}

// insertKey adds an idempotency record to the index. seq is the version after the change, and
// lookup how a deletion finds the record.
func (w *keyWriter) insertKey(k *store.IdempotencyRecord, seq, lookup int64) error {
	_, err := w.exec(sqlInsertKey, k.Owner, k.Key, k.HashBytes(), k.TaskID, seq, millis(k.CreatedAt), lookup)
	return err
}

// ExpireIdempotency implements store.Maintenance.
func (s *taskStore) ExpireIdempotency(ctx context.Context, before time.Time, limit int) (n int, err error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	for limit > 0 && !s.cfg.ReadOnly && s.committer.recent.olderThan(millis(before)) {
		if err := s.submit(ctx, &request{weight: moveBatch, apply: (*writer).moveKeys}); err != nil {
			return 0, err
		}
	}
	err = s.submit(ctx, &request{weight: max(limit, 1), apply: func(w *writer) error {
		if limit <= 0 {
			return nil
		}
		removed, err := w.exec(sqlExpireKeys, millis(before), int64(limit))
		n = int(removed)
		return err
	}})
	return n, err
}
