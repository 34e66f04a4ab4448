package store

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// DeleteRows and DeleteBytes limit the content of tasks that one transaction of a
// deletion removes: rows of logs and steps, and their bytes. The row that exceeds
// DeleteBytes is still removed.
const (
	DeleteRows  = 5000
	DeleteBytes = 8 << 20
)

// Maintenance removes finished tasks, unused contexts and old records, and reports the
// condition of the store.
//
// One transaction removes a task: after it, no read finds anything of the task, and its
// id can be used again. PurgeDeleted removes content in excess of DeleteRows and
// DeleteBytes later. If a task has more than DeleteRows attempts and dead letters, the
// store removes them in earlier transactions. A deletion that is interrupted there has
// removed only records that ExpireWebhooks may remove from an existing task.
type Maintenance interface {
	// DeleteTask removes a task with everything that belongs to it (log, steps, feedback,
	// idempotency records, webhooks with their lanes, attempts and dead letters). Workers
	// lose their leases of its lanes. Errors, in order of precedence: ErrNotFound; ErrBusy
	// while the task's state is not terminal, or it is queued or leased; ErrUndelivered
	// while one of its lanes is pending, unless force is set. more reports that
	// PurgeDeleted has work to do.
	DeleteTask(ctx context.Context, key Key, force bool) (more bool, err error)
	// ExpireTasks removes tasks that have been in p.State since before p.Before, under the
	// conditions of DeleteTask without force. It checks up to p.Limit tasks: owner by
	// owner, the oldest task of an owner first. It skips tasks that are locked by other
	// transactions. removed is the number of removed tasks. next, if not nil, is the
	// position at which to continue.
	ExpireTasks(ctx context.Context, p TaskExpiry) (removed int, next *ExpiryCursor, err error)
	// ExpireContexts removes contexts, with their idempotency records, that have no tasks,
	// were last updated before p.Before and are not the parent of a context. It checks up
	// to p.Limit contexts, the oldest first. It skips contexts that are locked by other
	// transactions. removed is the number of removed contexts. next, if not nil, is the
	// position at which to continue.
	ExpireContexts(ctx context.Context, p ContextExpiry) (removed int, next *ExpiryCursor, err error)
	// PurgeDeleted removes content of removed tasks, up to DeleteRows and DeleteBytes. If
	// none is left, it may return a limited amount of free space to the file system. more
	// reports whether work remains.
	PurgeDeleted(ctx context.Context) (more bool, err error)
	// Removals returns up to limit removals after a position, by owner, task and time of
	// creation. The transaction that removes a task, alone or with its context, adds its
	// removal.
	Removals(ctx context.Context, after Removal, limit int) ([]Removal, error)
	// ForgetRemovals removes the removals of tasks that left nothing in other stores.
	ForgetRemovals(ctx context.Context, removals []Removal) error

	// ExpireIdempotency removes up to limit records that were created before the given
	// time and returns the number removed.
	ExpireIdempotency(ctx context.Context, before time.Time, limit int) (int, error)
	// ExpireRecords removes up to limit records (see [Records]) that expired before the given
	// time and returns the number removed. It may skip records that are locked by other
	// transactions.
	ExpireRecords(ctx context.Context, before time.Time, limit int) (int, error)
	// Backlog returns the number of queued and of leased tasks. Its cost is at most
	// proportional to these numbers.
	Backlog(ctx context.Context) (Backlog, error)
	// Ping returns an error if the store cannot read and durably write now.
	Ping(ctx context.Context) error
	// Info describes the backend. The result is constant while the store is open.
	Info() Info
}

// Removal is a task that was removed. Its data in stores of another kind, such as its blobs, may
// remain. The removal is kept until ForgetRemovals removes it, so that a process that dies in
// between leaves nothing behind.
type Removal struct {
	Key Key
	// CreatedAt distinguishes the task from others that had the same id.
	CreatedAt time.Time
	ContextID string
}

// TaskExpiry selects tasks that ExpireTasks removes.
type TaskExpiry struct {
	// State is a terminal state.
	State a2a.TaskState
	// Before is the exclusive upper bound of the status time.
	Before time.Time
	// After continues after a position; nil starts from the beginning.
	After *ExpiryCursor
	// Limit is the maximum number of tasks to check, at least 1.
	Limit int
}

// ContextExpiry selects contexts that ExpireContexts removes.
type ContextExpiry struct {
	// Saved selects contexts that SaveContext created or changed. Otherwise ExpireContexts
	// selects contexts that were created with a task and never changed by SaveContext.
	Saved bool
	// Before is the exclusive upper bound of Context.UpdatedAt.
	Before time.Time
	// After continues after a position; nil starts from the beginning.
	After *ExpiryCursor
	// Limit is the maximum number of contexts to check, at least 1.
	Limit int
}

// ExpiryCursor is a position in the order of ExpireTasks or ExpireContexts.
type ExpiryCursor struct {
	Owner string
	At    time.Time
	ID    string
}
