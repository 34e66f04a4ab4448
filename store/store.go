package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Reasons why a store rejects a change or finds nothing to read.
var (
	// ErrNotFound: the owner has no such task, context or record.
	ErrNotFound error = a2a.Errorf(a2a.CodeNotFound, "not found")
	// ErrExists: the task or context to create exists already.
	ErrExists = errors.New("already exists")
	// ErrConflict: the version differs from the one that the change expects.
	ErrConflict = errors.New("version conflict")
	// ErrLeaseLost: the worker no longer holds the lease that the change names.
	ErrLeaseLost = errors.New("lease lost")
	// ErrUnread: the task has a newer message of the client than Change.Seen.
	ErrUnread = errors.New("unread message")
	// ErrDuplicate: the idempotency key exists already; Result.Record is its record.
	ErrDuplicate = errors.New("duplicate idempotency key")
	// ErrContextClosed: the context is not active and accepts no new tasks.
	ErrContextClosed = errors.New("context accepts no new tasks")
	// ErrRecordConflict: the version of a record differs from the one that the change
	// expects.
	ErrRecordConflict = errors.New("record version conflict")
	// ErrBusy: the task, or a task of the context, is not in a terminal state, or is
	// queued or leased.
	ErrBusy = errors.New("unfinished tasks")
	// ErrUndelivered: webhooks of the task have events to deliver.
	ErrUndelivered = errors.New("undelivered webhook events")
	// ErrParentNotFound: the owner has no context with the id of the parent.
	ErrParentNotFound = errors.New("parent context not found")
	// ErrParentCycle: the context would be its own ancestor. Stores check up to
	// MaxContextDepth ancestors.
	ErrParentCycle = errors.New("context would be its own ancestor")
	// ErrParentDepth: the context would have more than MaxContextDepth ancestors.
	ErrParentDepth = errors.New("contexts nested too deep")
	// ErrClosed: the store has been closed. A caller may retry on another replica.
	ErrClosed error = a2a.Errorf(a2a.CodeUnavailable, "store closed")
)

// RenewError lists the tasks with leases that Renew could not extend, because another
// transaction holds a lock on the tasks. The leases are valid until their previous deadline.
type RenewError struct{ Keys []Key }

func (e *RenewError) Error() string {
	return fmt.Sprintf("leases of %d tasks were not extended: the tasks are locked (first: task %s)", len(e.Keys), a2a.Quote(e.Keys[0].ID))
}

func (e *RenewError) Unwrap() error { return errLocked }

var errLocked error = a2a.Errorf(a2a.CodeUnavailable, "tasks are locked")

// ClaimError reports tasks that Claim leased, or may have leased, without returning them.
// No worker executes these tasks until the leases end, so the caller releases them.
type ClaimError struct {
	// Unreadable are tasks that were leased and could not be read.
	Unreadable []UnreadableTask
	// Indeterminate, if not nil, is the error that hid the outcome of the claim: the response of
	// the database was lost, so the worker may have more leases than it knows of. The
	// worker continues under another name, so that these leases end in time.
	Indeterminate error
}

// UnreadableTask is a leased task with content that could not be read.
type UnreadableTask struct {
	Key Key
	// Queue is the queue entry after the claim.
	Queue QueueEntry
	// Err is the error of the read.
	Err error
}

func (e *ClaimError) Error() string {
	if e.Indeterminate != nil {
		return fmt.Sprintf("outcome of the claim is unknown, tasks may have been leased: %v", e.Indeterminate)
	}
	return fmt.Sprintf("%d leased tasks cannot be read (first: task %s): %v", len(e.Unreadable), a2a.Quote(e.Unreadable[0].Key.ID), e.Unreadable[0].Err)
}

func (e *ClaimError) Unwrap() []error {
	errs := make([]error, 0, 1+len(e.Unreadable))
	if e.Indeterminate != nil {
		errs = append(errs, e.Indeterminate)
	}
	for i := range e.Unreadable {
		errs = append(errs, e.Unreadable[i].Err)
	}
	return errs
}

// ErrorOrNil returns e, or nil if both of its fields are empty.
func (e *ClaimError) ErrorOrNil() error {
	if len(e.Unreadable) == 0 && e.Indeterminate == nil {
		return nil
	}
	return e
}

// Store is the contract of a backend. A consumer declares the parts that it uses as an
// interface of its own, so that its tests and wrappers need no more.
type Store interface {
	Tasks
	Contexts
	Feedbacks
	Records
	Webhooks
	Lanes
	Maintenance
	// Close waits for the calls in progress and releases the store. Later calls return
	// ErrClosed. Closing again has no effect.
	Close() error
}

