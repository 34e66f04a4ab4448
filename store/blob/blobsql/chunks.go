package blobsql

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
)

// blobChunk is the size in bytes of the rows of large contents. They are numbered from 1; row 0
// of an object is inline content.
const blobChunk = 1 << 20

const (
	sqlReadBlobChunk = `SELECT data FROM {s}.blob_chunks WHERE owner = $1::text AND object = $2::text AND n = $3::bigint`
	// sqlDeleteBlobChunks removes the last rows first: an object is listed by its first one.
	sqlDeleteBlobChunks = `DELETE FROM {s}.blob_chunks WHERE owner = $1::text AND object = $2::text AND n IN (
		SELECT n FROM {s}.blob_chunks WHERE owner = $1::text AND object = $2::text ORDER BY n DESC LIMIT $3::bigint)`
	sqlListBlobObjects = `SELECT owner, object FROM {s}.blob_chunks WHERE n = 1 AND (owner, object) > ($1::text, $2::text) ORDER BY owner, object LIMIT $3::bigint`
)

// deleteChunks is the number of rows that one transaction removes.
const deleteChunks = 64

// blobChunks implements blobdriver.Contents.
type blobChunks struct{ db sqlkit.DB }

// Chunks returns the contents of blobs as rows of a database. A call needs memory for one
// row.
func Chunks(db sqlkit.DB) blobdriver.Contents { return &blobChunks{db} }

// Create implements blobdriver.Contents. Each row is a transaction.
func (b *blobChunks) Create(ctx context.Context, o blob.Object, r io.Reader, _ int64) error {
	data := make([]byte, blobChunk)
	for n := 1; ; n++ {
		size, err := fill(r, data)
		ended := err == io.EOF //nolint:errorlint // as in io.Copy
		if err != nil && !ended {
			return errors.Join(err, b.discard(ctx, o))
		}
		if size > 0 || n == 1 {
			err = b.db.Write(ctx, func(tx sqlkit.Tx) error {
				_, err := tx.Exec(sqlInsertBlobChunk, o.Owner, o.Name, n, data[:size])
				return err
			})
			if err != nil {
				return errors.Join(err, b.discard(ctx, o))
			}
		}
		if ended {
			return nil
		}
	}
}

// fill reads until p is full. Unlike io.ReadFull, it does not hide an io.ErrUnexpectedEOF of r.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}

// discard removes the rows of an upload that failed.
func (b *blobChunks) discard(ctx context.Context, o blob.Object) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return b.Remove(ctx, o)
}

// Open implements blobdriver.Contents.
func (b *blobChunks) Open(ctx context.Context, o blob.Object, offset, length int64) (io.ReadCloser, error) {
	return &chunkReader{ctx: ctx, db: b.db, object: o, n: 1 + offset/blobChunk, skip: offset % blobChunk, rest: length}, nil
}

// Remove implements blobdriver.Contents.
func (b *blobChunks) Remove(ctx context.Context, o blob.Object) error {
	for {
		var n int64
		err := b.db.Write(ctx, func(tx sqlkit.Tx) (err error) {
			n, err = tx.Exec(sqlDeleteBlobChunks, o.Owner, o.Name, deleteChunks)
			return err
		})
		if err != nil || n < deleteChunks {
			return err
		}
	}
}

// List implements blobdriver.Contents.
func (b *blobChunks) List(ctx context.Context, after blob.Object, limit int) ([]blob.Object, error) {
	return readAll(ctx, b.db, sqlListBlobObjects, func(r sqlkit.Row) blob.Object { return blob.Object{Owner: r.Text(0), Name: r.Text(1)} }, after.Owner, after.Name, limit)
}

// chunkReader reads the rows of an object, one at a time.
type chunkReader struct {
	ctx        context.Context // the context of Open
	db         sqlkit.DB
	object     blob.Object
	n          int64 // the next row
	skip, rest int64
	data       []byte // the unread part of the current row
}

// Read implements io.Reader.
func (c *chunkReader) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		if c.rest == 0 {
			return 0, io.EOF
		}
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.data)
	c.data = c.data[n:]
	return n, nil
}

// next reads the next row.
func (c *chunkReader) next() error {
	chunks, err := readAll(c.ctx, c.db, sqlReadBlobChunk, func(r sqlkit.Row) []byte { return r.Bytes(0) }, c.object.Owner, c.object.Name, c.n)
	if err != nil {
		return err
	}
	if len(chunks) == 0 || int64(len(chunks[0])) <= c.skip {
		return blob.ErrCorrupt
	}
	c.data = chunks[0][c.skip:]
	c.data = c.data[:min(int64(len(c.data)), c.rest)]
	c.rest -= int64(len(c.data))
	c.n, c.skip = c.n+1, 0
	return nil
}

// Close implements io.Closer.
func (c *chunkReader) Close() error {
	c.data, c.rest = nil, 0
	return nil
}
