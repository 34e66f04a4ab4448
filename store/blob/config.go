package blob

import "time"

// Config configures a store of blobs.
type Config struct {
	// TTL is the TTL of blobs without one of their own. Default 24 h.
	TTL time.Duration
	// MaxSize is the maximum size of a blob in bytes. Default 5 GiB.
	MaxSize int64
	// OwnerBytes and OwnerBlobs are the quotas of each owner: the sum of the sizes of its blobs and
	// their number. 0 means no quota.
	OwnerBytes, OwnerBlobs int64
	// Grace is the time for which a content is kept after its last blob was removed, for readers
	// that have opened it. It is also the maximum time of an upload. An orphan is removed after
	// twice this time. Default 1 h.
	Grace time.Duration
	// Inline is the size in bytes up to which a content is stored beside the rows. 0 means the default of
	// the backend. A negative value means none.
	Inline int64
	// Now is the clock. Default time.Now. Processes that share a store need clocks that differ by
	// less than Grace.
	Now func() time.Time
}
