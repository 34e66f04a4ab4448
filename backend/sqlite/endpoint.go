package sqlite

import (
	"context"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
)

var (
	sqlEndpoints    = `SELECT ` + sqlrow.EndpointColumns.List("") + ` FROM webhook_endpoints ORDER BY name`
	sqlSaveEndpoint = `INSERT OR REPLACE INTO webhook_endpoints (` + sqlrow.EndpointColumns.List("") + `) VALUES (` + sqlrow.EndpointColumns.Marks() + `)`
	sqlDropEndpoint = `DELETE FROM webhook_endpoints WHERE name = ?`
)

// Endpoints implements store.Webhooks. The result is sorted by name.
func (s *webhookStore) Endpoints(ctx context.Context) (all []store.Endpoint, err error) {
	err = s.read(ctx, func(r *reader) error {
		return r.queryContext(ctx, sqlEndpoints, func(rec record) error {
			var e store.Endpoint
			sqlrow.EndpointColumns.Scan(&e, rec.int, rec.text)
			all = append(all, e)
			return nil
		})
	})
	return all, err
}

// SaveEndpoint implements store.Webhooks.
func (s *webhookStore) SaveEndpoint(ctx context.Context, e store.Endpoint) error {
	return s.write(ctx, &request{weight: 1, apply: func(w *writer) (err error) {
		if e.Failures == 0 && !e.Disabled {
			_, err = w.exec(sqlDropEndpoint, e.Name)
			return err
		}
		_, err = w.exec(sqlSaveEndpoint, sqlrow.EndpointColumns.Args(&e)...)
		return err
	}})
}
