//go:build services

package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/blob/blobtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// blobStore is blobs with refs in SQLite and contents in S3.
type blobStore struct {
	*blobdriver.Blobs
	refs     *sqlite.Store
	dir      string
	contents *Contents
}

// harness returns the harness for stores on a server, each below a prefix of its own.
func (g *gateway) harness() blobtest.Harness {
	var stores atomic.Int64
	open := func(t storetest.T, cfg blob.Config, dir string, contents *Contents) blobtest.Store {
		s, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir})
		if err != nil {
			t.Fatalf("Open() = %v", err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return blobStore{blobdriver.New(cfg, blobsql.RefsOf(s), contents), s, dir, contents}
	}
	return blobtest.Harness{
		Open: func(t storetest.T, cfg blob.Config) blobtest.Store {
			contents, err := g.contents(t.Context(), fmt.Sprintf("store-%d/", stores.Add(1)))
			if err != nil {
				t.Fatalf("Open() = %v", err)
			}
			return open(t, cfg, t.TempDir(), contents)
		},
		Reopen: func(t storetest.T, s blobtest.Store, cfg blob.Config) blobtest.Store {
			old := s.(blobStore)
			if err := old.refs.Close(); err != nil {
				t.Fatalf("Close() = %v", err)
			}
			return open(t, cfg, old.dir, old.contents)
		},
	}
}

func TestBlobs(t *testing.T) { blobtest.Run(t, startGateway(t).harness()) }

func TestBlobStreamsNeedConstantMemory(t *testing.T) { blobtest.Stream(t, startGateway(t).harness()) }

// The reference is the client alone.
func BenchmarkBlobSpeed(b *testing.B) { benchBlobs(b, (*gateway).harness) }

func BenchmarkBlobSpeedInABucket(b *testing.B) {
	benchBlobs(b, func(g *gateway) blobtest.Harness { return g.bucketHarness(limits{rootSize, pageSize}) })
}

func benchBlobs(b *testing.B, harness func(g *gateway) blobtest.Harness) {
	g := startGateway(b)
	c, err := g.contents(b.Context(), "")
	if err != nil {
		b.Fatal(err)
	}
	blobtest.Bench(b, harness(g), func(b *testing.B) blobtest.Reference {
		return blobtest.Reference{Put: func(name string, data []byte) error {
			_, err := c.core.Client.PutObject(b.Context(), testBucket, name, bytes.NewReader(data), int64(len(data)), uploadOptions)
			return err
		}, Get: func(name string) (io.ReadCloser, error) {
			return c.core.Client.GetObject(b.Context(), testBucket, name, minio.GetObjectOptions{})
		}}
	})
}

func TestOpenReportsWhatIsWrong(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	for _, test := range []struct {
		change func(c *Config)
		want   string
	}{
		{func(c *Config) { c.Endpoint, c.Bucket = "", "" }, "s3: Endpoint is empty, want a host\ns3: Bucket is empty, want the name of a bucket"},
		{func(c *Config) { c.Bucket = "none" }, "bucket none does not exist"},
		{func(c *Config) { c.SecretKey = "wrong-secret" }, "denies access"},
		{func(c *Config) { c.Endpoint = "127.0.0.1:1" }, "does not respond"},
	} {
		cfg := Config{Endpoint: g.endpoint(), Insecure: true, Bucket: testBucket, AccessKey: testKey, SecretKey: testSecret}
		test.change(&cfg)
		_, err := Open(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "wrong-secret") {
			t.Errorf("Open() = %v, want %q", err, test.want)
		}
	}
}

const owner = "owner"

