package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing/iotest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var rejectionTests = []test{
	{"content of another size or digest stores nothing", wrongContent},
	{"an error of the reader stores nothing", failingReaders},
	{"content above the maximum size stores nothing", tooLarge},
	{"quotas are exact", quotas},
	{"invalid arguments name the argument", invalidArguments},
	{"hostile names are stored as they are", hostileNames},
	{"a blob has a limited number of holders", holderLimit},
	{"a slow upload stores nothing", slowUploads},
	{"a canceled context stops every call", canceled},
	{"a cancellation during an upload stores nothing", canceledUploads},
}

// wantRejected checks that Put fails and stores nothing, with content that is inline or not.
func (f *fixture) wantRejected(what string, want error, size int, change func(p *blob.PutParams, r io.Reader) io.Reader) {
	f.Helper()
	p := blob.PutParams{Owner: owner}
	r := change(&p, bytes.NewReader(content(1, size)))
	info, err := f.s.Put(f.ctx, r, p)
	f.wantError(what, err, want)
	f.equal(what, info, blob.Info{})
	f.wantNone(owner)
}

func wrongContent(f *fixture) {
	for _, size := range []int{10, large, 2 * mib} {
		for _, announced := range []int64{1, int64(size) - 1, int64(size) + 1, 10 * mib} {
			f.wantRejected("Put() of another size", blob.ErrSize, size, func(p *blob.PutParams, r io.Reader) io.Reader { p.Size = announced; return r })
		}
		f.wantRejected("Put() of another digest", blob.ErrDigest, size, func(p *blob.PutParams, r io.Reader) io.Reader {
			p.Digest = blob.Sum([]byte("other"))
			return r
		})
	}
	f.noOrphans()
}

func failingReaders(f *fixture) {
	broken := errors.New("broken")
	for _, size := range []int{0, 10, large, 2 * mib} {
		f.wantRejected("Put() from a reader that fails", broken, size, func(_ *blob.PutParams, r io.Reader) io.Reader {
			return io.MultiReader(r, iotest.ErrReader(broken))
		})
		f.wantRejected("Put() from a reader that ends early", io.ErrUnexpectedEOF, size, func(_ *blob.PutParams, r io.Reader) io.Reader {
			return io.MultiReader(r, iotest.ErrReader(io.ErrUnexpectedEOF))
		})
	}
	f.noOrphans()
}

// noOrphans checks that failed uploads have left no bytes behind.
func (f *fixture) noOrphans() {
	f.Helper()
	f.advance(time.Hour)
	o := suite.Call(f.s.RemoveOrphans(f.ctx, f.time(), blob.Object{}, 1000)).Must(f, "RemoveOrphans()")
	f.equal("RemoveOrphans()", o.Removed, 0)
}

func tooLarge(f *fixture) {
	for _, limit := range []int64{10, large} {
		f.configure(func(cfg *blob.Config) { cfg.MaxSize = limit })
		f.wantRejected("Put() of too much", blob.ErrTooLarge, int(limit)+1, func(_ *blob.PutParams, r io.Reader) io.Reader { return r })
		f.wantRejected("Put() of far too much", blob.ErrTooLarge, 0, func(*blob.PutParams, io.Reader) io.Reader { return Source(1, 100*limit) })
		f.wantRejected("Put() that announces too much", blob.ErrTooLarge, 0, func(p *blob.PutParams, r io.Reader) io.Reader { p.Size = limit + 1; return r })
		f.equal("size", f.put(content(1, int(limit))).Size, limit)
	}
}

func quotas(f *fixture) {
	f.configure(func(cfg *blob.Config) { cfg.OwnerBlobs, cfg.OwnerBytes = 3, 1000 })
	f.put(content(1, 600))
	for _, announced := range []int64{0, 401} {
		_, err := f.s.Put(f.ctx, bytes.NewReader(content(2, 401)), blob.PutParams{Owner: owner, Size: announced})
		var quota *blob.QuotaError
		if !errors.As(err, &quota) || *quota != (blob.QuotaError{Resource: "bytes", Limit: 1000, Used: 600, Wanted: 401}) || a2a.CodeOf(err) != a2a.CodeExhausted {
			f.Errorf("Put() above the quota of bytes = %v, want a QuotaError", err)
		}
	}
	last := f.put(content(2, 400)).Ref
	f.put(nil)
	_, err := f.s.Put(f.ctx, bytes.NewReader(nil), blob.PutParams{Owner: owner})
	var quota *blob.QuotaError
	if !errors.As(err, &quota) || quota.Resource != "blobs" || quota.Limit != 3 {
		f.Errorf("Put() above the quota of blobs = %v, want a QuotaError", err)
	}
	f.equal("Usage()", f.usage(owner), blob.Usage{Blobs: 3, Bytes: 1000})
	f.put(content(2, 400), func(p *blob.PutParams) { p.Owner = otherOwner })
	f.must("Delete()", f.s.Delete(f.ctx, owner, last))
	f.put(content(3, 400))
}

