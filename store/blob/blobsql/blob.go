// Package blobsql stores refs of blobs, and contents in chunks, in SQLite and PostgreSQL.
package blobsql

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
)

// blobRefs implements blobdriver.Refs.
type blobRefs struct{ db sqlkit.DB }

// inline is the default of blob.Config.Inline in bytes: the content of such a blob is written in the transaction of its
// ref.
const inline = 128 << 10

// FileSource is a database with another place for the contents of blobs, such as files.
type FileSource interface {
	BlobContents() blobdriver.Contents
}

// Of returns the blobs of a store of tasks, nil if the store has no database. Their contents are rows of about 1 MiB, so
// reads and writes need constant memory, unless the database is a FileSource.
func Of(tasks any, cfg blob.Config) *blobdriver.Blobs {
	db := sqlkit.Of(tasks)
	if db == nil {
		return nil
	}
	contents := Chunks(db)
	if f, ok := db.(FileSource); ok {
		contents = f.BlobContents()
	}
	if cfg.Inline == 0 {
		cfg.Inline = inline
	}
	return blobdriver.New(cfg, Refs(db), contents)
}

// RefsOf returns the rows of blobs of a store of tasks, for blobs with other contents. It is nil if the store has no
// database.
func RefsOf(tasks any) blobdriver.Refs {
	if db := sqlkit.Of(tasks); db != nil {
		return Refs(db)
	}
	return nil
}

// Refs returns the rows of blobs in a database. Their tables are blob_owners, blob_refs,
// blob_pins, blob_contents and blob_chunks.
func Refs(db sqlkit.DB) blobdriver.Refs { return &blobRefs{db} }

// refColumns are the columns of scanRef.
const refColumns = `r.ref, r.digest, r.size, r.content_type, r.name, r.created_at, r.expires_at, r.ttl, r.holders, r.idempotency_key`