func content(seed uint64, size int64) []byte {
	data, _ := io.ReadAll(blobtest.Source(seed, size))
	return data
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

// wantUnavailable checks that a call fails with the code unavailable and does not repeat its request for minutes.
func wantUnavailable(t *testing.T, what string, call func() error) {
	t.Helper()
	start := time.Now()
	err := call()
	if a2a.CodeOf(err) != a2a.CodeUnavailable {
		t.Errorf("%s without the server = %v, want the code unavailable", what, err)
	}
	if took := time.Since(start); took > await.Limit/2 {
		t.Errorf("%s without the server took %v", what, took)
	}
}

func TestServerIsKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	contents, err := g.contents(t.Context(), "p/")
	if err != nil {
		t.Fatal(err)
	}
	var ahead atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	blobs := blobdriver.New(blob.Config{Now: clock, Grace: time.Minute}, blobsql.RefsOf(inmem.New()), contents)
	data := content(1, 20<<20)
	put := func(r io.Reader) (blob.Info, error) {
		return blobs.Put(t.Context(), r, blob.PutParams{Owner: owner, Holder: "h"})
	}
	kept, err := put(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := blobs.Open(t.Context(), owner, kept.Ref)
	if err != nil {
		t.Fatal(err)
	}

	wantUnavailable(t, "Put() during a kill", func() error {
		_, err := put(io.MultiReader(bytes.NewReader(content(2, 12<<20)), &onRead{bytes.NewReader(content(3, 12<<20)), g.kill}))
		return err
	})
	wantUnavailable(t, "Put()", func() error { _, err := put(bytes.NewReader([]byte("x"))); return err })
	wantUnavailable(t, "Open()", func() error { _, _, err := blobs.Open(t.Context(), owner, kept.Ref); return err })
	wantUnavailable(t, "reading", func() error { _, err := io.Copy(io.Discard, r); return errors.Join(err, r.Close()) })
	if info, err := blobs.Stat(t.Context(), owner, kept.Ref); err != nil || info.Size != kept.Size {
		t.Errorf("Stat() without the server = %+v, %v, want the blob", info, err)
	}
	if u, err := blobs.Usage(t.Context(), owner); err != nil || u.Blobs != 1 {
		t.Errorf("Usage() = %+v, %v, want one blob", u, err)
	}

	g.start()
	got, err := blob.Scope{Blobs: blobs, Owner: owner}.Resolve(t.Context(), kept.Ref)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("Resolve() after a restart = %d bytes, %v, want the content", len(got), err)
	}
	if _, err := put(bytes.NewReader(content(4, 9<<20))); err != nil {
		t.Errorf("Put() after a restart = %v", err)
	}
	ahead.Store(int64(time.Hour))
	o, err := blobs.RemoveOrphans(t.Context(), clock(), blob.Object{}, 100)
	if err != nil || o.Checked != 3 || o.Removed != 1 {
		t.Errorf("RemoveOrphans() = %+v, %v, want the interrupted upload removed", o, err)
	}
	o, err = blobs.RemoveOrphans(t.Context(), clock(), blob.Object{}, 100)
	if err != nil || o.Checked != 2 || o.Removed != 0 {
		t.Errorf("RemoveOrphans() again = %+v, %v, want two objects", o, err)
	}
}

// A content with a lost object is reported, and an interrupted upload is found page by page.
func TestLostObjectsAreReported(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	contents, err := g.contents(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	blobs := blobdriver.New(blob.Config{}, blobsql.RefsOf(inmem.New()), contents)
	info, err := blobs.Put(t.Context(), bytes.NewReader(content(1, 1000)), blob.PutParams{Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := contents.List(t.Context(), blob.Object{}, 10)
	if err != nil || len(objects) != 1 {
		t.Fatalf("List() = %v, %v, want one object", objects, err)
	}
	for range 2 { // removing it again changes nothing
		if err := contents.Remove(t.Context(), objects[0]); err != nil {
			t.Errorf("Remove() = %v", err)
		}
	}
	if _, _, err := blobs.Open(t.Context(), owner, info.Ref); !errors.Is(err, blob.ErrCorrupt) {
		t.Errorf("Open() of a lost object = %v, want ErrCorrupt", err)
	}
}
