package blobdriver

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/store/blob"
)

// Sweep implements [blob.Maintenance].
func (b *Blobs) Sweep(ctx context.Context, now time.Time, limit int) (s blob.Swept, err error) {
	if limit < 1 {
		return s, invalid("limit", "must be positive (%d)", limit)
	}
	expired, err := b.refs.Expired(ctx, now, limit)
	if err != nil {
		return s, err
	}
	s.More = len(expired) == limit
	byOwner := make(map[string][]string)
	for _, k := range expired {
		byOwner[k.Owner] = append(byOwner[k.Owner], k.Ref)
	}
	for owner, refs := range byOwner {
		n, err := b.expire(ctx, owner, refs, now)
		if err != nil {
			return s, err
		}
		s.Blobs += n
	}
	freed, err := b.refs.Unreferenced(ctx, now.Add(-b.cfg.Grace), limit)
	if err != nil {
		return s, err
	}
	s.More = s.More || len(freed) == limit
	for _, k := range freed {
		removed, err := b.removeContent(ctx, k, now)
		if err != nil {
			return s, err
		}
		if removed {
			s.Contents++
		}
	}
	return s, nil
}

// expire removes an owner's refs that have expired, and returns their number.
func (b *Blobs) expire(ctx context.Context, owner string, refs []string, now time.Time) (n int, err error) {
	err = b.refs.Update(ctx, owner, func(tx Tx) error {
		n = 0
		for _, ref := range refs {
			row, err := tx.Ref(ref)
			if err != nil {
				return err
			}
			if row.Ref == "" || row.live(now) { // changed since
				continue
			}
			if err := removeRef(tx, &row, now); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}

// removeContent removes a content that has had no ref for the grace period. Its row is removed
// first. If the process dies before its object is removed, the object is an orphan.
func (b *Blobs) removeContent(ctx context.Context, k ContentKey, now time.Time) (bool, error) {
	var row ContentRow
	err := b.refs.Update(ctx, k.Owner, func(tx Tx) (err error) {
		row, err = tx.Content(k.Digest)
		if err != nil || row.Object == "" {
			return err
		}
		if row.Refs > 0 || row.Freed.After(now.Add(-b.cfg.Grace)) { // used again
			row = ContentRow{}
			return nil
		}
		return tx.DeleteContent(row)
	})
	if err != nil || row.Object == "" {
		return false, err
	}
	if row.Inline {
		return true, nil
	}
	return true, b.contents.Remove(ctx, blob.Object{Owner: k.Owner, Name: row.Object})
}

// RemoveOrphans implements [blob.Maintenance]. Objects with names that are not ids remain, because
// no upload made them.
func (b *Blobs) RemoveOrphans(ctx context.Context, now time.Time, after blob.Object, limit int) (o blob.Orphans, err error) {
	if limit < 1 {
		return o, invalid("limit", "must be positive (%d)", limit)
	}
	if b.contents == nil {
		return o, nil
	}
	objects, err := b.contents.List(ctx, after, limit)
	if err != nil || len(objects) == 0 {
		return o, err
	}
	o.Checked, o.More, o.Next = len(objects), len(objects) == limit, objects[len(objects)-1]
	old := objects[:0]
	for _, object := range objects {
		if at, ok := timeOfID(object.Name); ok && at.Before(now.Add(-2*b.cfg.Grace)) {
			old = append(old, object)
		}
	}
	known, err := b.refs.Known(ctx, old)
	if err != nil {
		return o, err
	}
	var errs []error
	for i, object := range old {
		if known[i] {
			continue
		}
		if err := b.contents.Remove(ctx, object); err != nil {
			errs = append(errs, err)
			continue
		}
		o.Removed++
	}
	return o, errors.Join(errs...)
}
