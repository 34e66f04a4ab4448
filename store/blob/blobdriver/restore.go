package blobdriver

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store/blob"
)

var _ blob.Restorer = (*Blobs)(nil)

// Restore implements [blob.Restorer].
func (b *Blobs) Restore(ctx context.Context, owner string, info blob.Info, r io.Reader) error {
	p := blob.PutParams{Owner: owner, ContentType: info.ContentType, Name: info.Name, TTL: info.TTL, Size: info.Size, Digest: info.Digest}
	if err := completePut(&p, &b.cfg); err != nil {
		return err
	}
	if err := checkRestored(&info); err != nil {
		return err
	}
	info.ContentType, info.TTL, info.Holders = p.ContentType, p.TTL, slices.Clone(info.Holders)
	row, err := b.refs.Find(ctx, owner, info.Ref, false)
	if err != nil || row.Ref != "" {
		return sameContent(&row.RefRow, &info, err)
	}
	start := b.now()
	u := &upload{params: &p, start: start, object: blob.Object{Owner: owner, Name: newID(start, 0)}, restored: &info}
	if err := b.receive(ctx, u, r); err != nil {
		return err
	}
	_, err = b.commit(ctx, u)
	return err
}

// sameContent returns err, or ErrConflict if the existing ref has other content than info
// describes.
func sameContent(row *RefRow, info *blob.Info, err error) error {
	if err == nil && row.Digest != info.Digest {
		err = blob.ErrConflict
	}
	return err
}

// checkRestored checks the fields that PutParams does not have.
func checkRestored(i *blob.Info) error {
	switch {
	case !validID(i.Ref):
		return invalid("ref", "has not the form of a ref")
	case i.Digest.IsZero():
		return invalid("digest", "is required")
	case i.Created.IsZero():
		return invalid("created", "is required")
	case i.Expires.IsZero() != (len(i.Holders) > 0):
		return invalid("expires", "is required without holders, and must not be set with holders")
	case len(i.Holders) > blob.MaxHolders:
		return blob.ErrHolders
	}
	for _, holder := range i.Holders {
		if err := checkHolder(holder); err != nil {
			return err
		}
	}
	i.Created, i.Expires = i.Created.UTC().Truncate(time.Millisecond), i.Expires.UTC().Truncate(time.Millisecond)
	return nil
}
