package inmem

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
)

// Update implements [blobdriver.Refs].
func (b *blobRefs) Update(ctx context.Context, owner string, f func(tx blobdriver.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.update(owner, f)
	return err
}

// Effect implements [blobdriver.TransactionalRefs].
func (b *blobRefs) Effect(owner string, f func(tx blobdriver.Tx) error) store.Effect {
	return &effect{db: b.db, lock: &b.mu, apply: func() (undo func(), err error) { return b.update(owner, f) }}
}

// update calls f and returns how to undo its changes. It undoes them if f fails. The caller holds the
// lock.
func (b *blobRefs) update(owner string, f func(tx blobdriver.Tx) error) (undo func(), err error) {
	if b.closed {
		return nil, store.ErrClosed
	}
	o := b.owner(owner)
	if o.refs == nil {
		o.refs, o.keys, o.contents = make(map[string]*blobRef), make(map[string]*blobRef), make(map[blob.Digest]*blobContent)
	}
	tx := &blobTx{b: b, o: o}
	undo = func() {
		for _, undo := range slices.Backward(tx.undo) {
			undo()
		}
		b.keepOwner(o)
	}
	if err := f(tx); err != nil {
		undo()
		return nil, err
	}
	b.keepOwner(o)
	return undo, nil
}

// keepOwner keeps an owner if it has contents.
func (b *blobRefs) keepOwner(o *blobOwner) {
	if len(o.contents) > 0 {
		b.owners[o.name] = o
	} else {
		delete(b.owners, o.name)
	}
}

// blobTx changes the data of an owner at once, and records how to undo that.
type blobTx struct {
	b    *blobRefs
	o    *blobOwner
	undo []func()
}

// Usage implements [blobdriver.Tx].
func (t *blobTx) Usage() (blob.Usage, error) { return t.o.usage, nil }

// SetUsage implements [blobdriver.Tx].
func (t *blobTx) SetUsage(u blob.Usage) error {
	before := t.o.usage
	t.undo = append(t.undo, func() { t.o.usage = before })
	t.o.usage = u
	return nil
}

// Ref implements [blobdriver.Tx].
func (t *blobTx) Ref(ref string) (blobdriver.RefRow, error) { return t.o.refs[ref].copy(), nil }

// RefOfKey implements [blobdriver.Tx].
func (t *blobTx) RefOfKey(key string) (blobdriver.RefRow, error) { return t.o.keys[key].copy(), nil }

// InsertRef implements [blobdriver.Tx].
func (t *blobTx) InsertRef(row blobdriver.RefRow) error {
	row.Holders = slices.Clone(row.Holders)
	t.replaceRef(nil, &blobRef{RefRow: row, owner: t.o.name})
	return nil
}

// SetHolders implements [blobdriver.Tx].
func (t *blobTx) SetHolders(row *blobdriver.RefRow, holders []string, expires time.Time) error {
	before := t.o.refs[row.Ref]
	after := *before
	after.Holders, after.Expires = slices.Clone(holders), expires
	t.replaceRef(before, &after)
	return nil
}

// DeleteRef implements [blobdriver.Tx].
func (t *blobTx) DeleteRef(row *blobdriver.RefRow) error {
	t.replaceRef(t.o.refs[row.Ref], nil)
	return nil
}

func (t *blobTx) replaceRef(before, after *blobRef) {
	t.undo = append(t.undo, func() { t.moveRef(after, before) })
	t.moveRef(before, after)
}

// moveRef removes one ref and adds another. Both may be nil.
func (t *blobTx) moveRef(remove, add *blobRef) {
	if r := remove; r != nil {
		delete(t.o.refs, r.Ref)
		delete(t.o.keys, r.Key)
		t.o.ordered.remove(0, r)
		for _, h := range r.Holders {
			t.o.pins.remove(0, blobPin{h, r.Ref})
		}
		if !r.Expires.IsZero() {
			t.b.expiring.remove(r.Expires.UnixMilli(), r)
		}
	}
	if r := add; r != nil {
		t.o.refs[r.Ref] = r
		if r.Key != "" {
			t.o.keys[r.Key] = r
		}
		t.o.ordered.add(0, r)
		for _, h := range r.Holders {
			t.o.pins.add(0, blobPin{h, r.Ref})
		}
		if !r.Expires.IsZero() {
			t.b.expiring.add(r.Expires.UnixMilli(), r)
		}
	}
}

// Content implements [blobdriver.Tx].
func (t *blobTx) Content(d blob.Digest) (blobdriver.ContentRow, error) {
	if c := t.o.contents[d]; c != nil {
		return c.ContentRow, nil
	}
	return blobdriver.ContentRow{}, nil
}

// InsertContent implements [blobdriver.Tx].
func (t *blobTx) InsertContent(row blobdriver.ContentRow, data []byte) error {
	t.replaceContent(nil, &blobContent{ContentRow: row, owner: t.o.name, data: slices.Clone(data)})
	return nil
}

// SetRefs implements [blobdriver.Tx].
func (t *blobTx) SetRefs(d blob.Digest, refs int64, freed time.Time) error {
	before := t.o.contents[d]
	after := *before
	after.Refs, after.Freed = refs, freed
	t.replaceContent(before, &after)
	return nil
}

// DeleteContent implements [blobdriver.Tx].
func (t *blobTx) DeleteContent(row blobdriver.ContentRow) error {
	t.replaceContent(t.o.contents[row.Digest], nil)
	return nil
}

func (t *blobTx) replaceContent(before, after *blobContent) {
	t.undo = append(t.undo, func() { t.moveContent(after, before) })
	t.moveContent(before, after)
}

// moveContent removes one content and adds another. Both may be nil.
func (t *blobTx) moveContent(remove, add *blobContent) {
	if c := remove; c != nil {
		delete(t.o.contents, c.Digest)
		delete(t.b.objects, c.Object)
		if c.Refs == 0 {
			t.b.freed.remove(c.Freed.UnixMilli(), c)
		}
	}
	if c := add; c != nil {
		t.o.contents[c.Digest] = c
		t.b.objects[c.Object] = true
		if c.Refs == 0 {
			t.b.freed.add(c.Freed.UnixMilli(), c)
		}
	}
}
