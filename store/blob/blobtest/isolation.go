package blobtest

import (
	"strings"

	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var isolationTests = []test{
	{"a ref of another owner is not found", foreignRefs},
	{"unknown and malformed refs are not found", unknownRefs},
	{"lists, usage and keys are per owner", separateOwners},
	{"owners with similar names are separate", similarOwners},
}

func foreignRefs(f *fixture) {
	for _, size := range []int{10, large} {
		data := content(1, size)
		info := f.put(data)
		f.wantGone(otherOwner, info.Ref)
		// Also if the other owner has the same content.
		f.put(data, func(p *blob.PutParams) { p.Owner = otherOwner })
		f.wantGone(otherOwner, info.Ref)
		f.equal("Stat()", f.stat(info.Ref), info)
		f.wantContent(info.Ref, data)
	}
}

func unknownRefs(f *fixture) {
	ref := f.put([]byte("x")).Ref
	for _, unknown := range []string{
		"", "x", ref[1:], ref + "0", strings.ToUpper(ref), strings.Repeat("0", len(ref)), ref[:len(ref)-1] + "\x00", ref[:len(ref)-1] + "\xff",
		"../" + ref, "%" + ref[1:], strings.Repeat(ref, 10_000),
	} {
		if unknown != ref {
			f.wantGone(owner, unknown)
		}
	}
}

func separateOwners(f *fixture) {
	mine := f.put([]byte("mine"), withKey("k"))
	theirs := f.put([]byte("theirs"), withKey("k"), func(p *blob.PutParams) { p.Owner = otherOwner })
	for name, want := range map[string]blob.Info{owner: mine, otherOwner: theirs} {
		page := suite.Call(f.s.List(f.ctx, blob.ListParams{Owner: name})).Must(f, "List()")
		f.equal("List()", page, blob.Page{Blobs: []blob.Info{want}})
		f.equal("Usage()", f.usage(name), blob.Usage{Blobs: 1, Bytes: want.Size})
	}
}

func similarOwners(f *fixture) {
	names := []string{"a", "a ", "A", "ab", "a%", "a_", "á"}
	for i, name := range names {
		f.put(content(1, i+1), func(p *blob.PutParams) { p.Owner = name })
	}
	for i, name := range names {
		f.equal("Usage() of "+name, f.usage(name), blob.Usage{Blobs: 1, Bytes: int64(i + 1)})
	}
}
