package blob

import (
	"context"
	"io"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// Maintenance removes what nobody can reach. Several processes may call it at the same time.
type Maintenance interface {
	// Sweep removes up to limit expired blobs, and up to limit contents that had no blob for the
	// grace period. Call it again while Swept.More is true.
	Sweep(ctx context.Context, now time.Time, limit int) (Swept, error)
	// RemoveOrphans checks up to limit objects that contain contents, after the last one of an earlier
	// call. It removes the objects that belong to no blob because an upload, or the removal of a
	// content, was interrupted.
	RemoveOrphans(ctx context.Context, now time.Time, after Object, limit int) (Orphans, error)
}

// Swept reports what a call of Sweep removed.
type Swept struct {
	Blobs, Contents int
	// More reports that a limit was reached.
	More bool
}

// Orphans reports what a call of RemoveOrphans checked and removed.
type Orphans struct {
	Checked, Removed int
	// Next is the object to continue after, if More is true.
	Next Object
	More bool
}

// Object identifies the bytes of a content. Names are unique over all owners and are never used
// again.
type Object struct{ Owner, Name string }

// Transactional is implemented by stores that can change rows as part of a change of a task; see
// [store.Effect]. The methods return an error if their arguments are invalid, or if the rows do not
// belong to such a store.
type Transactional interface {
	// PinEffect pins a blob like Pin. Applying it fails with [ErrNotFound] or [ErrHolders].
	PinEffect(owner, ref, holder string) (store.Effect, error)
	// UnpinEffect unpins a blob like Unpin, and DeleteEffect removes one like Delete. A blob that does
	// not exist is no error.
	UnpinEffect(owner, ref, holder string) (store.Effect, error)
	DeleteEffect(owner, ref string) (store.Effect, error)
}

// Restorer is implemented by stores into which blobs can be imported.
type Restorer interface {
	// Restore stores a blob with the ref, the times and the holders that it had in another store.
	// If the owner has a blob with the ref, it does not read r, and returns nil for the same
	// content and ErrConflict for another. It returns ErrSize or ErrDigest if r has other content
	// than info describes.
	Restore(ctx context.Context, owner string, info Info, r io.Reader) error
}
