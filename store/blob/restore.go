package blob

import (
	"context"
	"io"
	"slices"
	"time"
)

// Restorer is implemented by stores into which blobs can be imported.
type Restorer interface {
	// Restore stores a blob with the ref, the times and the holders that it had in another store.
	// If the owner has a blob with the ref, it does not read r, and returns nil for the same
	// content and ErrConflict for another. It returns ErrSize or ErrDigest if r has other content
	// than info describes.
	Restore(ctx context.Context, owner string, info Info, r io.Reader) error
}

var _ Restorer = (*Blobs)(nil)

// Restore implements Restorer.
func (b *Blobs) Restore(ctx context.Context, owner string, info Info, r io.Reader) error {
	p := PutParams{Owner: owner, ContentType: info.ContentType, Name: info.Name, TTL: info.TTL, Size: info.Size, Digest: info.Digest}
	if err := p.complete(&b.cfg); err != nil {
		return err
	}
	if err := info.checkRestored(); err != nil {
		return err
	}
	info.ContentType, info.TTL, info.Holders = p.ContentType, p.TTL, slices.Clone(info.Holders)
	row, err := b.refs.Find(ctx, owner, info.Ref, false)
	if err != nil || row.Ref != "" {
		return sameContent(&row.RefRow, &info, err)
	}
	start := b.now()
	u := &upload{params: &p, start: start, object: Object{Owner: owner, Name: newID(start, 0)}, restored: &info}
	if err := b.receive(ctx, u, r); err != nil {
		return err
	}
	_, err = b.commit(ctx, u)
	return err
}

// sameContent returns err, or ErrConflict if a ref has other content than it had.
func sameContent(row *RefRow, info *Info, err error) error {
	if err == nil && row.Digest != info.Digest {
		err = ErrConflict
	}
	return err
}

// checkRestored checks what PutParams do not have.
func (i *Info) checkRestored() error {
	switch {
	case !validID(i.Ref):
		return invalid("ref", "has not the form of a ref")
	case i.Digest.IsZero():
		return invalid("digest", "is required")
	case i.Created.IsZero():
		return invalid("created", "is required")
	case i.Expires.IsZero() != (len(i.Holders) > 0):
		return invalid("expires", "is required without holders, and must not be set with holders")
	case len(i.Holders) > MaxHolders:
		return ErrHolders
	}
	for _, holder := range i.Holders {
		if err := checkHolder(holder); err != nil {
			return err
		}
	}
	i.Created, i.Expires = i.Created.UTC().Truncate(time.Millisecond), i.Expires.UTC().Truncate(time.Millisecond)
	return nil
}
