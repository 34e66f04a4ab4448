package s3

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
)

// The tables of an owner: the first part of the keys of its rows.
const (
	tableRefs     = "r/" // by ref: refRow
	tableKeys     = "k/" // by idempotency key: the ref
	tableHeld     = "h/" // by holder, NUL and ref
	tableContents = "c/" // by digest: contentRow
	tableObjects  = "o/" // by name of the object
	tableExpiring = "e/" // by time and ref
	tableFreed    = "f/" // by time and digest
)

// refRow is the stored form of a ref, with the object of its content. Times are in milliseconds.
type refRow struct {
	Size    int64    `json:"size"`
	Digest  string   `json:"digest"`
	Type    string   `json:"type"`
	Name    string   `json:"name,omitempty"`
	Created int64    `json:"created"`
	Expires *int64   `json:"expires,omitempty"`
	TTL     int64    `json:"ttl"`
	Holders []string `json:"holders,omitempty"`
	Key     string   `json:"key,omitempty"`
	Object  string   `json:"object"`
	Inline  bool     `json:"empty,omitempty"`
}

// contentRow is the stored form of a content. An inline content is empty.
type contentRow struct {
	Size   int64  `json:"size"`
	Object string `json:"object"`
	Inline bool   `json:"empty,omitempty"`
	Refs   int64  `json:"refs"`
	Freed  int64  `json:"freed,omitempty"`
}

// timeKey returns a time as text that sorts by time.
func timeKey(t time.Time) string { return fmt.Sprintf("%016x", uint64(t.UnixMilli())^1<<63) } // the same bits

// timeKeyLength is the length of timeKey.
const timeKeyLength = 16

func (r *refRow) row(ref string) (blobdriver.Row, error) {
	row := blobdriver.Row{Object: r.Object, Inline: r.Inline, RefRow: blobdriver.RefRow{Key: r.Key, Info: blob.Info{
		Ref: ref, Size: r.Size, ContentType: r.Type, Name: r.Name, Created: time.UnixMilli(r.Created).UTC(),
		TTL: time.Duration(r.TTL) * time.Millisecond, Holders: r.Holders,
	}}}
	if r.Expires != nil {
		row.Expires = time.UnixMilli(*r.Expires).UTC()
	}
	var err error
	row.Digest, err = parseDigest(r.Digest)
	return row, err
}

// ref returns the row of a ref, a zero row if it does not exist.
func (s *state) ref(ref string) (blobdriver.Row, error) {
	var r refRow
	if found, err := s.get(tableRefs+ref, &r); err != nil || !found {
		return blobdriver.Row{}, err
	}
	return r.row(ref)
}

// refOfKey returns the row of a ref by its idempotency key.
func (s *state) refOfKey(key string) (blobdriver.Row, error) {
	var ref string
	if found, err := s.get(tableKeys+key, &ref); err != nil || !found {
		return blobdriver.Row{}, err
	}
	return s.ref(ref)
}

func heldKey(holder, ref string) string { return tableHeld + holder + "\x00" + ref }

// tx implements blobdriver.Tx.
type tx struct{ s *state }

// Usage implements blobdriver.Tx.
func (t *tx) Usage() (blob.Usage, error) { return t.s.Usage, nil }

// SetUsage implements blobdriver.Tx.
func (t *tx) SetUsage(u blob.Usage) error {
	t.s.Usage, t.s.changed = u, true
	return nil
}

// Ref implements blobdriver.Tx.
func (t *tx) Ref(ref string) (blobdriver.RefRow, error) {
	row, err := t.s.ref(ref)
	return row.RefRow, err
}

// RefOfKey implements blobdriver.Tx.
func (t *tx) RefOfKey(key string) (blobdriver.RefRow, error) {
	row, err := t.s.refOfKey(key)
	return row.RefRow, err
}

// InsertRef implements blobdriver.Tx.
func (t *tx) InsertRef(row blobdriver.RefRow) error {
	content, err := t.Content(row.Digest)
	if err != nil {
		return err
	}
	if row.Key != "" {
		if err := t.s.set(tableKeys+row.Key, row.Ref); err != nil {
			return err
		}
	}
	return t.put(&row, content.Object, content.Inline)
}

