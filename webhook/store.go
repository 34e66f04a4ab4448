package webhook

import (
	"context"

	"github.com/holdfast-dev/holdfast/store"
)

// Store is the part of a store that a Service uses.
type Store interface {
	store.Webhooks
	store.Lanes
	store.LogReader
	Task(ctx context.Context, key store.Key, opts store.TaskOptions) (*store.Task, error)
	Info() store.Info
}
