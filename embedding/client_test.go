package embedding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/vector"
)

var _ vector.Embedder = (*Client)(nil)

// server is an HTTP server with the API of embeddings. The embedding of a text is its length and its
// first byte.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests [][]string
	// fail, if not nil, answers a request. It returns false for a usual answer.
	fail func(w http.ResponseWriter, n int) bool
}

func newServer(t *testing.T) *server {
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Model      string
		Input      []string
		Format     string `json:"encoding_format"`
		Dimensions int
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.URL.Path != "/v1/embeddings" || r.Header.Get("Authorization") != "Bearer secret" ||
		request.Model != "model" || request.Format != "float" || request.Dimensions != 2 {
		http.Error(w, fmt.Sprintf(`{"error": {"message": "unexpected request %+v to %s, %v"}}`, request, r.URL, err), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, request.Input)
	n := len(s.requests)
	s.mu.Unlock()
	if s.fail != nil && s.fail(w, n) {
		return
	}
	type embedding struct {
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	}
	var data []embedding
	for i, text := range request.Input {
		data = append(data, embedding{i, vectorOf(text)})
	}
	slices.Reverse(data) // clients must use the index
	_ = json.NewEncoder(w).Encode(map[string]any{"data": data, "model": "model"})
}

func vectorOf(text string) []float32 { return []float32{float32(len(text)), float32(text[0])} }

func newClient(t *testing.T, s *server, change func(cfg *Config)) *Client {
	t.Helper()
	cfg := Config{URL: s.URL + "/v1", Key: "secret", Model: "model", Dimensions: 2}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func checkEmbed(t *testing.T, c *Client, texts ...string) {
	t.Helper()
	got, err := c.Embed(t.Context(), texts)
	if err != nil || len(got) != len(texts) {
		t.Fatalf("Embed(%q) = %v, %v", texts, got, err)
	}
	for i, text := range texts {
		if !slices.Equal(got[i], vectorOf(text)) {
			t.Errorf("embedding of %q = %v, want %v", text, got[i], vectorOf(text))
		}
		got[i][0] = -1 // must not change the cache
	}
}

func TestEmbedSplitsAndRemembersTexts(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := newClient(t, s, func(cfg *Config) { cfg.BatchTexts, cfg.BatchBytes = 3, 10 })
	checkEmbed(t, c, "a", "bb", "a", "ccc", "dd", "eeeeeeeee", "ffffffffffffff", "g")
	want := [][]string{{"a", "bb", "ccc"}, {"dd"}, {"eeeeeeeee"}, {"ffffffffffffff"}, {"g"}}
	if !slices.EqualFunc(s.requests, want, slices.Equal) {
		t.Errorf("requests are %q, want %q", s.requests, want)
	}
	checkEmbed(t, c, "g", "a", "new")
	if got := s.requests[len(want):]; len(got) != 1 || !slices.Equal(got[0], []string{"new"}) {
		t.Errorf("requests for known texts are %q, want one for the new text", got)
	}
	if got, err := c.Embed(t.Context(), nil); len(got) != 0 || err != nil {
		t.Errorf("Embed of nothing = %v, %v", got, err)
	}
	if c.Name() != "model" {
		t.Errorf("Name() = %q", c.Name())
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := newClient(t, s, func(cfg *Config) { cfg.CacheBytes = 3 * (entryOverhead + 8) })
	checkEmbed(t, c, "a", "b", "c")
	checkEmbed(t, c, "a") // most recently used
	checkEmbed(t, c, "d")
	checkEmbed(t, c, "a", "c", "d")
	if n := len(s.requests); n != 2 {
		t.Errorf("%d requests, want 2: %q", n, s.requests)
	}
	checkEmbed(t, c, "b")
	if n := len(s.requests); n != 3 {
		t.Errorf("%d requests, want 3: %q", n, s.requests)
	}
	none := newClient(t, s, func(cfg *Config) { cfg.CacheBytes = -1 })
	checkEmbed(t, none, "x")
	checkEmbed(t, none, "x")
	if n := len(s.requests); n != 5 {
		t.Errorf("%d requests, want 5: %q", n, s.requests)
	}
}

func TestFailuresThatPassAreRepeated(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var delays []time.Duration
	c := newClient(t, s, nil)
	c.wait = func(_ context.Context, d time.Duration) error {
		delays = append(delays, d)
		return nil
	}
	s.fail = func(w http.ResponseWriter, n int) bool {
		switch n {
		case 1:
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			panic(http.ErrAbortHandler) // closes the connection
		}
		return n < 3
	}
	checkEmbed(t, c, "text")
	if len(delays) != 3 || delays[0] != 7*time.Second || delays[1] < 500*time.Millisecond || delays[1] > time.Second {
		t.Errorf("delays are %v, want 7 s, then 0.5 s to 1 s, then twice that", delays)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status   int
		header   string // Retry-After
		body     string
		code     a2a.Code
		requests int
		text     string
	}{
		"rejected texts": {400, "", `{"error": {"message": "too long for secret"}}`, a2a.CodeInvalid, 1, `too long for ***`},
		"wrong key":      {401, "", `{"error": "no such key"}`, a2a.CodeUnavailable, 1, "status 401"},
		"redirect":       {302, "", ``, a2a.CodeUnavailable, 1, "status 302"},
		"busy for long":  {429, "3600", ``, a2a.CodeUnavailable, 1, "status 429"},
		"broken server":  {500, "", `{"error": 5}`, a2a.CodeUnavailable, 3, "status 500"},
		"no JSON":        {200, "", `<html>`, a2a.CodeUnavailable, 1, "response"},
		"too few":        {200, "", `{"data": []}`, a2a.CodeUnavailable, 1, "0 embeddings for 2 texts"},
		"repeated index": {200, "", `{"data": [{"index": 0, "embedding": [1, 1]}, {"index": 0, "embedding": [1, 1]}]}`, a2a.CodeUnavailable, 1, "index 0"},
		"wrong index":    {200, "", `{"data": [{"index": 0, "embedding": [1, 1]}, {"index": 2, "embedding": [1, 1]}]}`, a2a.CodeUnavailable, 1, "index 2"},
		"dimensions":     {200, "", `{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}`, a2a.CodeUnavailable, 1, "components"},
		"huge number":    {200, "", `{"data": [{"embedding": [1e999]}, {"embedding": [1]}]}`, a2a.CodeUnavailable, 1, "response"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			c := newClient(t, s, func(cfg *Config) { cfg.Attempts = 3 })
			c.wait = func(context.Context, time.Duration) error { return nil }
			s.fail = func(w http.ResponseWriter, _ int) bool {
				if test.header != "" {
					w.Header().Set("Retry-After", test.header)
				}
				w.Header().Set("Location", s.URL+"/elsewhere")
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
				return true
			}
			_, err := c.Embed(t.Context(), []string{"a", "b"})
			var coded *a2a.Error
			if !errors.As(err, &coded) || coded.Code != test.code || !strings.Contains(err.Error(), test.text) || strings.Contains(err.Error(), "secret") {
				t.Errorf("Embed() = %v, want code %s and %q", err, test.code, test.text)
			}
			if n := len(s.requests); n != test.requests {
				t.Errorf("%d requests, want %d", n, test.requests)
			}
		})
	}
}

func TestKilledServer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := newClient(t, s, nil)
	c.wait = func(context.Context, time.Duration) error { return nil }
	s.Close()
	_, err := c.Embed(t.Context(), []string{"a"})
	var coded *a2a.Error
	if !errors.As(err, &coded) || coded.Code != a2a.CodeUnavailable {
		t.Errorf("Embed() = %v, want code unavailable", err)
	}
}

func TestDelaysAreBounded(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.fail = func(w http.ResponseWriter, n int) bool {
		if n < 80 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return n < 80
	}
	c := newClient(t, s, func(cfg *Config) { cfg.Attempts, cfg.MaxDelay = 100, 3*time.Second })
	c.wait = func(_ context.Context, d time.Duration) error {
		if d > 3*time.Second {
			t.Errorf("delay is %v, limit is 3s", d)
		}
		return nil
	}
	checkEmbed(t, c, "a")
}

func TestOtherDimensionsAreRejected(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	answer := `{"data":[{"embedding":[1,2,3]}]}`
	s.fail = func(w http.ResponseWriter, _ int) bool {
		_, _ = w.Write([]byte(answer))
		return true
	}
	c := newClient(t, s, nil)
	if _, err := c.Embed(t.Context(), []string{"a"}); a2a.CodeOf(err) != a2a.CodeUnavailable || !strings.Contains(err.Error(), "3 components, want 2") {
		t.Errorf("Embed() = %v, want an error about the components", err)
	}
	answer = strings.Repeat(" ", 1<<20+100) + answer
	if _, err := c.Embed(t.Context(), []string{"a"}); a2a.CodeOf(err) != a2a.CodeUnavailable || strings.Contains(err.Error(), "components") {
		t.Errorf("Embed() of a large answer = %v, want an error about its size", err)
	}
}

func TestCancelEndsTheWait(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := newClient(t, s, nil)
	ctx, cancel := context.WithCancel(t.Context())
	s.fail = func(w http.ResponseWriter, _ int) bool {
		w.Header().Set("Retry-After", "20")
		w.WriteHeader(http.StatusTooManyRequests)
		time.AfterFunc(20*time.Millisecond, cancel)
		return true
	}
	if _, err := c.Embed(ctx, []string{"a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Embed() = %v, want context.Canceled", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"URL: must be":         {Model: "m"},
		"without user":         {URL: "https://user:hunter2@host/v1", Model: "m"},
		"Model: must":          {URL: "https://host/v1"},
		"Attempts: must":       {URL: "https://host/v1", Model: "m", Attempts: -1},
		"Key: must be":         {URL: "https://host/v1", Model: "m", Key: "a\nb"},
		"BatchBytes: must not": {URL: "https://host/v1", Model: "m", BatchBytes: -1},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("New(%+v) = %v, want an error with %q", cfg, err, want)
		}
	}
	c, err := New(Config{URL: "http://169.254.169.254/v1", Model: "m", Attempts: 1})
	if err == nil {
		_, err = c.Embed(t.Context(), []string{"a"})
	}
	if err == nil {
		t.Error("a metadata address of a cloud is allowed")
	}
}
