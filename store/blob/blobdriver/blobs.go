package blobdriver

import (
	"context"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/store/blob"
)

// Defaults of [blob.Config].
const (
	defaultTTL     = 24 * time.Hour
	defaultMaxSize = 5 << 30
	defaultGrace   = time.Hour
)

// withDefaults replaces zero values.
func withDefaults(c blob.Config) blob.Config {
	if c.TTL <= 0 || c.TTL > blob.MaxTTL {
		c.TTL = defaultTTL
	}
	if c.MaxSize <= 0 {
		c.MaxSize = defaultMaxSize
	}
	if c.Grace <= 0 {
		c.Grace = defaultGrace
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.MaxSize = min(c.MaxSize, math.MaxInt64/2)
	c.Inline = min(max(c.Inline, 0), c.MaxSize)
	return c
}

// Blobs is a Store over rows and contents. It is safe for concurrent use, also together with
// the Blobs of other processes that share the same Refs and Contents.
type Blobs struct {
	cfg      blob.Config
	refs     Refs
	contents Contents
	ids      refIDs
}

var (
	_ blob.Store       = (*Blobs)(nil)
	_ blob.Maintenance = (*Blobs)(nil)
)

// New returns a store. contents may be nil if cfg.Inline is at least cfg.MaxSize. Use the
// accessor of a backend instead, except to combine the refs of one backend with the contents of
// another.
func New(cfg blob.Config, refs Refs, contents Contents) *Blobs {
	return &Blobs{cfg: withDefaults(cfg), refs: refs, contents: contents}
}

// now returns the time with the precision of rows.
func (b *Blobs) now() time.Time { return b.cfg.Now().UTC().Truncate(time.Millisecond) }

// live reports whether a ref exists and has not expired.
func (r *RefRow) live(now time.Time) bool {
	return r.Ref != "" && (r.Expires.IsZero() || r.Expires.After(now))
}

// find returns the rows of a live ref.
func (b *Blobs) find(ctx context.Context, owner, ref string, data bool) (Row, error) {
	if err := checkOwner(owner); err != nil {
		return Row{}, err
	}
	if !validID(ref) {
		return Row{}, blob.ErrNotFound
	}
	row, err := b.refs.Find(ctx, owner, ref, data)
	if err == nil && !row.live(b.now()) {
		err = blob.ErrNotFound
	}
	return row, err
}

// Stat implements [blob.Store].
func (b *Blobs) Stat(ctx context.Context, owner, ref string) (blob.Info, error) {
	row, err := b.find(ctx, owner, ref, false)
	if err != nil {
		return blob.Info{}, err
	}
	return row.Info, nil
}

// List implements [blob.Store].
func (b *Blobs) List(ctx context.Context, p blob.ListParams) (page blob.Page, err error) {
	if err := completeList(&p); err != nil {
		return blob.Page{}, err
	}
	limit := p.Limit
	p.Limit++
	page.Blobs, err = b.refs.List(ctx, p, b.now())
	if err != nil {
		return blob.Page{}, err
	}
	if page.More = len(page.Blobs) > limit; page.More {
		page.Blobs = page.Blobs[:limit]
	}
	return page, nil
}

// Usage implements [blob.Store].
func (b *Blobs) Usage(ctx context.Context, owner string) (blob.Usage, error) {
	if err := checkOwner(owner); err != nil {
		return blob.Usage{}, err
	}
	return b.refs.Usage(ctx, owner)
}
