package sqltask

import (
	"context"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
)

var sqlEndpoints = `SELECT ` + sqlrow.EndpointColumns.List("") + ` FROM {s}.webhook_endpoints ORDER BY name`

const (
	sqlSaveEndpoint = `INSERT INTO {s}.webhook_endpoints (name, failures, failed_at, open_until, disabled, reason, updated_at)
		VALUES ($1::text, $2::bigint, $3::bigint, $4::bigint, $5::boolean, $6::bytea, $7::bigint)
		ON CONFLICT (name) DO UPDATE SET failures = excluded.failures, failed_at = excluded.failed_at, open_until = excluded.open_until,
			disabled = excluded.disabled, reason = excluded.reason, updated_at = excluded.updated_at`
	sqlDropEndpoint = `DELETE FROM {s}.webhook_endpoints WHERE name = $1::text`
)

// EndpointStore implements the methods of [store.Webhooks] for endpoints.
type EndpointStore struct{ db sqlkit.DB }

// NewEndpointStore returns the endpoints in a database.
func NewEndpointStore(db sqlkit.DB) EndpointStore { return EndpointStore{db} }

// Endpoints implements [store.Webhooks]. The result is sorted by name.
func (s EndpointStore) Endpoints(ctx context.Context) (all []store.Endpoint, err error) {
	err = s.db.Read(ctx, func(q sqlkit.Querier) error {
		all = nil
		return q.Query(sqlEndpoints, func(r sqlkit.Row) error {
			var e store.Endpoint
			sqlrow.EndpointColumns.Scan(&e, r.Int, r.Text)
			all = append(all, e)
			return nil
		})
	})
	return all, err
}

// SaveEndpoint implements [store.Webhooks].
func (s EndpointStore) SaveEndpoint(ctx context.Context, e store.Endpoint) error {
	if e.Failures != 0 || e.Disabled {
		return sqlkit.Run(ctx, s.db, sqlkit.Call{Text: sqlSaveEndpoint, Args: sqlrow.EndpointColumns.Args(&e)})
	}
	if !s.db.Dialect().Storable(e.Name) {
		return nil
	}
	return sqlkit.Run(ctx, s.db, sqlkit.Call{Text: sqlDropEndpoint, Args: []any{e.Name}})
}
