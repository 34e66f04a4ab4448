package s3

import (
	"context"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
)

// Find implements blobdriver.Refs.
func (r *refs) Find(ctx context.Context, owner, ref string, _ bool) (row blobdriver.Row, err error) {
	err = r.view(ctx, owner, func(s *state) (err error) {
		row, err = s.ref(ref)
		return err
	})
	return row, err
}

// FindKey implements blobdriver.Refs.
func (r *refs) FindKey(ctx context.Context, owner, key string) (row blobdriver.RefRow, err error) {
	err = r.view(ctx, owner, func(s *state) error {
		found, err := s.refOfKey(key)
		row = found.RefRow
		return err
	})
	return row, err
}

// List implements blobdriver.Refs.
func (r *refs) List(ctx context.Context, p blob.ListParams, now time.Time) (found []blob.Info, err error) {
	err = r.view(ctx, p.Owner, func(s *state) error {
		found = nil
		return s.scan(tableRefs, tableRefs+p.After, func(stored row) (bool, error) {
			var r refRow
			if err := decode(stored.Value, &r); err != nil {
				return false, err
			}
			row, err := r.row(strings.TrimPrefix(stored.Key, tableRefs))
			if err == nil && (row.Expires.IsZero() || row.Expires.After(now)) {
				found = append(found, row.Info)
			}
			return len(found) < p.Limit, err
		})
	})
	return found, err
}

// Held implements blobdriver.Refs.
func (r *refs) Held(ctx context.Context, owner, holder, after string, limit int) (refs []string, err error) {
	prefix := heldKey(holder, "")
	err = r.view(ctx, owner, func(s *state) error {
		refs = nil
		return s.scan(prefix, prefix+after, func(row row) (bool, error) {
			refs = append(refs, strings.TrimPrefix(row.Key, prefix))
			return len(refs) < limit, nil
		})
	})
	return refs, err
}

// Usage implements blobdriver.Refs.
func (r *refs) Usage(ctx context.Context, owner string) (u blob.Usage, err error) {
	err = r.view(ctx, owner, func(s *state) error {
		u = s.Usage
		return nil
	})
	return u, err
}

// Known implements blobdriver.Refs. It knows contents and pages. Before it reports an object as unknown, it
// commits the root, so that a commit in progress that would refer to the object fails.
func (r *refs) Known(ctx context.Context, objects []blob.Object) ([]bool, error) {
	known := make([]bool, len(objects))
	byOwner := make(map[string][]int)
	for i, o := range objects {
		byOwner[o.Owner] = append(byOwner[o.Owner], i)
	}
	for owner, indexes := range byOwner {
		find := func(s *state) (unknown bool, err error) {
			for _, i := range indexes {
				name := objects[i].Name
				known[i] = slices.ContainsFunc(s.pages, func(p *page) bool { return p.Name == name })
				if !known[i] {
					if known[i], err = s.get(tableObjects+name, nil); err != nil {
						return false, err
					}
				}
				unknown = unknown || !known[i]
			}
			return unknown, nil
		}
		if err := r.update(ctx, owner, find); err != nil {
			return nil, err
		}
	}
	return known, nil
}

func parseDigest(text string) (d blob.Digest, err error) {
	if len(text) != hex.EncodedLen(len(d)) {
		return d, blob.ErrCorrupt
	}
	if _, err := hex.Decode(d[:], []byte(text)); err != nil {
		return d, blob.ErrCorrupt
	}
	return d, nil
}

// ownedContents implements blobdriver.Contents with the part of the owner in the key of each object, so that
// refs.Known finds the owner.
type ownedContents struct{ contents *Contents }

// owned returns an object with the owner in its name.
func owned(o blob.Object) blob.Object { return blob.Object{Name: partOf(o.Owner) + "/" + o.Name} }

// Create implements blobdriver.Contents.
func (c *ownedContents) Create(ctx context.Context, o blob.Object, r io.Reader, size int64) error {
	return c.contents.Create(ctx, owned(o), r, size)
}

// Open implements blobdriver.Contents.
func (c *ownedContents) Open(ctx context.Context, o blob.Object, offset, length int64) (io.ReadCloser, error) {
	return c.contents.Open(ctx, owned(o), offset, length)
}

// Remove implements blobdriver.Contents.
func (c *ownedContents) Remove(ctx context.Context, o blob.Object) error {
	return c.contents.Remove(ctx, owned(o))
}

// List implements blobdriver.Contents. It returns pages too.
func (c *ownedContents) List(ctx context.Context, after blob.Object, limit int) ([]blob.Object, error) {
	if after.Name != "" {
		after = owned(after)
	}
	found, err := c.contents.List(ctx, after, limit)
	for i, o := range found {
		part, name, _ := strings.Cut(o.Name, "/")
		found[i] = blob.Object{Owner: listed + part, Name: name}
	}
	return found, err
}
