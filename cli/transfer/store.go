package transfer

import (
	"context"

	"github.com/holdfast-dev/holdfast/store"
)

// Source is what an export reads from.
type Source interface {
	Contexts(ctx context.Context, q store.ContextQuery) (store.ContextPage, error)
	Tasks(ctx context.Context, q store.Query) (store.Page, error)
	Steps(ctx context.Context, key store.Key, turn int) ([]store.Step, error)
	Feedback(ctx context.Context, q store.FeedbackQuery) (store.FeedbackPage, error)
	Records(ctx context.Context, q store.RecordQuery) (store.RecordPage, error)
	reader
}

// Target is what an import compares its input with and writes to.
type Target interface {
	Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error)
	SaveContext(ctx context.Context, c store.ContextChange) (store.Context, error)
	AddFeedback(ctx context.Context, f store.Feedback) error
	Record(ctx context.Context, key store.RecordKey) (store.Record, error)
	SaveRecords(ctx context.Context, owner string, changes ...store.RecordChange) error
	reader
}

type reader interface {
	Context(ctx context.Context, owner, id string, tasks int) (store.Context, error)
	Task(ctx context.Context, key store.Key, opts store.TaskOptions) (*store.Task, error)
	Events(ctx context.Context, key store.Key, after int64, limit int) ([]store.Event, error)
}
