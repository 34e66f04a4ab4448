package fileref_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
)

var task = store.Key{Owner: "alice", ID: "t"}

// fixture has files in memory, and their clock.
type fixture struct {
	*fileref.Files
	store *inmem.Store
	mu    sync.Mutex
	at    time.Time
}

func newFixture(t *testing.T, inline int64) *fixture {
	t.Helper()
	f := &fixture{store: inmem.New(), at: time.Unix(1_800_000_030, 0)}
	f.Files = fileref.New(fileref.Config{Blobs: blobsql.Of(f.store, blob.Config{Now: f.now}), Records: f.store, Inline: inline, LinkTTL: time.Hour, Now: f.now})
	return f
}

func (f *fixture) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

func (f *fixture) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = f.at.Add(d)
}

func part(n int) a2a.FilePart {
	return a2a.FilePart{File: a2a.FileWithBytes{Name: "f", MimeType: "a/b", Bytes: bytes.Repeat([]byte("x"), n), Embeddings: []float64{1}}, Text: "caption"}
}

// stored returns parts with files of the given sizes in stored form.
func (f *fixture) stored(t *testing.T, sizes ...int) []a2a.Part {
	t.Helper()
	var parts []a2a.Part
	for _, n := range sizes {
		parts = append(parts, part(n))
	}
	out, err := f.StoreParts(t.Context(), task, parts)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// forms returns the form of each file: "bytes", "link" or "reference".
func forms(parts []a2a.Part) string {
	var all []string
	for _, p := range parts {
		switch f := p.(a2a.FilePart).File.(type) {
		case a2a.FileWithBytes:
			all = append(all, "bytes")
		case a2a.FileWithURI:
			if _, ok := fileref.Of(f); ok {
				all = append(all, "reference")
			} else {
				all = append(all, "link")
			}
		}
	}
	return strings.Join(all, " ")
}

func TestOnlyLargeFilesBecomeReferences(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1<<20)
	parts := []a2a.Part{part(fileref.Threshold), part(fileref.Threshold + 1)}
	out, err := f.StoreParts(t.Context(), task, parts)
	if err != nil || forms(out) != "bytes reference" || forms(parts) != "bytes bytes" {
		t.Fatalf("StoreParts() = %s, %v; it must not modify its argument", forms(out), err)
	}
	again, err := f.StoreParts(t.Context(), task, parts)
	if err != nil || again[1].(a2a.FilePart).File.(a2a.FileWithURI).URI != out[1].(a2a.FilePart).File.(a2a.FileWithURI).URI {
		t.Errorf("StoreParts() again = %v, want the same reference", err)
	}
	shown, err := f.View(fileref.ViewParams{Owner: task.Owner}).Parts(t.Context(), out)
	if got := shown[1].(a2a.FilePart); err != nil || !bytes.Equal(got.File.(a2a.FileWithBytes).Bytes, part(fileref.Threshold+1).File.(a2a.FileWithBytes).Bytes) || got.Text != "caption" || len(got.File.(a2a.FileWithBytes).Embeddings) != 1 {
		t.Errorf("the shown part is %+v, %v, want the one that was stored", got, err)
	}
	if forms(out) != "bytes reference" {
		t.Error("the view modified its argument")
	}
}

func TestReferencesAreParsedStrictly(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("ab", 32)
	for uri, want := range map[string]bool{
		"holdfast-blob:r?size=5&sha256=" + digest:        true,
		"holdfast-blob:r?size=-5&sha256=" + digest:       false,
		"holdfast-blob:r?size=x&sha256=" + digest:        false,
		"holdfast-blob:r?size=5&sha256=" + digest[1:]:    false,
		"holdfast-blob:r?size=5&sha256=" + digest + "00": false,
		"holdfast-blob:r?size=5&sha256=zz" + digest[2:]:  false,
		"holdfast-blob:r?sha256=" + digest + "&size=5":   false,
		"holdfast-blob:r": false,
		"holdfast-blob:":  false,
		"https://x/":      false,
		"":                false,
	} {
		if _, ok := fileref.Of(a2a.FileWithURI{URI: uri}); ok != want {
			t.Errorf("Of(%q) = %v, want %v", uri, ok, want)
		}
	}
}

func TestViewsAreLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 100_000)
	parts := f.stored(t, 100_000, 100_001, 70_000)
	for name, c := range map[string]struct {
		p    fileref.ViewParams
		want string
	}{
		"default":   {fileref.ViewParams{}, "bytes link bytes"},
		"links":     {fileref.ViewParams{Links: true}, "link link link"},
		"no memory": {fileref.ViewParams{Reserve: func(context.Context, int64) error { return errors.New("none") }}, "link link link"},
		"memory": {fileref.ViewParams{Reserve: func(_ context.Context, bytes int64) error {
			if bytes != 170_000 {
				return fmt.Errorf("reserved %d bytes", bytes)
			}
			return nil
		}}, "bytes link bytes"},
	} {
		c.p.Owner = task.Owner
		if out, err := f.View(c.p).Parts(t.Context(), parts); err != nil || forms(out) != c.want {
			t.Errorf("%s: the parts are %s, %v, want %s", name, forms(out), err, c.want)
		}
	}
	many := f.stored(t, 90_000, 90_000, 90_000, 90_000, 90_000, 90_000, 90_000, 90_000, 90_000, 90_000)
	out, err := f.View(fileref.ViewParams{Owner: task.Owner}).Parts(t.Context(), many)
	if want := strings.TrimSpace(strings.Repeat("bytes ", 8) + strings.Repeat("link ", 2)); err != nil || forms(out) != want {
		t.Errorf("the parts are %s, %v, want %s", forms(out), err, want)
	}
	if out, err := f.View(fileref.ViewParams{Owner: "bob"}).Parts(t.Context(), parts); err != nil || forms(out) != "link link link" {
		t.Errorf("the parts for another owner are %s, %v, want links that are not found", forms(out), err)
	}
	var none *fileref.Files
	if out, err := none.View(fileref.ViewParams{}).Parts(t.Context(), parts); err != nil || len(out) != 3 {
		t.Errorf("the parts without a store = %v", err)
	}
}

func TestLinksExpire(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	first, err := f.Link(t.Context(), "https://x/base/", "alice", "ref")
	if err != nil || !strings.HasPrefix(first, "https://x/base/blobs/ref?") {
		t.Fatalf("Link() = %s, %v", first, err)
	}
	u, err := url.Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	valid := func() bool {
		owner, err := f.Verify(t.Context(), "ref", u.Query())
		if err != nil {
			t.Fatal(err)
		}
		return owner == "alice"
	}
	f.advance(20 * time.Second)
	if again, _ := f.Link(t.Context(), "https://x/base/", "alice", "ref"); again != first {
		t.Errorf("Link() within the minute = %s, want %s", again, first)
	}
	if f.advance(time.Hour - 21*time.Second); !valid() {
		t.Error("the link is not valid within its time")
	}
	if f.advance(time.Minute); valid() {
		t.Error("the link is valid after its time")
	}
}

func TestReplicasCreateOneSecret(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	links := make(chan string, 32)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			replica := fileref.New(fileref.Config{Records: f.store, LinkTTL: time.Hour, Now: f.now})
			link, err := replica.Link(context.Background(), "", "alice", "ref")
			if err != nil {
				t.Error(err)
			}
			links <- link
		})
	}
	wg.Wait()
	want := <-links
	for range 31 {
		if got := <-links; got != want {
			t.Errorf("Link() = %s and %s, want the same secret", got, want)
		}
	}
	if _, err := newFixture(t, 1).Verify(t.Context(), "ref", url.Values{"owner": {"alice"}, "expires": {"9999999999"}, "signature": {""}}); err != nil {
		t.Errorf("Verify() without a secret = %v", err)
	}
}

func TestRotationKeepsValidLinks(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	other := fileref.New(fileref.Config{Records: f.store, LinkTTL: time.Hour, Now: f.now})
	link := func(on *fileref.Files) url.Values {
		text, err := on.Link(t.Context(), "", "alice", "ref")
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return u.Query()
	}
	check := func(when string, on *fileref.Files, q url.Values, want string) {
		t.Helper()
		if owner, err := on.Verify(t.Context(), "ref", q); owner != want || err != nil {
			t.Errorf("%s: Verify() = %q, %v, want %q", when, owner, err, want)
		}
	}
	rotate := func(revoke bool) {
		if err := fileref.RotateSecret(t.Context(), f.store, revoke); err != nil {
			t.Fatal(err)
		}
	}
	first := link(f.Files)
	check("the first secret on another replica", other, first, "alice")
	rotate(false)
	f.advance(2 * time.Second)
	check("the secret before", f.Files, first, "alice")
	fresh := fileref.New(fileref.Config{Records: f.store, LinkTTL: time.Hour, Now: f.now})
	second := link(fresh)
	if second.Get("signature") == link(other).Get("signature") {
		t.Error("the new secret does not sign")
	}
	check("the new secret on a replica that has read the one before", other, second, "alice")
	for range 2 {
		rotate(false)
	}
	f.advance(time.Minute)
	check("three rotations later", other, first, "alice")
	rotate(false)
	f.advance(time.Minute)
	check("four rotations later", other, first, "")
	check("three rotations later", other, second, "alice")
	rotate(true)
	f.advance(time.Minute)
	check("a revoked secret", other, second, "")
	check("the secret that replaced it", f.Files, link(other), "alice")
}

