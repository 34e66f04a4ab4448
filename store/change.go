package store

import (
	"errors"
	"fmt"
	"time"
)

// Change is everything that one operation does to one task. Exactly one of Create,
// Version and Lease states the expected state of the task; no change can skip this check.
//
// The store rejects a change for the first of these reasons that applies:
//  1. its idempotency key exists (ErrDuplicate)
//  2. the task is not in the expected state (ErrNotFound, ErrExists, ErrConflict, ErrLeaseLost)
//  3. the task has an unread message (ErrUnread)
//  4. its context accepts no new tasks (ErrContextClosed)
//  5. a record does not have the expected version (ErrRecordConflict)
//  6. an effect fails (EffectError)
//
// So a caller that lost the response to a change can send it again and receives its own
// idempotency record. A rejected change has no effect.
type Change struct {
	Key Key

	// Create: the task must not exist. Its context must be active; the store creates it
	// if it does not exist.
	Create *Create
	// Version: the task's Seq must be equal.
	Version int64
	// Lease: the worker must hold this lease. After its deadline, a lease counts as held until
	// another worker claims the task or a change revokes the lease.
	Lease *HeldLease

	// Seen, if positive, rejects the change with ErrUnread if the newest message of the
	// client has a greater sequence.
	Seen int64

	// Events are appended to the log. A change with Create has at least one.
	Events []Event
	// Queue replaces the task's queue entry; nil leaves it unchanged. A change with Create
	// sets its Lease.Fence to FirstFence, or to FirstFence + 1 if the entry is leased.
	Queue *QueueEntry
	// Steps are added to the turns that they name. A step replaces an existing one with
	// the same turn and name, at the same position.
	Steps []Step
	// Idempotency is written with the change. If its key exists, the store rejects the
	// change with ErrDuplicate.
	Idempotency *IdempotencyRecord
	// Records are changed with the task. They belong to its owner, or to [System].
	Records []RecordChange
	// Webhooks are registered for the task. They receive the events of the change.
	Webhooks []NewWebhook
	// Effects are applied with the change, in their order.
	Effects []Effect

	// Snapshot, if set, is the task after this change as the caller computed it, but with
	// LogSize as it was before the change. It is correct only if the task's version before the
	// change is Snapshot.Seq - len(Events). A store may save a correct snapshot to speed
	// up reads, and must ignore an incorrect one.
	Snapshot *Task
}

// Create holds the initial properties of a task.
type Create struct {
	ContextID string
}

// ContextID returns the context of the task that the change creates, or "" if it creates
// none.
func (c *Change) ContextID() string {
	if c.Create == nil {
		return ""
	}
	return c.Create.ContextID
}

// HeldLease names a lease that a worker believes it holds.
type HeldLease struct {
	Key    Key
	Worker string
	Fence  int64
}

// Step is the recorded result of a durable step.
type Step struct {
	Turn   int
	Name   string
	Result []byte
	// Artifacts records the changes of the step to artifacts. It is opaque to the store
	// and nil if the step changed none. A store may return nil for an empty one.
	Artifacts []byte
}

// IdempotencyRecord identifies the result of a request: a task at a version.
type IdempotencyRecord struct {
	Owner string
	Key   string
	// Hash identifies the request that used the key. It is zero if the key alone
	// identifies the request.
	Hash [32]byte
	// TaskID is the id of the changed task, or of the changed context. Seq is its version
	// after the change; the store sets it at commit.
	TaskID    string
	Seq       int64
	CreatedAt time.Time
}

// HashBytes returns Hash, or an empty slice if it is zero. Stores use it to save space.
func (r *IdempotencyRecord) HashBytes() []byte {
	if r.Hash == [32]byte{} {
		return []byte{}
	}
	return r.Hash[:]
}

