package inmem

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
)

// Blobs returns the blobs of the store, which are in memory.
func (s *Store) Blobs(cfg blob.Config) *blobdriver.Blobs {
	cfg.Inline = math.MaxInt64
	return blobdriver.New(cfg, s.blobs, nil)
}

// BlobRefs returns the rows of blobs, for a blob.Store with other contents. Stores of one
// BlobRefs have the same contents.
func (s *Store) BlobRefs() blobdriver.Refs { return s.blobs }

// blobRefs implements blobdriver.Refs. It has a lock of its own.
type blobRefs struct {
	db       *database // that the effects belong to
	mu       sync.RWMutex
	closed   bool
	owners   map[string]*blobOwner
	objects  map[string]bool
	expiring index[*blobRef]     // by time
	freed    index[*blobContent] // by time
}

type blobOwner struct {
	name     string
	usage    blob.Usage
	refs     map[string]*blobRef
	ordered  index[*blobRef]
	pins     index[blobPin]
	keys     map[string]*blobRef
	contents map[blob.Digest]*blobContent
}

// blobPin is a pin of a ref.
type blobPin struct{ holder, ref string }

func (p blobPin) compare(q blobPin) int {
	return cmp.Or(strings.Compare(p.holder, q.holder), strings.Compare(p.ref, q.ref))
}

// blobRef is a ref. It is replaced, never modified.
type blobRef struct {
	blobdriver.RefRow
	owner string
}

func (r *blobRef) compare(s *blobRef) int { return strings.Compare(r.Ref, s.Ref) }

// blobContent is a content. It is replaced, never modified.
type blobContent struct {
	blobdriver.ContentRow
	owner string
	data  []byte
}

func (c *blobContent) compare(d *blobContent) int { return strings.Compare(c.Object, d.Object) }

func newBlobRefs(db *database) *blobRefs {
	return &blobRefs{db: db, owners: make(map[string]*blobOwner), objects: make(map[string]bool)}
}

func (b *blobRefs) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.owners, b.objects = true, nil, nil
	b.expiring, b.freed = index[*blobRef]{}, index[*blobContent]{}
}

// read locks for reading. The caller calls b.mu.RUnlock, also after an error.
func (b *blobRefs) read(ctx context.Context) error {
	b.mu.RLock()
	if b.closed {
		return store.ErrClosed
	}
	return ctx.Err()
}

// owner returns an owner, which may be empty.
func (b *blobRefs) owner(name string) *blobOwner {
	if o := b.owners[name]; o != nil {
		return o
	}
	return &blobOwner{name: name}
}

// copy returns the row without memory of the store.
func (r *blobRef) copy() blobdriver.RefRow {
	if r == nil {
		return blobdriver.RefRow{}
	}
	row := r.RefRow
	row.Holders = slices.Clone(row.Holders)
	return row
}

// Find implements [blobdriver.Refs].
func (b *blobRefs) Find(ctx context.Context, owner, ref string, data bool) (blobdriver.Row, error) {
	defer b.mu.RUnlock()
	if err := b.read(ctx); err != nil {
		return blobdriver.Row{}, err
	}
	o := b.owner(owner)
	r := o.refs[ref]
	if r == nil {
		return blobdriver.Row{}, nil
	}
	c := o.contents[r.Digest]
	row := blobdriver.Row{RefRow: r.copy(), Object: c.Object, Inline: c.Inline}
	if data {
		row.Data = c.data
	}
	return row, nil
}

// FindKey implements [blobdriver.Refs].
func (b *blobRefs) FindKey(ctx context.Context, owner, key string) (blobdriver.RefRow, error) {
	defer b.mu.RUnlock()
	if err := b.read(ctx); err != nil {
		return blobdriver.RefRow{}, err
	}
	return b.owner(owner).keys[key].copy(), nil
}

// List implements [blobdriver.Refs].
func (b *blobRefs) List(ctx context.Context, p blob.ListParams, now time.Time) (found []blob.Info, err error) {
	defer b.mu.RUnlock()
	if err := b.read(ctx); err != nil {
		return nil, err
	}
	after := &blobRef{RefRow: blobdriver.RefRow{Info: blob.Info{Ref: p.After}}}
	for e := range b.owner(p.Owner).ordered.ascend(&entry[*blobRef]{rec: after}) {
		if len(found) == p.Limit {
			break
		}
		if e.rec.Expires.IsZero() || e.rec.Expires.After(now) {
			found = append(found, e.rec.copy().Info)
		}
	}
	return found, nil
}

// Held implements [blobdriver.Refs].
func (b *blobRefs) Held(ctx context.Context, owner, holder, after string, limit int) (refs []string, err error) {
	defer b.mu.RUnlock()
	if err := b.read(ctx); err != nil {
		return nil, err
	}
	for e := range b.owner(owner).pins.ascend(&entry[blobPin]{rec: blobPin{holder, after}}) {
		if len(refs) == limit || e.rec.holder != holder {
			break
		}
		refs = append(refs, e.rec.ref)
	}
	return refs, nil
}

// Usage implements [blobdriver.Refs].
func (b *blobRefs) Usage(ctx context.Context, owner string) (blob.Usage, error) {
	defer b.mu.RUnlock()
	if err := b.read(ctx); err != nil {
		return blob.Usage{}, err
	}
	return b.owner(owner).usage, nil
}

// Expired implements [blobdriver.Refs].
func (b *blobRefs) Expired(ctx context.Context, now time.Time, limit int) (keys []blobdriver.RefKey, err error) {
	defer b.mu.RUnlock()
	if err := b.read(ctx); err != nil {
		return nil, err
	}
	for e := range b.expiring.ascend(nil) {
		if len(keys) == limit || e.rec.Expires.After(now) {
			break
		}
		keys = append(keys, blobdriver.RefKey{Owner: e.rec.owner, Ref: e.rec.Ref})
	}
	return keys, nil
}

// Unreferenced implements [blobdriver.Refs].
func (b *blobRefs) Unreferenced(ctx context.Context, freed time.Time, limit int) (keys []blobdriver.ContentKey, err error) {
	defer b.mu.RUnlock()
	if err := b.read(ctx); err != nil {
		return nil, err
	}
	for e := range b.freed.ascend(nil) {
		if len(keys) == limit || e.rec.Freed.After(freed) {
			break
		}
		keys = append(keys, blobdriver.ContentKey{Owner: e.rec.owner, Digest: e.rec.Digest})
	}
	return keys, nil
}

// Known implements [blobdriver.Refs].
func (b *blobRefs) Known(ctx context.Context, objects []blob.Object) ([]bool, error) {
	defer b.mu.RUnlock()
	if err := b.read(ctx); err != nil {
		return nil, err
	}
	known := make([]bool, len(objects))
	for i, o := range objects {
		known[i] = b.objects[o.Name]
	}
	return known, nil
}
