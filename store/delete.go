package store

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// What one transaction of a deletion removes of the content of tasks, at most: rows of
// their logs and steps, and bytes. The row that exceeds DeleteBytes is still removed.
const (
	DeleteRows  = 5000
	DeleteBytes = 8 << 20
)

// DeleteStore removes tasks and contexts that have ended.
//
// The removal of a task takes one transaction, after which no read finds anything of it
// and its id is free. Content beyond DeleteRows and DeleteBytes stays behind for
// PurgeDeleted. Of the attempts and dead letters of a task, more than DeleteRows are removed
// in transactions before that: a deletion that is interrupted there has removed only what
// ExpirePush also removes while the task exists.
type DeleteStore interface {
	// DeleteTask removes a task with all that belongs to it (log, steps, feedback,
	// idempotency records, webhooks with their lanes, attempts and dead letters). The lease
	// of a lane is lost. Refusals, in this order: ErrNotFound; ErrBusy while the task's
	// state is not terminal, or it is queued or leased; ErrUndelivered while one of its lanes
	// is pending, unless force is set. more reports that PurgeDeleted has work to do.
	DeleteTask(ctx context.Context, key Key, force bool) (more bool, err error)
	// ExpireTasks removes, as DeleteTask without force does, tasks that have been in p.State
	// since before p.Before. It checks up to p.Limit tasks: owner by owner, the oldest of an
	// owner first, and leaves out tasks that others have locked. removed counts the tasks
	// that it removed. next, if not nil, is where to continue.
	ExpireTasks(ctx context.Context, p TaskExpiry) (removed int, next *ExpiryPlace, err error)
	// ExpireContexts removes contexts without tasks, with their idempotency records, that were
	// last updated before p.Before and are no context's parent. It checks up to p.Limit
	// contexts, the oldest first, and leaves out those that others have locked. removed
	// counts the contexts that it removed. next, if not nil, is where to continue.
	ExpireContexts(ctx context.Context, p ContextExpiry) (removed int, next *ExpiryPlace, err error)
	// PurgeDeleted removes content of removed tasks, up to DeleteRows and DeleteBytes. If there
	// is none, it may give a bounded part of the free space back to the file system. more
	// reports whether there is more to do.
	PurgeDeleted(ctx context.Context) (more bool, err error)
}

// TaskExpiry selects tasks that ExpireTasks removes.
type TaskExpiry struct {
	// State is terminal.
	State a2a.TaskState
	// Before bounds the time of the task's status.
	Before time.Time
	// After continues behind a place; nil starts.
	After *ExpiryPlace
	// Limit is the number of tasks to check, at least 1.
	Limit int
}

// ContextExpiry selects contexts that ExpireContexts removes.
type ContextExpiry struct {
	// Described selects contexts that SaveContext created or changed. Otherwise contexts are
	// selected that only tasks created.
	Described bool
	// Before bounds Context.UpdatedAt.
	Before time.Time
	// After continues behind a place; nil starts.
	After *ExpiryPlace
	// Limit is the number of contexts to check, at least 1.
	Limit int
}

// ExpiryPlace is a place in the order of ExpireTasks or ExpireContexts.
type ExpiryPlace struct {
	Owner string
	At    time.Time
	ID    string
}
