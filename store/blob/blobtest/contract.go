package blobtest

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing/iotest"
	"time"

	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var contractTests = []test{
	{"a blob has its content and description", describesBlobs},
	{"content of every size is returned", allSizes},
	{"a range is a part of the content", ranges},
	{"refs cannot be guessed", opaqueRefs},
	{"the memory of the caller is not shared", noAliasing},
	{"readers of one byte at a time work", slowReaders},
	{"an idempotency key returns the first blob", repeats},
	{"an idempotency key is free after its blob", freesKeys},
	{"an idempotency key per content returns the first blob with the content", repeatsContents},
	{"a deleted blob is not found", deletes},
	{"holders pin independently", pins},
	{"UnpinAll removes the pins of one holder", unpinsAll},
	{"Touch extends the life of a blob", touches},
	{"equal contents are stored once per owner", sharesContent},
	{"a scope stores, resolves, pins and unpins", scopes},
	{"usage is the sum of the blobs", usages},
}

func repeatsContents(f *fixture) {
	data := [][]byte{content(1, 1000), content(2, 1000), content(3, 300_000)}
	keyed := func(data []byte, known bool) blob.Info {
		return f.put(data, func(p *blob.PutParams) {
			if p.IdempotencyKey, p.KeyPerContent = "k", true; known {
				p.Digest = blob.Sum(data)
			}
		})
	}
	refs := make(map[string]bool)
	for i, d := range data {
		first := keyed(d, i%2 == 0)
		for _, known := range []bool{false, true} {
			f.equal("repeated Put()", keyed(d, known), first)
		}
		f.wantContent(first.Ref, d)
		refs[first.Ref] = true
	}
	f.equal("blobs", len(refs), len(data))
	plain := f.put(data[0], withKey("k"))
	f.equal("the plain key is another one", refs[plain.Ref], false)
	f.equal("usage", f.usage(owner), blob.Usage{Blobs: 4, Bytes: 303_000})
}

func describesBlobs(f *fixture) {
	data := content(1, 1000)
	info := f.put(data, func(p *blob.PutParams) {
		p.ContentType, p.Name, p.TTL, p.Size, p.Digest = "text/plain; charset=utf-8", "übung.txt", time.Minute, 1000, blob.Sum(data)
	})
	want := blob.Info{
		Ref: info.Ref, Size: 1000, Digest: blob.Sum(data), ContentType: "text/plain; charset=utf-8", Name: "übung.txt",
		Created: f.time(), Expires: f.time().Add(time.Minute), TTL: time.Minute,
	}
	f.equal("Put()", info, want)
	f.equal("Stat()", f.stat(info.Ref), want)
	r, opened, err := f.s.Open(f.ctx, owner, info.Ref)
	f.must("Open()", err)
	f.equal("Open()", opened, want)
	f.must("Close()", r.Close())
	f.wantContent(info.Ref, data)

	standard := f.put(nil)
	f.equal("default content type", standard.ContentType, "application/octet-stream")
	f.equal("default TTL", standard.TTL, f.cfg.TTL)
}

func allSizes(f *fixture) {
	for _, size := range []int{0, 1, 127*kib + 1023, 128 * kib, 128*kib + 1, large, mib - 1, mib, mib + 1, 3 * mib} {
		data := content(uint64(size), size)
		for _, announced := range []int64{0, int64(size)} {
			info := f.put(data, func(p *blob.PutParams) { p.Size = announced })
			f.equal("size", info.Size, int64(size))
			f.equal("digest", info.Digest, blob.Sum(data))
			f.wantContent(info.Ref, data)
		}
	}
}

func ranges(f *fixture) {
	for _, size := range []int64{0, 10, large, 2*mib + 10} {
		data := content(7, int(size))
		ref := f.put(data).Ref
		for _, offset := range []int64{0, 1, size / 2, mib - 1, mib, mib + 1, size - 1, size} {
			for _, length := range []int64{-1, 0, 1, 100, mib + 1, size, 1 << 40} {
				if offset < 0 || offset > size {
					continue
				}
				end := size
				if length >= 0 {
					end = min(size, offset+length)
				}
				if got := f.readRange(ref, offset, length); !bytes.Equal(got, data[offset:end]) {
					f.Fatalf("range (%d, %d) of %d bytes has %d bytes, want %d, or differs", offset, length, size, len(got), end-offset)
				}
			}
		}
		for _, offset := range []int64{-1, size + 1, 1 << 62} {
			_, _, err := f.s.OpenRange(f.ctx, owner, ref, offset, 1)
			f.wantError(fmt.Sprintf("OpenRange(%d)", offset), err, blob.ErrRange)
		}
	}
}

