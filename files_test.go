package holdfast_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/server"
)

// newFileHost starts a file server on loopback and counts its requests.
func newFileHost(t *testing.T) (url, host string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	mux := http.NewServeMux()
	mux.HandleFunc("/a.txt", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, "0123456789")
	})
	mux.Handle("/moved", http.RedirectHandler("/a.txt", http.StatusFound))
	mux.HandleFunc("/gone", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "9") })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/later", func(w http.ResponseWriter, _ *http.Request) {
		if requests.Load() < 3 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, "content")
	})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, s.Listener.Addr().String(), requests
}

// reader replies with the content of the first file of the message.
var reader = holdfast.HandlerFunc(func(ctx context.Context, t *holdfast.Turn) error {
	data, mimeType, err := t.ReadFile(ctx, t.Files()[0].File)
	if err != nil {
		if a2a.CodeOf(err) != a2a.CodeUnavailable {
			return t.Reject(string(a2a.CodeOf(err)) + ": " + err.Error())
		}
		return err
	}
	return t.Reply(mimeType + ": " + string(data))
})

func sendFile(t *testing.T, f a2a.File, files holdfast.Fetch) holdfasttest.Task {
	t.Helper()
	r := holdfasttest.New(t, reader, holdfast.Config{Card: a2a.AgentCard{DefaultInputModes: []string{"*/*"}}, Fetch: files, Turns: engine.Turns{RetryDelay: time.Millisecond, MaxAttempts: 3}})
	return r.SendMessage(holdfasttest.Message(a2a.FilePart{File: f}))
}

func TestReadFile(t *testing.T) {
	t.Parallel()
	url, host, _ := newFileHost(t)
	allowed := holdfast.Fetch{AllowHosts: []string{host}}
	for _, tt := range []struct {
		name  string
		file  a2a.File
		files holdfast.Fetch
		want  string
	}{
		{"inline", a2a.FileWithBytes{MimeType: "text/csv", Bytes: []byte("a,b")}, holdfast.Fetch{Off: true}, "text/csv: a,b"},
		{"by URI", a2a.FileWithURI{URI: url + "/a.txt"}, allowed, "text/plain; charset=utf-8: 0123456789"},
		{"by URI with a type", a2a.FileWithURI{URI: url + "/a.txt", MimeType: "text/csv"}, allowed, "text/csv: 0123456789"},
		{"of the maximum size", a2a.FileWithURI{URI: url + "/a.txt"}, holdfast.Fetch{AllowNets: []string{"127.0.0.0/8"}, MaxBytes: 10}, "text/plain; charset=utf-8: 0123456789"},
	} {
		if task := sendFile(t, tt.file, tt.files); task.State != a2a.StateCompleted || task.Message != tt.want {
			t.Errorf("%s = %s %q, want completed %q", tt.name, task.State, task.Message, tt.want)
		}
	}
}

func TestReadFileRejects(t *testing.T) {
	t.Parallel()
	url, host, requests := newFileHost(t)
	allowed := holdfast.Fetch{AllowHosts: []string{host}}
	for _, tt := range []struct {
		name, uri string
		files     holdfast.Fetch
		want      string
		requests  int64
	}{
		{"not public", url + "/a.txt", holdfast.Fetch{}, `invalid_params: URI rejected: host "127.0.0.1" is not allowed`, 0},
		{"cloud metadata", "http://169.254.169.254/latest/", holdfast.Fetch{AllowNets: []string{"169.254.0.0/16"}}, `invalid_params: URI rejected: host "169.254.169.254" is not allowed`, 0},
		{"another scheme", "file:///etc/passwd", allowed, "invalid_params: URI rejected: scheme must be https or http", 0},
		{"off", url + "/a.txt", holdfast.Fetch{Off: true, AllowHosts: []string{host}}, "unsupported_operation: fetching files by URI is disabled; send the bytes inline", 0},
		{"too large", url + "/a.txt", holdfast.Fetch{AllowHosts: []string{host}, MaxBytes: 9}, "too_large: file exceeds the limit of 9 bytes", 1},
		{"redirect", url + "/moved", allowed, "invalid_params: URI returned status 302; redirects are not followed", 1},
		{"gone", url + "/gone", allowed, "invalid_params: URI returned status 410", 1},
	} {
		before := requests.Load()
		task := sendFile(t, a2a.FileWithURI{URI: tt.uri}, tt.files)
		if task.State != a2a.StateRejected || task.Message != tt.want {
			t.Errorf("%s = %s %q, want rejected %q", tt.name, task.State, task.Message, tt.want)
		}
		if n := requests.Load() - before; n != tt.requests {
			t.Errorf("%s: the host received %d requests, want %d", tt.name, n, tt.requests)
		}
	}
}

