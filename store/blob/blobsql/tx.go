package blobsql

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
)

// Update implements blobdriver.Refs. The row of an owner without blobs is removed.
func (b *blobRefs) Update(ctx context.Context, owner string, f func(tx blobdriver.Tx) error) error {
	if err := b.updatePlanned(ctx, owner, f); !errors.Is(err, sqlkit.ErrGuard) {
		return err
	}
	return b.db.Write(ctx, func(tx sqlkit.Tx) error { return updateBlobs(tx, owner, f) })
}

// updateBlobs applies a change while it locks the owner. It writes the usage at the end.
func updateBlobs(tx sqlkit.Tx, owner string, f func(tx blobdriver.Tx) error) error {
	t := &blobTx{Tx: tx, owner: owner}
	err := tx.Query(sqlLockBlobs, func(r sqlkit.Row) error {
		t.usage = blob.Usage{Blobs: r.Int(0), Bytes: r.Int(1)}
		return nil
	}, owner, newBlobVersion())
	if err != nil {
		return err
	}
	before := t.usage
	if err := f(t); err != nil {
		return err
	}
	switch t.usage {
	case blob.Usage{}:
		_, err = tx.Exec(sqlUnlockBlobs, owner)
	case before:
	default:
		_, err = tx.Exec(sqlSetBlobUsage, owner, t.usage.Blobs, t.usage.Bytes)
	}
	return err
}

// blobTx implements blobdriver.Tx.
type blobTx struct {
	sqlkit.Tx
	owner string
	usage blob.Usage
}

// exec runs a statement for the owner.
func (t *blobTx) exec(text string, args ...any) error {
	_, err := t.Exec(text, append([]any{t.owner}, args...)...)
	return err
}

// Usage implements blobdriver.Tx.
func (t *blobTx) Usage() (blob.Usage, error) { return t.usage, nil }

// SetUsage implements blobdriver.Tx.
func (t *blobTx) SetUsage(u blob.Usage) error {
	t.usage = u
	return nil
}

func (t *blobTx) ref(text, name string) (row blobdriver.RefRow, err error) {
	err = t.Query(text, func(r sqlkit.Row) error {
		row = scanRef(r)
		return nil
	}, t.owner, name)
	return row, err
}

// Ref implements blobdriver.Tx.
func (t *blobTx) Ref(ref string) (blobdriver.RefRow, error) { return t.ref(sqlBlobRef, ref) }

// RefOfKey implements blobdriver.Tx.
func (t *blobTx) RefOfKey(key string) (blobdriver.RefRow, error) { return t.ref(sqlBlobRefByKey, key) }

// InsertRef implements blobdriver.Tx.
func (t *blobTx) InsertRef(row blobdriver.RefRow) error {
	var key any
	if row.Key != "" {
		key = row.Key
	}
	for _, h := range row.Holders {
		if err := t.exec(sqlInsertBlobPin, h, row.Ref); err != nil {
			return err
		}
	}
	return t.exec(sqlInsertBlobRef, row.Ref, row.Digest[:], row.Size, row.ContentType, row.Name, blobMillis(row.Created), blobMillis(row.Expires),
		row.TTL.Milliseconds(), strings.Join(row.Holders, holderSeparator), key)
}

// SetHolders implements blobdriver.Tx.
func (t *blobTx) SetHolders(row *blobdriver.RefRow, holders []string, expires time.Time) error {
	for _, h := range holders {
		if !slices.Contains(row.Holders, h) {
			if err := t.exec(sqlInsertBlobPin, h, row.Ref); err != nil {
				return err
			}
		}
	}
	if err := t.deletePins(row, holders); err != nil {
		return err
	}
	return t.exec(sqlSetBlobHolders, row.Ref, strings.Join(holders, holderSeparator), blobMillis(expires))
}

// deletePins deletes the pins of a ref, but keeps the pins of the holders in except.
func (t *blobTx) deletePins(row *blobdriver.RefRow, except []string) error {
	for _, h := range row.Holders {
		if !slices.Contains(except, h) {
			if err := t.exec(sqlDeleteBlobPin, h, row.Ref); err != nil {
				return err
			}
		}
	}
	return nil
}

// DeleteRef implements blobdriver.Tx.
func (t *blobTx) DeleteRef(row *blobdriver.RefRow) error {
	if err := t.deletePins(row, nil); err != nil {
		return err
	}
	return t.exec(sqlDeleteBlobRef, row.Ref)
}

// Content implements blobdriver.Tx.
func (t *blobTx) Content(d blob.Digest) (row blobdriver.ContentRow, err error) {
	err = t.Query(sqlBlobContent, func(r sqlkit.Row) error {
		row = blobdriver.ContentRow{Digest: d, Size: r.Int(0), Object: r.Text(1), Inline: r.Int(2) != 0, Refs: r.Int(3), Freed: blobTime(r.Int(4))}
		return nil
	}, t.owner, d[:])
	return row, err
}

// InsertContent implements blobdriver.Tx.
func (t *blobTx) InsertContent(row blobdriver.ContentRow, data []byte) error {
	err := t.exec(sqlInsertBlobContent, row.Digest[:], row.Size, row.Object, row.Inline, row.Refs, blobMillis(row.Freed))
	if err != nil || !row.Inline {
		return err
	}
	if data == nil {
		data = []byte{} // not null
	}
	return t.exec(sqlInsertBlobChunk, row.Object, 0, data)
}

// SetRefs implements blobdriver.Tx.
func (t *blobTx) SetRefs(d blob.Digest, refs int64, freed time.Time) error {
	return t.exec(sqlSetBlobRefs, d[:], refs, blobMillis(freed))
}

// DeleteContent implements blobdriver.Tx.
func (t *blobTx) DeleteContent(row blobdriver.ContentRow) error {
	if err := t.exec(sqlDeleteBlobContent, row.Digest[:]); err != nil || !row.Inline {
		return err
	}
	return t.exec(sqlDeleteBlobChunk, row.Object)
}
