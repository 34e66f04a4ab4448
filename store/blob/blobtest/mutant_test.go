package blobtest

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/suite"
)

func TestMemoryPassesTheSuite(t *testing.T) {
	t.Parallel()
	Run(t, Harness{Open: func(_ T, cfg blob.Config) Store { return newStore(cfg, nil) }})
}

// newStore returns a store with its contents as objects in memory. It is a mutant if
// breakStore is set.
func newStore(cfg blob.Config, breakStore func(*mutant)) Store {
	m := &mutant{owners: make(map[string]string)}
	if breakStore != nil {
		breakStore(m)
	}
	if cfg.Inline == 0 {
		cfg.Inline = 128 * kib
	}
	suite.Mutate(m.config, &cfg)
	refs := blobsql.RefsOf(inmem.New())
	if m.refs != nil {
		refs = m.refs(refs)
	}
	m.Blobs = blobdriver.New(cfg, refs, new(Objects))
	return m
}

// mutant is a store that is broken in one way.
type mutant struct {
	*blobdriver.Blobs
	config func(cfg *blob.Config)
	refs   func(r blobdriver.Refs) blobdriver.Refs
	put    func(p *blob.PutParams)
	list   func(p *blob.ListParams)
	// open changes a range or the content.
	open func(offset, length *int64)
	tail int // bytes that are cut off

	owners       map[string]string // by ref, if it ignores owners
	ignoreOwners bool
	unpinsAll    bool
	skip         string // a method that does nothing
	mu           sync.Mutex
}

func (m *mutant) Put(ctx context.Context, r io.Reader, p blob.PutParams) (blob.Info, error) {
	suite.Mutate(m.put, &p)
	info, err := m.Blobs.Put(ctx, r, p)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owners[info.Ref] = p.Owner
	return info, err
}

func (m *mutant) owner(owner, ref string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if real, ok := m.owners[ref]; ok && m.ignoreOwners {
		return real
	}
	return owner
}

func (m *mutant) Stat(ctx context.Context, owner, ref string) (blob.Info, error) {
	return m.Blobs.Stat(ctx, m.owner(owner, ref), ref)
}

func (m *mutant) Open(ctx context.Context, owner, ref string) (io.ReadCloser, blob.Info, error) {
	return m.OpenRange(ctx, owner, ref, 0, -1)
}

func (m *mutant) OpenRange(ctx context.Context, owner, ref string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	if m.open != nil {
		m.open(&offset, &length)
	}
	r, info, err := m.Blobs.OpenRange(ctx, owner, ref, offset, length)
	if err == nil && m.tail > 0 {
		r = io.NopCloser(io.LimitReader(r, info.Size-int64(m.tail)))
	}
	return r, info, err
}

func (m *mutant) Delete(ctx context.Context, owner, ref string) error {
	if m.skip == "Delete" {
		return nil
	}
	return m.Blobs.Delete(ctx, owner, ref)
}

func (m *mutant) Pin(ctx context.Context, owner, ref, holder string) error {
	if m.skip == "Pin" {
		return nil
	}
	return m.Blobs.Pin(ctx, owner, ref, holder)
}

func (m *mutant) Unpin(ctx context.Context, owner, ref, holder string) error {
	info, err := m.Blobs.Stat(ctx, owner, ref)
	for _, other := range info.Holders {
		if m.unpinsAll && err == nil {
			err = m.Blobs.Unpin(ctx, owner, ref, other)
		}
	}
	if m.skip == "Unpin" || m.unpinsAll {
		return err
	}
	return m.Blobs.Unpin(ctx, owner, ref, holder)
}

func (m *mutant) UnpinAll(ctx context.Context, owner, holder string) error {
	if m.skip == "UnpinAll" {
		return nil
	}
	return m.Blobs.UnpinAll(ctx, owner, holder)
}

func (m *mutant) Touch(ctx context.Context, owner, ref string, ttl time.Duration) (blob.Info, error) {
	if m.skip == "Touch" {
		return m.Stat(ctx, owner, ref)
	}
	return m.Blobs.Touch(ctx, owner, ref, ttl)
}

func (m *mutant) List(ctx context.Context, p blob.ListParams) (blob.Page, error) {
	suite.Mutate(m.list, &p)
	return m.Blobs.List(ctx, p)
}

func (m *mutant) Sweep(ctx context.Context, now time.Time, limit int) (blob.Swept, error) {
	if m.skip == "Sweep" {
		return blob.Swept{}, nil
	}
	return m.Blobs.Sweep(ctx, now, limit)
}

// forgetful knows no objects.
type forgetful struct{ blobdriver.Refs }

func (forgetful) Known(_ context.Context, objects []blob.Object) ([]bool, error) {
	return make([]bool, len(objects)), nil
}

// oneBatch finds the first pins of a holder only.
type oneBatch struct{ blobdriver.Refs }