func TestVerifierReturnsNoDamagedFile(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("content"), 1000)
	info := blob.Info{Size: int64(len(data)), Digest: blob.Sum(data)}
	changed := bytes.Clone(data)
	changed[0]++
	for name, c := range map[string]struct {
		data []byte
		ok   bool
	}{
		"intact": {data, true}, "changed": {changed, false}, "short": {data[1:], false}, "empty": {nil, false},
	} {
		for _, size := range []int{1, 512, 7000, 1 << 20} {
			r := fileref.NewVerifier(io.NopCloser(bytes.NewReader(c.data)), info)
			got, err := io.ReadAll(io.LimitReader(struct{ io.Reader }{chunked{r, size}}, 1<<20))
			if c.ok && (err != nil || !bytes.Equal(got, data)) || !c.ok && (!errors.Is(err, blob.ErrCorrupt) || len(got) >= len(data)) {
				t.Errorf("%s in steps of %d: read %d bytes, %v", name, size, len(got), err)
			}
		}
	}
}

// chunked reads at most n bytes at once.
type chunked struct {
	r io.Reader
	n int
}

func (c chunked) Read(p []byte) (int, error) { return c.r.Read(p[:min(len(p), c.n)]) }

func TestCanonicalPartsDependOnTheContent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	inline := []a2a.Part{part(100_000)}
	a := f.stored(t, 100_000)
	b, err := f.StoreParts(t.Context(), store.Key{Owner: "alice", ID: "other"}, inline)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%+v", fileref.Canonical(inline))
	for _, parts := range [][]a2a.Part{a, b} {
		if got := fmt.Sprintf("%+v", fileref.Canonical(parts)); got != want {
			t.Errorf("Canonical() = %s, want %s", got, want)
		}
	}
	if got := fmt.Sprintf("%+v", fileref.Canonical([]a2a.Part{part(100_001)})); got == want {
		t.Error("other content has the same canonical form")
	}
}

func FuzzOf(f *testing.F) {
	f.Add("holdfast-blob:r?size=5&sha256=" + strings.Repeat("ab", 32))
	f.Fuzz(func(t *testing.T, uri string) {
		file := a2a.FileWithURI{URI: uri}
		if _, ok := fileref.Of(file); ok && fileref.CheckReceived("parts", []a2a.Part{a2a.FilePart{File: file}}) == nil {
			t.Errorf("the reference %q is accepted from clients", uri)
		}
	})
}

// A secret of links that is damaged does not make tasks unreadable.
func TestTasksAreReadableWithoutLinks(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 200<<10)
	if err := f.store.SaveRecords(t.Context(), "\x1fholdfast", store.RecordChange{Namespace: "files", Key: "link-secret", Value: []byte("short")}); err != nil {
		t.Fatal(err)
	}
	parts := f.stored(t, 300<<10, 100<<10)
	shown, err := f.View(fileref.ViewParams{Owner: task.Owner, Base: "https://h/a"}).Parts(t.Context(), parts)
	if err != nil || forms(shown) != "link bytes" {
		t.Fatalf("Parts() = %s, %v, want a link and content", forms(shown), err)
	}
	got := shown[0].(a2a.FilePart)
	if uri := got.File.(a2a.FileWithURI).URI; got.Metadata[fileref.MetadataError] == nil || uri != "https://h/a/blobs/"+fileref.Refs(nil, parts)[0] {
		t.Errorf("the link is %s with metadata %v, want no signature and %s", uri, got.Metadata, fileref.MetadataError)
	}
	if parts[0].(a2a.FilePart).Metadata != nil {
		t.Error("the view modified its argument")
	}
}