// put adds a ref, with the rows by which it is found.
func (t *tx) put(row *blobdriver.RefRow, object string, inline bool) error {
	r := refRow{
		Size: row.Size, Digest: row.Digest.String(), Type: row.ContentType, Name: row.Name, Created: row.Created.UnixMilli(),
		TTL: row.TTL.Milliseconds(), Holders: slices.Clone(row.Holders), Key: row.Key, Object: object, Inline: inline,
	}
	if !row.Expires.IsZero() {
		at := row.Expires.UnixMilli()
		r.Expires = &at
		if err := t.s.schedule(dueExpiring, row.Expires, row.Ref); err != nil {
			return err
		}
	}
	for _, h := range row.Holders {
		if err := t.s.set(heldKey(h, row.Ref), nil); err != nil {
			return err
		}
	}
	return t.s.set(tableRefs+row.Ref, &r)
}

// unlink removes the rows by which a ref is found, except the row of its key.
func (t *tx) unlink(row *blobdriver.RefRow) error {
	for _, h := range row.Holders {
		if err := t.s.remove(heldKey(h, row.Ref)); err != nil {
			return err
		}
	}
	if row.Expires.IsZero() {
		return nil
	}
	return t.s.remove(tableExpiring + timeKey(row.Expires) + "/" + row.Ref)
}

// SetHolders implements blobdriver.Tx.
func (t *tx) SetHolders(row *blobdriver.RefRow, holders []string, expires time.Time) error {
	before, err := t.s.ref(row.Ref)
	if err != nil {
		return err
	}
	if err := t.unlink(&before.RefRow); err != nil {
		return err
	}
	after := before.RefRow
	after.Holders, after.Expires = holders, expires
	return t.put(&after, before.Object, before.Inline)
}

// DeleteRef implements blobdriver.Tx.
func (t *tx) DeleteRef(row *blobdriver.RefRow) error {
	if err := t.unlink(row); err != nil {
		return err
	}
	if row.Key != "" {
		if err := t.s.remove(tableKeys + row.Key); err != nil {
			return err
		}
	}
	return t.s.remove(tableRefs + row.Ref)
}

// Content implements blobdriver.Tx.
func (t *tx) Content(d blob.Digest) (blobdriver.ContentRow, error) {
	var r contentRow
	if found, err := t.s.get(tableContents+d.String(), &r); err != nil || !found {
		return blobdriver.ContentRow{}, err
	}
	row := blobdriver.ContentRow{Digest: d, Size: r.Size, Object: r.Object, Inline: r.Inline, Refs: r.Refs}
	if r.Refs == 0 {
		row.Freed = time.UnixMilli(r.Freed).UTC()
	}
	return row, nil
}

// InsertContent implements blobdriver.Tx.
func (t *tx) InsertContent(row blobdriver.ContentRow, data []byte) error {
	if len(data) > 0 {
		return a2a.Errorf(a2a.CodeUnsupported, "s3: refs in a bucket have no inline contents")
	}
	if err := t.s.set(tableObjects+row.Object, nil); err != nil {
		return err
	}
	return t.putContent(&row)
}

func (t *tx) putContent(row *blobdriver.ContentRow) error {
	r := contentRow{Size: row.Size, Object: row.Object, Inline: row.Inline, Refs: row.Refs}
	if row.Refs == 0 {
		r.Freed = row.Freed.UnixMilli()
		if err := t.s.schedule(dueFreed, row.Freed, row.Digest.String()); err != nil {
			return err
		}
	}
	return t.s.set(tableContents+row.Digest.String(), &r)
}

// unschedule removes the row by which a content without refs is found.
func (t *tx) unschedule(row *blobdriver.ContentRow) error {
	if row.Refs > 0 {
		return nil
	}
	return t.s.remove(tableFreed + timeKey(row.Freed) + "/" + row.Digest.String())
}

// SetRefs implements blobdriver.Tx.
func (t *tx) SetRefs(d blob.Digest, refs int64, freed time.Time) error {
	row, err := t.Content(d)
	if err != nil {
		return err
	}
	if err := t.unschedule(&row); err != nil {
		return err
	}
	row.Refs, row.Freed = refs, freed
	return t.putContent(&row)
}

// DeleteContent implements blobdriver.Tx.
func (t *tx) DeleteContent(row blobdriver.ContentRow) error {
	if err := t.unschedule(&row); err != nil {
		return err
	}
	if err := t.s.remove(tableObjects + row.Object); err != nil {
		return err
	}
	return t.s.remove(tableContents + row.Digest.String())
}