// Result is the outcome of a change.
type Result struct {
	// Err is nil if the change was applied, else one of ErrNotFound, ErrExists,
	// ErrConflict, ErrLeaseLost, ErrUnread, ErrContextClosed, ErrRecordConflict,
	// ErrDuplicate, or an *EffectError.
	Err error
	// Seq is the task's version after the change if Err is nil, else 0.
	Seq int64
	// LogSize is the task's LogSize after the change. It is set if the change had a
	// correct Snapshot and the store counts the size.
	LogSize int64
	// Record is the existing idempotency record if Err is ErrDuplicate, else nil.
	Record *IdempotencyRecord
}

// Check returns an error if the change is malformed, so that no store can apply it.
// Commit checks all changes first. If one is malformed, it returns the error and applies
// none of them.
func (c *Change) Check() error {
	guards := 0
	for _, set := range []bool{c.Create != nil, c.Version > 0, c.Lease != nil} {
		if set {
			guards++
		}
	}
	switch {
	case c.Key.Owner == "" || c.Key.ID == "":
		return errors.New("change has no owner or no task id")
	case guards != 1:
		return fmt.Errorf("change of task %s sets %d of Create, Version and Lease, want exactly one", c.Key.ID, guards)
	case c.Create != nil && (len(c.Events) == 0 || c.Queue == nil || c.Create.ContextID == ""):
		return fmt.Errorf("change creates task %s without an event, a queue entry or a context", c.Key.ID)
	}
	if len(c.Records) > 0 {
		return CheckRecords(c.Key.Owner, c.Records)
	}
	return nil
}

// ClaimParams are the arguments of Store.Claim.
//
// A queued task is due from its DueAt or, without one, at once; for the order it is then due
// from its creation. A leased task is due when its lease ends. A queued task that a claim
// has found due stays due, even if the clock is set back. Claim visits owners round-robin
// and claims one task per visit, until it has claimed Limit tasks or none is due. It
// returns the tasks in that order. Owners, contexts and ids compare by their bytes.
//
// Of one owner's tasks, Claim selects:
//  1. tasks with an expired lease, the longest due first
//  2. queued tasks, round-robin across the contexts that have due ones, one task per
//     visit, the longest due of a context first
//
// Tasks that are due at the same time are in ascending order of their ids. If the caller
// passes the position at which its last claim stopped, an owner or a context with many
// tasks does not delay others. See [FairnessCursor].
type ClaimParams struct {
	// Worker receives the leases. Claim ignores tasks that are leased to it already.
	Worker string
	// Now determines which tasks are due and which leases have ended.
	Now time.Time
	// Until is the deadline of the new leases.
	Until time.Time
	// Limit is the maximum number of tasks to claim.
	Limit int
	// Takeover treats every lease of another worker as ended.
	Takeover bool
	// QueuedOnly ignores leased tasks, even if their leases have ended. After an outage of
	// the store, the leases of live workers have ended too.
	QueuedOnly bool
	// OutlineAbove, if positive, is the size above which a task is returned as an outline:
	// those with more Bytes have no History, Artifacts, Status.Message and Metadata.
	OutlineAbove int64
	// Horizon, if positive, treats a task that is due later than Now+Horizon as due. No
	// delay and no lease is that long, so a clock has been set back.
	Horizon time.Duration
	// AfterOwner is the owner at which the last claim stopped. Claim visits owners in
	// ascending order, starting with the first one greater than AfterOwner, and wraps
	// around.
	AfterOwner string
	// AfterContexts maps owners to the context at which the last claim stopped. Claim
	// visits the owner's contexts in ascending order, starting with the first one greater
	// than the entry, and wraps around. Without an entry it starts with the first context.
	AfterContexts map[string]string
	// Skip lists owners. None of their tasks are claimed.
	Skip []string
	// OldestFirst ignores contexts: of an owner's queued tasks, the longest due is claimed
	// first. Workers set it from time to time because a rotation over the contexts may not
	// end while contexts are added.
	OldestFirst bool
	// Event is appended to each claimed task. Its State must be set. If the task's last
	// event has a later Time, the appended event gets that time. This happens when the
	// task changed after the claim started, or when a clock was set back. Claim increments
	// Queue.Attempt and the lease's fence and keeps Turn, SeenSeq and StartSeq.
	Event Event
}
