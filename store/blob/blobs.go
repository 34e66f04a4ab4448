package blob

import (
	"context"
	"math"
	"time"
)

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
	// that have opened it. It is also the maximum time of an upload. An orphan is removed when it
	// is twice as old. Default 1 h.
	Grace time.Duration
	// Inline is the size in bytes up to which a content is stored in Refs. 0 means the default of
	// the backend, which is none for New. A negative value means none.
	Inline int64
	// Now is the clock. Default time.Now. Processes that share a store need clocks that differ by
	// less than Grace.
	Now func() time.Time
}

// Defaults of Config.
const (
	defaultTTL     = 24 * time.Hour
	defaultMaxSize = 5 << 30
	defaultGrace   = time.Hour
)

// withDefaults replaces zero values.
func (c Config) withDefaults() Config {
	if c.TTL <= 0 || c.TTL > MaxTTL {
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
	cfg      Config
	refs     Refs
	contents Contents
	ids      refIDs
}

var (
	_ Store       = (*Blobs)(nil)
	_ Maintenance = (*Blobs)(nil)
)

// New returns a store. contents may be nil if Config.Inline is at least Config.MaxSize. Use the
// accessor of a backend instead, except to combine the refs of one backend with the contents of
// another.
func New(cfg Config, refs Refs, contents Contents) *Blobs {
	return &Blobs{cfg: cfg.withDefaults(), refs: refs, contents: contents}
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
		return Row{}, ErrNotFound
	}
	row, err := b.refs.Find(ctx, owner, ref, data)
	if err == nil && !row.live(b.now()) {
		err = ErrNotFound
	}
	return row, err
}

// Stat implements Store.
func (b *Blobs) Stat(ctx context.Context, owner, ref string) (Info, error) {
	row, err := b.find(ctx, owner, ref, false)
	if err != nil {
		return Info{}, err
	}
	return row.Info, nil
}

// List implements Store.
func (b *Blobs) List(ctx context.Context, p ListParams) (page Page, err error) {
	if err := p.complete(); err != nil {
		return Page{}, err
	}
	limit := p.Limit
	p.Limit++
	page.Blobs, err = b.refs.List(ctx, p, b.now())
	if err != nil {
		return Page{}, err
	}
	if page.More = len(page.Blobs) > limit; page.More {
		page.Blobs = page.Blobs[:limit]
	}
	return page, nil
}

// Usage implements Store.
func (b *Blobs) Usage(ctx context.Context, owner string) (Usage, error) {
	if err := checkOwner(owner); err != nil {
		return Usage{}, err
	}
	return b.refs.Usage(ctx, owner)
}
