package holdfast_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/webhook"
)

// random returns a reader of n bytes that are the same for the same seed.
func random(seed byte, n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{seed}), n)
}

// serveFiles serves an agent on loopback until the test ends, and returns its URL and a client.
func serveFiles(t *testing.T, cfg holdfast.Config, h holdfast.HandlerFunc) (string, *client.Client) {
	t.Helper()
	cfg.Name, cfg.DataDir, cfg.StopGrace = "files", t.TempDir(), time.Millisecond
	agent, err := holdfast.New(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- agent.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve() = %v", err)
		}
	})
	base := "http://" + ln.Addr().String()
	c, err := client.New(client.Config{URL: base})
	if err != nil {
		t.Fatal(err)
	}
	return base, c
}

// sendForLink sends a text and returns the link to the first file of the task's artifact.
func sendForLink(t *testing.T, c *client.Client) string {
	t.Helper()
	sent, err := c.Send(t.Context(), client.SendParams{Message: client.Text("go"), Configuration: &a2a.MessageSendConfiguration{Blocking: true}})
	if err != nil {
		t.Fatal(err)
	}
	task, ok := sent.(*a2a.Task)
	if !ok || len(task.Artifacts) == 0 {
		t.Fatalf("Send() = %+v, want a task with an artifact", sent)
	}
	file, ok := task.Artifacts[0].Parts[0].(a2a.FilePart).File.(a2a.FileWithURI)
	if !ok {
		t.Fatalf("file is %T, want a link", task.Artifacts[0].Parts[0].(a2a.FilePart).File)
	}
	return file.URI
}

// peakHeap samples the heap while f runs and returns the growth of its live part.
func peakHeap(f func()) uint64 {
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		var peak uint64
		for {
			select {
			case <-stop:
				done <- peak
				return
			case <-time.After(20 * time.Millisecond):
				runtime.ReadMemStats(&now)
				peak = max(peak, now.HeapAlloc)
			}
		}
	}()
	f()
	close(stop)
	return max(<-done, before.HeapAlloc) - before.HeapAlloc
}

// A handler streams an artifact in, itself reads it again, and a client reads it, all in constant
// memory. HOLDFAST_TEST_FILE_MIB=1024 tests it with 1 GiB. The test measures memory, so it is not
// parallel.
func TestLargeArtifactsNeedConstantMemory(t *testing.T) { // not parallel, because it measures the heap
	mib := 64
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_TEST_FILE_MIB")); err == nil {
		mib = n
	}
	size := int64(mib) << 20
	_, c := serveFiles(t, holdfast.Config{Memory: 256 << 20}, func(ctx context.Context, t *holdfast.Turn) error {
		w := t.Artifact("dump")
		if err := w.WriteFile(ctx, "dump.bin", "application/octet-stream", random(1, size)); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		return t.Reply("done")
	})
	const limit = 48 << 20
	var link string
	if grown := peakHeap(func() { link = sendForLink(t, c) }); grown > limit {
		t.Errorf("writing %d MiB made the heap grow by %d MiB", mib, grown>>20)
	}
	want := sha256.New()
	if _, err := io.Copy(want, random(1, size)); err != nil {
		t.Fatal(err)
	}
	got := sha256.New()
	grown := peakHeap(func() {
		if n := download(t, link, got); n != size {
			t.Errorf("GET returned %d bytes, want %d", n, size)
		}
	})
	if grown > limit {
		t.Errorf("reading %d MiB made the heap grow by %d MiB", mib, grown>>20)
	}
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Error("GET returned other content")
	}
}

// download reads a link and returns the number of bytes.
func download(t *testing.T, link string, into hash.Hash) int64 {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(into, resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET = %s after %d bytes, %v", resp.Status, n, err)
	}
	return n
}

