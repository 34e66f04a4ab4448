package blobtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// goroutines is the number of concurrent callers.
const goroutines = 64

var raceTests = []test{
	{"uploads of one content survive deletions and sweeps", racesSameContent},
	{"an idempotency key creates one blob", racesKeys},
	{"a quota is not exceeded", racesQuota},
	{"no pin is lost", racesPins},
}

// Sweeps are ahead of the clock, so that they remove a content as soon as it has no blob.
func racesSameContent(f *fixture) {
	var contents [][]byte
	for i := range 16 {
		contents = append(contents, content(uint64(i), []int{1000, large}[i%2]))
	}
	var puts, removed, running atomic.Int64
	const sweepers = 8
	running.Store(goroutines - sweepers)
	suite.Concurrently(goroutines, func(i int) {
		for i < sweepers && running.Load() > 0 {
			s, err := f.s.Sweep(f.ctx, f.time().Add(f.cfg.Grace), 100)
			if err != nil {
				f.Errorf("Sweep() = %v", err)
				return
			}
			removed.Add(int64(s.Contents))
			time.Sleep(200 * time.Microsecond) // leaves the processors to the others
		}
		if i < sweepers {
			return
		}
		defer running.Add(-1)
		for range 6 {
			f.putAndDelete(contents[i%len(contents)])
			puts.Add(1)
		}
	})
	f.wantNone(owner)
	f.Logf("%d uploads, %d contents removed", puts.Load(), removed.Load())
}

// putAndDelete stores content, reads it and deletes it.
func (f *fixture) putAndDelete(data []byte) {
	info, err := f.s.Put(f.ctx, bytes.NewReader(data), blob.PutParams{Owner: owner})
	if err != nil {
		f.Errorf("Put() = %v", err)
		return
	}
	if err := f.check(info.Ref, data); err != nil {
		f.Errorf("content of a fresh upload: %v", err)
	}
	suite.Do(f.s.Delete(f.ctx, owner, info.Ref)).Check(f, "Delete()")
}

// check reads a blob of the first owner and compares it.
func (f *fixture) check(ref string, want []byte) error {
	r, _, err := f.s.Open(f.ctx, owner, ref)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(r)
	if err == nil && !bytes.Equal(got, want) {
		err = errors.New("differs")
	}
	return errors.Join(err, r.Close())
}

func racesKeys(f *fixture) {
	refs := make([]string, goroutines)
	suite.Concurrently(goroutines, func(i int) {
		info := suite.Call(f.s.Put(f.ctx, bytes.NewReader(content(uint64(i), 100+large*(i%2))), blob.PutParams{Owner: owner, IdempotencyKey: "k"})).Check(f, "Put()")
		refs[i] = info.Ref
	})
	for _, ref := range refs {
		if ref != refs[0] {
			f.Fatalf("Put() with one key returned the refs %s and %s", ref, refs[0])
		}
	}
	f.equal("number of blobs", f.usage(owner).Blobs, int64(1))
	f.noOrphans()
}

func racesQuota(f *fixture) {
	f.configure(func(cfg *blob.Config) { cfg.OwnerBlobs = 10 })
	var stored atomic.Int64
	suite.Concurrently(goroutines, func(i int) {
		_, err := f.s.Put(f.ctx, bytes.NewReader(content(uint64(i), 10+large*(i%2))), blob.PutParams{Owner: owner})
		var quota *blob.QuotaError
		switch {
		case err == nil:
			stored.Add(1)
		case !errors.As(err, &quota):
			f.Errorf("Put() = %v, want nil or a QuotaError", err)
		}
	})
	f.equal("number of stored blobs", stored.Load(), int64(10))
	f.equal("number of blobs", f.usage(owner).Blobs, int64(10))
	f.noOrphans()
}

func racesPins(f *fixture) {
	ref := f.put([]byte("x")).Ref
	suite.Concurrently(goroutines, func(i int) {
		holder := fmt.Sprint(i)
		suite.Do(f.s.Pin(f.ctx, owner, ref, holder)).Check(f, "Pin()")
		if i%2 == 0 {
			suite.Do(f.s.Unpin(f.ctx, owner, ref, holder)).Check(f, "Unpin()")
		}
	})
	f.equal("number of holders", len(f.stat(ref).Holders), goroutines/2)
}