func invalidArguments(f *fixture) {
	long := strings.Repeat("x", 5000)
	for _, test := range []struct {
		field string
		p     blob.PutParams
	}{
		{"owner", blob.PutParams{}},
		{"owner", blob.PutParams{Owner: "a\x00"}},
		{"owner", blob.PutParams{Owner: "a\xff"}},
		{"owner", blob.PutParams{Owner: long}},
		{"content type", blob.PutParams{Owner: owner, ContentType: "text"}},
		{"content type", blob.PutParams{Owner: owner, ContentType: "text/plain\r\nSet-Cookie: a"}},
		{"content type", blob.PutParams{Owner: owner, ContentType: "text/" + long}},
		{"name", blob.PutParams{Owner: owner, Name: "a\x00"}},
		{"name", blob.PutParams{Owner: owner, Name: "a\nb"}},
		{"name", blob.PutParams{Owner: owner, Name: "\xc3\x28"}},
		{"name", blob.PutParams{Owner: owner, Name: long}},
		{"idempotency key", blob.PutParams{Owner: owner, IdempotencyKey: "\x00"}},
		{"idempotency key", blob.PutParams{Owner: owner, IdempotencyKey: long}},
		{"holder", blob.PutParams{Owner: owner, Holder: "a\nb"}},
		{"ttl", blob.PutParams{Owner: owner, TTL: -1}},
		{"ttl", blob.PutParams{Owner: owner, TTL: 1<<63 - 1}},
		{"size", blob.PutParams{Owner: owner, Size: -1}},
	} {
		f.wantInvalid(fmt.Sprintf("Put(%.200v)", test.p), test.field, suite.Err(f.s.Put(f.ctx, bytes.NewReader(nil), test.p)))
	}
	f.wantNone(owner)
	ref := f.put([]byte("x")).Ref
	for _, holder := range []string{"", "a\x00", "a\nb", "\xff", long} {
		f.wantInvalid("Pin()", "holder", f.s.Pin(f.ctx, owner, ref, holder))
		f.wantInvalid("Unpin()", "holder", f.s.Unpin(f.ctx, owner, ref, holder))
		f.wantInvalid("UnpinAll()", "holder", f.s.UnpinAll(f.ctx, owner, holder))
	}
	f.wantInvalid("Touch()", "ttl", suite.Err(f.s.Touch(f.ctx, owner, ref, -1)))
	for field, p := range map[string]blob.ListParams{
		"owner": {}, "limit": {Owner: owner, Limit: blob.MaxPage + 1}, "after": {Owner: owner, After: "x'; --"},
	} {
		f.wantInvalid("List()", field, suite.Err(f.s.List(f.ctx, p)))
	}
	f.wantInvalid("Sweep()", "limit", suite.Err(f.s.Sweep(f.ctx, f.time(), 0)))
	f.wantInvalid("RemoveOrphans()", "limit", suite.Err(f.s.RemoveOrphans(f.ctx, f.time(), blob.Object{}, 0)))
	f.wantInvalid("Usage()", "owner", suite.Err(f.s.Usage(f.ctx, "")))
	f.wantInvalid("Delete()", "owner", f.s.Delete(f.ctx, "\x00", ref))
}

func (f *fixture) wantInvalid(what, field string, err error) {
	f.Helper()
	if err == nil || a2a.CodeOf(err) != a2a.CodeInvalid || !strings.HasPrefix(err.Error(), "blob: "+field+": ") {
		f.Errorf("%s = %v, want an error of code invalid about %q", what, err, field)
	}
}