func (r oneBatch) Held(ctx context.Context, owner, holder, after string, limit int) ([]string, error) {
	if after != "" {
		return nil, nil
	}
	return r.Refs.Held(ctx, owner, holder, "", limit)
}

// sloppy does not count refs.
type sloppy struct{ blobdriver.Refs }

func (s sloppy) Update(ctx context.Context, owner string, f func(tx blobdriver.Tx) error) error {
	return s.Refs.Update(ctx, owner, func(tx blobdriver.Tx) error { return f(sloppyTx{tx}) })
}

type sloppyTx struct{ blobdriver.Tx }

func (t sloppyTx) SetRefs(d blob.Digest, refs int64, freed time.Time) error {
	if refs > 1 {
		return nil
	}
	return t.Tx.SetRefs(d, max(refs, 0), freed)
}

var mutants = map[string]func(m *mutant){
	"never expires": func(m *mutant) {
		m.config = func(c *blob.Config) { now := c.Now(); c.Now = func() time.Time { return now } }
	},
	"has no quotas":              func(m *mutant) { m.config = func(c *blob.Config) { c.OwnerBlobs, c.OwnerBytes = 0, 0 } },
	"has no quota of bytes":      func(m *mutant) { m.config = func(c *blob.Config) { c.OwnerBytes = 0 } },
	"has no maximum size":        func(m *mutant) { m.config = func(c *blob.Config) { c.MaxSize *= 2 } },
	"has another TTL":            func(m *mutant) { m.config = func(c *blob.Config) { c.TTL *= 2 } },
	"has no grace period":        func(m *mutant) { m.config = func(c *blob.Config) { c.Grace = 1 } },
	"loses names":                func(m *mutant) { m.put = func(p *blob.PutParams) { p.Name = "" } },
	"loses content types":        func(m *mutant) { m.put = func(p *blob.PutParams) { p.ContentType = "" } },
	"loses keys":                 func(m *mutant) { m.put = func(p *blob.PutParams) { p.IdempotencyKey = "" } },
	"loses the first holder":     func(m *mutant) { m.put = func(p *blob.PutParams) { p.Holder = "" } },
	"does not check digests":     func(m *mutant) { m.put = func(p *blob.PutParams) { p.Digest = blob.Digest{} } },
	"does not check sizes":       func(m *mutant) { m.put = func(p *blob.PutParams) { p.Size = 0 } },
	"ignores the TTL of a blob":  func(m *mutant) { m.put = func(p *blob.PutParams) { p.TTL = 0 } },
	"mixes up owners":            func(m *mutant) { m.put = func(p *blob.PutParams) { p.Owner = owner } },
	"shows blobs of others":      func(m *mutant) { m.ignoreOwners = true },
	"ignores offsets":            func(m *mutant) { m.open = func(offset, _ *int64) { *offset = 0 } },
	"ignores lengths":            func(m *mutant) { m.open = func(_, length *int64) { *length = -1 } },
	"truncates content":          func(m *mutant) { m.tail = 1 },
	"ignores After":              func(m *mutant) { m.list = func(p *blob.ListParams) { p.After = "" } },
	"lists more than asked":      func(m *mutant) { m.list = func(p *blob.ListParams) { p.Limit++ } },
	"unpins for all holders":     func(m *mutant) { m.unpinsAll = true },
	"does not delete":            func(m *mutant) { m.skip = "Delete" },
	"does not pin":               func(m *mutant) { m.skip = "Pin" },
	"does not unpin":             func(m *mutant) { m.skip = "Unpin" },
	"does not unpin all":         func(m *mutant) { m.skip = "UnpinAll" },
	"unpins one batch only":      func(m *mutant) { m.refs = func(r blobdriver.Refs) blobdriver.Refs { return oneBatch{r} } },
	"does not touch":             func(m *mutant) { m.skip = "Touch" },
	"does not sweep":             func(m *mutant) { m.skip = "Sweep" },
	"removes objects in use":     func(m *mutant) { m.refs = func(r blobdriver.Refs) blobdriver.Refs { return forgetful{r} } },
	"does not count shared refs": func(m *mutant) { m.refs = func(r blobdriver.Refs) blobdriver.Refs { return sloppy{r} } },
}

// TestSuiteCatchesBrokenStores breaks a store in one way at a time and checks that a test of the
// suite fails.
func TestSuiteCatchesBrokenStores(t *testing.T) {
	t.Parallel()
	suite.Mutants(t, mutants, func(t T, breakStore func(*mutant)) {
		h := Harness{Open: func(_ T, cfg blob.Config) Store { return newStore(cfg, breakStore) }}
		for _, g := range groups {
			for _, test := range g.tests {
				if g.name != "concurrency" && !t.Run(test.name, func(t T) { test.run(newFixture(t, h)) }) {
					return
				}
			}
		}
	})
}
