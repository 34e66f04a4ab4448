package server_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
)

// content returns n bytes that are the same in every run.
func content(n int) []byte {
	r, data := rand.NewChaCha8([32]byte{1}), make([]byte, n)
	_, _ = r.Read(data)
	return data
}

// returnFiles is a handler that returns the files of the message as an artifact.
func returnFiles(_ context.Context, t *engine.Turn) error {
	parts := []a2a.Part{a2a.TextPart{Text: "files"}}
	for _, f := range t.Messages()[0].Files() {
		if _, ok := f.File.(a2a.FileWithBytes); !ok {
			return fmt.Errorf("file is %T, want bytes", f.File)
		}
		parts = append(parts, f)
	}
	return t.AddArtifact(a2a.Artifact{Name: "files", Parts: parts})
}

// fileMessage returns params of message/send with files of the given sizes.
func fileMessage(sizes ...int) string {
	var parts []string
	for i, n := range sizes {
		parts = append(parts, fmt.Sprintf(`{"kind":"file","file":{"name":"f%d.bin","mimeType":"application/x-test","bytes":%q}}`, i, base64.StdEncoding.EncodeToString(content(n))))
	}
	return fmt.Sprintf(`{"message":{"kind":"message","messageId":%q,"role":"user","parts":[%s]},"configuration":{"blocking":true}}`, newID(), strings.Join(parts, ","))
}

// file is a file as a client gets it.
type file struct {
	Name     string `json:"name"`
	MimeType string `json:"mimeType"`
	Bytes    []byte `json:"bytes"`
	URI      string `json:"uri"`
}

// filesOf returns the files in JSON, of the history and then of artifacts.
func filesOf(t testing.TB, raw json.RawMessage) (files []file, metadata []map[string]any) {
	t.Helper()
	type partsView struct {
		Parts []struct {
			Kind     string
			File     file
			Metadata map[string]any
		}
	}
	var v struct{ History, Artifacts []partsView }
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	for _, of := range append(v.History, v.Artifacts...) {
		for _, p := range of.Parts {
			if p.Kind == "file" {
				files, metadata = append(files, p.File), append(metadata, p.Metadata)
			}
		}
	}
	return files, metadata
}

// getFile requests the URL of a file.
func (e *env) getFile(method, rawURL string, h ...string) (*http.Response, []byte) {
	e.t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		e.t.Fatal(err)
	}
	resp, err := e.client.Do(e.request(method, u.RequestURI(), "", h))
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return resp, body
}

func onFileStores(t *testing.T, test func(t *testing.T, s store.Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, inmem.New())
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		test(t, s)
	})
	if !pgtest.Enabled {
		return
	}
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Schema: pgtest.Schema(t, url), Migrate: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		test(t, s)
	})
}

func TestFilesAreInlineOrLinks(t *testing.T) {
	t.Parallel()
	onFileStores(t, func(t *testing.T, s store.Store) {
		e := startOn(t, s, returnFiles, nil)
		sizes := []int{64 << 10, 64<<10 + 1, 1 << 20, 1<<20 + 1}
		sent := e.call("message/send", fileMessage(sizes...))
		task := sent.task(t)
		if task.Status.State != "completed" {
			t.Fatalf("state is %s: %s", task.Status.State, sent.Result)
		}
		get := func() reply { return e.call("tasks/get", fmt.Sprintf(`{"id":%q}`, task.ID)) }
		read, again := get(), get()
		if !bytes.Equal(read.Result, again.Result) { // the minute may have ended between them
			read = get()
		}
		if !bytes.Equal(read.Result, again.Result) {
			t.Error("reads within a minute differ")
		}
		for name, raw := range map[string]json.RawMessage{"send": sent.Result, "get": read.Result} {
			files, _ := filesOf(t, raw)
			if len(files) != 8 {
				t.Fatalf("%s: %d files, want 8", name, len(files))
			}
			for i, f := range files {
				n := sizes[i%4]
				if f.Name != fmt.Sprintf("f%d.bin", i%4) || f.MimeType != "application/x-test" {
					t.Errorf("%s: file %d is %s of type %s", name, i, f.Name, f.MimeType)
				}
				if n <= 1<<20 {
					if !bytes.Equal(f.Bytes, content(n)) {
						t.Errorf("%s: file %d has %d bytes and URI %q, want its content of %d bytes", name, i, len(f.Bytes), f.URI, n)
					}
					continue
				}
				if !strings.HasPrefix(f.URI, e.url+"/blobs/") || f.Bytes != nil {
					t.Fatalf("%s: file %d has URI %q, want a link", name, i, f.URI)
				}
				if resp, body := e.getFile(http.MethodGet, f.URI); resp.StatusCode != http.StatusOK || !bytes.Equal(body, content(n)) {
					t.Errorf("%s: GET of file %d = %s with %d bytes", name, i, resp.Status, len(body))
				}
			}
		}
		if strings.Contains(string(read.Body), "holdfast-blob") {
			t.Error("a response has an internal reference")
		}
		blobs := e.engine.Files().Blobs()
		page, err := blobs.List(t.Context(), blob.ListParams{Owner: a2a.Anonymous})
		if err != nil || len(page.Blobs) != 3 {
			t.Fatalf("List() = %d blobs, %v, want 3: each content is stored once", len(page.Blobs), err)
		}
		for _, b := range page.Blobs {
			if len(b.Holders) != 1 || b.Holders[0] != "task/"+task.ID {
				t.Errorf("blob of %d bytes is held by %q, want the task", b.Size, b.Holders)
			}
		}
	})
}