func opaqueRefs(f *fixture) {
	seen := make(map[string]bool)
	var random []string
	for range 20 {
		ref := f.put([]byte("same")).Ref
		if seen[ref] || len(ref) < 22 { // 128 bits in base 64
			f.Errorf("ref %q occurred before or is too short", ref)
		}
		seen[ref] = true
		random = append(random, ref)
	}
	common := 0
	for common < len(random[0]) && !slices.ContainsFunc(random, func(r string) bool { return r[common] != random[0][common] }) {
		common++
	}
	if rest := len(random[0]) - common; rest < 22 {
		f.Errorf("refs of one moment differ in %d characters, want at least 22", rest)
	}
}

func noAliasing(f *fixture) {
	for _, size := range []int{100, large} {
		data := content(3, size)
		want := bytes.Clone(data)
		ref := f.put(data, func(p *blob.PutParams) { p.Holder = "a" }).Ref
		clear(data)
		got := f.read(ref)
		clear(got)
		info := f.stat(ref)
		info.Holders[0] = "changed"
		f.equal("Holders", f.stat(ref).Holders, []string{"a"})
		f.wantContent(ref, want)
	}
}

func slowReaders(f *fixture) {
	for _, size := range []int{1000, large} {
		data := content(4, size)
		for _, r := range []io.Reader{iotest.OneByteReader(bytes.NewReader(data)), iotest.DataErrReader(bytes.NewReader(data)), iotest.HalfReader(bytes.NewReader(data))} {
			info := suite.Call(f.s.Put(f.ctx, r, blob.PutParams{Owner: owner})).Must(f, "Put()")
			f.wantContent(info.Ref, data)
		}
	}
}

func withKey(key string) func(p *blob.PutParams) {
	return func(p *blob.PutParams) { p.IdempotencyKey = key }
}

func repeats(f *fixture) {
	data := content(5, large)
	first := f.put(data, withKey("k"))
	again := suite.Call(f.s.Put(f.ctx, iotest.ErrReader(io.ErrClosedPipe), blob.PutParams{Owner: owner, IdempotencyKey: "k", Digest: first.Digest, Name: "other"})).Must(f, "repeated Put()")
	f.equal("repeated Put()", again, first)
	f.wantError("Put() of other content with the key", suite.Err(f.s.Put(f.ctx, bytes.NewReader(data), blob.PutParams{Owner: owner, IdempotencyKey: "k", Digest: blob.Sum(nil)})), blob.ErrConflict)
	if other := f.put(data, withKey("k2")); other.Ref == first.Ref {
		f.Errorf("Put() with another key returned the same blob")
	}
	theirs := f.put(data, withKey("k"), func(p *blob.PutParams) { p.Owner = otherOwner })
	if theirs.Ref == first.Ref {
		f.Errorf("Put() of another owner with the key returned the same blob")
	}
	f.equal("Usage()", f.usage(owner), blob.Usage{Blobs: 2, Bytes: 2 * large})
}

func freesKeys(f *fixture) {
	first := f.put([]byte("1"), withKey("k"))
	f.advance(f.cfg.TTL)
	second := f.put([]byte("2"), withKey("k"))
	if second.Ref == first.Ref {
		f.Fatalf("Put() with the key of an expired blob returned that blob")
	}
	f.must("Delete()", f.s.Delete(f.ctx, owner, second.Ref))
	third := f.put([]byte("3"), withKey("k"))
	f.wantContent(third.Ref, []byte("3"))
	f.equal("Usage()", f.usage(owner), blob.Usage{Blobs: 1, Bytes: 1})
}

