package s3

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
)

// Blobs returns blobs with refs that are in the bucket too, below the prefix of c. They need no
// database. The service must support conditional writes (If-None-Match and If-Match of PUT), as S3,
// MinIO, R2 and versitygw do. All rules of blobs apply, also among several processes. The commit of a
// task cannot change these refs, and cfg.Inline has no effect.
//
// A change costs a read and a conditional write of the owner's root, an object with the owner's rows.
// Above 256 KiB, which are about 400 blobs, the rows are in pages of up to 64 KiB, and a change also reads
// and writes about five pages. Changes of one owner are serialized: if several processes change one owner
// at the same time, all but one repeat their change.
func (c *Contents) Blobs(cfg blob.Config) *blobdriver.Blobs {
	return newBlobs(c, cfg, limits{root: rootSize, page: pageSize})
}

func newBlobs(c *Contents, cfg blob.Config, l limits) *blobdriver.Blobs {
	r := &refs{Contents: c, limits: l, id: rand.Text(), now: cfg.Now}
	if r.now == nil {
		r.now = time.Now
	}
	cfg.Inline = -1
	return blobdriver.New(cfg, r, &ownedContents{c.below(objectsPrefix)})
}

// Prefixes of keys. Objects are contents and pages.
const (
	rootsPrefix   = "roots/"
	objectsPrefix = "objects/"
	duePrefix     = "due/"
)

// removeTimeout bounds the removal of what a commit has replaced.
const removeTimeout = 10 * time.Second

func rootKey(part string) string { return rootsPrefix + part }

func pageKey(part, name string) string { return objectsPrefix + part + "/" + name }

// listed marks the owner of a listed object. The key of the object has only a digest of the owner, so
// listed and this digest stand for the owner. Real owners have no control characters.
const listed = "\x1f"

// partOf returns the part of keys that identifies an owner. An owner may be longer than a key.
func partOf(owner string) string {
	if part, ok := strings.CutPrefix(owner, listed); ok {
		return part
	}
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:])
}

// refs implements blobdriver.Refs over objects. Everything that an owner has changes with its root: see root.
type refs struct {
	*Contents
	limits  limits
	now     func() time.Time
	id      string       // of this writer
	commits atomic.Int64 // of this writer
	// opaqueETags reports that the service's ETags are not the MD5 of the data. wrote reports that this
	// process has written an object, so that opaqueETags is known.
	opaqueETags, wrote atomic.Bool
	// locks serialize the changes of an owner in this process. Otherwise they would have to be repeated.
	locks runtime.Locks[string]
}

// Contention between processes.
const (
	maxAttempts  = 100
	shortBackoff = 2 * time.Millisecond
	longBackoff  = 200 * time.Millisecond
)

var errContention = a2a.Errorf(a2a.CodeUnavailable, "blob: too many concurrent changes of one owner; retry later")

// attempt calls f with the state of an owner until it is done. It repeats f, after a pause, if a page of
// the state was replaced.
func (r *refs) attempt(ctx context.Context, owner string, f func(s *state) (done bool, err error)) error {
	stale := ""
	for n := range maxAttempts {
		s, err := r.load(ctx, partOf(owner))
		if err != nil {
			return err
		}
		done, err := f(s)
		switch {
		case errors.Is(err, errStale) && s.etag == stale: // not replaced, but missing
			return fmt.Errorf("%w: %w", blob.ErrCorrupt, err)
		case errors.Is(err, errStale):
			stale = s.etag
		case done || err != nil:
			return err
		}
		if err := pause(ctx, n); err != nil {
			return err
		}
	}
	return errContention
}

// pause waits after attempt n, for a random time that grows with n.
func pause(ctx context.Context, n int) error {
	timer := time.NewTimer(mathrand.N(min(shortBackoff<<min(n, 10), longBackoff))) //nolint:gosec // spreads load
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Update implements blobdriver.Refs.
func (r *refs) Update(ctx context.Context, owner string, f func(tx blobdriver.Tx) error) error {
	return r.update(ctx, owner, func(s *state) (bool, error) {
		err := f(&tx{s})
		return s.changed, err
	})
}

// update commits what f changes in the state of an owner. f may run more than once, and returns whether
// a commit is needed.
func (r *refs) update(ctx context.Context, owner string, f func(s *state) (bool, error)) error {
	unlock, err := r.locks.Lock(ctx, partOf(owner))
	if err != nil {
		return err
	}
	defer unlock()
	return r.attempt(ctx, owner, func(s *state) (bool, error) {
		needed, err := f(s)
		if err != nil || !needed {
			return true, err
		}
		name := owner
		if strings.HasPrefix(owner, listed) {
			name = s.Owner
		}
		return r.commit(ctx, name, s)
	})
}

// view calls f with the state of an owner. f may run more than once.
func (r *refs) view(ctx context.Context, owner string, f func(s *state) error) error {
	return r.attempt(ctx, owner, func(s *state) (bool, error) { return true, f(s) })
}
