package blob

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Reasons why a store rejects a call. Use errors.Is.
var (
	// ErrNotFound: the owner has no such blob, or it has expired.
	ErrNotFound error = a2a.Errorf(a2a.CodeNotFound, "blob: not found")
	// ErrSize: the content is shorter or longer than PutParams.Size.
	ErrSize error = a2a.Errorf(a2a.CodeInvalid, "blob: size: content has another size than announced")
	// ErrDigest: the content has another digest than PutParams.Digest.
	ErrDigest error = a2a.Errorf(a2a.CodeInvalid, "blob: digest: content has another SHA-256 than announced")
	// ErrTooLarge: the content exceeds Config.MaxSize.
	ErrTooLarge error = a2a.Errorf(a2a.CodeTooLarge, "blob: size: content exceeds the maximum size")
	// ErrTooSlow: the upload took longer than Config.Grace.
	ErrTooSlow error = a2a.Errorf(a2a.CodeUnavailable, "blob: content: upload took longer than the grace period")
	// ErrConflict: a blob with the idempotency key has another digest.
	ErrConflict error = a2a.Errorf(a2a.CodeConflict, "blob: idempotency key: used with other content")
	// ErrRange: the offset is negative or after the end of the content.
	ErrRange error = a2a.Errorf(a2a.CodeInvalid, "blob: offset: outside of the content")
	// ErrCorrupt: the stored content is missing, incomplete or changed.
	ErrCorrupt error = a2a.Errorf(a2a.CodeInternal, "blob: content: damaged or missing")
	// ErrHolders: the blob has MaxHolders holders.
	ErrHolders error = a2a.Errorf(a2a.CodeExhausted, "blob: holder: limit of %d holders exceeded", MaxHolders)
)

// QuotaError reports that a blob would exceed a quota of its owner. Its code is
// a2a.CodeExhausted.
type QuotaError struct {
	// Resource is "blobs" or "bytes".
	Resource string
	// Limit is the quota, Used the usage without the blob, Wanted the amount of the blob.
	Limit, Used, Wanted int64
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("blob: quota: limit of %d %s exceeded (%d used, %d more wanted)", e.Limit, e.Resource, e.Used, e.Wanted)
}

// Unchanged implements contract.Unchanged.
func (*QuotaError) Unchanged() {}

func (e *QuotaError) Unwrap() error { return errQuota }

var errQuota error = a2a.Errorf(a2a.CodeExhausted, "blob: quota exceeded")
