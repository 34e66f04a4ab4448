package safehttp

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// BenchmarkPost compares Post with a bare http.Client that does the same, in turns, over
// connections that are kept.
func BenchmarkPost(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	}))
	defer server.Close()
	body := []byte(strings.Repeat("x", 600))
	header := http.Header{"Content-Type": {"application/json"}}
	c := newClient(b, ClientConfig{Policy: loopback})
	u := parse(b, server.URL+"/hook")
	bare := &http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: 15 * time.Second}
	ways := []func(){
		func() {
			if _, err := c.Post(b.Context(), Request{URL: u, Header: header, Body: body}); err != nil {
				b.Fatal(err)
			}
		},
		func() {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL+"/hook", bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			req.Header = header
			resp, err := bare.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		},
	}
	const turn = 100
	var took [2]time.Duration
	b.ResetTimer()
	for n := 0; n < b.N; n += turn {
		for i, way := range ways {
			started := time.Now()
			for range turn {
				way()
			}
			took[i] += time.Since(started)
		}
	}
	b.ReportMetric(float64(took[0])/float64(took[1]), "x-bare")
	b.ReportMetric(float64(took[0].Microseconds())/float64(b.N+turn-1), "us/post")
}
