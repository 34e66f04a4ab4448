package s3

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // S3 uses it
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/minio/minio-go/v7"

	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
)

// root is the object that has the rows of an owner, or names the pages with the rows. Each commit replaces
// the root on the condition that it has not changed since the commit read it. So commits of an owner are
// serialized, and each is complete or not made at all.
type root struct {
	// Owner is empty while there are no rows.
	Owner string     `json:"owner,omitempty"`
	Usage blob.Usage `json:"usage"`
	// Due are the names of the markers; see [refs.mark].
	Due [dueKinds]string `json:"due"`
	// Writers are the last writers that committed, the latest at the end.
	Writers []writer `json:"writers,omitempty"`
	Pages   []*page  `json:"pages,omitempty"`
}

// writer identifies the last commit of a process. If the request of the process was repeated or
// had no response, the process uses it to find out whether the commit was made.
type writer struct {
	ID     string `json:"id"`
	Commit int64  `json:"n"`
}

// maxWriters is the maximum number of writers in a root.
const maxWriters = 32

// state is a root that was read, with the rows.
type state struct {
	root
	rows
	etag string // empty if the root does not exist
	part string // identifies the owner
	// first is the earliest time at which a row that was added becomes due, as timeKey returns it.
	first [dueKinds]string
}

// load returns the state of an owner.
func (r *refs) load(ctx context.Context, part string) (*state, error) {
	s := &state{part: part, rows: rows{limits: r.limits, read: func(name string) ([]row, error) {
		var found []row
		data, _, err := r.read(ctx, pageKey(part, name))
		if err == nil && data == nil {
			err = errStale
		}
		if err == nil {
			err = decode(data, &found)
		}
		return found, err
	}}}
	data, etag, err := r.readConsistently(ctx, rootKey(part))
	if err != nil || data == nil {
		return s, err
	}
	s.etag = etag
	err = decode(data, &s.root)
	s.pages = s.Pages
	return s, err
}

// read returns an object, nil if it does not exist.
func (r *refs) read(ctx context.Context, key string) (data []byte, etag string, err error) {
	body, info, _, err := r.core.GetObject(ctx, r.cfg.Bucket, r.cfg.Prefix+key, minio.GetObjectOptions{})
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", r.wrap(ctx, err, "get object")
	}
	defer body.Close()
	data, err = io.ReadAll(body)
	return data, info.ETag, r.wrap(ctx, err, "read object")
}

// readConsistently returns an object with its own ETag. Gateways to file systems, which keep data and ETag
// in different files, may return the new ETag with the previous data. A commit with that ETag would undo the
// change. So the ETag must be the MD5 of the data, unless the service has other ETags.
func (r *refs) readConsistently(ctx context.Context, key string) (data []byte, etag string, err error) {
	for n := range maxAttempts {
		before, beforeETag := data, etag
		data, etag, err = r.read(ctx, key)
		if err != nil || data == nil || r.opaqueETags.Load() || etag == md5Of(data) {
			return data, etag, err
		}
		// This process has written nothing yet, so it does not know the service.
		if n >= unknownReads && !r.wrote.Load() && etag == beforeETag && bytes.Equal(data, before) {
			return data, etag, nil
		}
		if err := pause(ctx, n); err != nil {
			return nil, "", err
		}
	}
	return nil, "", fmt.Errorf("%w: root has another ETag than its data", blob.ErrCorrupt)
}

// unknownReads is the number of reads of a root after which its ETag is assumed not to be an MD5.
const unknownReads = 5

func md5Of(data []byte) string {
	sum := md5.Sum(data) //nolint:gosec // S3 uses it
	return hex.EncodeToString(sum[:])
}

// write stores an object.
func (r *refs) write(ctx context.Context, key string, data []byte, opts minio.PutObjectOptions) error {
	info, err := r.core.Client.PutObject(ctx, r.cfg.Bucket, r.cfg.Prefix+key, bytes.NewReader(data), int64(len(data)), opts)
	if err == nil {
		r.opaqueETags.Store(info.ETag != md5Of(data)) // such as with encryption by a key of the customer
		r.wrote.Store(true)
	}
	return err
}

