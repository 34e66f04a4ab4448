package blobtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// modelBlob is a blob of the model. The model knows the rules of blobs and nothing of refs,
// rows or objects.
type modelBlob struct {
	owner, key string
	info       blob.Info
	data       []byte
}

type model struct {
	f     *fixture
	blobs []*modelBlob
	freed map[blobdriver.ContentKey]time.Time
}

func (m *model) live(b *modelBlob) bool {
	return b.info.Expires.IsZero() || b.info.Expires.After(m.f.time())
}

// find returns a live blob of an owner.
func (m *model) find(owner, ref string) *modelBlob {
	for _, b := range m.blobs {
		if b.owner == owner && b.info.Ref == ref && m.live(b) {
			return b
		}
	}
	return nil
}

func (m *model) remove(b *modelBlob, now time.Time) {
	i := slices.Index(m.blobs, b)
	m.blobs = slices.Delete(m.blobs, i, i+1)
	k := blobdriver.ContentKey{Owner: b.owner, Digest: b.info.Digest}
	if !slices.ContainsFunc(m.blobs, func(o *modelBlob) bool { return o.owner == k.Owner && o.info.Digest == k.Digest }) {
		m.freed[k] = now
	}
}

// put returns the blob that a Put returns, and whether it is new.
func (m *model) put(p blob.PutParams, data []byte) (*modelBlob, bool) {
	for _, b := range m.blobs {
		if p.IdempotencyKey != "" && b.owner == p.Owner && b.key == p.IdempotencyKey {
			if m.live(b) {
				return b, false
			}
			m.remove(b, m.f.time())
			break
		}
	}
	now := m.f.time()
	b := &modelBlob{owner: p.Owner, key: p.IdempotencyKey, data: data, info: blob.Info{
		Size: int64(len(data)), Digest: blob.Sum(data), ContentType: "application/octet-stream", Name: p.Name, Created: now, Expires: now.Add(p.TTL), TTL: p.TTL,
	}}
	if p.Holder != "" {
		b.info.Expires, b.info.Holders = time.Time{}, []string{p.Holder}
	}
	m.blobs = append(m.blobs, b)
	delete(m.freed, blobdriver.ContentKey{Owner: b.owner, Digest: b.info.Digest})
	return b, true
}

// sweep returns what Sweep removes.
func (m *model) sweep() (s blob.Swept) {
	now := m.f.time()
	for _, b := range slices.Clone(m.blobs) {
		if !m.live(b) {
			m.remove(b, now)
			s.Blobs++
		}
	}
	for k, at := range m.freed {
		if !at.After(now.Add(-m.f.cfg.Grace)) {
			delete(m.freed, k)
			s.Contents++
		}
	}
	return s
}

// randomCalls compares the store with the model. The seed of a failure is in the log.
func randomCalls(f *fixture) {
	seed := testseed.Of(f)
	r := &randomRun{fixture: f, m: &model{f: f, freed: make(map[blobdriver.ContentKey]time.Time)}, r: rand.New(rand.NewPCG(seed, 0))}
	calls := []func(){r.put, r.put, r.put, r.open, r.delete, r.pin, r.unpin, r.unpinAll, r.touch, r.sweep, r.list, r.wait}
	for n := range 250 {
		calls[r.r.IntN(len(calls))]()
		if f.Failed() {
			f.Fatalf("call %d with seed %d differs from the model", n, seed)
		}
	}
}

type randomRun struct {
	*fixture
	m *model
	r *rand.Rand
}

func (r *randomRun) owner() string { return []string{owner, otherOwner}[r.r.IntN(2)] }

func (r *randomRun) holder() string { return []string{"a", "b"}[r.r.IntN(2)] }

// ref returns the ref of a blob of the model, of any owner, expired or not.
func (r *randomRun) ref() string {
	if len(r.m.blobs) == 0 {
		return "none"
	}
	return r.m.blobs[r.r.IntN(len(r.m.blobs))].info.Ref
}

func (r *randomRun) put() {
	data := content(r.r.Uint64N(3), []int{0, 10, 1000, 150 * kib}[r.r.IntN(4)])
	p := blob.PutParams{Owner: r.owner(), Name: fmt.Sprint(r.r.IntN(9)), TTL: time.Duration(1+r.r.IntN(30)) * time.Minute}
	if r.r.IntN(3) == 0 {
		p.IdempotencyKey = fmt.Sprint("k", r.r.IntN(3))
	}
	if r.r.IntN(3) == 0 {
		p.Holder = r.holder()
	}
	got := suite.Call(r.s.Put(r.ctx, bytes.NewReader(data), p)).Must(r, "Put()")
	b, created := r.m.put(p, data)
	if created {
		b.info.Ref = got.Ref
	}
	r.equal("Put()", got, b.info)
}

