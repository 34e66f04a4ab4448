package sqlite

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
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

// AddFeedback implements store.Store.
func (s *Store) AddFeedback(ctx context.Context, f store.Feedback) error {
	var metadata any
	if len(f.Metadata) > 0 {
		buf, err := wire.Marshal(f.Metadata)
		if err != nil {
			return a2a.Wrap(a2a.CodeInvalid, err, "feedback cannot be written as JSON")
		}
		metadata = jsonText(buf)
	}
	found := false
	err := s.write(ctx, &request{weight: 1, apply: func(w *writer) (err error) {
		var row taskRow
		if row, found, err = w.row(f.Key); err != nil || !found {
			return err
		}
		_, err = w.insertFeedback.exec(row.pk, f.ID, int64(f.Rating), f.Text, metadata, millis(f.CreatedAt))
		return err
	}})
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return err
}

// Feedback implements store.Store.
func (s *Store) Feedback(ctx context.Context, key store.Key) (all []store.Feedback, err error) {
	err = s.read(ctx, func(r *reader) error {
		row, err := r.row(key)
		if err != nil {
			return err
		}
		return r.feedback.query(context.Background(), func(rec record) error {
			f := store.Feedback{
				Key: key, ID: rec.text(0), Rating: int(rec.int(1)), Text: rec.text(2), CreatedAt: fromMillis(rec.int(4)),
			}
			if !rec.null(3) {
				if err := wire.Unmarshal(rec.json(3), &f.Metadata); err != nil {
					return err
				}
			}
			all = append(all, f)
			return nil
		}, row.pk)
	})
	return all, err
}

// write runs a request of the writer.
func (s *Store) write(ctx context.Context, r *request) error {
	defer s.gate.RUnlock()
	if s.gate.RLock(); s.closed {
		return store.ErrClosed
	}
	return s.submit(ctx, r)
}
