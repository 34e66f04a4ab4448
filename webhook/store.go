package webhook

import (
	"context"

	"github.com/holdfast-dev/holdfast/store"
)

// Store is what a Service uses of a store.
type Store interface {
	store.Webhooks
	store.Lanes
	store.LogReader
	Task(ctx context.Context, key store.Key, opts store.TaskOptions) (*store.Task, error)
	Info() store.Info
}
