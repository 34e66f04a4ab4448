package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Reasons for which a change is refused, and reads find nothing.
var (
	// ErrNotFound: there is no such task, context or record of this owner.
	ErrNotFound = errors.New("not found")
	// ErrExists: the task to be created is already there.
	ErrExists = errors.New("already exists")
	// ErrConflict: the task's version is not the one the change saw.
	ErrConflict = errors.New("version conflict")
	// ErrLeaseLost: the lease the change was made under is no longer held.
	ErrLeaseLost = errors.New("lease lost")
	// ErrUnread: a message has arrived that the change had not seen.
	ErrUnread = errors.New("unread message")
	// ErrDuplicate: the idempotency key is taken; Result.Record is its record.
	ErrDuplicate = errors.New("duplicate idempotency key")
	// ErrContextClosed: the context is not active and takes no new tasks.
	ErrContextClosed = errors.New("context takes no new tasks")
	// ErrBusy: the task, or a task of the context, is not over.
	ErrBusy = errors.New("unfinished tasks")
	// ErrUndelivered: webhooks of the task have events to deliver.
	ErrUndelivered = errors.New("undelivered webhook events")
	// ErrParentNotFound: the owner has no context of the parent's id.
	ErrParentNotFound = errors.New("parent context not found")
	// ErrParentCycle: the parent would make the context its own ancestor, over no
	// more than MaxContextDepth others.
	ErrParentCycle = errors.New("context would be its own ancestor")
	// ErrParentDepth: the context would stand below more than MaxContextDepth others.
	ErrParentDepth = errors.New("contexts nested too deep")
	// ErrClosed: the store has been closed. Callers above may ask again, elsewhere.
	ErrClosed error = a2a.Errorf(a2a.CodeUnavailable, "store closed")
)

// RenewError says which leases were neither extended nor lost: others have locked
// their tasks. They last for as long as before.
type RenewError struct{ Keys []Key }

func (e *RenewError) Error() string {
	return fmt.Sprintf("%d tasks are locked, task %s among them: their leases were not extended", len(e.Keys), a2a.Quote(e.Keys[0].ID))
}

func (e *RenewError) Unwrap() error { return errLocked }

var errLocked error = a2a.Errorf(a2a.CodeUnavailable, "tasks are locked")

// ClaimError says which leases Claim took, or may have taken, for tasks that it does not
// return. Nobody runs these tasks while the leases last, so the caller releases them.
type ClaimError struct {
	// Unread are tasks that were leased and could not be read.
	Unread []UnreadTask
	// Lost, if not nil, is why other leases of the worker may exist: the answer of the
	// database was lost. The worker cannot know them; it continues under another name, so
	// that they end in time.
	Lost error
}

// UnreadTask is a leased task whose content could not be read.
type UnreadTask struct {
	Key Key
	// Run is the queue entry as it stands after the claim.
	Run Run
	// Err is why the task could not be read.
	Err error
}

func (e *ClaimError) Error() string {
	if e.Lost != nil {
		return fmt.Sprintf("leases may have been taken that are not known: %v", e.Lost)
	}
	return fmt.Sprintf("%d leased tasks cannot be read, task %s among them: %v", len(e.Unread), a2a.Quote(e.Unread[0].Key.ID), e.Unread[0].Err)
}

func (e *ClaimError) Unwrap() []error {
	errs := make([]error, 0, 1+len(e.Unread))
	if e.Lost != nil {
		errs = append(errs, e.Lost)
	}
	for i := range e.Unread {
		errs = append(errs, e.Unread[i].Err)
	}
	return errs
}

// ErrorOrNil returns e if it has anything to report.
func (e *ClaimError) ErrorOrNil() error {
	if len(e.Unread) == 0 && e.Lost == nil {
		return nil
	}
	return e
}

