package blobtest

import (
	"bytes"
	"time"

	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var restoreTests = []test{
	{"a restored blob has the ref, the times and the holders of the first one", restoresBlobs},
	{"a ref that exists is restored only with the same content", restoresAgain},
	{"a blob is not restored with other content or an invalid description", restoresInvalid},
}

// restorer returns the store as a Restorer, or skips the test.
func (f *fixture) restorer() blob.Restorer { f.Helper(); return suite.Optional[blob.Restorer](f, f.s) }

func restoresBlobs(f *fixture) {
	r := f.restorer()
	for _, size := range []int{0, 5, large} {
		data := bytes.Repeat([]byte("a"), size)
		plain := f.put(data, named("plain"))
		f.put(data, func(p *blob.PutParams) { p.Holder = "h" })
		f.must("Pin()", f.s.Pin(f.ctx, owner, plain.Ref, "one"))
		f.must("Pin()", f.s.Pin(f.ctx, owner, plain.Ref, "two"))
		for _, info := range []blob.Info{f.stat(plain.Ref), f.put(data, named("temporary"))} {
			f.advance(time.Second)
			f.must("Restore()", r.Restore(f.ctx, otherOwner, info, bytes.NewReader(data)))
			got := suite.Call(f.s.Stat(f.ctx, otherOwner, info.Ref)).Must(f, "Stat()")
			f.equal("Stat() of the restored blob", got, info)
		}
	}
	f.equal("Usage()", f.usage(otherOwner), blob.Usage{Blobs: 6, Bytes: 2 * (5 + large)})
	f.advance(2 * time.Hour)
	f.sweep()
	f.equal("Usage() of the pinned blobs", f.usage(otherOwner), blob.Usage{Blobs: 3, Bytes: 5 + large})
}

func restoresAgain(f *fixture) {
	r := f.restorer()
	info := f.put([]byte("content"))
	f.must("Restore()", r.Restore(f.ctx, owner, info, bytes.NewReader(nil)))
	other := info
	other.Digest = blob.Sum([]byte("other"))
	f.wantError("Restore()", r.Restore(f.ctx, owner, other, bytes.NewReader([]byte("other"))), blob.ErrConflict)
	f.wantContent(info.Ref, []byte("content"))
	f.equal("Usage()", f.usage(owner), blob.Usage{Blobs: 1, Bytes: 7})
}

func restoresInvalid(f *fixture) {
	r := f.restorer()
	info := f.put([]byte("content"))
	restore := func(change func(*blob.Info), data string) error {
		changed := info
		change(&changed)
		return r.Restore(f.ctx, otherOwner, changed, bytes.NewReader([]byte(data)))
	}
	f.wantError("Restore() of less", restore(func(*blob.Info) {}, "conten"), blob.ErrSize)
	f.wantError("Restore() of more", restore(func(*blob.Info) {}, "contents"), blob.ErrSize)
	f.wantError("Restore() of other bytes", restore(func(*blob.Info) {}, "CONTENT"), blob.ErrDigest)
	f.wantInvalid("Restore()", "ref", restore(func(i *blob.Info) { i.Ref = "guess" }, "content"))
	f.wantInvalid("Restore()", "digest", restore(func(i *blob.Info) { i.Digest = blob.Digest{} }, "content"))
	f.wantInvalid("Restore()", "created", restore(func(i *blob.Info) { i.Created = time.Time{} }, "content"))
	f.wantInvalid("Restore()", "expires", restore(func(i *blob.Info) { i.Expires = time.Time{} }, "content"))
	f.wantInvalid("Restore()", "holder", restore(func(i *blob.Info) { i.Expires, i.Holders = time.Time{}, []string{"\x00"} }, "content"))
	f.wantNone(otherOwner)
}