const (
	// sqlLockBlobs locks the row of an owner, which serializes the transactions of the owner.
	sqlLockBlobs = `INSERT INTO {s}.blob_owners (owner, version, blobs, bytes) VALUES ($1::text, $2::bigint, 0, 0)
		ON CONFLICT (owner) DO UPDATE SET version = excluded.version RETURNING blobs, bytes`
	sqlBlobVersion  = `SELECT version, blobs, bytes FROM {s}.blob_owners WHERE owner = $1::text`
	sqlSetBlobUsage = `UPDATE {s}.blob_owners SET blobs = $2::bigint, bytes = $3::bigint WHERE owner = $1::text`
	sqlUnlockBlobs  = `DELETE FROM {s}.blob_owners WHERE owner = $1::text`
	sqlBlobUsage    = `SELECT blobs, bytes FROM {s}.blob_owners WHERE owner = $1::text`

	sqlFindBlob = `SELECT ` + refColumns + `, c.object, c.inline, k.data
		FROM {s}.blob_refs r JOIN {s}.blob_contents c ON c.owner = r.owner AND c.digest = r.digest
		LEFT JOIN {s}.blob_chunks k ON $3::boolean AND k.owner = c.owner AND k.object = c.object AND k.n = 0
		WHERE r.owner = $1::text AND r.ref = $2::text`
	sqlBlobRef      = `SELECT ` + refColumns + ` FROM {s}.blob_refs r WHERE r.owner = $1::text AND r.ref = $2::text`
	sqlBlobRefByKey = `SELECT ` + refColumns + ` FROM {s}.blob_refs r WHERE r.owner = $1::text AND r.idempotency_key = $2::text`
	sqlListBlobs    = `SELECT ` + refColumns + ` FROM {s}.blob_refs r
		WHERE r.owner = $1::text AND r.ref > $2::text AND (r.expires_at = 0 OR r.expires_at > $3::bigint) ORDER BY r.ref LIMIT $4::bigint`
	sqlExpiredBlobs = `SELECT owner, ref FROM {s}.blob_refs WHERE expires_at > 0 AND expires_at <= $1::bigint ORDER BY expires_at LIMIT $2::bigint`

	sqlInsertBlobRef = `INSERT INTO {s}.blob_refs (owner, ref, digest, size, content_type, name, created_at, expires_at, ttl, holders, idempotency_key)
		VALUES ($1::text, $2::text, $3::bytea, $4::bigint, $5::text, $6::text, $7::bigint, $8::bigint, $9::bigint, $10::text, $11::text)`
	sqlSetBlobHolders = `UPDATE {s}.blob_refs SET holders = $3::text, expires_at = $4::bigint WHERE owner = $1::text AND ref = $2::text`
	sqlDeleteBlobRef  = `DELETE FROM {s}.blob_refs WHERE owner = $1::text AND ref = $2::text`

	sqlHeldBlobs     = `SELECT ref FROM {s}.blob_pins WHERE owner = $1::text AND holder = $2::text AND ref > $3::text ORDER BY ref LIMIT $4::bigint`
	sqlInsertBlobPin = `INSERT INTO {s}.blob_pins (owner, holder, ref) VALUES ($1::text, $2::text, $3::text)`
	sqlDeleteBlobPin = `DELETE FROM {s}.blob_pins WHERE owner = $1::text AND holder = $2::text AND ref = $3::text`

	sqlBlobContent       = `SELECT size, object, inline, refs, freed_at FROM {s}.blob_contents WHERE owner = $1::text AND digest = $2::bytea`
	sqlInsertBlobContent = `INSERT INTO {s}.blob_contents (owner, digest, size, object, inline, refs, freed_at)
		VALUES ($1::text, $2::bytea, $3::bigint, $4::text, $5::boolean, $6::bigint, $7::bigint)`
	sqlSetBlobRefs       = `UPDATE {s}.blob_contents SET refs = $3::bigint, freed_at = $4::bigint WHERE owner = $1::text AND digest = $2::bytea`
	sqlDeleteBlobContent = `DELETE FROM {s}.blob_contents WHERE owner = $1::text AND digest = $2::bytea`
	sqlFreedBlobs        = `SELECT owner, digest FROM {s}.blob_contents WHERE refs = 0 AND freed_at <= $1::bigint ORDER BY freed_at LIMIT $2::bigint`
	sqlKnownBlob         = `SELECT 1 FROM {s}.blob_contents WHERE object = $1::text`

	sqlInsertBlobChunk = `INSERT INTO {s}.blob_chunks (owner, object, n, data) VALUES ($1::text, $2::text, $3::bigint, $4::bytea)`
	sqlDeleteBlobChunk = `DELETE FROM {s}.blob_chunks WHERE owner = $1::text AND object = $2::text AND n = 0`
)

// Statements are the statements that read by an index, for tests of their plans.
func Statements() []string {
	return []string{
		sqlFindBlob, sqlBlobVersion, sqlBlobRef, sqlBlobRefByKey, sqlListBlobs, sqlHeldBlobs, sqlDeleteBlobPin, sqlExpiredBlobs, sqlBlobContent, sqlFreedBlobs, sqlKnownBlob,
		sqlReadBlobChunk, sqlDeleteBlobChunks, sqlListBlobObjects,
	}
}

// holderSeparator separates holders in a column. Holders contain no control characters.
const holderSeparator = "\n"

func scanRef(r sqlkit.Row) (row blobdriver.RefRow) {
	row.Ref, row.Digest, row.Size = r.Text(0), blob.Digest(r.Bytes(1)), r.Int(2)
	row.ContentType, row.Name = r.Text(3), r.Text(4)
	row.Created, row.Expires, row.TTL = blobTime(r.Int(5)), blobTime(r.Int(6)), time.Duration(r.Int(7))*time.Millisecond
	if holders := r.Text(8); holders != "" {
		row.Holders = strings.Split(holders, holderSeparator)
	}
	if !r.Null(9) {
		row.Key = r.Text(9)
	}
	return row
}

