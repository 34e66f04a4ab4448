//go:build services

package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
	"github.com/holdfast-dev/holdfast/store/blob/blobtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// replicas is a store that sends its calls to two processes in turn.
type replicas struct {
	stores   [2]*blobdriver.Blobs
	calls    atomic.Int64
	contents *Contents
}

func (r *replicas) next() *blobdriver.Blobs { return r.stores[r.calls.Add(1)%2] }

func (r *replicas) Put(ctx context.Context, content io.Reader, p blob.PutParams) (blob.Info, error) {
	return r.next().Put(ctx, content, p)
}

func (r *replicas) Open(ctx context.Context, owner, ref string) (io.ReadCloser, blob.Info, error) {
	return r.next().Open(ctx, owner, ref)
}

func (r *replicas) OpenRange(ctx context.Context, owner, ref string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	return r.next().OpenRange(ctx, owner, ref, offset, length)
}

func (r *replicas) Stat(ctx context.Context, owner, ref string) (blob.Info, error) {
	return r.next().Stat(ctx, owner, ref)
}

func (r *replicas) Delete(ctx context.Context, owner, ref string) error {
	return r.next().Delete(ctx, owner, ref)
}

func (r *replicas) Touch(ctx context.Context, owner, ref string, ttl time.Duration) (blob.Info, error) {
	return r.next().Touch(ctx, owner, ref, ttl)
}

func (r *replicas) Pin(ctx context.Context, owner, ref, holder string) error {
	return r.next().Pin(ctx, owner, ref, holder)
}

func (r *replicas) Unpin(ctx context.Context, owner, ref, holder string) error {
	return r.next().Unpin(ctx, owner, ref, holder)
}

func (r *replicas) UnpinAll(ctx context.Context, owner, holder string) error {
	return r.next().UnpinAll(ctx, owner, holder)
}

func (r *replicas) List(ctx context.Context, p blob.ListParams) (blob.Page, error) {
	return r.next().List(ctx, p)
}

func (r *replicas) Usage(ctx context.Context, owner string) (blob.Usage, error) {
	return r.next().Usage(ctx, owner)
}

func (r *replicas) Sweep(ctx context.Context, now time.Time, limit int) (blob.Swept, error) {
	return r.next().Sweep(ctx, now, limit)
}

func (r *replicas) RemoveOrphans(ctx context.Context, now time.Time, after blob.Object, limit int) (blob.Orphans, error) {
	return r.next().RemoveOrphans(ctx, now, after, limit)
}

func (r *replicas) Restore(ctx context.Context, owner string, info blob.Info, content io.Reader) error {
	return r.next().Restore(ctx, owner, info, content)
}

// bucketHarness returns the harness for blobs that need only a bucket, in two processes.
func (g *gateway) bucketHarness(l limits) blobtest.Harness {
	var stores atomic.Int64
	open := func(cfg blob.Config, contents *Contents) *replicas {
		r := &replicas{contents: contents}
		for i := range r.stores {
			r.stores[i] = newBlobs(contents, cfg, l)
		}
		return r
	}
	return blobtest.Harness{
		Processes: true,
		Open: func(t storetest.T, cfg blob.Config) blobtest.Store {
			contents, err := g.contents(t.Context(), fmt.Sprintf("store-%d/", stores.Add(1)))
			if err != nil {
				t.Fatalf("Open() = %v", err)
			}
			return open(cfg, contents)
		},
		Reopen: func(_ storetest.T, s blobtest.Store, cfg blob.Config) blobtest.Store {
			return open(cfg, s.(*replicas).contents)
		},
	}
}

func TestBlobsInABucket(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, startGateway(t).bucketHarness(limits{rootSize, pageSize}))
}

// Environment variable with the address of the server for the process to kill.
const killEndpoint = "HOLDFAST_S3_KILL_ENDPOINT"

