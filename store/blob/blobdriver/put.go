package blobdriver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/holdfast-dev/holdfast/store/blob"
)

// Put implements [blob.Store]. It stores the content, then commits the rows that refer to it.
func (b *Blobs) Put(ctx context.Context, r io.Reader, p blob.PutParams) (blob.Info, error) {
	if err := completePut(&p, &b.cfg); err != nil {
		return blob.Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return blob.Info{}, err
	}
	start := b.now()
	repeated, err := b.repeated(ctx, &p, start)
	if err != nil || repeated.Ref != "" {
		return repeated, err
	}
	if p.Size > 0 { // before the content is read
		usage, err := b.refs.Usage(ctx, p.Owner)
		if err == nil {
			err = b.checkQuota(usage, p.Size)
		}
		if err != nil {
			return blob.Info{}, err
		}
	}
	u := &upload{params: &p, start: start, object: blob.Object{Owner: p.Owner, Name: newID(start, 0)}}
	if err := b.receive(ctx, u, r); err != nil {
		return blob.Info{}, err
	}
	return b.commit(ctx, u)
}

// repeated returns the blob with the idempotency key of p, if it exists.
func (b *Blobs) repeated(ctx context.Context, p *blob.PutParams, now time.Time) (blob.Info, error) {
	key := storedKey(p, p.Digest)
	if key == "" {
		return blob.Info{}, nil
	}
	row, err := b.refs.FindKey(ctx, p.Owner, key)
	if err != nil || !row.live(now) {
		return blob.Info{}, err
	}
	return row.repeat(p.Digest)
}

// storedKey returns the stored idempotency key of a content, "" if there is none or the content is not known.
func storedKey(p *blob.PutParams, d blob.Digest) string {
	switch {
	case p.IdempotencyKey == "" || !p.KeyPerContent:
		return p.IdempotencyKey
	case d.IsZero():
		return ""
	}
	return p.IdempotencyKey + "/" + d.String()
}

// repeat returns the blob as the result of a repeated Put.
func (r *RefRow) repeat(want blob.Digest) (blob.Info, error) {
	if !want.IsZero() && want != r.Digest {
		return blob.Info{}, blob.ErrConflict
	}
	return r.Info, nil
}

// checkQuota returns an error if a blob of a size exceeds a quota.
func (b *Blobs) checkQuota(u blob.Usage, size int64) error {
	if limit := b.cfg.OwnerBlobs; limit > 0 && u.Blobs >= limit {
		return &blob.QuotaError{Resource: "blobs", Limit: limit, Used: u.Blobs, Wanted: 1}
	}
	if limit := b.cfg.OwnerBytes; limit > 0 && u.Bytes > limit-size {
		return &blob.QuotaError{Resource: "bytes", Limit: limit, Used: u.Bytes, Wanted: size}
	}
	return nil
}

// upload is content that has been received and has no ref yet.
type upload struct {
	params *blob.PutParams
	start  time.Time
	object blob.Object
	size   int64
	digest blob.Digest
	inline bool
	data   []byte // if inline
	// restored is the description of a blob that is imported, nil for a new one.
	restored *blob.Info
}

// maxGrow is the maximum size for which memory is reserved before the content arrives.
const maxGrow = 1 << 20

// receive reads the content and stores it, unless it is small enough to be inline.
func (b *Blobs) receive(ctx context.Context, u *upload, r io.Reader) error {
	in := &receiver{ctx: ctx, r: r, hash: sha256.New(), limit: b.cfg.MaxSize, over: blob.ErrTooLarge}
	if u.params.Size > 0 {
		in.limit, in.over = u.params.Size, blob.ErrSize
	}
	var head bytes.Buffer
	if n := u.params.Size; n <= min(b.cfg.Inline, maxGrow) {
		head.Grow(int(n) + bytes.MinRead) // so that ReadFrom does not grow it again
	}
	if _, err := head.ReadFrom(io.LimitReader(in, min(b.cfg.Inline, b.cfg.MaxSize)+1)); err != nil {
		return in.failure(err)
	}
	u.inline = int64(head.Len()) <= b.cfg.Inline
	if u.inline {
		u.data = head.Bytes()
	} else {
		size := u.params.Size
		if size == 0 {
			size = -1
		}
		if err := b.contents.Create(ctx, u.object, io.MultiReader(&head, in), size); err != nil {
			return in.failure(err)
		}
	}
	err := in.end()
	u.size = in.size
	in.hash.Sum(u.digest[:0])
	switch {
	case err != nil:
	case u.params.Size != 0 && u.size != u.params.Size:
		err = blob.ErrSize
	case !u.params.Digest.IsZero() && u.digest != u.params.Digest:
		err = blob.ErrDigest
	}
	if err != nil {
		b.discard(ctx, u)
	}
	return err
}

// discardTimeout bounds the removal of an upload that failed. If the removal takes longer,
// RemoveOrphans removes the upload later.
const discardTimeout = 10 * time.Second

