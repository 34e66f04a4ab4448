package blobsql

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
)

// A change of an owner's blobs needs several reads. A transaction that locked the owner meanwhile would
// block all of the owner's blobs while its process is suspended. So the reads lock nothing: a change is
// planned, and then sent at once as a transaction, which has an effect only if the owner's row has the
// version that the plan has read. Each change gives the row a new version.

const (
	// sqlMoveBlobUsage and sqlRemoveBlobUsage fail, by a division by zero, if the row has another version.
	sqlMoveBlobUsage = `WITH moved AS (UPDATE {s}.blob_owners SET version = $3::bigint, blobs = $4::bigint, bytes = $5::bigint
		WHERE owner = $1::text AND version = $2::bigint RETURNING 1) SELECT 1 / count(*) FROM moved`
	sqlRemoveBlobUsage = `WITH removed AS (DELETE FROM {s}.blob_owners WHERE owner = $1::text AND version = $2::bigint RETURNING 1)
		SELECT 1 / count(*) FROM removed`
	sqlAddBlobUsage = `INSERT INTO {s}.blob_owners (owner, version, blobs, bytes) VALUES ($1::text, $2::bigint, $3::bigint, $4::bigint)`
)

// updatePlanned applies a change without a lock. It returns ErrGuard if the DB has no pipelines, or if other
// processes change the owner's blobs too often.
func (b *blobRefs) updatePlanned(ctx context.Context, owner string, f func(tx blobdriver.Tx) error) error {
	db, ok := b.db.(sqlkit.Pipeliner)
	if !ok {
		return sqlkit.ErrGuard
	}
	unlock, err := db.LockPlan(ctx, plannedBlobs(owner))
	if err != nil {
		return err
	}
	defer unlock()
	for try := range sqlkit.MostPlans {
		if try > 0 {
			pause := rand.Int64N(int64(try) * int64(5*time.Millisecond)) //nolint:gosec // a pause needs no secrecy
			if err := runtime.Sleep(ctx, time.Duration(pause)); err != nil {
				return err
			}
		}
		calls, err := b.plan(ctx, owner, false, f)
		if err != nil || len(calls) == 0 {
			return err
		}
		err = db.Pipeline(ctx, "", calls...)
		if errors.Is(err, sqlkit.ErrAnswerLost) {
			return nil // its rows have no results
		}
		if !errors.Is(err, sqlkit.ErrGuard) {
			return err
		}
	}
	return sqlkit.ErrGuard
}

// plannedBlobs returns the name of an owner's rows for Pipeliner.LockPlan.
func plannedBlobs(owner string) string { return "blobs\x00" + owner }

// plan returns the statements of a change, none if it changes nothing. With guarded, such a change has
// statements that fail if the owner's blobs have changed since.
func (b *blobRefs) plan(ctx context.Context, owner string, guarded bool, f func(tx blobdriver.Tx) error) (calls []sqlkit.Call, err error) {
	err = b.db.Read(ctx, func(q sqlkit.Querier) error {
		planned := &sqlkit.PlannedCalls{Querier: q}
		p := &blobPlan{blobTx: blobTx{Tx: planned, owner: owner}, refs: make(map[string]blobdriver.RefRow), contents: make(map[blob.Digest]blobdriver.ContentRow)}
		var version int64
		err := q.Query(sqlBlobVersion, func(r sqlkit.Row) error {
			version, p.usage = r.Int(0), blob.Usage{Blobs: r.Int(1), Bytes: r.Int(2)}
			return nil
		}, owner)
		if err == nil {
			err = f(p)
		}
		if calls = planned.Calls; err == nil && (guarded || len(calls) > 0) {
			calls = append(calls, p.guard(version)...) // last, since they lock the row
		}
		return err
	})
	return calls, err
}

// newBlobVersion returns a version that no row has had, since a row that was removed may be added again.
func newBlobVersion() int64 { return 1 + rand.Int64N(1<<62) } //nolint:gosec // identifies a change, needs no secrecy

// guard returns the statements that change the owner's row if it has the given version. 0 means that there was
// no row. An owner without blobs has no row.
func (p *blobPlan) guard(version int64) (calls []sqlkit.Call) {
	if version != 0 && p.usage != (blob.Usage{}) {
		return []sqlkit.Call{{Text: sqlMoveBlobUsage, Args: []any{p.owner, version, newBlobVersion(), p.usage.Blobs, p.usage.Bytes}}}
	}
	if version == 0 {
		version = newBlobVersion()
		calls = append(calls, sqlkit.Call{Text: sqlAddBlobUsage, Args: []any{p.owner, version, p.usage.Blobs, p.usage.Bytes}})
	}
	if p.usage == (blob.Usage{}) {
		calls = append(calls, sqlkit.Call{Text: sqlRemoveBlobUsage, Args: []any{p.owner, version}})
	}
	return calls
}

// blobPlan is a blobdriver.Tx that sees its own planned changes.
type blobPlan struct {
	blobTx
	refs     map[string]blobdriver.RefRow // changed ones
	contents map[blob.Digest]blobdriver.ContentRow
}

// Ref implements blobdriver.Tx.
func (p *blobPlan) Ref(ref string) (blobdriver.RefRow, error) {
	if row, ok := p.refs[ref]; ok {
		return row, nil
	}
	return p.blobTx.Ref(ref)
}

// RefOfKey implements blobdriver.Tx.
func (p *blobPlan) RefOfKey(key string) (blobdriver.RefRow, error) {
	for _, row := range p.refs {
		if row.Key == key {
			return row, nil
		}
	}
	row, err := p.blobTx.RefOfKey(key)
	if changed, ok := p.refs[row.Ref]; ok {
		return changed, err
	}
	return row, err
}

// InsertRef implements blobdriver.Tx.
func (p *blobPlan) InsertRef(row blobdriver.RefRow) error {
	p.refs[row.Ref] = row
	return p.blobTx.InsertRef(row)
}

// SetHolders implements blobdriver.Tx.
func (p *blobPlan) SetHolders(row *blobdriver.RefRow, holders []string, expires time.Time) error {
	changed := *row
	changed.Holders, changed.Expires = holders, expires
	p.refs[row.Ref] = changed
	return p.blobTx.SetHolders(row, holders, expires)
}

// DeleteRef implements blobdriver.Tx.
func (p *blobPlan) DeleteRef(row *blobdriver.RefRow) error {
	p.refs[row.Ref] = blobdriver.RefRow{}
	return p.blobTx.DeleteRef(row)
}

// Content implements blobdriver.Tx.
func (p *blobPlan) Content(d blob.Digest) (blobdriver.ContentRow, error) {
	if row, ok := p.contents[d]; ok {
		return row, nil
	}
	row, err := p.blobTx.Content(d)
	p.contents[d] = row
	return row, err
}

// InsertContent implements blobdriver.Tx.
func (p *blobPlan) InsertContent(row blobdriver.ContentRow, data []byte) error {
	p.contents[row.Digest] = row
	return p.blobTx.InsertContent(row, data)
}

// SetRefs implements blobdriver.Tx.
func (p *blobPlan) SetRefs(d blob.Digest, refs int64, freed time.Time) error {
	row, err := p.Content(d)
	if err != nil {
		return err
	}
	row.Refs, row.Freed = refs, freed
	p.contents[d] = row
	return p.blobTx.SetRefs(d, refs, freed)
}

// DeleteContent implements blobdriver.Tx.
func (p *blobPlan) DeleteContent(row blobdriver.ContentRow) error {
	p.contents[row.Digest] = blobdriver.ContentRow{}
	return p.blobTx.DeleteContent(row)
}
