package blobtest

import "github.com/holdfast-dev/holdfast/store/blob"

var durableTests = []test{{"all data remains after the store was opened again", reopens}}

func reopens(f *fixture) {
	if f.h.Reopen == nil {
		f.Skipf("the store is not durable")
	}
	want := make(map[string][]byte)
	infos := make(map[string]blob.Info)
	for i, size := range []int{0, 10, large, 3 * mib} {
		data := content(uint64(i), size)
		info := f.put(data, func(p *blob.PutParams) { p.Name, p.Holder, p.IdempotencyKey = "n", "h", string(rune('a'+i)) })
		want[info.Ref], infos[info.Ref] = data, info
	}
	gone := f.put(content(9, large)).Ref
	f.must("Delete()", f.s.Delete(f.ctx, owner, gone))
	usage := f.usage(owner)
	f.s = f.h.Reopen(f.T, f.s, f.cfg)
	for ref, data := range want {
		f.equal("Stat()", f.stat(ref), infos[ref])
		f.wantContent(ref, data)
	}
	f.wantGone(owner, gone)
	f.equal("Usage()", f.usage(owner), usage)
	f.equal("repeated Put()", f.put(nil, withKey("b")).Size, int64(10))
	f.advance(f.cfg.Grace)
	f.equal("Sweep()", f.sweep(), blob.Swept{Contents: 1})
}