// discard removes the content of an upload that no row refers to.
func (b *Blobs) discard(ctx context.Context, u *upload) {
	if u.inline {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	_ = b.contents.Remove(ctx, u.object)
}

// commit adds a ref to an upload. If the owner has the content already, the upload is discarded. If
// the outcome of the transaction is unknown, the upload is kept: the rows may refer to it.
func (b *Blobs) commit(ctx context.Context, u *upload) (info blob.Info, err error) {
	var used bool // the rows refer to the upload
	var rejected error
	ref, key := b.ids.next(b.now()), storedKey(u.params, u.digest)
	err = b.refs.Update(ctx, u.params.Owner, func(tx Tx) error {
		used, rejected = false, nil
		now := b.now()
		row, err := b.claimKey(tx, key, now)
		if err != nil {
			return err
		}
		if u.restored != nil {
			ref = u.restored.Ref
			if row, err = tx.Ref(ref); err != nil {
				return err
			}
		}
		if row.Ref != "" {
			info, rejected = row.repeat(u.params.Digest)
			return rejected
		}
		usage, err := tx.Usage()
		if err != nil {
			return err
		}
		if rejected = b.admit(u, usage, now); rejected != nil {
			return rejected
		}
		if used, err = addContent(tx, u); err != nil {
			return err
		}
		info = u.info(ref, now)
		if err := tx.InsertRef(RefRow{Info: info, Key: key}); err != nil {
			return err
		}
		return tx.SetUsage(blob.Usage{Blobs: usage.Blobs + 1, Bytes: usage.Bytes + u.size})
	})
	if err == nil && !used || err != nil && rejected != nil {
		b.discard(ctx, u)
	}
	if err != nil {
		return blob.Info{}, err
	}
	return info, nil
}

// admit returns an error if an upload must not be committed. An orphan is removed only after
// twice the time that an upload may take, so no upload that is committed is an orphan.
func (b *Blobs) admit(u *upload, usage blob.Usage, now time.Time) error {
	if !u.inline && now.Sub(u.start) > b.cfg.Grace {
		return blob.ErrTooSlow
	}
	return b.checkQuota(usage, u.size)
}

// claimKey returns the live ref with the idempotency key of a new blob. It removes an expired ref
// with the key.
func (b *Blobs) claimKey(tx Tx, key string, now time.Time) (RefRow, error) {
	if key == "" {
		return RefRow{}, nil
	}
	row, err := tx.RefOfKey(key)
	if err != nil || row.Ref == "" || row.live(now) {
		return row, err
	}
	return RefRow{}, removeRef(tx, &row, now)
}

// addContent adds a ref to the content of an upload. used reports that this content has the bytes
// of the upload itself, and not the bytes of an earlier upload.
func addContent(tx Tx, u *upload) (used bool, err error) {
	content, err := tx.Content(u.digest)
	switch {
	case err != nil:
		return false, err
	case content.Object != "":
		return content.Object == u.object.Name, tx.SetRefs(u.digest, content.Refs+1, time.Time{})
	}
	return true, tx.InsertContent(ContentRow{Digest: u.digest, Size: u.size, Object: u.object.Name, Inline: u.inline, Refs: 1}, u.data)
}

// info returns the description of the blob of an upload.
func (u *upload) info(ref string, now time.Time) blob.Info {
	if u.restored != nil {
		info := *u.restored
		info.Size, info.Digest = u.size, u.digest
		return info
	}
	p := u.params
	info := blob.Info{
		Ref: ref, Size: u.size, Digest: u.digest, ContentType: p.ContentType, Name: p.Name, TTL: p.TTL.Truncate(time.Millisecond),
		Created: now, Expires: expiry(now, p.TTL),
	}
	if p.Holder != "" {
		info.Expires, info.Holders = time.Time{}, []string{p.Holder}
	}
	return info
}

// receiver reads the content of an upload, up to a limit, and hashes it.
type receiver struct {
	ctx   context.Context // the context of the call
	r     io.Reader
	hash  hash.Hash
	size  int64
	limit int64
	over  error // of content above the limit
	ended bool
	err   error // of the last Read
}

// Read implements io.Reader.
func (r *receiver) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.err = r.ctx.Err(); r.err != nil {
		return 0, r.err
	}
	n, err := r.r.Read(p)
	if n < 0 || n > len(p) {
		n, err = 0, errors.New("reader returned an invalid count")
	}
	r.size += int64(n)
	switch {
	case r.size > r.limit:
		err = r.over
	case err == io.EOF: //nolint:errorlint // as in io.Copy
		r.ended = true
	}
	r.hash.Write(p[:n])
	r.err = err
	return n, err
}

// maxEmptyReads is the number of reads without a result after which a reader is broken.
const maxEmptyReads = 100

// end returns an error unless r was read to its end. A Contents that knows the size may stop
// before.
func (r *receiver) end() error {
	for range maxEmptyReads {
		if r.ended || r.err != nil {
			break
		}
		if n, _ := r.Read(make([]byte, 1)); n > 0 {
			return blob.ErrSize
		}
	}
	switch {
	case r.ended:
		return nil
	case r.err == nil:
		return io.ErrNoProgress
	}
	return r.failure(r.err)
}

// failure returns the cause of a failed upload: the error of the caller's reader if it has one.
func (r *receiver) failure(err error) error {
	switch {
	case r.err == nil, r.ended:
		return err
	case r.err == r.over, r.ctx.Err() != nil: //nolint:errorlint // its own errors
		return r.err
	}
	return fmt.Errorf("blob: read content: %w", r.err)
}