// Two stores in each process change the same owners, and the rows of an owner need several pages.
func TestBlobsInABucketSurviveKill(t *testing.T) {
	endpoint := os.Getenv(killEndpoint)
	if endpoint == "" {
		endpoint = startGateway(t).endpoint()
		t.Setenv(killEndpoint, endpoint)
	}
	blobtest.KillLoop(t, blobtest.KillConfig{Rounds: 4, Open: func(_ string, cfg blob.Config) (blobtest.Store, func() error, error) {
		contents, err := Open(context.Background(), Config{Endpoint: endpoint, Insecure: true, Bucket: testBucket, AccessKey: testKey, SecretKey: testSecret})
		if err != nil {
			return nil, nil, err
		}
		r := &replicas{contents: contents}
		for i := range r.stores {
			r.stores[i] = newBlobs(contents, cfg, limits{4 << 10, 2 << 10})
		}
		return r, func() error { return nil }, nil
	}})
}

// onRoot is a transport that calls a function instead of sending the next request that writes a root.
type onRoot struct {
	http.RoundTripper
	f atomic.Pointer[func(send func() (*http.Response, error)) (*http.Response, error)]
}

func (o *onRoot) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/"+rootsPrefix) {
		if f := o.f.Swap(nil); f != nil {
			return (*f)(func() (*http.Response, error) { return o.RoundTripper.RoundTrip(r) })
		}
	}
	return o.RoundTripper.RoundTrip(r)
}

// bucket is a store with requests that a test can change, and another store of the same bucket.
type bucket struct {
	*testing.T
	transport *onRoot
	contents  *Contents
	first     *blobdriver.Blobs
	second    *blobdriver.Blobs
	ahead     atomic.Int64
}