func deletes(f *fixture) {
	for _, size := range []int{10, large} {
		info := f.put(content(6, size), func(p *blob.PutParams) { p.Holder = "h" })
		f.must("Delete()", f.s.Delete(f.ctx, owner, info.Ref))
		f.wantGone(owner, info.Ref)
		f.wantNone(owner)
	}
}

// wantGone checks that every method reports a blob as not found, with the same error.
func (f *fixture) wantGone(owner, ref string) {
	f.Helper()
	_, _, openErr := f.s.Open(f.ctx, owner, ref)
	_, _, rangeErr := f.s.OpenRange(f.ctx, owner, ref, 0, 1)
	for name, err := range map[string]error{
		"Open": openErr, "OpenRange": rangeErr, "Stat": suite.Err(f.s.Stat(f.ctx, owner, ref)),
		"Touch": suite.Err(f.s.Touch(f.ctx, owner, ref, time.Minute)), "Pin": f.s.Pin(f.ctx, owner, ref, "h"), "Unpin": f.s.Unpin(f.ctx, owner, ref, "h"),
		"Delete": f.s.Delete(f.ctx, owner, ref),
	} {
		f.wantError(name, err, blob.ErrNotFound)
		if err != nil && err.Error() != blob.ErrNotFound.Error() {
			f.Errorf("%s = %q, want the text %q", name, err, blob.ErrNotFound)
		}
	}
}

func pins(f *fixture) {
	data := content(8, 100)
	ref := f.put(data, func(p *blob.PutParams) { p.Holder = "a" }).Ref
	f.must("Pin(b)", f.s.Pin(f.ctx, owner, ref, "b"))
	f.must("Pin(b) again", f.s.Pin(f.ctx, owner, ref, "b"))
	f.equal("Holders", f.stat(ref).Holders, []string{"a", "b"})
	f.advance(100 * f.cfg.TTL)
	f.sweep()
	f.must("Unpin(a)", f.s.Unpin(f.ctx, owner, ref, "a"))
	f.must("Unpin(unknown)", f.s.Unpin(f.ctx, owner, ref, "unknown"))
	f.equal("Expires while pinned", f.stat(ref).Expires, time.Time{})
	f.must("Unpin(b)", f.s.Unpin(f.ctx, owner, ref, "b"))
	expires := f.time().Add(f.cfg.TTL)
	f.equal("Expires", f.stat(ref).Expires, expires)
	f.advance(f.cfg.TTL / 2)
	f.must("Unpin(b) again", f.s.Unpin(f.ctx, owner, ref, "b"))
	f.equal("Expires after a repeated Unpin()", f.stat(ref).Expires, expires)
	f.wantContent(ref, data)
	f.advance(f.cfg.TTL / 2)
	f.wantGone(owner, ref)
}

// unpinsAll checks holders with similar names, and more blobs than one batch.
func unpinsAll(f *fixture) {
	pinnedBy := func(owner string, holders ...string) blob.Info {
		info := f.put([]byte("x"), func(p *blob.PutParams) { p.Owner, p.Holder = owner, holders[0] })
		for _, h := range holders[1:] {
			f.must("Pin()", f.s.Pin(f.ctx, owner, info.Ref, h))
		}
		return info
	}
	shared, other, foreign := pinnedBy(owner, "h", "h2", "H"), pinnedBy(owner, "h%"), pinnedBy(otherOwner, "h")
	deleted := pinnedBy(owner, "h")
	f.must("Delete()", f.s.Delete(f.ctx, owner, deleted.Ref))
	var mine []string
	for range 450 {
		mine = append(mine, pinnedBy(owner, "h").Ref)
	}
	f.must("UnpinAll(unknown)", f.s.UnpinAll(f.ctx, owner, "unknown"))
	for range 2 { // a repeated call changes nothing
		f.must("UnpinAll()", f.s.UnpinAll(f.ctx, owner, "h"))
		f.equal("Holders of a shared blob", f.stat(shared.Ref).Holders, []string{"h2", "H"})
		f.equal("Stat() of a blob of another holder", f.stat(other.Ref), other)
		for _, ref := range mine {
			if info := f.stat(ref); len(info.Holders) > 0 || !info.Expires.Equal(info.Created.Add(f.cfg.TTL)) {
				f.Fatalf("Stat() = %+v, want an unpinned blob", info)
			}
		}
		f.advance(f.cfg.TTL / 4)
	}
	info := suite.Call(f.s.Stat(f.ctx, otherOwner, foreign.Ref)).Must(f, "Stat()")
	f.equal("Stat() of a blob of another owner", info, foreign)
	f.must("Pin()", f.s.Pin(f.ctx, owner, mine[0], "h"))
	f.must("UnpinAll() of a new pin", f.s.UnpinAll(f.ctx, owner, "h"))
	f.equal("Holders", len(f.stat(mine[0]).Holders), 0)
}

