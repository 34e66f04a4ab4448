package blobdriver

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/holdfast-dev/holdfast/store/blob"
)

// Open implements [blob.Store].
func (b *Blobs) Open(ctx context.Context, owner, ref string) (io.ReadCloser, blob.Info, error) {
	return b.OpenRange(ctx, owner, ref, 0, -1)
}

// OpenRange implements [blob.Store].
func (b *Blobs) OpenRange(ctx context.Context, owner, ref string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	row, err := b.find(ctx, owner, ref, true)
	if err != nil {
		return nil, blob.Info{}, err
	}
	if offset < 0 || offset > row.Size {
		return nil, blob.Info{}, blob.ErrRange
	}
	if rest := row.Size - offset; length < 0 || length > rest {
		length = rest
	}
	if row.Inline {
		if int64(len(row.Data)) != row.Size {
			return nil, blob.Info{}, blob.ErrCorrupt
		}
		return io.NopCloser(bytes.NewReader(row.Data[offset : offset+length])), row.Info, nil
	}
	if length == 0 {
		return io.NopCloser(bytes.NewReader(nil)), row.Info, nil
	}
	r, err := b.contents.Open(ctx, blob.Object{Owner: owner, Name: row.Object}, offset, length)
	if err != nil {
		return nil, blob.Info{}, err
	}
	return &sized{r: r, rest: length}, row.Info, nil
}

// sized returns exactly rest bytes of r, or ErrCorrupt.
type sized struct {
	r    io.ReadCloser
	rest int64
}

// Read implements io.Reader.
func (s *sized) Read(p []byte) (int, error) {
	if s.rest == 0 {
		return 0, io.EOF
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.rest)])
	s.rest -= int64(n)
	if s.rest > 0 && errors.Is(err, io.EOF) {
		err = blob.ErrCorrupt
	}
	return n, err
}

// Close implements io.Closer.
func (s *sized) Close() error { return s.r.Close() }
