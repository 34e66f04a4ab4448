package blobtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var listTests = []test{
	{"pages are in the order of creation, also within a millisecond", listsInOrder},
	{"a walk returns every blob once while others are added and removed", listsDuringChanges},
}

// walk returns the names of an owner's blobs, in pages, and calls between after each page.
func (f *fixture) walk(limit int, between func()) (names []string) {
	f.Helper()
	p := blob.ListParams{Owner: owner, Limit: limit}
	for {
		page := suite.Call(f.s.List(f.ctx, p)).Must(f, "List()")
		if len(page.Blobs) > limit || page.More && len(page.Blobs) < limit {
			f.Fatalf("List() = %d blobs, more: %t, want %d", len(page.Blobs), page.More, limit)
		}
		for _, b := range page.Blobs {
			names = append(names, b.Name)
			p.After = b.Ref
		}
		if !page.More {
			return names
		}
		between()
	}
}

func named(name string) func(p *blob.PutParams) {
	return func(p *blob.PutParams) { p.Name = name }
}

func listsInOrder(f *fixture) {
	var want []string
	for i := range 7 {
		if i%3 == 0 || f.h.Processes {
			f.advance(time.Millisecond)
		}
		want = append(want, fmt.Sprint(i))
		f.put([]byte{byte(i % 3)}, named(want[i]))
	}
	for _, limit := range []int{1, 2, 3, 7, 8} {
		f.equal(fmt.Sprint("List() in pages of ", limit), f.walk(limit, func() {}), want)
	}
}

func listsDuringChanges(f *fixture) {
	var refs []string
	for i := range 12 {
		f.advance(time.Millisecond)
		refs = append(refs, f.put([]byte("x"), named(fmt.Sprint(i))).Ref)
	}
	n := 0
	got := f.walk(3, func() {
		f.advance(time.Millisecond)
		f.put([]byte("new"), named("new"))
		if n < 2 { // removed blobs have been listed already
			f.must("Delete()", f.s.Delete(f.ctx, owner, refs[n]))
			n++
		}
	})
	got = slices.DeleteFunc(got, func(name string) bool { return name == "new" })
	want := make([]string, 12)
	for i := range want {
		want[i] = fmt.Sprint(i)
	}
	f.equal("List()", got, want)
}
