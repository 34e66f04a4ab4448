package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
)

var sqlEndpoints = `SELECT ` + sqlrow.EndpointColumns.List("") + ` FROM {s}.webhook_endpoints ORDER BY name`

const (
	sqlSaveEndpoint = `INSERT INTO {s}.webhook_endpoints (name, failures, failed_at, open_until, disabled, reason, updated_at)
		VALUES ($1::text, $2::bigint, $3::bigint, $4::bigint, $5::boolean, $6::bytea, $7::bigint)
		ON CONFLICT (name) DO UPDATE SET failures = excluded.failures, failed_at = excluded.failed_at, open_until = excluded.open_until,
			disabled = excluded.disabled, reason = excluded.reason, updated_at = excluded.updated_at`
	sqlDeleteEndpoint = `DELETE FROM {s}.webhook_endpoints WHERE name = $1::text`
)

// Endpoints implements [store.Webhooks]. They are ordered by name.
func (s *webhookStore) Endpoints(ctx context.Context) (all []store.Endpoint, err error) {
	err = s.read(ctx, "list endpoints", func(ctx context.Context, c *pgx.Conn) error {
		all = nil
		return s.eachRow(ctx, c, sqlEndpoints, func(r record) error {
			var e store.Endpoint
			sqlrow.EndpointColumns.Scan(&e, r.int, r.text)
			all = append(all, e)
			return nil
		})
	})
	return all, err
}

// SaveEndpoint implements [store.Webhooks].
func (s *webhookStore) SaveEndpoint(ctx context.Context, e store.Endpoint) error {
	return s.transact(ctx, "save endpoint", func(ctx context.Context, tx pgx.Tx) (err error) {
		if e.Failures == 0 && !e.Disabled {
			if storable(e.Name) {
				_, err = s.exec(ctx, tx, sqlDeleteEndpoint, e.Name)
			}
			return err
		}
		_, err = s.exec(ctx, tx, sqlSaveEndpoint, e.Name, e.Failures, millis(e.FailedAt), millis(e.OpenUntil), e.Disabled, []byte(e.Reason),
			millis(e.UpdatedAt))
		return err
	})
}
