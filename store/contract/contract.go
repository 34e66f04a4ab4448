package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// Kind describes a contract. It is never changed. Kinds without Part and Scan have no stores: their
// data are records of the store of tasks.
type Kind struct {
	// Name is the plural noun for its data, such as facts. It is unique.
	Name string
	// Retention is the kind of its data in the server's retention, which may be another contract's too. ""
	// means that its data have none.
	Retention string
	// Counts are the names of what a report about its data counts, such as facts and factVersions,
	// in the order for people. They are unique among all kinds.
	Counts []string
	// Setting is the name of the setting that selects another store than the store of tasks, such as store-memory. "" if
	// there is no such setting.
	Setting string
	// Part returns the part of a store of tasks that stores its data, nil if it has none.
	Part func(tasks any, p PartParams) Store
	// Lasting are errors that handlers test for. A call that has failed with one of them is not
	// repeated, and a later attempt gets the same error.
	Lasting []error
	// SessionRecords returns the changes that remove the data of a context, if they are records of the
	// store of tasks. nil means that they never are.
	SessionRecords func(ctx context.Context, r store.RecordUpdater, s Session, now func() time.Time) ([]store.RecordChange, error)
	// Lines are the types of its lines in an export, in the order of an error that lists them.
	Lines []LineType
	// Scan returns a scanner for its lines in the document of an owner.
	Scan func(owner string) Scanner
	// Records is set if its data are records of the store of tasks, unless the server has another
	// store for them.
	Records *RecordForm
	// LeftByTasks is set if a removed task can leave data. The stores are then Removers.
	LeftByTasks bool
	// Later is a note about what a server removes some time after Forget has removed items. It may
	// be "".
	Later string
}

// PartParams are the params of a part of a store of tasks.
type PartParams struct {
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Embedder computes embeddings. nil means none.
	Embedder Embedder
	// Age returns for how long data of a kind of the server's retention are stored, 0 without limit.
	// nil means without limit.
	Age func(kind string) time.Duration
}

// Embedder computes embeddings. Methods are safe for concurrent use.
type Embedder interface {
	// Name identifies the model. Embeddings of different names are not compared.
	Name() string
	// Embed returns an embedding for each text, all of the same dimension.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Store is a store of the data of a contract. It wraps the store that the contract's own package
// describes, and returns it from a method Unwrap() any for [In] and [ForTurn].
type Store interface {
	// Kind returns the store's contract.
	Kind() *Kind
	// Forget removes all data of an owner and reports the numbers of removed items to removed, also
	// before an error. It returns Unlisted if the store cannot find the data.
	Forget(ctx context.Context, owner string, removed func(count string, n int64)) error
	// Export passes all data of an owner to line, as lines of the types of the contract. It returns
	// the errors of line, and Unlisted if the store cannot find the data. Servers may use the store
	// at the same time.
	Export(ctx context.Context, owner string, line func(typ string, v any) error) error
	// Import returns an importer for one document. It returns an error with code unsupported if the
	// store cannot take the data.
	Import(p *ImportParams) (Importer, error)
}

// Unlisted is the error of a store that cannot find all data of an owner. It is a sentence
// without a subject, such as "their store does not list them".
type Unlisted string

func (u Unlisted) Error() string { return string(u) }

// Counts are numbers of items by name, such as facts. It has no zeros. nil is empty.
type Counts map[string]int64

// Add adds n items.
func (c *Counts) Add(name string, n int64) {
	if n == 0 {
		return
	}
	if *c == nil {
		*c = make(Counts)
	}
	(*c)[name] += n
}

// AddAll adds all numbers of d.
func (c *Counts) AddAll(d Counts) {
	for name, n := range d {
		c.Add(name, n)
	}
}

// MarshalJSON returns an object, also for nil.
func (c Counts) MarshalJSON() ([]byte, error) {
	if c == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]int64(c))
}

// Total returns the number of all items.
func (c Counts) Total() (n int64) {
	for _, one := range c {
		n += one
	}
	return n
}

// SweepBatch is the number of items that one batch of a sweep removes.
const SweepBatch = 200

// Sweep removes one kind of data from a store some time after it has expired, or completes it. A
// server calls it in a loop of its own.
type Sweep struct {
	// Kind names the data for logs and health. It is unique.
	Kind string
	// Batch is called by one goroutine. It removes about SweepBatch items of all owners, returns their number, and reports whether
	// the next batch is due at once.
	Batch func(ctx context.Context, now time.Time) (n int, more bool, err error)
}

// Sweeper is a [Store] with expired or incomplete data.
type Sweeper interface {
	Sweeps() []Sweep
}

// Expire returns the sweep of data that a store removes by calls of expire, which returns the
// number of removed items.
func Expire(kind string, expire func(ctx context.Context, now time.Time, limit int) (int, error)) Sweep {
	return Sweep{Kind: kind, Batch: func(ctx context.Context, now time.Time) (int, bool, error) {
		n, err := expire(ctx, now, SweepBatch)
		return n, n == SweepBatch, err
	}}
}

// MaxAgent is the maximum length of the name of an agent in bytes.
const MaxAgent = 128

// Session is a context of an owner, for the data that an agent keeps in it. Agent has 1 to MaxAgent
// bytes of UTF-8 without NUL.
type Session struct {
	Owner, Agent string
	ID           string // of the context
}

// Clearer is a [Store] with data of contexts.
type Clearer interface {
	// ClearSession removes the data of a context that is being deleted.
	ClearSession(ctx context.Context, s Session) error
}

// Removal is a removed task.
type Removal struct {
	Session
	TaskID string
	// Fence is above the fences of the removed task, and not above the fences of tasks that are
	// created after the call.
	Fence int64
	// Moved reports that a task with the same owner and id exists in another context. It has what
	// the removed task had, except data of the context.
	Moved bool
	// Task returns the task that has been created with the same owner and id meanwhile, or
	// store.ErrNotFound.
	Task func(ctx context.Context) (*store.Task, error)
}

// Remover is a [Store] in which removed tasks leave data.
type Remover interface {
	// RemoveTask removes what a removed task has left. It may be repeated.
	RemoveTask(ctx context.Context, r *Removal) error
}

// Equal reports whether two lines have the same encoding.
func Equal(a, b any) bool {
	x, errX := wire.Marshal(a)
	y, errY := wire.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
