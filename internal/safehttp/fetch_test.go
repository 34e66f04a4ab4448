package safehttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestFetch(t *testing.T) {
	t.Parallel()
	var got []string
	mux := http.NewServeMux()
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.Header.Get("Accept-Encoding"))
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("0123456789"))
	})
	mux.HandleFunc("/chunked", func(w http.ResponseWriter, _ *http.Request) {
		for range 10 {
			_, _ = w.Write([]byte("x"))
			http.NewResponseController(w).Flush()
		}
	})
	mux.HandleFunc("/gzip", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Encoding", "gzip") })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = w.Write([]byte("01234"))
	})
	mux.HandleFunc("/empty", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("/redirect", http.RedirectHandler("/file", http.StatusFound))
	server := httptest.NewServer(mux)
	defer server.Close()
	server.Config.ErrorLog = discard
	c := newClient(t, ClientConfig{Policy: loopback})
	for _, x := range []struct {
		path    string
		limit   int64
		size    int
		outcome string
	}{
		{"/file", 10, 10, ""},
		{"/file", 1<<63 - 1, 10, ""},
		{"/file", 9, 0, OutcomeTooLarge},
		{"/chunked", 10, 10, ""},
		{"/chunked", 9, 0, OutcomeTooLarge},
		{"/empty", 0, 0, ""},
		{"/gzip", 10, 0, OutcomeProtocol},
		{"/cut", 10, 0, OutcomeProtocol},
		{"/redirect", 10, 0, OutcomeStatus},
		{"/none", 10, 0, OutcomeStatus},
	} {
		data, _, err := c.Fetch(t.Context(), server.URL+x.path, nil, x.limit, granted)
		if len(data) != x.size || outcome(err) != x.outcome || (err == nil) != (x.outcome == "") {
			t.Errorf("Fetch(%s, %d) = %q, %v, want %d bytes, outcome %q", x.path, x.limit, data, err, x.size, x.outcome)
		}
	}
	var status *Error
	if _, _, err := c.Fetch(t.Context(), server.URL+"/none", nil, 10, granted); !errors.As(err, &status) || status.Status != http.StatusNotFound {
		t.Errorf("Fetch(/none) = %v, want status 404", err)
	}
	data, contentType, err := c.Fetch(t.Context(), server.URL+"/file", nil, 100, granted)
	if string(data) != "0123456789" || contentType != "text/plain" || err != nil {
		t.Errorf("Fetch = %q, %q, %v, want the file and its type", data, contentType, err)
	}
	server.Close()
	for _, g := range got {
		if g != "GET " {
			t.Errorf("the server got %q, want a GET without Accept-Encoding", g)
		}
	}
}

func TestFetchOfASlowFileEndsWithItsContext(t *testing.T) {
	t.Parallel()
	to := serveRaw(t, flood("HTTP/1.1 200 OK\r\n\r\n", []byte("x"), 10*time.Millisecond))
	c := newClient(t, ClientConfig{Policy: loopback})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := c.Fetch(ctx, "http://"+to.String()+"/", nil, 1<<20, granted); outcome(err) != OutcomeTimeout {
		t.Errorf("Fetch = %v, want outcome timeout", err)
	}
}

func TestFetchOfAnEndlessFileEndsAtTheLimit(t *testing.T) {
	t.Parallel()
	to := serveRaw(t, func(conn net.Conn) { flood("HTTP/1.1 200 OK\r\n\r\n", zeros, 0)(conn) })
	c := newClient(t, ClientConfig{Policy: loopback})
	if _, _, err := c.Fetch(t.Context(), "http://"+to.String()+"/", nil, 1<<20, granted); outcome(err) != OutcomeTooLarge {
		t.Errorf("Fetch = %v, want outcome too_large", err)
	}
}

// granted has memory for everything.
func granted(context.Context, int64) error { return nil }

func TestFetchReservesMemoryBeforeItReads(t *testing.T) {
	t.Parallel()
	const size = 300 << 10
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/known" {
			w.Header().Set("Content-Length", fmt.Sprint(size))
		}
		_, _ = w.Write(make([]byte, size))
	}))
	defer server.Close()
	c := newClient(t, ClientConfig{Policy: loopback})
	for path, most := range map[string]int64{"/known": size + 1, "/unknown": 2 * size} {
		var asked int64
		data, _, err := c.Fetch(t.Context(), server.URL+path, nil, 1<<20, func(_ context.Context, bytes int64) error {
			asked += bytes
			return nil
		})
		if err != nil || len(data) != size || int64(cap(data)) > asked || asked > most {
			t.Errorf("Fetch(%s) = %d bytes with room for %d, %v; asked for %d, want at most %d", path, len(data), cap(data), err, asked, most)
		}
		none := errors.New("no memory")
		if _, _, err := c.Fetch(t.Context(), server.URL+path, nil, 1<<20, func(context.Context, int64) error { return none }); !errors.Is(err, none) {
			t.Errorf("Fetch(%s) without memory = %v, want that", path, err)
		}
	}
}
