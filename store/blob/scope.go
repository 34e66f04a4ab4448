package blob

import (
	"bytes"
	"context"
	"fmt"
	"io"
)

// DefaultHolder is the holder of the pins of a [Scope].
const DefaultHolder = "default"

// Scope is a Store for one owner, with the shortest form of each call.
type Scope struct {
	Blobs Store
	Owner string
}

// Store stores a copy of data and returns its ref. The blob expires after the default TTL
// unless it is pinned. An empty content type means application/octet-stream.
func (s Scope) Store(ctx context.Context, data []byte, contentType string) (ref string, err error) {
	info, err := s.Blobs.Put(ctx, bytes.NewReader(data), PutParams{Owner: s.Owner, ContentType: contentType, Size: int64(len(data))})
	return info.Ref, err
}

// Resolve returns the content of a blob. It checks the digest and returns ErrCorrupt if it is
// wrong.
func (s Scope) Resolve(ctx context.Context, ref string) (_ []byte, err error) {
	r, info, err := s.Blobs.Open(ctx, s.Owner, ref)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data := make([]byte, info.Size)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("blob: read content: %w", err)
	}
	if Sum(data) != info.Digest {
		return nil, ErrCorrupt
	}
	return data, nil
}

// Pin keeps a blob from expiring.
func (s Scope) Pin(ctx context.Context, ref string) error {
	return s.Blobs.Pin(ctx, s.Owner, ref, DefaultHolder)
}

// Unpin lets a blob expire after its TTL.
func (s Scope) Unpin(ctx context.Context, ref string) error {
	return s.Blobs.Unpin(ctx, s.Owner, ref, DefaultHolder)
}
