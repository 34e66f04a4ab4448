// Package blobtest tests implementations of [blob.Store], as testing/fstest does for file
// systems. A backend, or an operator's own store, passes a [Harness] to [Run].
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// T is the part of testing.T that the suite uses.
type T = storetest.T

// Store is a store with its maintenance.
type Store interface {
	blob.Store
	blob.Maintenance
}

// Harness describes an implementation to the suite.
type Harness struct {
	// Open returns a fresh, empty store with a configuration. It registers the cleanup.
	Open func(t T, cfg blob.Config) Store
	// Reopen closes a store, opens its data again and registers the cleanup. It is nil if the
	// store is not durable.
	Reopen func(t T, s Store, cfg blob.Config) Store
	// Processes means that calls alternate between several processes. Blobs that different processes make in one
	// millisecond have any order.
	Processes bool
}

// Run runs the complete suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	RunOn(storetest.Wrap(t), h)
}

// RunOn runs the complete suite on any implementation of T.
func RunOn(t T, h Harness) {
	suite.Each(t, groups, func(g group) string { return g.name }, func(t T, g group) {
		suite.Each(t, g.tests, func(test test) string { return test.name }, func(t T, test test) { test.run(newFixture(t, h)) })
	})
}

type group struct {
	name  string
	tests []test
}

// test is one test of the suite. Its name is a sentence.
type test struct {
	name string
	run  func(f *fixture)
}

var groups = []group{
	{"contract", contractTests},
	{"rejections", rejectionTests},
	{"isolation", isolationTests},
	{"expiry", expiryTests},
	{"lists", listTests},
	{"restore", restoreTests},
	{"concurrency", raceTests},
	{"durability", durableTests},
	{"random calls", []test{{"have the same results as on a model", randomCalls}}},
}

// Owners of the tests.
const (
	owner      = "did:key:z6MkOwner"
	otherOwner = "did:key:z6MkOther"
)

// Sizes that backends may store in different ways.
const (
	kib   = 1 << 10
	mib   = 1 << 20
	large = 300 * kib
)

// fixture is a store with a clock that the test moves.
type fixture struct {
	T
	h   Harness
	cfg blob.Config
	s   Store
	ctx context.Context
	now *suite.Clock
}

func newFixture(t T, h Harness) *fixture {
	f := &fixture{T: t, h: h, ctx: t.Context(), now: suite.NewClock(time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC))}
	f.cfg = blob.Config{TTL: time.Hour, Grace: 10 * time.Minute, Now: f.time, MaxSize: 64 * mib}
	f.s = h.Open(t, f.cfg)
	return f
}

// configure replaces the store by a fresh one.
func (f *fixture) configure(change func(cfg *blob.Config)) {
	change(&f.cfg)
	f.s = f.h.Open(f.T, f.cfg)
}

func (f *fixture) time() time.Time { return f.now.Now() }

func (f *fixture) advance(d time.Duration) { f.now.Add(d) }

// content returns the pseudo-random content with a number and a size.
func content(n uint64, size int) []byte {
	data := make([]byte, size)
	_, _ = io.ReadFull(Source(n, int64(size)), data)
	return data
}

// Source returns a reader of size pseudo-random bytes that a seed determines.
func Source(seed uint64, size int64) io.Reader {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	return io.LimitReader(rand.NewChaCha8(key), size)
}

// put stores data for the first owner.
func (f *fixture) put(data []byte, change ...func(p *blob.PutParams)) blob.Info {
	f.Helper()
	p := blob.PutParams{Owner: owner}
	for _, c := range change {
		c(&p)
	}
	return suite.Call(f.s.Put(f.ctx, bytes.NewReader(data), p)).Must(f, "Put(%d bytes)", len(data))
}

// read returns the content of a blob of the first owner.
func (f *fixture) read(ref string) []byte { f.Helper(); return f.readRange(ref, 0, -1) }

func (f *fixture) readRange(ref string, offset, length int64) []byte {
	f.Helper()
	r, _, err := f.s.OpenRange(f.ctx, owner, ref, offset, length)
	if err != nil {
		f.Fatalf("OpenRange(%d, %d) = %v", offset, length, err)
	}
	data, err := io.ReadAll(r)
	suite.Do(errors.Join(err, r.Close())).Must(f, "reading the content")
	return data
}

// wantContent checks the content of a blob of the first owner.
func (f *fixture) wantContent(ref string, want []byte) {
	f.Helper()
	if got := f.read(ref); !bytes.Equal(got, want) {
		f.Errorf("content has %d bytes, want %d, or differs", len(got), len(want))
	}
}

// wantNone checks that an owner has no blob and no usage.
func (f *fixture) wantNone(owner string) {
	f.Helper()
	f.equal("Usage()", f.usage(owner), blob.Usage{})
	if page, err := f.s.List(f.ctx, blob.ListParams{Owner: owner}); err != nil || len(page.Blobs) > 0 || page.More {
		f.Errorf("List() = %+v, %v, want no blob", page, err)
	}
}

func (f *fixture) usage(owner string) blob.Usage {
	f.Helper()
	return suite.Call(f.s.Usage(f.ctx, owner)).Must(f, "Usage()")
}

func (f *fixture) stat(ref string) blob.Info {
	f.Helper()
	return suite.Call(f.s.Stat(f.ctx, owner, ref)).Must(f, "Stat()")
}

func (f *fixture) sweep() blob.Swept {
	f.Helper()
	return suite.Call(f.s.Sweep(f.ctx, f.time(), 1000)).Must(f, "Sweep()")
}

func (f *fixture) must(what string, err error) { f.Helper(); suite.Do(err).Must(f, "%s", what) }

func (f *fixture) wantError(what string, err, want error) {
	f.Helper()
	suite.Do(err).Fails(f, want, "%s", what)
}

func (f *fixture) equal(what string, got, want any) {
	f.Helper()
	if !reflect.DeepEqual(got, want) {
		f.Errorf("%s = %+v, want %+v", what, got, want)
	}
}
