package blobs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// Blobs are the blobs of a turn's owner; see package blob.
//
// Put stores content at once: a later attempt of the turn gets the same ref and does not read the
// content again. The task holds the blob, so that it is kept as long as the task. Pin, Unpin and
// Delete are committed with the next commit of the turn, at the latest with its end. Every attempt must make the
// same calls in the same order, except Open and OpenRange.
//
// While Put runs, other calls of the same step on the turn's data return an error. Make concurrent calls
// in steps of their own.
//
// While the store does not answer, calls wait and are repeated, and readers of Open continue. Put repeats content
// that is an io.Seeker, such as a file or a bytes.Reader. For other content it returns the error. Return it
// from the handler: the attempt starts again and is not counted. Before that, the same step may only repeat the call,
// with the same Params, which include a Digest.
type Blobs struct{ t contract.Turn }

// For returns the blobs of a turn's owner.
func For(t contract.Turn) *Blobs { return &Blobs{t} }

// Params describe a new blob.
type Params struct {
	// ContentType is a media type. Default application/octet-stream.
	ContentType string
	// Name is for people, such as a file name.
	Name string
	// TTL is how long the blob is kept after its last holder, such as this task, has ended. 0 means the
	// default of the store.
	TTL time.Duration
	// Size and Digest describe the content, if they are known. Put returns an error if the content
	// does not match them.
	Size   int64
	Digest blob.Digest
}

// store returns the agent's blobs. It also returns the blobs of the agent's own store, if they can be
// written with the task.
func (b *Blobs) store() (blob.Store, blob.Transactional, error) {
	return contract.ForTurn[blob.Store, blob.Transactional](b.t, Kind)
}

func (b *Blobs) owner() string { return b.t.Session().Owner }

// Put stores all that r returns until io.EOF; see [blob.Store].
func (b *Blobs) Put(ctx context.Context, r io.Reader, p Params) (info blob.Info, err error) {
	s, _, err := b.store()
	if err != nil {
		return blob.Info{}, err
	}
	var args []any
	if !p.Digest.IsZero() {
		args = []any{p}
	}
	src := fileref.NewSource(r)
	err = b.t.Call(ctx, contract.Call{Op: "blobs.put", Args: args, Again: src.Rewind, Result: &info, Direct: func(ctx context.Context, once string) (err error) {
		info, err = s.Put(ctx, src, blob.PutParams{
			Owner: b.owner(), ContentType: p.ContentType, Name: p.Name, TTL: p.TTL, Size: p.Size, Digest: p.Digest,
			IdempotencyKey: once, Holder: fileref.Holder(b.t.TaskID()),
		})
		return err
	}})
	if err != nil {
		return blob.Info{}, err
	}
	return info, nil
}

// Store stores data as Put does, and returns the ref of the blob. contentType is a media type; "" is
// application/octet-stream.
func (b *Blobs) Store(ctx context.Context, data []byte, contentType string) (ref string, err error) {
	info, err := b.Put(ctx, bytes.NewReader(data), Params{ContentType: contentType, Size: int64(len(data))})
	return info.Ref, err
}

// Resolve returns the whole content of a blob. Use Open for content that may be large.
func (b *Blobs) Resolve(ctx context.Context, ref string) (data []byte, err error) {
	content, info, err := b.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	data = make([]byte, info.Size)
	_, err = io.ReadFull(content, data)
	return data, err
}

// Open returns the content of a blob. The caller closes it.
func (b *Blobs) Open(ctx context.Context, ref string) (io.ReadCloser, blob.Info, error) {
	return b.OpenRange(ctx, ref, 0, -1)
}

// OpenRange returns length bytes of a blob from offset; see [blob.Store].
func (b *Blobs) OpenRange(ctx context.Context, ref string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	s, _, err := b.store()
	if err != nil {
		return nil, blob.Info{}, err
	}
	var info blob.Info
	content, err := b.t.OpenContent(ctx, "blobs.open", func() (in io.ReadCloser, err error) {
		in, info, err = s.OpenRange(ctx, b.owner(), ref, offset, length)
		return in, err
	})
	return content, info, err
}

// Stat returns the description of a blob, or blob.ErrNotFound.
func (b *Blobs) Stat(ctx context.Context, ref string) (info blob.Info, err error) {
	s, _, err := b.store()
	if err != nil {
		return blob.Info{}, err
	}
	err = b.t.Call(ctx, contract.Call{Op: "blobs.stat", Result: &info, Read: func(ctx context.Context) (err error) {
		info, err = s.Stat(ctx, b.owner(), ref)
		return err
	}})
	return info, err
}

// List returns the blobs of the owner, oldest first. The owner of p is ignored.
func (b *Blobs) List(ctx context.Context, p blob.ListParams) (page blob.Page, err error) {
	s, _, err := b.store()
	if err != nil {
		return blob.Page{}, err
	}
	p.Owner = b.owner()
	err = b.t.Call(ctx, contract.Call{Op: "blobs.list", Result: &page, Read: func(ctx context.Context) (err error) {
		page, err = s.List(ctx, p)
		return err
	}})
	return page, err
}

// Pin keeps a blob as long as the task. It returns blob.ErrNotFound if the blob does not exist. If it
// is deleted before the commit, the turn fails.
func (b *Blobs) Pin(ctx context.Context, ref string) error {
	if _, err := b.Stat(ctx, ref); err != nil {
		return err
	}
	holder := fileref.Holder(b.t.TaskID())
	return b.write(ctx, "blobs.pin", ref,
		func(s blob.Transactional) (store.Effect, error) { return s.PinEffect(b.owner(), ref, holder) },
		func(ctx context.Context, s blob.Store) error { return s.Pin(ctx, b.owner(), ref, holder) })
}

// Unpin lets a blob expire after its TTL, unless others hold it. A blob that does not exist is no
// error.
func (b *Blobs) Unpin(ctx context.Context, ref string) error {
	holder := fileref.Holder(b.t.TaskID())
	return b.write(ctx, "blobs.unpin", ref,
		func(s blob.Transactional) (store.Effect, error) { return s.UnpinEffect(b.owner(), ref, holder) },
		func(ctx context.Context, s blob.Store) error { return existing(s.Unpin(ctx, b.owner(), ref, holder)) })
}

// Delete removes a blob, even a pinned one. A blob that does not exist is no error.
func (b *Blobs) Delete(ctx context.Context, ref string) error {
	return b.write(ctx, "blobs.delete", ref,
		func(s blob.Transactional) (store.Effect, error) { return s.DeleteEffect(b.owner(), ref) },
		func(ctx context.Context, s blob.Store) error { return existing(s.Delete(ctx, b.owner(), ref)) })
}

// existing returns nil for blob.ErrNotFound, and other errors as they are.
func existing(err error) error {
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	}
	return err
}

func (b *Blobs) write(ctx context.Context, op, ref string, own func(blob.Transactional) (store.Effect, error), direct func(context.Context, blob.Store) error) error {
	s, o, err := b.store()
	if err != nil {
		return err
	}
	call := contract.Call{Op: op, Args: []any{ref}}
	if o != nil {
		call.Effect = func(context.Context, string) (store.Effect, int, error) {
			e, err := own(o)
			return e, 0, err
		}
	} else {
		call.Direct = func(ctx context.Context, _ string) error { return direct(ctx, s) }
	}
	return b.t.Call(ctx, call)
}
