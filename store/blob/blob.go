package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"time"
)

// Store stores blobs of owners. Errors of invalid arguments have the code a2a.CodeInvalid and
// name the argument.
type Store interface {
	// Put stores all that r returns until io.EOF. It returns [ErrSize], [ErrDigest], [ErrTooLarge],
	// [ErrConflict], [ErrTooSlow], a [*QuotaError], or the error of r; it has then stored nothing.
	Put(ctx context.Context, r io.Reader, p PutParams) (Info, error)
	// Open returns the content of a blob. The caller closes it. A reader of damaged content fails
	// with [ErrCorrupt] instead of ending early.
	Open(ctx context.Context, owner, ref string) (io.ReadCloser, Info, error)
	// OpenRange returns length bytes from offset, fewer if the content ends before. A negative
	// length means all bytes from offset. It returns [ErrRange] if offset is negative or after
	// the end.
	OpenRange(ctx context.Context, owner, ref string, offset, length int64) (io.ReadCloser, Info, error)
	// Stat returns the description of a blob.
	Stat(ctx context.Context, owner, ref string) (Info, error)
	// Delete removes a blob, even a pinned one. Its content is removed later.
	Delete(ctx context.Context, owner, ref string) error
	// Touch ensures that a blob does not expire within ttl from now. 0 means the TTL of the blob.
	// It never shortens the life of a blob.
	Touch(ctx context.Context, owner, ref string, ttl time.Duration) (Info, error)
	// Pin keeps a blob until the holder unpins it. Pinning it again changes nothing.
	Pin(ctx context.Context, owner, ref, holder string) error
	// Unpin removes the pin of a holder. When the last one is removed, the blob expires after its
	// TTL. Unpinning it again changes nothing.
	Unpin(ctx context.Context, owner, ref, holder string) error
	// UnpinAll unpins all blobs of an owner that a holder pinned before the call. Its cost depends
	// on their number only. If it fails, some may be unpinned; call it again.
	UnpinAll(ctx context.Context, owner, holder string) error
	// List returns the blobs of an owner, oldest first.
	List(ctx context.Context, p ListParams) (Page, error)
	// Usage returns what an owner stores. Expired blobs count until Sweep has removed them.
	Usage(ctx context.Context, owner string) (Usage, error)
}

// Digest is the SHA-256 of a content. The zero Digest means none.
type Digest [sha256.Size]byte

// String returns the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether d is the zero Digest.
func (d Digest) IsZero() bool { return d == Digest{} }

// Sum returns the digest of data.
func Sum(data []byte) Digest { return sha256.Sum256(data) }

// PutParams describes a new blob.
type PutParams struct {
	// Owner is required.
	Owner string
	// ContentType is a media type. Default application/octet-stream.
	ContentType string
	// Name is for people, such as a file name. It may be empty and need not be unique.
	Name string
	// TTL is the time after which the blob expires. 0 means Config.TTL.
	TTL time.Duration
	// Size is the expected size in bytes, 0 if it is unknown. Put returns ErrSize for another size.
	Size int64
	// Digest is the expected digest. Put returns ErrDigest for another one. Zero means no check.
	Digest Digest
	// IdempotencyKey makes Put repeatable: if the owner has a blob with this key, Put returns it
	// and does not read the content. Empty means none.
	IdempotencyKey string
	// KeyPerContent makes IdempotencyKey identify a content: a Put of other content under the key is
	// another blob. Unless Digest is set, Put reads the content to find out.
	KeyPerContent bool
	// Holder pins the blob from the start. Empty means not pinned.
	Holder string
}

// Info describes a blob. Times have a precision of a millisecond.
type Info struct {
	Ref         string
	Size        int64
	Digest      Digest
	ContentType string
	Name        string
	Created     time.Time
	// Expires is zero while the blob is pinned.
	Expires time.Time
	TTL     time.Duration
	// Holders have pinned the blob, in the order of their pins.
	Holders []string
}

// ListParams selects blobs of an owner.
type ListParams struct {
	Owner string
	// After continues after a ref; "" starts the list.
	After string
	// Limit is the maximum size of the page. 0 means 100; the maximum is MaxPage.
	Limit int
}

// Page is a page of blobs.
type Page struct {
	Blobs []Info
	// More reports that more blobs follow.
	More bool
}

// Usage is the number of blobs of an owner and the sum of their sizes. Blobs with equal content
// count separately.
type Usage struct{ Blobs, Bytes int64 }
