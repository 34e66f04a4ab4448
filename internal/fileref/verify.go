package fileref

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io"

	"github.com/holdfast-dev/holdfast/store/blob"
)

// verifier is a reader of a whole blob that checks its digest. If the content is damaged, the read
// that would return its last bytes fails instead.
type verifier struct {
	r    io.ReadCloser
	rest int64
	want blob.Digest
	hash hash.Hash
}

// NewVerifier returns a reader of a whole blob that fails with [blob.ErrCorrupt] if the content
// is damaged.
func NewVerifier(r io.ReadCloser, info blob.Info) io.ReadCloser {
	return &verifier{r: r, rest: info.Size, want: info.Digest, hash: sha256.New()}
}

// Read implements [io.Reader].
func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.hash.Write(p[:n])
	v.rest -= int64(n)
	switch {
	case v.rest < 0, v.rest > 0 && errors.Is(err, io.EOF):
		return 0, blob.ErrCorrupt
	case v.rest == 0 && blob.Digest(v.hash.Sum(nil)) != v.want:
		return 0, blob.ErrCorrupt
	}
	return n, err
}

// Close implements [io.Closer].
func (v *verifier) Close() error { return v.r.Close() }