func TestFilesOfAllViews(t *testing.T) {
	t.Parallel()
	e := start(t, returnFiles, nil)
	s := e.open("message/stream", fileMessage(100<<10, 2<<20))
	var streamed []file
	for _, v := range s.rest() {
		raw := v.Data.Result
		files, _ := filesOf(t, raw)
		streamed = append(streamed, files...)
		var update struct{ Artifact json.RawMessage }
		_ = json.Unmarshal(raw, &update)
		if update.Artifact != nil {
			files, _ := filesOf(t, json.RawMessage(`{"artifacts":[`+string(update.Artifact)+`]}`))
			streamed = append(streamed, files...)
		}
	}
	if len(streamed) != 4 {
		t.Fatalf("the stream has %d files, want 4", len(streamed))
	}
	for i, f := range streamed {
		if inline := f.Bytes != nil; inline != (i%2 == 0) || inline == (f.URI != "") {
			t.Errorf("file %d of the stream has %d bytes and URI %q", i, len(f.Bytes), f.URI)
		}
	}
	links := func(name string, raw json.RawMessage, want int) {
		t.Helper()
		text := string(raw)
		if n := strings.Count(text, e.url+"/blobs/"); n != want || strings.Contains(text, "holdfast-blob") {
			t.Errorf("%s has %d links, want %d", name, n, want)
		}
	}
	list := e.call("tasks/list", `{"historyLength":5,"includeArtifacts":true}`)
	links("tasks/list", list.Result, 4)
	var page struct{ Tasks []taskView }
	if err := json.Unmarshal(list.Result, &page); err != nil || len(page.Tasks) != 1 {
		t.Fatalf("tasks/list = %s, %v", list.Body, err)
	}
	task := page.Tasks[0]
	links("tasks/get with links", e.call("tasks/get", fmt.Sprintf(`{"id":%q}`, task.ID), "Holdfast-Files", "links").Result, 4)
	links("tasks/get", e.call("tasks/get", fmt.Sprintf(`{"id":%q}`, task.ID)).Result, 2)
	links("contexts/get", e.call("contexts/get", fmt.Sprintf(`{"contextId":%q,"historyLength":5}`, task.ContextID)).Result, 2)
	links("GetTask of 1.0", e.call("GetTask", fmt.Sprintf(`{"id":%q}`, task.ID), "A2A-Version", "1.0").Result, 2)
	links("REST of 1.0", e.do(http.MethodGet, "/tasks/"+task.ID, "", headers{"A2A-Version", "1.0"}).Body, 2)
	links("REST of 0.3", e.do(http.MethodGet, "/rest/v1/tasks/"+task.ID, "", nil).Body, 2)
	resumed := e.open("tasks/resubscribe", fmt.Sprintf(`{"id":%q}`, task.ID), "Last-Event-ID", "1")
	all := ""
	for _, v := range resumed.rest() {
		all += string(v.Data.Result)
	}
	links("tasks/resubscribe", json.RawMessage(all), 1)
}

func TestLinksHaveTheURLOfTheCard(t *testing.T) {
	t.Parallel()
	e := start(t, returnFiles, func(c *server.Config) { c.Card.URL = "https://agent.example.com/base/" })
	files, _ := filesOf(t, e.call("message/send", fileMessage(2<<20)).Result)
	if len(files) == 0 || !strings.HasPrefix(files[0].URI, "https://agent.example.com/base/blobs/") {
		t.Errorf("files are %+v, want links below the URL", files)
	}
}

