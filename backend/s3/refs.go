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
// MinIO, R2 and versitygw do. All rules of blobs apply, also among several processes. Their refs cannot
// change in the commit of a task, and cfg.Inline has no effect.
//
// A change costs a read and a conditional write of the root of the owner, an object with its rows. Above
// 256 KiB, which are about 400 blobs, the rows are in pages of up to 64 KiB, and a change also reads and
// writes about five of them. Changes of one owner are serialized; of several processes that change one owner at the
// same time, all but one repeat their change.
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

// listed is the start of the owner of objects that were listed: their keys have a digest of the owner.
// An owner has no control characters.
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
	// opaqueETags reports that the service has other ETags than the MD5 of the data, wrote that this is
	// known.
	opaqueETags, wrote atomic.Bool
	// locks serialize the changes of an owner in this process, which would otherwise repeat them.
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

// pause waits after an attempt, for a random time that grows with their number.
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

// update commits what f changes in the state of an owner. f may run more than once. It returns whether a
// commit is needed.
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