// commit replaces the root of a state. It returns false if the root is not the one that was read. After
// an error the outcome is unknown.
func (r *refs) commit(ctx context.Context, owner string, s *state) (committed bool, err error) {
	replaced, err := s.arrange()
	if err != nil {
		return false, err
	}
	written, err := r.writePages(ctx, s)
	if err != nil {
		r.removePages(ctx, s.part, written)
		return false, err
	}
	markers, err := r.mark(ctx, s)
	if err != nil {
		r.removePages(ctx, s.part, written)
		return false, err
	}
	committed, err = r.writeRoot(ctx, owner, s)
	switch {
	case err != nil:
	case committed:
		r.removePages(ctx, s.part, replaced)
	default:
		r.removePages(ctx, s.part, written)
		r.removeKeys(ctx, markers)
	}
	return committed, err
}

// writePages writes the pages that have changed, and returns their names. Rows that fit are in the root.
func (r *refs) writePages(ctx context.Context, s *state) (written []string, err error) {
	if s.inRoot() {
		return nil, nil
	}
	var dirty []*page
	for _, p := range s.pages {
		if p.dirty {
			p.Name = blobdriver.NewObjectName(r.now())
			dirty, written = append(dirty, p), append(written, p.Name)
		}
	}
	err = each(dirty, func(p *page) error {
		data, err := json.Marshal(p.Rows)
		if err == nil {
			err = r.wrap(ctx, r.write(ctx, pageKey(s.part, p.Name), data, uploadOptions), "put page")
		}
		return err
	})
	return written, err
}

// writeRoot writes the root of a state, under the condition that it has not changed.
func (r *refs) writeRoot(ctx context.Context, owner string, s *state) (committed bool, err error) {
	next := s.root
	next.Owner, next.Pages = owner, nil
	for _, p := range s.pages {
		stored := &page{First: p.First, Name: p.Name}
		if p.Name == "" {
			stored.Rows = p.Rows
		}
		next.Pages = append(next.Pages, stored)
	}
	if len(next.Pages) == 0 {
		next.Owner = ""
	}
	me := writer{r.id, r.commits.Add(1)}
	next.Writers = append(slices.DeleteFunc(slices.Clone(s.Writers), func(w writer) bool { return w.ID == me.ID }), me)
	next.Writers = next.Writers[max(len(next.Writers)-maxWriters, 0):]
	data, err := json.Marshal(&next)
	if err != nil {
		return false, err
	}
	opts := uploadOptions
	if s.etag == "" {
		opts.SetMatchETagExcept("*")
	} else {
		opts.SetMatchETag(s.etag)
	}
	err = r.write(ctx, rootKey(s.part), data, opts)
	switch response := minio.ToErrorResponse(err); {
	case err == nil:
		return true, nil
	case response.StatusCode != http.StatusPreconditionFailed && response.StatusCode != http.StatusConflict:
		return false, r.wrap(ctx, err, "put root")
	}
	// Another commit was faster, or the client repeated this one after it had no response.
	found, err := r.load(ctx, s.part)
	if err != nil {
		return false, err
	}
	return slices.Contains(found.Writers, me), nil
}

// parallel is the number of concurrent requests of a commit.
const parallel = 4

// each calls f for each value, up to parallel at a time, and returns the first error.
func each[V any](values []V, f func(v V) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(values))
	free := make(chan struct{}, parallel)
	for i, v := range values {
		free <- struct{}{}
		wg.Go(func() {
			errs[i] = f(v)
			<-free
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// removePages removes pages that no root names. If this fails, RemoveOrphans removes them later.
func (r *refs) removePages(ctx context.Context, part string, names []string) {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = pageKey(part, name)
	}
	r.removeKeys(ctx, keys)
}

func (r *refs) removeKeys(ctx context.Context, keys []string) {
	if len(keys) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	_ = each(keys, func(key string) error { return r.remove(ctx, key) })
}

func (r *refs) remove(ctx context.Context, key string) error {
	return r.wrap(ctx, r.core.RemoveObject(ctx, r.cfg.Bucket, r.cfg.Prefix+key, minio.RemoveObjectOptions{}), "remove object")
}
