package blobdriver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/blob/blobtest"
)

const owner = "owner"

var errFault = errors.New("fault")

// faultyRefs fails transactions: before they commit, or afterwards, so that their outcome is
// unknown to the caller.
type faultyRefs struct {
	blobdriver.Refs
	before, after bool
}

func (r *faultyRefs) Update(ctx context.Context, owner string, f func(tx blobdriver.Tx) error) error {
	if r.before {
		return errFault
	}
	if err := r.Refs.Update(ctx, owner, f); err != nil {
		return err
	}
	if r.after {
		return errFault
	}
	return nil
}

// fixture is a store with parts that can fail.
type fixture struct {
	*testing.T
	refs    *faultyRefs
	objects *blobtest.Objects
	now     time.Time
	s       *blobdriver.Blobs
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, refs: &faultyRefs{Refs: blobsql.RefsOf(inmem.New())}, objects: new(blobtest.Objects), now: time.Unix(1_800_000_000, 0)}
	f.s = blobdriver.New(blob.Config{Grace: time.Minute, OwnerBytes: 1000, Now: func() time.Time { return f.now }}, f.refs, f.objects)
	return f
}

func (f *fixture) put(data string, size int64) (blob.Info, error) {
	return f.s.Put(f.Context(), bytes.NewReader([]byte(data)), blob.PutParams{Owner: owner, Size: size})
}

// wantObjects checks the number of objects.
func (f *fixture) wantObjects(when string, want int) {
	f.Helper()
	if got := f.objects.Names(); len(got) != want {
		f.Errorf("%s there are %d objects, want %d", when, len(got), want)
	}
}

// wantOrphans checks how many objects RemoveOrphans removes.
func (f *fixture) wantOrphans(want int) {
	f.Helper()
	if o, err := f.s.RemoveOrphans(f.Context(), f.now, blob.Object{}, 10); err != nil || o.Removed != want {
		f.Errorf("RemoveOrphans() = %+v, %v, want %d removed", o, err, want)
	}
}

func TestUploadWithUnknownOutcomeIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.refs.after = true
	if _, err := f.put("content", 0); !errors.Is(err, errFault) {
		t.Fatalf("Put() = %v, want the fault", err)
	}
	f.refs.after = false
	page, err := f.s.List(t.Context(), blob.ListParams{Owner: owner})
	if err != nil || len(page.Blobs) != 1 {
		t.Fatalf("List() = %+v, %v, want the committed blob", page, err)
	}
	f.now = f.now.Add(time.Hour)
	f.wantOrphans(0)
	if data, err := (blob.Scope{Blobs: f.s, Owner: owner}).Resolve(t.Context(), page.Blobs[0].Ref); err != nil || string(data) != "content" {
		t.Errorf("Resolve() = %q, %v, want the content", data, err)
	}
}

func TestUploadWithoutCommitBecomesAnOrphan(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.refs.before = true
	if _, err := f.put("content", 0); !errors.Is(err, errFault) {
		t.Fatalf("Put() = %v, want the fault", err)
	}
	f.wantObjects("after a failed commit", 1)
	f.now = f.now.Add(2 * time.Minute)
	f.wantOrphans(0) // an upload of this age may still be committed
	f.now = f.now.Add(time.Millisecond)
	f.objects.Change("not-an-id", nil)
	f.wantOrphans(1)
	f.wantObjects("after the scan", 1)
}

func TestRejectedUploadIsRemovedAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var quota *blob.QuotaError
	if _, err := f.put(string(make([]byte, 1001)), 0); !errors.As(err, &quota) {
		t.Errorf("Put() = %v, want a QuotaError", err)
	}
	f.wantObjects("after a rejection", 0)
	if _, err := f.put("abc", 2); !errors.Is(err, blob.ErrSize) {
		t.Errorf("Put() of more than announced = %v, want ErrSize", err)
	}
	f.wantObjects("after content of another size", 0)
	if _, err := f.put("abc", 3); err != nil {
		t.Errorf("Put() = %v", err)
	}
	if _, err := f.put("abc", 0); err != nil {
		t.Errorf("Put() of the same content = %v", err)
	}
	f.wantObjects("after two uploads of one content", 1)
}

func TestFailingContentsStoreNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.objects.Fault = func(string) error { return errFault }
	if _, err := f.put("content", 0); !errors.Is(err, errFault) {
		t.Errorf("Put() = %v, want the fault", err)
	}
	if u, err := f.s.Usage(t.Context(), owner); err != nil || u != (blob.Usage{}) {
		t.Errorf("Usage() = %+v, %v, want none", u, err)
	}
}

func TestContentWhoseRemovalFailedBecomesAnOrphan(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	info, err := f.put("content", 0)
	if err == nil {
		err = f.s.Delete(t.Context(), owner, info.Ref)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.objects.Fault = func(operation string) error {
		if operation == "remove" {
			return errFault
		}
		return nil
	}
	f.now = f.now.Add(time.Hour)
	if _, err := f.s.Sweep(t.Context(), f.now, 10); !errors.Is(err, errFault) {
		t.Errorf("Sweep() = %v, want the fault", err)
	}
	if _, err := f.s.RemoveOrphans(t.Context(), f.now, blob.Object{}, 10); !errors.Is(err, errFault) {
		t.Errorf("RemoveOrphans() = %v, want the fault", err)
	}
	f.objects.Fault = nil
	if s, err := f.s.Sweep(t.Context(), f.now, 10); err != nil || s != (blob.Swept{}) {
		t.Errorf("Sweep() again = %+v, %v, want nothing to do", s, err)
	}
	f.wantOrphans(1)
	f.wantObjects("after the scan", 0)
}

func TestDamagedContentIsReported(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	info, err := f.put("content", 0)
	if err != nil {
		t.Fatal(err)
	}
	name := f.objects.Names()[0]
	scope := blob.Scope{Blobs: f.s, Owner: owner}
	for _, damaged := range []string{"", "conten", "contenT"} {
		f.objects.Change(name, []byte(damaged))
		if data, err := scope.Resolve(t.Context(), info.Ref); !errors.Is(err, blob.ErrCorrupt) {
			t.Errorf("Resolve() of %q = %q, %v, want ErrCorrupt", damaged, data, err)
		}
		r, _, err := f.s.Open(t.Context(), owner, info.Ref)
		if err != nil {
			t.Fatalf("Open() = %v", err)
		}
		if _, err := io.ReadAll(r); len(damaged) < 7 && !errors.Is(err, blob.ErrCorrupt) {
			t.Errorf("reading %q = %v, want ErrCorrupt", damaged, err)
		}
	}
}

func ExampleScope() {
	ctx := context.Background()
	blobs := blob.Scope{Blobs: blobsql.Of(inmem.New(), blob.Config{}), Owner: "alice"}
	ref, err := blobs.Store(ctx, []byte("large"), "text/plain")
	if err != nil {
		panic(err)
	}
	if err := blobs.Pin(ctx, ref); err != nil { // for as long as it is needed
		panic(err)
	}
	data, err := blobs.Resolve(ctx, ref)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(data))
	// Output: large
}