// Store keeps tasks, their logs, contexts, feedback, webhooks, steps and
// idempotency records.
type Store interface {
	// Commit applies each change whole or not at all and returns one result per
	// change, in order. Changes of one call may be applied in one transaction with
	// each other and with those of concurrent calls; they do not depend on one
	// another's success, and changes of one task are applied in the order given.
	// The error is non-nil only when the backend failed; then no change of the
	// call has been applied.
	//
	// The backend may keep the changes' messages, artifacts and snapshots without
	// copying them: the caller does not modify them afterwards.
	Commit(ctx context.Context, changes ...Change) ([]Result, error)

	// Task returns a task as it stands. ErrNotFound when the owner has none of
	// this id. The zero TaskOptions read all of it.
	Task(ctx context.Context, key Key, opts TaskOptions) (*Task, error)
	// Tasks returns a page of the owner's tasks. Unless the query says otherwise the
	// newest status time comes first, ids descending by their bytes among equal times.
	Tasks(ctx context.Context, q Query) (Page, error)
	// Events returns up to limit events with a sequence greater than after, in
	// order. ErrNotFound when the owner has no such task.
	Events(ctx context.Context, key Key, after int64, limit int) ([]Event, error)
	// LogRows returns the first up to limit rows of a task's log that hold events with a
	// sequence greater than after, without reading their content. ErrNotFound when the
	// owner has no such task.
	LogRows(ctx context.Context, key Key, after int64, limit int) ([]LogRow, error)

	// Versions returns the versions of those of the given tasks that exist, in one query
	// that reads none of their content.
	Versions(ctx context.Context, keys []Key) (map[Key]TaskVersion, error)

	// Claim leases up to p.Limit due tasks to a worker: fair across owners and across the
	// contexts of an owner, the longest due first within a context. See ClaimParams. The returned tasks are
	// as they stand after the claim.
	//
	// Claim may return tasks and an error: the caller runs these tasks. If the error is a
	// *ClaimError, other tasks were leased, or may have been; after any other error
	// leases may have been taken that are not known. Without an error every lease
	// that was taken is one of a returned task.
	Claim(ctx context.Context, p ClaimParams) ([]*Task, error)
	// Renew extends leases that are still held and returns the keys of those that
	// are not. A *RenewError names leases that could not be extended though nobody
	// else has them; what else was asked for was done.
	Renew(ctx context.Context, until time.Time, leases []HeldLease) (lost []Key, err error)

	// Steps returns the steps that have been completed in a turn of a task, in
	// the order of their commits; none when the task does not exist.
	Steps(ctx context.Context, key Key, turn int) ([]Step, error)

	// Idempotency returns the record of a key, or ErrNotFound.
	Idempotency(ctx context.Context, owner, key string) (IdempotencyRecord, error)
	// ExpireIdempotency removes up to limit records made before the given time and
	// returns how many it removed.
	ExpireIdempotency(ctx context.Context, before time.Time, limit int) (int, error)

	// Context returns a context with the ids of its newest tasks, up to so many, or
	// ErrNotFound.
	Context(ctx context.Context, owner, id string, tasks int) (Context, error)
	// Contexts returns a page of the owner's contexts.
	Contexts(ctx context.Context, q ContextQuery) (ContextPage, error)
	// SaveContext creates or replaces the record of a context and returns it as
	// stored, without task ids. Refusals, in this order: ErrDuplicate (the record
	// is to be read with Idempotency), ErrExists or ErrNotFound or ErrConflict,
	// ErrBusy, ErrParentNotFound, ErrParentCycle, ErrParentDepth. A refused change
	// leaves nothing behind.
	SaveContext(ctx context.Context, c ContextChange) (Context, error)
	// DeleteContext removes up to limit of a context's tasks with all that belongs to
	// them (log, steps, feedback, idempotency records, webhooks with their lanes, attempts
	// and dead letters), and once there are none
	// left, the context. It is refused with ErrBusy while a task is queued or
	// leased, and with ErrNotFound. When more is true there is more to remove: the
	// context is found by no read any more, no change of its tasks that brings a
	// client's message and no new task is taken (ErrNotFound, ErrContextClosed), and
	// FinishDelete is to be called until there is no more.
	DeleteContext(ctx context.Context, owner, id string, limit int) (more bool, err error)
	// FinishDelete goes on with a deletion that was begun. ErrNotFound when none is
	// under way, also when there is a context of this id again.
	FinishDelete(ctx context.Context, owner, id string, limit int) (more bool, err error)
	// PendingDeletions returns up to limit contexts whose deletion is pending.
	PendingDeletions(ctx context.Context, limit int) ([]ContextKey, error)

	// AddFeedback adds feedback on a task; ErrNotFound when the owner has no such
	// task, ErrExists when the task has feedback of this id.
	AddFeedback(ctx context.Context, f Feedback) error
	// Feedback returns a page of feedback, newest first, ids descending by their
	// bytes among equal times.
	Feedback(ctx context.Context, q FeedbackQuery) (FeedbackPage, error)
	// FeedbackSummary counts the feedback of an owner, or of all when owner is "".
	FeedbackSummary(ctx context.Context, owner string) (FeedbackSummary, error)

	DeleteStore
	PushStore

	// Backlog returns how many tasks are queued or leased. It costs no more than
	// a look at those.
	Backlog(ctx context.Context) (Backlog, error)
	// Queued returns how many tasks of an owner are queued, counted up to most. It costs no
	// more than a read of most entries of the queue and of all tasks that are not due yet.
	Queued(ctx context.Context, owner string, most int) (int, error)
	// Ping reports whether the store can read and durably write right now.
	Ping(ctx context.Context) error
	// Info describes the backend. It does not change while the store is open.
	Info() Info
	// Close releases the store after the calls under way have ended. Later calls
	// return ErrClosed. Closing twice is harmless.
	Close() error
}

// Info is what a backend is and can do.
type Info struct {
	// Name is "memory", "sqlite", ...
	Name string
	// Location is where the data is, for people: a path or a masked URL; "" when
	// there is nothing to report.
	Location string
	// Durable stores survive the end of the process.
	Durable bool
	// Exclusive stores have one process at a time: whatever another worker has
	// leased belonged to a process that is gone.
	Exclusive bool
}

// Backlog counts tasks that have work to do.
type Backlog struct {
	Queued int
	Leased int
}