func touches(f *fixture) {
	ref := f.put([]byte("x"), func(p *blob.PutParams) { p.TTL = time.Minute }).Ref
	for _, step := range []struct{ advance, ttl, want time.Duration }{
		{0, 10 * time.Minute, 10 * time.Minute},
		{0, time.Minute, 10 * time.Minute},
		{9*time.Minute + 30*time.Second, 0, time.Minute},
		{0, time.Second, time.Minute},
	} {
		f.advance(step.advance)
		info := suite.Call(f.s.Touch(f.ctx, owner, ref, step.ttl)).Must(f, "Touch()")
		f.equal("Expires", info.Expires, f.time().Add(step.want))
		f.equal("Stat()", f.stat(ref), info)
	}
	f.must("Pin()", f.s.Pin(f.ctx, owner, ref, "a"))
	info := suite.Call(f.s.Touch(f.ctx, owner, ref, time.Hour)).Must(f, "Touch()")
	f.equal("Expires of a pinned blob", info.Expires, time.Time{})
}

func sharesContent(f *fixture) {
	for _, size := range []int{100, large} {
		data := content(9, size)
		var refs []string
		for range 3 {
			refs = append(refs, f.put(data).Ref)
		}
		theirs := f.put(data, func(p *blob.PutParams) { p.Owner = otherOwner }).Ref
		f.must("Delete()", f.s.Delete(f.ctx, owner, refs[0]))
		f.must("Delete()", f.s.Delete(f.ctx, owner, refs[1]))
		f.must("Delete()", f.s.Delete(f.ctx, otherOwner, theirs))
		f.advance(f.cfg.Grace)
		f.equal("Sweep()", f.sweep(), blob.Swept{Contents: 1}) // the content of the other owner
		f.wantContent(refs[2], data)
		f.must("Delete()", f.s.Delete(f.ctx, owner, refs[2]))
		f.advance(f.cfg.Grace)
		f.equal("Sweep()", f.sweep(), blob.Swept{Contents: 1})
	}
}

func scopes(f *fixture) {
	s := blob.Scope{Blobs: f.s, Owner: owner}
	data := content(10, large)
	ref := suite.Call(s.Store(f.ctx, data, "image/png")).Must(f, "Store()")
	f.equal("content type", f.stat(ref).ContentType, "image/png")
	f.must("Pin()", s.Pin(f.ctx, ref))
	f.advance(2 * f.cfg.TTL)
	f.must("Unpin()", s.Unpin(f.ctx, ref))
	got := suite.Call(s.Resolve(f.ctx, ref)).Must(f, "Resolve()")
	if !bytes.Equal(got, data) {
		f.Errorf("Resolve() returned other content")
	}
	f.advance(f.cfg.TTL)
	f.wantError("Resolve() of an expired ref", suite.Err(s.Resolve(f.ctx, ref)), blob.ErrNotFound)
}

func usages(f *fixture) {
	f.wantNone(owner)
	a := f.put(content(1, 10)).Ref
	f.put(content(1, 10))
	f.put(content(2, large))
	f.equal("Usage()", f.usage(owner), blob.Usage{Blobs: 3, Bytes: large + 20})
	f.must("Delete()", f.s.Delete(f.ctx, owner, a))
	f.equal("Usage()", f.usage(owner), blob.Usage{Blobs: 2, Bytes: large + 10})
	f.wantNone(otherOwner)
	f.advance(f.cfg.TTL)
	f.equal("Sweep()", f.sweep().Blobs, 2)
	f.wantNone(owner)
}