// link sends a file and returns the link to it.
func (e *env) link(n int) string {
	e.t.Helper()
	files, _ := filesOf(e.t, e.call("message/send", fileMessage(n), "Holdfast-Files", "links").Result)
	if len(files) == 0 || files[0].URI == "" {
		e.t.Fatalf("files are %+v, want links", files)
	}
	return files[0].URI
}

func TestFileRequests(t *testing.T) {
	t.Parallel()
	e := start(t, returnFiles, nil)
	link, data := e.link(300_000), content(300_000)
	whole, body := e.getFile(http.MethodGet, link)
	etag := whole.Header.Get("ETag")
	for name, want := range map[string]string{
		"Content-Type": "application/x-test", "X-Content-Type-Options": "nosniff", "Content-Disposition": `attachment; filename=f0.bin`,
		"Content-Security-Policy": "sandbox; default-src 'none'", "Accept-Ranges": "bytes", "Content-Length": "300000", "Cache-Control": "private, no-cache",
		"Referrer-Policy": "no-referrer", "Vary": "Authorization",
		"Etag": `"` + blob.Sum(data).String() + `"`,
	} {
		if got := whole.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !bytes.Equal(body, data) {
		t.Errorf("GET returned %d bytes, want the content", len(body))
	}
	for _, c := range []struct {
		method, header, value string
		status                int
		body                  []byte
	}{
		{"HEAD", "Accept", "*/*", 200, nil},
		{"GET", "Range", "bytes=0-99", 206, data[:100]},
		{"GET", "Range", "bytes=250000-", 206, data[250_000:]},
		{"GET", "Range", "bytes=-10", 206, data[299_990:]},
		{"GET", "Range", "bytes=0-0,5-5", 200, data},
		{"GET", "Range", "bytes=300000-", 416, nil},
		{"GET", "Range", "bytes=9-1", 416, nil},
		{"GET", "If-None-Match", etag, 304, nil},
		{"GET", "If-None-Match", `"x"`, 200, data},
		{"GET", "If-Match", `"x"`, 412, nil},
		{"POST", "Accept", "*/*", 405, nil},
		{"DELETE", "Accept", "*/*", 405, nil},
	} {
		resp, body := e.getFile(c.method, link, c.header, c.value)
		if resp.StatusCode != c.status || c.body != nil && !bytes.Equal(body, c.body) {
			t.Errorf("%s with %s %q = %s with %d bytes, want %d with %d", c.method, c.header, c.value, resp.Status, len(body), c.status, len(c.body))
		}
	}
	if resp, body := e.getFile("GET", link, "Range", "bytes=0-9", "If-Range", etag); resp.StatusCode != 206 || len(body) != 10 {
		t.Errorf("GET with the If-Range of the file = %s", resp.Status)
	}
	if resp, body := e.getFile("GET", link, "Range", "bytes=0-9", "If-Range", `"x"`); resp.StatusCode != 200 || len(body) != len(data) {
		t.Errorf("GET with another If-Range = %s", resp.Status)
	}
}

// differentStart replaces the first character of a text.
func differentStart(text string) string {
	if text[0] == 'x' {
		return "y" + text[1:]
	}
	return "x" + text[1:]
}

func TestLinksThatAreNotValidAreNotFound(t *testing.T) {
	t.Parallel()
	tokens, err := server.NewTokens([]server.Token{
		{Token: "a", Principal: a2a.Principal{ID: "alice"}},
		{Token: "b", Principal: a2a.Principal{ID: "bob"}},
		{Token: "w", Principal: a2a.Principal{ID: "alice", Scopes: []a2a.Scope{a2a.ScopeWrite}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	e := start(t, returnFiles, func(c *server.Config) { c.Security.Authenticator = tokens })
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	files, _ := filesOf(t, e.call("message/send", fileMessage(2<<20), bearer("a")...).Result)
	link, err := url.Parse(files[0].URI)
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(path *string, q url.Values)) string {
		q, path := link.Query(), link.Path
		f(&path, q)
		return path + "?" + q.Encode()
	}
	ref := strings.TrimPrefix(link.Path, "/blobs/")
	var want []byte
	for name, target := range map[string]string{
		"expiry":         change(func(_ *string, q url.Values) { q.Set("expires", q.Get("expires")+"0") }),
		"past expiry":    change(func(_ *string, q url.Values) { q.Set("expires", "1") }),
		"no expiry":      change(func(_ *string, q url.Values) { q.Del("expires") }),
		"owner":          change(func(_ *string, q url.Values) { q.Set("owner", "bob") }),
		"no owner":       change(func(_ *string, q url.Values) { q.Del("owner") }),
		"two owners":     change(func(_ *string, q url.Values) { q.Add("owner", "bob") }),
		"signature":      change(func(_ *string, q url.Values) { q.Set("signature", differentStart(q.Get("signature"))) }),
		"no signature":   change(func(_ *string, q url.Values) { q.Set("signature", "") }),
		"two signatures": change(func(_ *string, q url.Values) { q.Add("signature", q.Get("signature")) }),
		"ref":            change(func(p *string, _ url.Values) { *p = "/blobs/" + strings.Repeat("0", len(ref)) }),
		"shifted values": change(func(p *string, q url.Values) { *p = "/blobs/e" + ref; q.Set("owner", "alic") }),
		"path":           change(func(p *string, _ url.Values) { *p = "/blobs/..%2f..%2fetc%2fpasswd" }),
		"long ref":       change(func(p *string, _ url.Values) { *p = "/blobs/" + strings.Repeat("a", 5000) }),
		"NUL":            change(func(p *string, _ url.Values) { *p = "/blobs/%00" }),
	} {
		resp, body := e.getFile(http.MethodGet, target, bearer("a")...)
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("another %s: GET = %s, want 404", name, resp.Status)
		}
		body = bytes.Replace(body, []byte(resp.Header.Get("X-Request-Id")), nil, 1)
		if want == nil {
			want = body
		}
		if !bytes.Equal(body, want) {
			t.Errorf("another %s: body is %s, want the same as for all: %s", name, body, want)
		}
	}
	for name, c := range map[string]struct {
		h      []string
		status int
	}{
		"owner": {bearer("a"), 200}, "other": {bearer("b"), 404}, "writer": {bearer("w"), 403}, "nobody": {nil, 401}, "wrong token": {bearer("x"), 401},
	} {
		if resp, _ := e.getFile(http.MethodGet, "/blobs/"+ref, c.h...); resp.StatusCode != c.status {
			t.Errorf("GET without a signature by %s = %s, want %d", name, resp.Status, c.status)
		}
	}
	if resp, _ := e.getFile(http.MethodGet, link.RequestURI()); resp.StatusCode != 200 {
		t.Errorf("GET with the link and without a token = %s", resp.Status)
	}
}

func TestLinksAreValidOnAllReplicas(t *testing.T) {
	t.Parallel()
	onFileStores(t, func(t *testing.T, s store.Store) {
		one, two := startOn(t, s, returnFiles, nil), startOn(t, s, returnFiles, nil)
		link := one.link(200_000)
		if resp, body := two.getFile(http.MethodGet, link); resp.StatusCode != 200 || !bytes.Equal(body, content(200_000)) {
			t.Errorf("GET at the other replica = %s with %d bytes", resp.Status, len(body))
		}
		if resp, _ := one.getFile(http.MethodGet, two.link(150_000)); resp.StatusCode != 200 {
			t.Errorf("GET of the other replica's link = %s", resp.Status)
		}
	})
}

func TestClientsCannotSendReferences(t *testing.T) {
	t.Parallel()
	e := start(t, returnFiles, nil)
	link := e.link(100_000)
	ref := strings.TrimPrefix(mustURL(t, link).Path, "/blobs/")
	for _, uri := range []string{
		"holdfast-blob:" + ref, "HOLDFAST-BLOB:" + ref, " holdfast-blob:" + ref,
		fmt.Sprintf("holdfast-blob:%s?size=100000&sha256=%s", ref, blob.Sum(content(100_000))),
	} {
		v03 := e.call("message/send", fmt.Sprintf(`{"message":{"messageId":"1","role":"user","parts":[{"kind":"text","text":"x"},{"kind":"file","file":{"uri":%q}}]}}`, uri))
		v10 := e.call("SendMessage", fmt.Sprintf(`{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"x"},{"url":%q}]}}`, uri), "A2A-Version", "1.0")
		for name, r := range map[string]reply{"0.3": v03, "1.0": v10} {
			if r.code() != -32602 || !strings.Contains(r.Error.Message, "message.parts[1]") {
				t.Errorf("%s: URI %q = %s, want an error that names the part", name, uri, r.Body)
			}
		}
	}
}

func mustURL(t testing.TB, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestDamagedFilesLeaveTheTaskReadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	e := startOn(t, s, returnFiles, nil)
	task := e.call("message/send", fileMessage(200_000, 300_000, 400_000)).task(t)
	damaged := map[int64]bool{}
	err = filepath.Walk(filepath.Join(dir, sqlite.BlobDir), func(path string, info os.FileInfo, err error) error {
		switch {
		case err != nil || info.IsDir():
			return err
		case info.Size() == 200_000:
			damaged[info.Size()] = true
			changed := content(200_000)
			changed[199_999]++
			return os.WriteFile(path, changed, 0o600)
		case info.Size() == 300_000:
			damaged[info.Size()] = true
			return os.Remove(path)
		}
		return nil
	})
	if err != nil || len(damaged) != 2 {
		t.Fatalf("damaged files: %v, %v", damaged, err)
	}
	files, metadata := filesOf(t, e.call("tasks/get", fmt.Sprintf(`{"id":%q}`, task.ID)).Result)
	if len(files) != 6 {
		t.Fatalf("the task has %d files, want 6", len(files))
	}
	for i, f := range files {
		if i%3 == 2 {
			if !bytes.Equal(f.Bytes, content(400_000)) {
				t.Errorf("file %d has %d bytes, want its content", i, len(f.Bytes))
			}
			continue
		}
		if f.URI == "" || metadata[i]["fileError"] != "the content of the file is damaged" {
			t.Errorf("file %d has URI %q and metadata %v, want a link and the reason", i, f.URI, metadata[i])
		}
		resp, err := e.client.Do(e.request(http.MethodGet, mustURL(t, f.URI).RequestURI(), "", nil))
		if err != nil {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if i%3 == 0 && err == nil || i%3 == 1 && resp.StatusCode != http.StatusInternalServerError {
			t.Errorf("GET of file %d = %s with %d bytes, %v, want an aborted response or status 500", i, resp.Status, len(body), err)
		}
	}
}

func TestNamesOfFilesAreSafe(t *testing.T) {
	t.Parallel()
	e := start(t, returnFiles, nil)
	data := base64.StdEncoding.EncodeToString(content(70_000))
	for name, want := range map[string]string{
		"../../etc/passwd":     "attachment; filename=passwd",
		`..\\..\\evil.exe`:     "attachment; filename=evil.exe",
		".htaccess":            "attachment; filename=htaccess",
		"a\\r\\nX-Evil: 1":     "attachment",
		`x.txt\" ; filename=y`: `attachment; filename="x.txt_ ; filename=y"`,
		strings.Repeat("y", 100) + strings.Repeat("x", 196) + ".txt": "attachment; filename=" + strings.Repeat("x", 196) + ".txt",
		"grüße.txt": "attachment; filename*=utf-8''gr%C3%BC%C3%9Fe.txt",
		"":          "attachment",
		"/":         "attachment; filename=_",
	} {
		r := e.call("message/send", fmt.Sprintf(`{"message":{"messageId":%q,"role":"user","parts":[{"kind":"file","file":{"name":"%s","mimeType":"text/html","bytes":%q}}]},"configuration":{"blocking":true}}`, newID(), name, data), "Holdfast-Files", "links")
		files, _ := filesOf(t, r.Result)
		if len(files) == 0 {
			t.Fatalf("name %s: %s", name, r.Body[:min(len(r.Body), 300)])
		}
		resp, _ := e.getFile(http.MethodGet, files[0].URI)
		if got := resp.Header.Get("Content-Disposition"); got != want || resp.Header.Get("Content-Type") != "text/html" {
			t.Errorf("name %s: Content-Disposition is %q, want %q", name, got, want)
		}
	}
}

func TestClientsThatDoNotReadAFileAreDisconnected(t *testing.T) {
	t.Parallel()
	e := startEngine(t, newStore(), returnFiles, func(c *server.Config) { c.Requests.WriteTimeout, c.Requests.MaxBodyBytes = 50*time.Millisecond, 32<<20 })
	addr, _ := e.listen()
	link := e.link(16 << 20)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", mustURL(t, link).RequestURI(), addr); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // the client does not read
	if n, err := io.Copy(io.Discard, conn); n >= 16<<20 {
		t.Errorf("read %d bytes, %v, want a connection that the server closed", n, err)
	}
}
