package blobdriver

import (
	"context"
	"io"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
)

// Refs stores the rows of blobs. It is implemented by backends with transactions. It does not
// check or decide anything: arguments are valid, and expired rows are returned like others.
// A row that does not exist is a zero row, not an error.
type Refs interface {
	// Update runs f in a transaction that overlaps no other Update of the owner. If f returns an
	// error, nothing is changed, and Update returns that error. f may run more than once; each
	// run sees no changes of earlier ones.
	Update(ctx context.Context, owner string, f func(tx Tx) error) error
	// Find returns the rows of a ref. With data, Row.Data has the content if it is inline.
	Find(ctx context.Context, owner, ref string, data bool) (Row, error)
	// FindKey returns the ref with an idempotency key.
	FindKey(ctx context.Context, owner, key string) (RefRow, error)
	// List returns up to p.Limit refs after p.After that expire after now or not at all, in the
	// order of the refs.
	List(ctx context.Context, p blob.ListParams, now time.Time) ([]blob.Info, error)
	// Held returns up to limit refs after a ref that a holder has pinned, in the order of the refs.
	Held(ctx context.Context, owner, holder, after string, limit int) ([]string, error)
	// Usage returns the usage of an owner.
	Usage(ctx context.Context, owner string) (blob.Usage, error)
	// Expired returns up to limit refs that expire at now or before, the earliest first.
	Expired(ctx context.Context, now time.Time, limit int) ([]RefKey, error)
	// Unreferenced returns up to limit contents without refs that were freed at a time or
	// before, the earliest first.
	Unreferenced(ctx context.Context, freed time.Time, limit int) ([]ContentKey, error)
	// Known reports for each object whether a content names it.
	Known(ctx context.Context, objects []blob.Object) ([]bool, error)
}

// TransactionalRefs is implemented by Refs that can change rows in the transaction of a change of a
// task; see [store.Effect].
type TransactionalRefs interface {
	// Effect returns an effect that is like Update. f may be called several times. If it returns an
	// error, the change of the task fails with it.
	Effect(owner string, f func(tx Tx) error) store.Effect
}

// Tx reads and changes the rows of one owner. It sees its own changes.
type Tx interface {
	Usage() (blob.Usage, error)
	SetUsage(blob.Usage) error
	Ref(ref string) (RefRow, error)
	RefOfKey(key string) (RefRow, error)
	InsertRef(RefRow) error
	// SetHolders replaces the holders of a ref and the time at which it expires. row is as Ref
	// returned it.
	SetHolders(row *RefRow, holders []string, expires time.Time) error
	// DeleteRef removes a ref. row is as Ref returned it.
	DeleteRef(row *RefRow) error
	Content(d blob.Digest) (ContentRow, error)
	// InsertContent adds a content. data is its bytes if it is inline; Refs keeps them unchanged.
	InsertContent(row ContentRow, data []byte) error
	// SetRefs replaces ContentRow.Refs and Freed.
	SetRefs(d blob.Digest, refs int64, freed time.Time) error
	// DeleteContent removes a content and its inline bytes.
	DeleteContent(row ContentRow) error
}

// RefRow is the row of a ref. Key is its idempotency key.
type RefRow struct {
	blob.Info
	Key string
}

// ContentRow is the row of a content: the bytes of one owner with one digest.
type ContentRow struct {
	Digest blob.Digest
	Size   int64
	// Object names the bytes. Each upload has a name of its own.
	Object string
	// Inline reports that Refs has the bytes. Otherwise Contents has them.
	Inline bool
	// Refs is the number of refs. Freed is the time at which it became 0.
	Refs  int64
	Freed time.Time
}

// Row is a ref with its content.
type Row struct {
	RefRow
	Object string
	Inline bool
	// Data is inline content. It must not be changed.
	Data []byte
}

// RefKey identifies a ref.
type RefKey struct{ Owner, Ref string }

// ContentKey identifies a content.
type ContentKey struct {
	Owner  string
	Digest blob.Digest
}

// Contents stores objects. It is implemented by backends for large values, with constant memory
// per call.
type Contents interface {
	// Create stores what r returns as a new object. It is durable when Create returns nil. size
	// is the number of bytes, -1 if it is unknown. After an error of r, or another error, Create
	// removes what it has written if it can.
	Create(ctx context.Context, o blob.Object, r io.Reader, size int64) error
	// Open returns a reader of length bytes from offset. It returns [blob.ErrCorrupt] if the object does
	// not exist. It may return the error, or an early end of the content, from Read instead.
	Open(ctx context.Context, o blob.Object, offset, length int64) (io.ReadCloser, error)
	// Remove removes an object. It does nothing if the object does not exist.
	Remove(ctx context.Context, o blob.Object) error
	// List returns up to limit objects after an object, in any stable order, including incomplete
	// ones. It leaves Owner empty if Remove does not need it.
	List(ctx context.Context, after blob.Object, limit int) ([]blob.Object, error)
}