func TestTurnsReadStoredFiles(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	whole, err := io.ReadAll(random(2, size))
	if err != nil {
		t.Fatal(err)
	}
	_, c := serveFiles(t, holdfast.Config{Card: a2a.AgentCard{DefaultInputModes: []string{"*/*"}}}, func(ctx context.Context, t *holdfast.Turn) error {
		if t.Number() == 1 {
			data, kind, err := t.ReadFile(ctx, t.Files()[0].File)
			if err != nil || kind != "image/png" || !bytes.Equal(data, whole) {
				return fmt.Errorf("ReadFile() = %d bytes of %s, %w", len(data), kind, err)
			}
			if err := t.AddArtifact(a2a.Artifact{Name: "a", Parts: []a2a.Part{t.Files()[0]}}); err != nil {
				return err
			}
			return t.RequireInput("more?")
		}
		for _, f := range []a2a.File{t.Artifacts()[0].Parts[0].(a2a.FilePart).File, t.TaskHistory()[0].Files()[0].File, a2a.FileWithBytes{MimeType: "image/png", Bytes: whole}} {
			r, kind, err := t.OpenFile(ctx, f)
			if err != nil {
				return err
			}
			data, err := io.ReadAll(r)
			_ = r.Close()
			if err != nil || kind != "image/png" || !bytes.Equal(data, whole) {
				return fmt.Errorf("OpenFile(%T) = %d bytes of %s, %w", f, len(data), kind, err)
			}
			if data, _, err = t.ReadFile(ctx, f); err != nil || !bytes.Equal(data, whole) {
				return fmt.Errorf("ReadFile(%T) = %d bytes, %w", f, len(data), err)
			}
		}
		return t.Reply("ok")
	})
	m := client.Text("first")
	m.Parts = append(m.Parts, a2a.FilePart{File: a2a.FileWithBytes{Name: "f", MimeType: "image/png", Bytes: whole}})
	blocking := &a2a.MessageSendConfiguration{Blocking: true}
	sent, err := c.Send(t.Context(), client.SendParams{Message: m, Configuration: blocking})
	if err != nil {
		t.Fatal(err)
	}
	task := sent.(*a2a.Task)
	m = client.Text("second")
	m.TaskID = task.ID
	if sent, err = c.Send(t.Context(), client.SendParams{Message: m, Configuration: blocking}); err != nil {
		t.Fatal(err)
	}
	if task = sent.(*a2a.Task); task.Status.State != a2a.StateCompleted {
		t.Errorf("state is %s: %s, want completed", task.Status.State, task.Status.Message.Text())
	}
}

func TestSlowReadersOfFilesDelayNobody(t *testing.T) {
	t.Parallel()
	const size = 32 << 20
	base, c := serveFiles(t, holdfast.Config{}, func(ctx context.Context, t *holdfast.Turn) error {
		return t.Artifact("a").WriteFile(ctx, "", "", random(3, size))
	})
	link := sendForLink(t, c)
	var slow []net.Conn
	for range 8 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", strings.TrimPrefix(link, base)); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
	}
	if n := download(t, link, sha256.New()); n != size {
		t.Errorf("GET besides slow readers = %d bytes, want %d", n, size)
	}
	for _, conn := range slow {
		head := make([]byte, 12)
		if _, err := io.ReadFull(conn, head); err != nil || string(head) != "HTTP/1.1 200" {
			t.Errorf("slow reader got %q, %v", head, err)
		}
	}
}

func TestWebhooksReceiveFilesAndLinks(t *testing.T) {
	t.Parallel()
	for _, format := range []a2a.PayloadFormat{a2a.PayloadEvent, a2a.PayloadTask, a2a.PayloadStreamResponse} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var bodies []string
			complete := make(chan struct{})
			receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				defer mu.Unlock()
				if bodies = append(bodies, string(body)); strings.Contains(string(body), "files written") {
					close(complete)
				}
			}))
			t.Cleanup(receiver.Close)
			base, c := serveFiles(t, holdfast.Config{Webhooks: webhook.Settings{AllowNets: []string{"127.0.0.0/8"}, Format: format}}, func(ctx context.Context, t *holdfast.Turn) error {
				w := t.Artifact("a")
				for i, n := range []int64{100_000, 2 << 20} {
					if err := w.WriteFile(ctx, fmt.Sprint("f", i), "", random(byte(i), n)); err != nil {
						return err
					}
				}
				if err := w.Close(); err != nil {
					return err
				}
				if err := t.Flush(); err != nil {
					return err
				}
				return t.Reply("files written")
			})
			configuration := &a2a.MessageSendConfiguration{Blocking: true, PushNotificationConfig: &a2a.PushNotificationConfig{URL: receiver.URL}}
			if _, err := c.Send(t.Context(), client.SendParams{Message: client.Text("go"), Configuration: configuration}); err != nil {
				t.Fatal(err)
			}
			select {
			case <-complete:
			case <-time.After(15 * time.Second):
				t.Fatal("the webhook did not receive the last event")
			}
			mu.Lock()
			defer mu.Unlock()
			all := strings.Join(bodies, "\n")
			small, _ := io.ReadAll(random(0, 100_000))
			encoded, _ := json.Marshal(small)
			if !strings.Contains(all, string(encoded)) || strings.Contains(all, "holdfast-blob") {
				t.Error("no body has the content of the small file, or one has a reference")
			}
			_, rest, ok := strings.Cut(all, `"/blobs/`)
			if !ok {
				t.Fatal("no body has a link")
			}
			path, _, _ := strings.Cut(rest, `"`)
			if err := json.Unmarshal([]byte(`"`+path+`"`), &path); err != nil {
				t.Fatal(err)
			}
			if n := download(t, base+"/blobs/"+path, sha256.New()); n != 2<<20 {
				t.Errorf("GET of the link of a webhook = %d bytes", n)
			}
		})
	}
}