func TestReadFileRetriesTemporaryErrors(t *testing.T) {
	t.Parallel()
	url, host, requests := newFileHost(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := strings.Replace(ln.Addr().String(), "127.0.0.1", "localhost", 1)
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	allowed := holdfast.Fetch{AllowHosts: []string{host, closed}, Timeout: 300 * time.Millisecond}
	for _, tt := range []struct {
		name, uri, want string
	}{
		{"busy", url + "/busy", "failed after 3 attempts: URI returned status 503"},
		{"slow", url + "/slow", "failed after 3 attempts: fetch exceeded the timeout of 300ms"},
		{"cut off", url + "/cut", "failed after 3 attempts: the response was incomplete or not valid HTTP"},
		{"no listener", "http://" + closed + "/", "failed after 3 attempts: host unreachable"},
	} {
		if task := sendFile(t, a2a.FileWithURI{URI: tt.uri}, allowed); task.State != a2a.StateFailed || task.Message != tt.want {
			t.Errorf("%s = %s %q, want failed %q", tt.name, task.State, task.Message, tt.want)
		}
	}
	requests.Store(0)
	if task := sendFile(t, a2a.FileWithURI{URI: url + "/later"}, allowed); task.State != a2a.StateCompleted || !strings.HasSuffix(task.Message, "content") {
		t.Errorf("later = %s %q, want it read by the third attempt", task.State, task.Message)
	}
}

func TestFilesConfigIsChecked(t *testing.T) {
	t.Parallel()
	_, err := holdfast.New(holdfast.Config{
		Name: "a", DataDir: t.TempDir(),
		Fetch: holdfast.Fetch{AllowNets: []string{"10.0.0.0/99"}, AllowHosts: []string{"noport"}, MaxBytes: -1, Timeout: -time.Second, Concurrency: -1},
	}, reader)
	if err == nil {
		t.Fatal("New() = nil, want an error")
	}
	for _, want := range []string{"Fetch.AllowNets: ", `allowed network "10.0.0.0/99"`, `allowed host "noport"`, "MaxBytes is -1", "Concurrency is -1", "Timeout is -1s"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("New() = %v, want %q in it", err, want)
		}
	}
}

func TestReadFileReservesMemoryOfTheOwner(t *testing.T) {
	t.Parallel()
	const size = 9 << 20 // an owner may hold 16 MiB
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) }))
	defer s.Close()
	held, release := make(chan struct{}), make(chan struct{})
	var waited atomic.Bool
	handler := holdfast.HandlerFunc(func(ctx context.Context, turn *holdfast.Turn) error {
		if turn.Text() == "short timeout" {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
		}
		data, _, err := turn.ReadFile(ctx, turn.Files()[0].File)
		if err != nil {
			waited.Store(ctx.Err() != nil)
			return turn.Reject(err.Error())
		}
		if turn.Text() == "keep" {
			close(held)
			<-release
		}
		return turn.Reply(fmt.Sprint(len(data)))
	})
	r := holdfasttest.New(t, handler, holdfast.Config{Fetch: holdfast.Fetch{AllowHosts: []string{s.Listener.Addr().String()}}, Memory: 64 << 20})
	message := func(text string) a2a.Message {
		return holdfasttest.Message(a2a.TextPart{Text: text}, a2a.FilePart{File: a2a.FileWithURI{URI: s.URL}})
	}
	first := make(chan holdfasttest.Task)
	go func() { first <- r.SendMessage(message("keep")) }()
	<-held
	if task := r.SendMessage(message("short timeout")); task.State != a2a.StateRejected || !waited.Load() {
		t.Errorf("a second file = %s %q, want it to wait for the memory of the first", task.State, task.Message)
	}
	close(release)
	if task := <-first; task.Message != fmt.Sprint(size) {
		t.Errorf("the first file = %s %q", task.State, task.Message)
	}
	if task := r.SendMessage(message("later")); task.Message != fmt.Sprint(size) {
		t.Errorf("a file after the first = %s %q, want its size", task.State, task.Message)
	}
}