func (r *randomRun) open() {
	o, ref := r.owner(), r.ref()
	got, info, err := r.s.Open(r.ctx, o, ref)
	b := r.m.find(o, ref)
	if b == nil {
		r.wantError("Open()", err, blob.ErrNotFound)
		return
	}
	r.must("Open()", err)
	data, err := io.ReadAll(got)
	r.must("Read()", errors.Join(err, got.Close()))
	r.equal("Open()", info, b.info)
	if !bytes.Equal(data, b.data) {
		r.Errorf("content differs")
	}
}

// compare checks a call that changes a blob. change applies it to the model.
func (r *randomRun) compare(name string, call func(owner, ref string) error, change func(b *modelBlob)) {
	o, ref := r.owner(), r.ref()
	err := call(o, ref)
	b := r.m.find(o, ref)
	if b == nil {
		r.wantError(name, err, blob.ErrNotFound)
		return
	}
	r.must(name, err)
	change(b)
}

func (r *randomRun) delete() {
	r.compare("Delete()", func(o, ref string) error { return r.s.Delete(r.ctx, o, ref) }, func(b *modelBlob) { r.m.remove(b, r.time()) })
}

func (r *randomRun) pin() {
	h := r.holder()
	r.compare("Pin()", func(o, ref string) error { return r.s.Pin(r.ctx, o, ref, h) }, func(b *modelBlob) {
		if !slices.Contains(b.info.Holders, h) {
			b.info.Holders = append(slices.Clone(b.info.Holders), h)
		}
		b.info.Expires = time.Time{}
	})
}

func (r *randomRun) unpin() {
	h := r.holder()
	r.compare("Unpin()", func(o, ref string) error { return r.s.Unpin(r.ctx, o, ref, h) }, func(b *modelBlob) { r.m.unpin(b, h) })
}

func (m *model) unpin(b *modelBlob, holder string) {
	i := slices.Index(b.info.Holders, holder)
	if i < 0 {
		return
	}
	if b.info.Holders = slices.Delete(slices.Clone(b.info.Holders), i, i+1); len(b.info.Holders) == 0 {
		b.info.Holders, b.info.Expires = nil, m.f.time().Add(b.info.TTL)
	}
}

func (r *randomRun) unpinAll() {
	o, h := r.owner(), r.holder()
	r.must("UnpinAll()", r.s.UnpinAll(r.ctx, o, h))
	for _, b := range r.m.blobs {
		if b.owner == o {
			r.m.unpin(b, h)
		}
	}
}

func (r *randomRun) touch() {
	ttl := time.Duration(r.r.IntN(40)) * time.Minute
	var got blob.Info
	r.compare("Touch()", func(o, ref string) (err error) {
		got, err = r.s.Touch(r.ctx, o, ref, ttl)
		return err
	}, func(b *modelBlob) {
		if ttl == 0 {
			ttl = b.info.TTL
		}
		if at := r.time().Add(ttl); !b.info.Expires.IsZero() && at.After(b.info.Expires) {
			b.info.Expires = at
		}
		r.equal("Touch()", got, b.info)
	})
}

func (r *randomRun) sweep() {
	got := r.fixture.sweep()
	r.equal("Sweep()", got, r.m.sweep())
}

func (r *randomRun) list() {
	o := r.owner()
	page := suite.Call(r.s.List(r.ctx, blob.ListParams{Owner: o})).Must(r, "List()")
	var want []blob.Info
	var usage blob.Usage
	for _, b := range r.m.blobs {
		if b.owner == o {
			usage.Blobs, usage.Bytes = usage.Blobs+1, usage.Bytes+b.info.Size
			if r.m.live(b) {
				want = append(want, b.info)
			}
		}
	}
	byRef := func(a, b blob.Info) int { return bytes.Compare([]byte(a.Ref), []byte(b.Ref)) }
	slices.SortFunc(want, byRef)
	if want = want[:min(len(want), 100)]; len(want)+len(page.Blobs) > 0 && !reflect.DeepEqual(page.Blobs, want) {
		r.Errorf("List() = %+v, want %+v", page.Blobs, want)
	}
	r.equal("Usage()", r.usage(o), usage)
}

func (r *randomRun) wait() { r.advance(time.Duration(r.r.IntN(10)) * time.Minute) }
