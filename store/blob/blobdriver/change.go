package blobdriver

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store/blob"
)

// change runs f with a live ref of the owner.
func (b *Blobs) change(ctx context.Context, owner, ref string, f func(tx Tx, row *RefRow, now time.Time) error) error {
	if err := checkRef(owner, ref); err != nil {
		return err
	}
	return b.refs.Update(ctx, owner, b.onRef(ref, f))
}

// checkRef checks the arguments of a change. A text that cannot be a ref is not found.
func checkRef(owner, ref string) error {
	if err := checkOwner(owner); err != nil {
		return err
	}
	if !validID(ref) {
		return blob.ErrNotFound
	}
	return nil
}

// onRef returns the function of a transaction that calls f with a live ref.
func (b *Blobs) onRef(ref string, f func(tx Tx, row *RefRow, now time.Time) error) func(tx Tx) error {
	return func(tx Tx) error {
		now := b.now()
		row, err := tx.Ref(ref)
		if err != nil {
			return err
		}
		if !row.live(now) {
			return blob.ErrNotFound
		}
		return f(tx, &row, now)
	}
}

// Delete implements [blob.Store].
func (b *Blobs) Delete(ctx context.Context, owner, ref string) error {
	return b.change(ctx, owner, ref, removeRef)
}

// removeRef removes a ref. Its content remains for the grace period.
func removeRef(tx Tx, row *RefRow, now time.Time) error {
	usage, err := tx.Usage()
	if err != nil {
		return err
	}
	if err := tx.SetUsage(blob.Usage{Blobs: usage.Blobs - 1, Bytes: usage.Bytes - row.Size}); err != nil {
		return err
	}
	content, err := tx.Content(row.Digest)
	if err != nil {
		return err
	}
	if err := tx.SetRefs(row.Digest, content.Refs-1, now); err != nil {
		return err
	}
	return tx.DeleteRef(row)
}

// Touch implements [blob.Store].
func (b *Blobs) Touch(ctx context.Context, owner, ref string, ttl time.Duration) (info blob.Info, err error) {
	if err := checkTTL(ttl); err != nil {
		return blob.Info{}, err
	}
	err = b.change(ctx, owner, ref, func(tx Tx, row *RefRow, now time.Time) error {
		if info = row.Info; info.Expires.IsZero() {
			return nil
		}
		if ttl == 0 {
			ttl = row.TTL
		}
		if later := expiry(now, ttl); later.After(info.Expires) {
			info.Expires = later
			return tx.SetHolders(row, info.Holders, later)
		}
		return nil
	})
	if err != nil {
		return blob.Info{}, err
	}
	return info, nil
}

// expiry returns the time at which a TTL that starts now ends.
func expiry(now time.Time, ttl time.Duration) time.Time {
	return now.Add(ttl).Truncate(time.Millisecond)
}

// Pin implements [blob.Store].
func (b *Blobs) Pin(ctx context.Context, owner, ref, holder string) error {
	if err := checkHolder(holder); err != nil {
		return err
	}
	return b.change(ctx, owner, ref, pin(holder))
}

// pin returns the change that adds a holder.
func pin(holder string) func(tx Tx, row *RefRow, now time.Time) error {
	return func(tx Tx, row *RefRow, _ time.Time) error {
		switch {
		case slices.Contains(row.Holders, holder):
			return nil
		case len(row.Holders) >= blob.MaxHolders:
			return blob.ErrHolders
		}
		return tx.SetHolders(row, append(slices.Clip(row.Holders), holder), time.Time{})
	}
}

// Unpin implements [blob.Store].
func (b *Blobs) Unpin(ctx context.Context, owner, ref, holder string) error {
	if err := checkHolder(holder); err != nil {
		return err
	}
	return b.change(ctx, owner, ref, unpin(holder))
}

// unpin returns the change that removes a holder.
func unpin(holder string) func(tx Tx, row *RefRow, now time.Time) error {
	return func(tx Tx, row *RefRow, now time.Time) error {
		i := slices.Index(row.Holders, holder)
		if i < 0 {
			return nil
		}
		holders, expires := slices.Concat(row.Holders[:i], row.Holders[i+1:]), time.Time{}
		if len(holders) == 0 {
			expires = expiry(now, row.TTL)
		}
		return tx.SetHolders(row, holders, expires)
	}
}

// unpinBatch is the number of blobs that one transaction of UnpinAll unpins.
const unpinBatch = 200

// UnpinAll implements [blob.Store].
func (b *Blobs) UnpinAll(ctx context.Context, owner, holder string) error {
	if err := cmp.Or(checkOwner(owner), checkHolder(holder)); err != nil {
		return err
	}
	for after := ""; ; {
		refs, err := b.refs.Held(ctx, owner, holder, after, unpinBatch)
		if err != nil || len(refs) == 0 {
			return err
		}
		err = b.refs.Update(ctx, owner, func(tx Tx) error {
			for _, ref := range refs {
				row, err := tx.Ref(ref)
				if err == nil && row.Ref != "" {
					err = unpin(holder)(tx, &row, b.now())
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || len(refs) < unpinBatch {
			return err
		}
		after = refs[len(refs)-1]
	}
}