// blobTime returns the time of a column, in which 0 means no time.
func blobTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func blobMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// find runs a query for at most one row.
func (b *blobRefs) find(ctx context.Context, text string, scan func(r sqlkit.Row), args ...any) error {
	return b.db.Read(ctx, func(q sqlkit.Querier) error {
		return q.Query(text, func(r sqlkit.Row) error {
			scan(r)
			return nil
		}, args...)
	})
}

// Find implements blobdriver.Refs.
func (b *blobRefs) Find(ctx context.Context, owner, ref string, data bool) (row blobdriver.Row, err error) {
	err = b.find(ctx, sqlFindBlob, func(r sqlkit.Row) {
		row = blobdriver.Row{RefRow: scanRef(r), Object: r.Text(10), Inline: r.Int(11) != 0}
		if data {
			row.Data = r.Bytes(12)
		}
	}, owner, ref, data)
	return row, err
}

// FindKey implements blobdriver.Refs.
func (b *blobRefs) FindKey(ctx context.Context, owner, key string) (row blobdriver.RefRow, err error) {
	err = b.find(ctx, sqlBlobRefByKey, func(r sqlkit.Row) { row = scanRef(r) }, owner, key)
	return row, err
}

// Usage implements blobdriver.Refs.
func (b *blobRefs) Usage(ctx context.Context, owner string) (u blob.Usage, err error) {
	err = b.find(ctx, sqlBlobUsage, func(r sqlkit.Row) { u = blob.Usage{Blobs: r.Int(0), Bytes: r.Int(1)} }, owner)
	return u, err
}

// readAll runs a query and returns its rows.
func readAll[R any](ctx context.Context, db sqlkit.DB, text string, scan func(r sqlkit.Row) R, args ...any) (rows []R, err error) {
	err = db.Read(ctx, func(q sqlkit.Querier) error {
		rows = nil
		return q.Query(text, func(r sqlkit.Row) error {
			rows = append(rows, scan(r))
			return nil
		}, args...)
	})
	return rows, err
}

// List implements blobdriver.Refs.
func (b *blobRefs) List(ctx context.Context, p blob.ListParams, now time.Time) ([]blob.Info, error) {
	return readAll(ctx, b.db, sqlListBlobs, func(r sqlkit.Row) blob.Info { return scanRef(r).Info }, p.Owner, p.After, now.UnixMilli(), p.Limit)
}

// Held implements blobdriver.Refs.
func (b *blobRefs) Held(ctx context.Context, owner, holder, after string, limit int) ([]string, error) {
	return readAll(ctx, b.db, sqlHeldBlobs, func(r sqlkit.Row) string { return r.Text(0) }, owner, holder, after, limit)
}

// Expired implements blobdriver.Refs.
func (b *blobRefs) Expired(ctx context.Context, now time.Time, limit int) ([]blobdriver.RefKey, error) {
	return readAll(ctx, b.db, sqlExpiredBlobs, func(r sqlkit.Row) blobdriver.RefKey { return blobdriver.RefKey{Owner: r.Text(0), Ref: r.Text(1)} }, now.UnixMilli(), limit)
}

// Unreferenced implements blobdriver.Refs.
func (b *blobRefs) Unreferenced(ctx context.Context, freed time.Time, limit int) ([]blobdriver.ContentKey, error) {
	return readAll(ctx, b.db, sqlFreedBlobs, func(r sqlkit.Row) blobdriver.ContentKey {
		return blobdriver.ContentKey{Owner: r.Text(0), Digest: blob.Digest(r.Bytes(1))}
	}, freed.UnixMilli(), limit)
}

// Known implements blobdriver.Refs.
func (b *blobRefs) Known(ctx context.Context, objects []blob.Object) (known []bool, err error) {
	err = b.db.Read(ctx, func(q sqlkit.Querier) error {
		known = make([]bool, len(objects))
		for i, o := range objects {
			if err := q.Query(sqlKnownBlob, func(sqlkit.Row) error { known[i] = true; return nil }, o.Name); err != nil {
				return err
			}
		}
		return nil
	})
	return known, err
}
