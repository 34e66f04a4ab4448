package s3

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/holdfast-dev/holdfast/store/blob"
)

// partSize is the size of the parts of a large object, and the memory of an upload. S3 accepts
// 10,000 parts of at least 5 MiB.
const (
	partSize = 8 << 20
	maxParts = 10_000
)

var parts = sync.Pool{New: func() any { return new([partSize]byte) }}

// uploadOptions are the options of every upload.
var uploadOptions = minio.PutObjectOptions{ContentType: "application/octet-stream"}

// Create implements blobdriver.Contents. An object that fits in one part is one request.
func (c *Contents) Create(ctx context.Context, o blob.Object, r io.Reader, size int64) error {
	if size >= 0 && size <= partSize {
		data := make([]byte, size)
		n, _, err := fill(r, data)
		if err != nil {
			return err
		}
		return c.put(ctx, o, data[:n])
	}
	part := parts.Get().(*[partSize]byte)
	defer parts.Put(part)
	n, ended, err := fill(r, part[:])
	if err != nil {
		return err
	}
	if ended {
		return c.put(ctx, o, part[:n])
	}
	return c.createInParts(ctx, o, r, part[:])
}

// put uploads an object in one request.
func (c *Contents) put(ctx context.Context, o blob.Object, data []byte) error {
	_, err := c.core.Client.PutObject(ctx, c.cfg.Bucket, c.key(o), bytes.NewReader(data), int64(len(data)), uploadOptions)
	return c.wrap(ctx, err, "put object")
}

// createInParts uploads an object in parts. part has the first one, which was read before.
func (c *Contents) createInParts(ctx context.Context, o blob.Object, r io.Reader, part []byte) (err error) {
	id, err := c.core.NewMultipartUpload(ctx, c.cfg.Bucket, c.key(o), uploadOptions)
	if err != nil {
		return c.wrap(ctx, err, "start upload")
	}
	defer func() {
		if err != nil {
			c.abort(ctx, o, id)
		}
	}()
	var done []minio.CompletePart
	for n, ended := len(part), false; n > 0; {
		number := len(done) + 1
		if number > maxParts {
			return blob.ErrTooLarge
		}
		sent, err := c.core.PutObjectPart(ctx, c.cfg.Bucket, c.key(o), id, number, bytes.NewReader(part[:n]), int64(n), minio.PutObjectPartOptions{})
		if err != nil {
			return c.wrap(ctx, err, "upload part")
		}
		done = append(done, minio.CompletePart{PartNumber: number, ETag: sent.ETag})
		if n = 0; !ended {
			if n, ended, err = fill(r, part); err != nil {
				return err
			}
		}
	}
	_, err = c.core.CompleteMultipartUpload(ctx, c.cfg.Bucket, c.key(o), id, done, uploadOptions)
	return c.wrap(ctx, err, "complete upload")
}

// abort removes the parts of an upload that failed. If this fails too, List returns the upload.
func (c *Contents) abort(ctx context.Context, o blob.Object, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = c.core.AbortMultipartUpload(ctx, c.cfg.Bucket, c.key(o), id)
}

// fill reads until p is full or r has ended.
func fill(r io.Reader, p []byte) (n int, ended bool, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	if err == io.EOF { //nolint:errorlint // as in io.Copy
		return n, true, nil
	}
	return n, false, err
}

// Open implements blobdriver.Contents.
func (c *Contents) Open(ctx context.Context, o blob.Object, offset, length int64) (io.ReadCloser, error) {
	if length == 0 {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	var opts minio.GetObjectOptions
	if err := opts.SetRange(offset, offset+length-1); err != nil {
		return nil, err
	}
	r, _, _, err := c.core.GetObject(ctx, c.cfg.Bucket, c.key(o), opts)
	switch minio.ToErrorResponse(err).Code {
	case minio.NoSuchKey, "InvalidRange":
		return nil, blob.ErrCorrupt
	}
	if err != nil {
		return nil, c.wrap(ctx, err, "get object")
	}
	return &body{ReadCloser: r, ctx: ctx, c: c}, nil
}

// body is the body of a response.
type body struct {
	io.ReadCloser
	ctx context.Context // the context of Open
	c   *Contents
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // as in io.Copy
		err = b.c.wrap(b.ctx, err, "read object")
	}
	return n, err
}

// Remove implements blobdriver.Contents. It also aborts incomplete uploads of the object.
func (c *Contents) Remove(ctx context.Context, o blob.Object) error {
	if err := c.core.RemoveObject(ctx, c.cfg.Bucket, c.key(o), minio.RemoveObjectOptions{}); err != nil {
		return c.wrap(ctx, err, "remove object")
	}
	uploads, err := c.core.ListMultipartUploads(ctx, c.cfg.Bucket, c.key(o), "", "", "", 10)
	if err != nil {
		return c.wrap(ctx, err, "list uploads")
	}
	for _, u := range uploads.Uploads {
		if u.Key != c.key(o) {
			continue
		}
		if err := c.core.AbortMultipartUpload(ctx, c.cfg.Bucket, u.Key, u.UploadID); err != nil && minio.ToErrorResponse(err).Code != "NoSuchUpload" {
			return c.wrap(ctx, err, "abort upload")
		}
	}
	return nil
}

// List implements blobdriver.Contents. It returns objects and incomplete uploads, by key.
func (c *Contents) List(ctx context.Context, after blob.Object, limit int) (found []blob.Object, err error) {
	listing, cancel := context.WithCancel(ctx)
	defer cancel()
	start := ""
	if after.Name != "" {
		start = c.key(after)
	}
	for object := range c.core.ListObjectsIter(listing, c.cfg.Bucket, minio.ListObjectsOptions{Prefix: c.cfg.Prefix, StartAfter: start, Recursive: true, MaxKeys: limit}) {
		if object.Err != nil {
			return nil, c.wrap(ctx, object.Err, "list objects")
		}
		if found = append(found, blob.Object{Name: strings.TrimPrefix(object.Key, c.cfg.Prefix)}); len(found) == limit {
			break
		}
	}
	uploads, err := c.core.ListMultipartUploads(ctx, c.cfg.Bucket, c.cfg.Prefix, start, "", "", limit)
	if err != nil {
		return nil, c.wrap(ctx, err, "list uploads")
	}
	for _, u := range uploads.Uploads {
		if u.Key > start {
			found = append(found, blob.Object{Name: strings.TrimPrefix(u.Key, c.cfg.Prefix)})
		}
	}
	slices.SortFunc(found, func(a, b blob.Object) int { return cmp.Compare(a.Name, b.Name) })
	found = slices.Compact(found)
	return found[:min(len(found), limit)], nil
}
