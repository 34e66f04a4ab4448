package blobtest

import (
	"bytes"
	"io"
	"time"

	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var expiryTests = []test{
	{"an expired blob is not found before it is removed", expiresAtOnce},
	{"Sweep removes expired blobs, then their contents", sweeps},
	{"Sweep does not exceed its limit", sweepsInBatches},
	{"Sweep keeps pinned and live blobs", sweepKeeps},
	{"content without a blob is used again within the grace period", revives},
	{"an open reader reads on after a deletion", readsOn},
	{"RemoveOrphans keeps the contents of blobs", orphansKeep},
}

func expiresAtOnce(f *fixture) {
	for _, size := range []int{10, large} {
		ref := f.put(content(1, size), func(p *blob.PutParams) { p.TTL = time.Minute }).Ref
		f.advance(time.Minute - time.Millisecond)
		f.stat(ref)
		f.advance(time.Millisecond)
		f.wantGone(owner, ref)
		page := suite.Call(f.s.List(f.ctx, blob.ListParams{Owner: owner})).Must(f, "List()")
		f.equal("List()", len(page.Blobs), 0)
	}
}

func sweeps(f *fixture) {
	for _, size := range []int{10, large} {
		ref := f.put(content(2, size)).Ref
		f.equal("Sweep() before", f.sweep(), blob.Swept{})
		f.advance(f.cfg.TTL)
		f.equal("Sweep()", f.sweep(), blob.Swept{Blobs: 1})
		f.wantNone(owner)
		f.wantGone(owner, ref)
		f.advance(f.cfg.Grace - time.Millisecond)
		f.equal("Sweep() within the grace period", f.sweep(), blob.Swept{})
		f.advance(time.Millisecond)
		f.equal("Sweep() after the grace period", f.sweep(), blob.Swept{Contents: 1})
		f.equal("Sweep() again", f.sweep(), blob.Swept{})
	}
	f.noOrphans()
}

func sweepsInBatches(f *fixture) {
	for i := range 5 {
		f.put(content(uint64(i), 10), func(p *blob.PutParams) { p.Owner = []string{owner, otherOwner}[i%2] })
	}
	f.advance(f.cfg.TTL)
	for _, want := range []blob.Swept{{Blobs: 2, More: true}, {Blobs: 2, More: true}, {Blobs: 1}} {
		got := suite.Call(f.s.Sweep(f.ctx, f.time(), 2)).Must(f, "Sweep()")
		f.equal("Sweep()", got, want)
	}
	f.advance(f.cfg.Grace)
	for _, want := range []blob.Swept{{Contents: 2, More: true}, {Contents: 2, More: true}, {Contents: 1}} {
		got := suite.Call(f.s.Sweep(f.ctx, f.time(), 2)).Must(f, "Sweep()")
		f.equal("Sweep()", got, want)
	}
}

func sweepKeeps(f *fixture) {
	pinned := f.put([]byte("pinned"), func(p *blob.PutParams) { p.Holder = "h" }).Ref
	live := f.put([]byte("live"), func(p *blob.PutParams) { p.TTL = 2 * f.cfg.TTL }).Ref
	shared := f.put([]byte("live")).Ref
	f.advance(f.cfg.TTL)
	f.equal("Sweep()", f.sweep(), blob.Swept{Blobs: 1})
	f.wantGone(owner, shared)
	f.advance(f.cfg.Grace)
	f.equal("Sweep()", f.sweep(), blob.Swept{})
	f.wantContent(pinned, []byte("pinned"))
	f.wantContent(live, []byte("live"))
}

func revives(f *fixture) {
	for _, size := range []int{10, large} {
		data := content(3, size)
		f.must("Delete()", f.s.Delete(f.ctx, owner, f.put(data).Ref))
		f.advance(f.cfg.Grace - time.Millisecond)
		ref := f.put(data).Ref
		f.advance(f.cfg.Grace)
		f.equal("Sweep()", f.sweep(), blob.Swept{})
		f.wantContent(ref, data)
		f.must("Delete()", f.s.Delete(f.ctx, owner, ref))
		f.advance(f.cfg.Grace)
		f.equal("Sweep()", f.sweep(), blob.Swept{Contents: 1})
		ref = f.put(data).Ref // uploads again
		f.equal("Sweep()", f.sweep(), blob.Swept{})
		f.wantContent(ref, data)
	}
}

func readsOn(f *fixture) {
	for _, size := range []int{10, large, 3 * mib} {
		data := content(4, size)
		ref := f.put(data).Ref
		r, _, err := f.s.Open(f.ctx, owner, ref)
		f.must("Open()", err)
		head := make([]byte, 5)
		suite.Call(io.ReadFull(r, head)).Must(f, "Read()")
		f.must("Delete()", f.s.Delete(f.ctx, owner, ref))
		f.sweep()
		rest := suite.Call(io.ReadAll(r)).Must(f, "Read() after a deletion")
		f.must("Close()", r.Close())
		if !bytes.Equal(append(head, rest...), data) {
			f.Errorf("content of %d bytes differs after a deletion", size)
		}
	}
}

func orphansKeep(f *fixture) {
	want := make(map[string][]byte)
	for i := range 6 {
		data := content(uint64(i), large+i)
		want[f.put(data, func(p *blob.PutParams) { p.Holder = "h" }).Ref] = data
	}
	f.advance(100 * f.cfg.Grace)
	o, calls := blob.Orphans{More: true}, 0
	for ; o.More; calls++ {
		o = suite.Call(f.s.RemoveOrphans(f.ctx, f.time(), o.Next, 2)).Must(f, "RemoveOrphans()")
		if o.Removed > 0 || o.Checked > 2 || calls > 10 {
			f.Fatalf("call %d of RemoveOrphans() = %+v, want up to 2 checked and none removed", calls, o)
		}
	}
	for ref, data := range want {
		f.wantContent(ref, data)
	}
}