// Four turns that each hold the memory of one of two files use all memory of their owner.
func TestTurnsThatWaitForEachOthersMemoryComplete(t *testing.T) {
	t.Parallel()
	const size, turns = 4<<20 - 1, 4 // an owner may hold 16 MiB
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) }))
	defer s.Close()
	var waiting, attempts atomic.Int64
	all := make(chan struct{})
	handler := holdfast.HandlerFunc(func(ctx context.Context, turn *holdfast.Turn) error {
		attempts.Add(1)
		for i, f := range turn.Files() {
			if _, _, err := turn.ReadFile(ctx, f.File); err != nil {
				return err
			}
			if i == 0 && waiting.Add(1) == turns {
				close(all)
			}
			<-all
		}
		return turn.Reply("read")
	})
	r := holdfasttest.New(t, handler, holdfast.Config{Fetch: holdfast.Fetch{AllowHosts: []string{s.Listener.Addr().String()}}, Memory: 64 << 20, Turns: engine.Turns{MaxAttempts: 1}})
	file := a2a.FilePart{File: a2a.FileWithURI{URI: s.URL}}
	var group sync.WaitGroup
	for range turns {
		group.Go(func() {
			if task := r.SendMessage(holdfasttest.Message(file, file)); task.State != a2a.StateCompleted {
				t.Errorf("task = %s %q, want completed", task.State, task.Message)
			}
		})
	}
	group.Wait()
	if attempts.Load() == turns {
		t.Error("no turn ran again, want some to release their memory")
	}
}

func TestFileFetchesAreLimitedPerOwner(t *testing.T) {
	t.Parallel()
	requested, release := make(chan string, 10), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requested <- r.URL.Path
		select {
		case <-release:
		case <-r.Context().Done():
		}
		fmt.Fprint(w, "text")
	}))
	defer s.Close()
	agent, err := holdfast.New(holdfast.Config{
		Name: "a", DataDir: t.TempDir(), Fetch: holdfast.Fetch{AllowHosts: []string{s.Listener.Addr().String()}, Concurrency: 4},
		Tokens: []server.Token{{Token: "a", Principal: a2a.Principal{ID: "alice"}}, {Token: "b", Principal: a2a.Principal{ID: "bob"}}},
	}, reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = agent.Stop(t.Context()) }()
	var once sync.Once
	defer once.Do(func() { close(release) })
	call := func(method, path, token, body string) string {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		agent.Handler().ServeHTTP(w, r)
		return w.Body.String()
	}
	fetch := func(token string) {
		response := call("POST", "/", token, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"file","file":{"uri":"%s/%s"}}]},"configuration":{"blocking":false}}}`, s.URL, token))
		if strings.Contains(response, `"error"`) {
			t.Errorf("message/send = %s", response)
		}
	}
	for range 5 {
		fetch("a")
	}
	await.Success(t, func() error {
		if health := call("GET", "/health", "a", ""); !strings.Contains(health, `"files":{"fetching":2,"waiting":3}`) {
			return fmt.Errorf("health = %s, want 2 files being fetched and 3 waiting", health)
		}
		return nil
	})
	fetch("b")
	for n := 1; ; n++ {
		if path := <-requested; path == "/b" {
			break
		}
		if n == 3 {
			t.Fatal("three files of one owner were fetched at once, want two")
		}
	}
	once.Do(func() { close(release) })
	for n := 0; n < 3; n++ {
		<-requested // the fetches that waited
	}
}