func newBucket(t *testing.T, retries int, l limits) *bucket {
	t.Helper()
	g := startGateway(t)
	standard, err := minio.DefaultTransport(false)
	if err != nil {
		t.Fatal(err)
	}
	b := &bucket{T: t, transport: &onRoot{RoundTripper: standard}}
	b.contents, err = Open(t.Context(), Config{
		Endpoint: g.endpoint(), Insecure: true, Bucket: testBucket, AccessKey: testKey, SecretKey: testSecret, Transport: b.transport, Retries: retries,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := blob.Config{Grace: time.Minute, Now: b.now}
	b.first, b.second = newBlobs(b.contents, cfg, l), newBlobs(b.contents, cfg, l)
	return b
}

func (b *bucket) now() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }

func (b *bucket) put(data string) (blob.Info, error) {
	return b.first.Put(b.Context(), strings.NewReader(data), blob.PutParams{Owner: owner, Holder: "h"})
}

// fill stores n blobs. Their rows need several pages.
func (b *bucket) fill(n int) (refs []string) {
	b.Helper()
	for i := range n {
		info, err := b.put(fmt.Sprint("content ", i))
		if err != nil {
			b.Fatalf("Put() = %v", err)
		}
		refs = append(refs, info.Ref)
	}
	return refs
}

// wantBlobs checks the number of blobs of the owner, and their contents.
func (b *bucket) wantBlobs(want int) {
	b.Helper()
	page, err := b.second.List(b.Context(), blob.ListParams{Owner: owner})
	if u, _ := b.second.Usage(b.Context(), owner); err != nil || len(page.Blobs) != want || int(u.Blobs) != want {
		b.Errorf("List() = %d blobs, %v, and Usage() = %d, want %d", len(page.Blobs), err, u.Blobs, want)
	}
	for _, info := range page.Blobs {
		if _, err := (blob.Scope{Blobs: b.second, Owner: owner}).Resolve(b.Context(), info.Ref); err != nil {
			b.Errorf("Resolve() = %v", err)
		}
	}
}

// onNextRoot calls f instead of sending the next request that writes a root.
func (b *bucket) onNextRoot(f func(send func() (*http.Response, error)) (*http.Response, error)) {
	b.transport.f.Store(&f)
}

func lose(send func() (*http.Response, error)) (*http.Response, error) {
	if response, err := send(); err == nil {
		response.Body.Close()
	}
	return nil, io.ErrUnexpectedEOF
}

// The client repeats a request without a response. The second one is rejected, because the first one has
// replaced the root.
func TestCommitWithLostResponseIsMadeOnce(t *testing.T) {
	t.Parallel()
	b := newBucket(t, 3, limits{rootSize, pageSize})
	b.fill(1)
	b.onNextRoot(lose)
	info, err := b.put("lost")
	if err != nil {
		t.Fatalf("Put() with a lost response = %v", err)
	}
	if got, err := b.second.Stat(t.Context(), owner, info.Ref); err != nil || got.Ref != info.Ref {
		t.Errorf("Stat() = %+v, %v, want the blob", got, err)
	}
	b.wantBlobs(2)
}

// Without repetition the outcome is unknown, and the content of the blob is kept.
func TestCommitWithUnknownOutcomeIsComplete(t *testing.T) {
	t.Parallel()
	b := newBucket(t, 1, limits{rootSize, pageSize})
	b.onNextRoot(lose)
	if _, err := b.put("lost"); err == nil {
		t.Fatal("Put() with a lost response = nil, want an error")
	}
	b.wantBlobs(1)
}

// The scan changes the root before it removes a page, so that a suspended commit is repeated.
func TestOrphanScanDuringACommitRemovesNoPage(t *testing.T) {
	t.Parallel()
	b := newBucket(t, 1, limits{1 << 10, 1 << 10})
	refs, removed := b.fill(8), 0
	b.onNextRoot(func(send func() (*http.Response, error)) (*http.Response, error) {
		b.ahead.Add(int64(time.Hour))
		o, err := b.second.RemoveOrphans(t.Context(), b.now(), blob.Object{}, 1000)
		if err != nil {
			t.Errorf("RemoveOrphans() = %v", err)
		}
		removed = o.Removed
		return send()
	})
	if err := b.first.Pin(t.Context(), owner, refs[0], "other"); err != nil {
		t.Fatalf("Pin() during a scan = %v", err)
	}
	if removed == 0 {
		t.Error("RemoveOrphans() removed nothing, want the pages of the suspended commit")
	}
	if info, err := b.second.Stat(t.Context(), owner, refs[0]); err != nil || len(info.Holders) != 2 {
		t.Errorf("Stat() = %+v, %v, want two holders", info, err)
	}
	b.wantBlobs(8)
}

func TestMarkersThatNoRootNamesAreRemoved(t *testing.T) {
	t.Parallel()
	b := newBucket(t, 1, limits{rootSize, pageSize})
	r := &refs{Contents: b.contents}
	unknown, known := markerName(timeKey(time.Now()), partOf("nobody")), markerName(timeKey(time.Now()), partOf(owner))
	info, err := b.first.Put(t.Context(), strings.NewReader("x"), blob.PutParams{Owner: owner, TTL: time.Hour})
	for _, marker := range []string{unknown, known} {
		if err == nil {
			err = r.write(t.Context(), dueExpiring.prefix()+marker, nil, uploadOptions)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		at    time.Duration
		swept blob.Swept
	}{{time.Minute, blob.Swept{}}, {2 * time.Hour, blob.Swept{Blobs: 1}}, {2 * time.Hour, blob.Swept{}}, {4 * time.Hour, blob.Swept{Contents: 1}}, {6 * time.Hour, blob.Swept{}}} {
		b.ahead.Store(int64(want.at))
		if swept, err := b.second.Sweep(t.Context(), b.now(), 10); err != nil || swept != want.swept {
			t.Errorf("Sweep() after %v = %+v, %v, want %+v", want.at, swept, err, want.swept)
		}
	}
	if _, err := b.first.Stat(t.Context(), owner, info.Ref); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Stat() of an expired blob = %v, want ErrNotFound", err)
	}
	for object := range b.contents.core.ListObjectsIter(t.Context(), testBucket, minio.ListObjectsOptions{Recursive: true}) {
		if !strings.HasPrefix(object.Key, rootsPrefix) {
			t.Errorf("object %s remains", object.Key)
		}
		data, _, err := r.read(t.Context(), object.Key)
		if err != nil || bytes.Contains(data, []byte(owner)) {
			t.Errorf("object %s = %s, %v, want no name of an owner", object.Key, data, err)
		}
	}
}

func TestMissingPagesAreReported(t *testing.T) {
	t.Parallel()
	b := newBucket(t, 1, limits{1 << 10, 1 << 10})
	ref := b.fill(8)[0]
	s, err := (&refs{Contents: b.contents}).load(t.Context(), partOf(owner))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.pages {
		if err := (&refs{Contents: b.contents}).remove(t.Context(), pageKey(s.part, p.Name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.first.Stat(t.Context(), owner, ref); !errors.Is(err, blob.ErrCorrupt) {
		t.Errorf("Stat() without pages = %v, want ErrCorrupt", err)
	}
}
