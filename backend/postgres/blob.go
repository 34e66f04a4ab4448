package postgres

import (
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
)

// blobInline is the size in bytes up to which the content of a blob is written in the
// transaction of its ref.
const blobInline = 128 << 10

// Blobs returns the blobs of the store. Their contents are rows of about 1 MiB, so reads and
// writes need constant memory.
func (s *Store) Blobs(cfg blob.Config) *blobdriver.Blobs {
	if cfg.Inline == 0 {
		cfg.Inline = blobInline
	}
	return blobdriver.New(cfg, s.BlobRefs(), blobsql.Chunks(&kit{s.database}))
}

// BlobRefs returns the rows of blobs, for a blob.Store with other contents.
func (s *Store) BlobRefs() blobdriver.Refs { return blobsql.Refs(&kit{s.database}) }