func hostileNames(f *fixture) {
	for i, name := range []string{"../../etc/passwd", `a"b'c;--`, "%_%", "$1 {s}.x ?1", "\u202e\U0001f600", "C:\\x", strings.Repeat("é", blob.MaxName/2)} {
		p := blob.PutParams{Owner: name, Name: name, IdempotencyKey: name[:min(len(name), blob.MaxKey)], Holder: name[:min(len(name), blob.MaxHolder)]}
		info := suite.Call(f.s.Put(f.ctx, bytes.NewReader(content(uint64(i), 10)), p)).Must(f, "Put()")
		got := suite.Call(f.s.Stat(f.ctx, name, info.Ref)).Must(f, "Stat()")
		f.equal("Stat()", got, info)
		f.equal("name", got.Name, name)
		again := suite.Call(f.s.Put(f.ctx, bytes.NewReader(nil), p)).Must(f, "repeated Put()")
		f.equal("repeated Put()", again, info)
		f.equal("Usage()", f.usage(name), blob.Usage{Blobs: 1, Bytes: 10})
		f.must("Unpin()", f.s.Unpin(f.ctx, name, info.Ref, p.Holder))
	}
}

func holderLimit(f *fixture) {
	ref := f.put([]byte("x")).Ref
	for i := range blob.MaxHolders {
		f.must("Pin()", f.s.Pin(f.ctx, owner, ref, fmt.Sprint(i)))
	}
	f.wantError("Pin() above the limit", f.s.Pin(f.ctx, owner, ref, "more"), blob.ErrHolders)
	f.must("Pin() again", f.s.Pin(f.ctx, owner, ref, "0"))
	f.equal("number of holders", len(f.stat(ref).Holders), blob.MaxHolders)
}

// onRead calls a function before the first Read.
type onRead struct {
	io.Reader
	f func()
}

func (r *onRead) Read(p []byte) (int, error) {
	if r.f != nil {
		r.f()
		r.f = nil
	}
	return r.Reader.Read(p)
}

func slowUploads(f *fixture) {
	slow := func(size int) error {
		r := io.MultiReader(bytes.NewReader(content(1, size)), &onRead{bytes.NewReader(nil), func() { f.advance(f.cfg.Grace + time.Second) }})
		_, err := f.s.Put(f.ctx, r, blob.PutParams{Owner: owner})
		return err
	}
	if err := slow(2 * mib); err != nil { // a store that keeps it inline may accept it
		f.wantError("slow Put()", err, blob.ErrTooSlow)
		f.wantNone(owner)
	}
	f.noOrphans()
}

func canceled(f *fixture) {
	ref := f.put(content(1, large)).Ref
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	_, putErr := f.s.Put(ctx, bytes.NewReader(content(2, large)), blob.PutParams{Owner: owner})
	_, _, openErr := f.s.Open(ctx, owner, ref)
	suite.Canceled(f, map[string]error{
		"Put": putErr, "Open": openErr, "Stat": suite.Err(f.s.Stat(ctx, owner, ref)), "Touch": suite.Err(f.s.Touch(ctx, owner, ref, 0)),
		"List": suite.Err(f.s.List(ctx, blob.ListParams{Owner: owner})), "Usage": suite.Err(f.s.Usage(ctx, owner)),
		"Sweep": suite.Err(f.s.Sweep(ctx, f.time(), 1)), "Delete": f.s.Delete(ctx, owner, ref), "Pin": f.s.Pin(ctx, owner, ref, "h"),
		"Unpin": f.s.Unpin(ctx, owner, ref, "h"), "UnpinAll": f.s.UnpinAll(ctx, owner, "h"),
	})
	f.equal("Usage()", f.usage(owner), blob.Usage{Blobs: 1, Bytes: large})
}

func canceledUploads(f *fixture) {
	for _, size := range []int{10, large, 2 * mib} {
		ctx, cancel := context.WithCancel(f.ctx)
		r := io.MultiReader(bytes.NewReader(content(1, size)), &onRead{bytes.NewReader(content(2, 10)), cancel})
		f.wantError("Put() that is canceled", suite.Err(f.s.Put(ctx, r, blob.PutParams{Owner: owner})), context.Canceled)
		f.wantNone(owner)
	}
	f.noOrphans()
}
