package store

import (
	"errors"
	"fmt"
	"time"
)

// Change is everything one step does to one task. Exactly one of Create,
// Version and Lease says what it saw; there is no way to say "don't care".
//
// A change is refused for the first of these that holds: its idempotency key is
// taken (ErrDuplicate), what it saw is not so (ErrNotFound, ErrExists,
// ErrConflict, ErrLeaseLost), a message is unread (ErrUnread), its context takes
// no new tasks (ErrContextClosed). So a change whose
// answer was lost may be sent again and finds its own record. A refused change
// leaves nothing behind.
type Change struct {
	Key Key

	// Create: the task must not exist. Its context is created too if need be, else
	// it must be active.
	Create *Create
	// Version: the task's Seq must be this.
	Version int64
	// Lease: this lease must be held. Its deadline may have passed, as long as
	// nobody else has claimed the task or taken the lease away.
	Lease *HeldLease

	// Seen, when above 0, refuses the change with ErrUnread if the newest message
	// of the client came after this sequence.
	Seen int64

	// Events are appended to the log. A change that creates has at least one.
	Events []Event
	// Run replaces the task's place in the work queue; nil leaves it. A change that
	// creates sets its Lease.Fence to FirstFence, or to one more if it is leased.
	Run *Run
	// Steps are added to the turn they name; a step that is there is replaced and
	// keeps its place.
	Steps []Step
	// Idempotency is written with the change, or refuses it with ErrDuplicate.
	Idempotency *IdempotencyRecord
	// Push are webhooks of the task. They are told of the change's events.
	Push []NewPush

	// Snapshot, if set, is the task after this change, as folded by the caller,
	// whose Seq is right only if the task's version before was Snapshot.Seq less
	// the number of Events. A store may keep it to answer reads faster when it is
	// right, and must ignore it when it is not. Its LogSize is that before the change.
	Snapshot *Task
}

// Create is what a new task is born with.
type Create struct {
	ContextID string
}

// ContextID returns the context of the task that the change creates, "" if it creates none.
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
	// Artifacts records what the step did to artifacts, opaque to the store. It is nil
	// if the step did nothing to them; a store may return nil for an empty one.
	Artifacts []byte
}

// IdempotencyRecord remembers the answer to a request: the task as it stood at
// a sequence.
type IdempotencyRecord struct {
	Owner string
	Key   string
	// Hash identifies the request that took the key; zero if the key does.
	Hash [32]byte
	// TaskID is the task it changed, or the context. Seq is the version that the
	// change left behind; the store fills it in at commit.
	TaskID    string
	Seq       int64
	CreatedAt time.Time
}

// HashBytes returns Hash, or no bytes if it is zero, for stores to save space.
func (r *IdempotencyRecord) HashBytes() []byte {
	if r.Hash == [32]byte{} {
		return []byte{}
	}
	return r.Hash[:]
}

// Result says what became of a change.
type Result struct {
	// Err is nil when the change was applied, else one of ErrNotFound, ErrExists,
	// ErrConflict, ErrLeaseLost, ErrUnread, ErrContextClosed, ErrDuplicate.
	Err error
	// Seq is the task's version after the change. It is set when Err is nil.
	Seq int64
	// LogSize is that of the task after the change, if the change had a Snapshot that was
	// right and the store counts it.
	LogSize int64
	// Record is the record that holds the key when Err is ErrDuplicate.
	Record *IdempotencyRecord
}

// Check reports a change that no store can apply: a mistake of the caller.
// Stores call it before they write anything; Commit returns the error and
// applies no change of the call.
func (c *Change) Check() error {
	guards := 0
	for _, set := range []bool{c.Create != nil, c.Version > 0, c.Lease != nil} {
		if set {
			guards++
		}
	}
	switch {
	case c.Key.Owner == "" || c.Key.ID == "":
		return errors.New("change names no task")
	case guards != 1:
		return fmt.Errorf("change of task %s names %d of Create, Version and Lease, want one", c.Key.ID, guards)
	case c.Create != nil && (len(c.Events) == 0 || c.Run == nil || c.Create.ContextID == ""):
		return fmt.Errorf("change creates task %s without an event, a run or a context", c.Key.ID)
	}
	return nil
}

// ClaimParams are the arguments of Store.Claim.
//
// A queued task is due from its DueAt, a leased one from the end of its lease.
// Owners are visited in turn, one task per visit, round and round until Limit is
// reached or nothing is due; the tasks are returned in that order. Ids, contexts and
// owners compare by their bytes.
//
// Of an owner's tasks those whose lease has ended come first, the longest due before the
// others. Then the contexts that have queued tasks which are due take turns, one task each,
// round and round; within a context the longest due is claimed first. Among those due at
// the same time ids ascend. So neither an owner nor a context holds up another with many
// tasks, if the caller tells where the claim before stopped: see Turns.
//
// A store that has passed 1000 contexts of an owner without one that has something due may
// claim the longest due of the owner instead.
type ClaimParams struct {
	// Worker takes the leases. A task leased to it is never claimed again by it.
	Worker string
	// Now decides what is due and which leases have ended.
	Now time.Time
	// Until is the new leases' deadline.
	Until time.Time
	// Limit is the most tasks to claim.
	Limit int
	// Takeover treats every lease of another worker as ended.
	Takeover bool
	// QueuedOnly claims queued tasks only, whatever leases have ended. After an outage of
	// the store the leases of live workers have ended too.
	QueuedOnly bool
	// Whole, if positive, has tasks with more Bytes returned without History, Artifacts,
	// Status.Message and Metadata: as outlines, marked so.
	Whole int64
	// Horizon, if positive, treats a task that is due later than Now+Horizon as
	// due: no delay and no lease is that long, so a clock has been set back.
	Horizon time.Duration
	// AfterOwner is where the last claim stopped: owners are visited in ascending
	// order from the first greater than it, round to it again.
	AfterOwner string
	// AfterContexts is where the last claim of each owner stopped: the owner's contexts are visited
	// in ascending order from the first greater than its entry, round to it again. Owners without
	// one begin with their first context.
	AfterContexts map[string]string
	// Skip are owners that are passed over.
	Skip []string
	// OldestFirst has contexts take no turns: of an owner's queued tasks the longest due
	// are claimed first. Now and then that is needed when so many contexts are
	// added that a round of them does not end.
	OldestFirst bool
	// Event is appended to each claimed task. Its State must be set. Its Time is
	// moved forward to that of the task's last event if that is later: the task may
	// have been changed since the claim was begun, or a clock set back. Run.Attempt
	// and the lease's fence grow by one; Turn, SeenSeq and StartSeq stay.
	Event Event
}