// Tasks stores tasks with their logs, steps, queue entries and idempotency records.
type Tasks interface {
	// Commit applies each change completely or not at all, and returns one result per change,
	// in order. It applies the changes of one task in the order given. Changes do not depend
	// on each other's success, but the store may apply the changes of one call and of
	// concurrent calls in one transaction. The error is non-nil only when the backend failed;
	// no change of the call has been applied then.
	//
	// The store may retain messages, artifacts and snapshots of the changes without
	// copying them. The caller must not modify them afterwards.
	Commit(ctx context.Context, changes ...Change) ([]Result, error)
	// Task returns the current state of a task, or ErrNotFound. The zero TaskOptions
	// read all of it.
	Task(ctx context.Context, key Key, opts TaskOptions) (*Task, error)
	// Tasks returns a page of the owner's tasks. The default order is by status time,
	// newest first, and for equal times by id, descending by bytes.
	Tasks(ctx context.Context, q Query) (Page, error)
	// Events returns up to limit events with a sequence greater than after, in order,
	// or ErrNotFound if the owner has no such task.
	Events(ctx context.Context, key Key, after int64, limit int) ([]Event, error)
	// LogRows describes up to limit rows of a task's log: the first ones that contain
	// events with a sequence greater than after. It does not read their content.
	// ErrNotFound: the owner has no such task.
	LogRows(ctx context.Context, key Key, after int64, limit int) ([]LogRow, error)
	// Versions returns the versions of the given tasks that exist, in one query that reads no
	// content.
	Versions(ctx context.Context, keys []Key) (map[Key]TaskVersion, error)
	// Claim leases up to p.Limit due tasks to a worker and returns them as they are after
	// the claim. It is fair across owners and across the contexts of an owner. Within a
	// context, the task that has been due longest is first. See ClaimParams.
	//
	// Claim may return tasks and an error; the caller executes the returned tasks. A
	// *ClaimError reports which other tasks were leased, or may have been. After any
	// other error the worker may have leases that it does not know of. Without an error,
	// it has exactly the leases of the returned tasks.
	Claim(ctx context.Context, p ClaimParams) ([]*Task, error)
	// Renew extends leases that the worker still holds and returns the keys of the
	// others. A *RenewError lists leases that the worker holds and that could not be
	// extended; Renew has processed the rest of the leases then.
	Renew(ctx context.Context, until time.Time, leases []HeldLease) (lost []Key, err error)
	// Steps returns the completed steps of a turn in the order of their commits, or none
	// if the task does not exist.
	Steps(ctx context.Context, key Key, turn int) ([]Step, error)
	// Idempotency returns the record of a key, or ErrNotFound.
	Idempotency(ctx context.Context, owner, key string) (IdempotencyRecord, error)
	// Queued returns the number of queued tasks of an owner, up to limit. It reads at most
	// that many queue entries, and all tasks that are not due yet.
	Queued(ctx context.Context, owner string, limit int) (int, error)
}

// Contexts stores contexts and removes them with their tasks.
type Contexts interface {
	// Context returns a context with the ids of up to the given number of its newest
	// tasks, or ErrNotFound.
	Context(ctx context.Context, owner, id string, tasks int) (Context, error)
	// Contexts returns a page of the owner's contexts.
	Contexts(ctx context.Context, q ContextQuery) (ContextPage, error)
	// SaveContext creates a context, or replaces its fields, and returns it as stored,
	// without task ids. A rejected change has no effect. Errors, in order of precedence:
	// ErrDuplicate (Idempotency returns the record); ErrExists, ErrNotFound or
	// ErrConflict; ErrBusy; ErrParentNotFound; ErrParentCycle; ErrParentDepth.
	SaveContext(ctx context.Context, c ContextChange) (Context, error)
	// DeleteContext removes up to limit tasks of a context with everything that belongs
	// to them (log, steps, feedback, idempotency records, webhooks with their lanes,
	// attempts and dead letters), and the context after its last task. It returns
	// ErrNotFound, or ErrBusy while a task is queued or leased.
	//
	// If more is true, the deletion is pending and the caller continues it with
	// FinishDelete until more is false. No read finds a context that is pending
	// deletion. The store rejects messages of clients to its tasks with ErrNotFound and
	// new tasks with ErrContextClosed. With limit 0, more is true even if the context has no
	// tasks, so that the caller can remove what belongs to the context before its id is free.
	DeleteContext(ctx context.Context, owner, id string, limit int) (more bool, err error)
	// FinishDelete continues a pending deletion. ErrNotFound: no deletion of this context
	// is pending, even if a new context with this id exists.
	FinishDelete(ctx context.Context, owner, id string, limit int) (more bool, err error)
	// PendingDeletions returns up to limit contexts with a pending deletion.
	PendingDeletions(ctx context.Context, limit int) ([]ContextKey, error)
}

// Feedbacks stores feedback on tasks.
type Feedbacks interface {
	// AddFeedback adds feedback on a task. ErrNotFound: the owner has no such task.
	// ErrExists: the task has feedback with this id.
	AddFeedback(ctx context.Context, f Feedback) error
	// Feedback returns a page of feedback, newest first, and for equal times by id,
	// descending by bytes.
	Feedback(ctx context.Context, q FeedbackQuery) (FeedbackPage, error)
	// FeedbackSummary counts the feedback of an owner, or of all owners if owner is "".
	FeedbackSummary(ctx context.Context, owner string) (FeedbackSummary, error)
}

// Info describes a backend and its capabilities.
type Info struct {
	// Name is "memory", "sqlite", ...
	Name string
	// Location is where the data is, for people: a path or a URL without secrets. It may
	// be empty.
	Location string
	// Durable reports that the data survives the end of the process.
	Durable bool
	// Exclusive reports that only one process can open the store. Leases of other workers
	// are then stale and can be claimed immediately.
	Exclusive bool
}

// Backlog counts tasks that have work to do.
type Backlog struct {
	Queued int
	Leased int
}
