package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	// sqlReadKey locks the record like sqlGuardKeys, so that it is replicated when it is read.
	sqlReadKey = `SELECT owner, key, hash, task_id, seq, created_at FROM {s}.idempotency_keys
		WHERE owner = $1::text COLLATE "POSIX" AND key = $2::text COLLATE "POSIX" FOR KEY SHARE`
	sqlExpireKeys = `WITH u AS MATERIALIZED (
			SELECT owner, key FROM {s}.idempotency_keys WHERE created_at < $1::bigint AND created_at >= $3::bigint
			ORDER BY created_at LIMIT $2::bigint FOR UPDATE SKIP LOCKED
		), removed AS (
			DELETE FROM {s}.idempotency_keys k USING u WHERE k.owner = u.owner COLLATE "POSIX" AND k.key = u.key COLLATE "POSIX" RETURNING k.created_at
		)
		SELECT count(*), coalesce(max(created_at), 0) FROM removed`
)

// Idempotency implements [store.Tasks].
func (s *taskStore) Idempotency(ctx context.Context, owner, key string) (k store.IdempotencyRecord, err error) {
	err = s.readCall(ctx, "read idempotency key", func(ctx context.Context, c *pgx.Conn) (err error) {
		k, err = s.readKey(ctx, c, owner, key)
		return err
	})
	return k, err
}

func (s *changeWriter) readKey(ctx context.Context, on querier, owner, key string) (k store.IdempotencyRecord, err error) {
	found := false
	if storable(owner, key) {
		err = s.eachRow(ctx, on, sqlReadKey, func(r record) error {
			k, found = scanKey(r), true
			return nil
		}, owner, key)
	}
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return k, err
}

func scanKey(r record) store.IdempotencyRecord {
	k := store.IdempotencyRecord{Owner: r.text(0), Key: r.text(1), TaskID: r.text(3), Seq: r.int(4), CreatedAt: fromMillis(r.int(5))}
	copy(k.Hash[:], r[2])
	return k
}

// ExpireIdempotency implements [store.Maintenance].
func (s *taskStore) ExpireIdempotency(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.sweep(ctx, "expire idempotency keys", sqlExpireKeys, &s.sweptKeys, millis(before), limit)
}
