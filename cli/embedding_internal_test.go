package cli

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestEmbedderSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ settings, want string }{
		{"EMBEDDING_MODEL=m", "EMBEDDING_MODEL needs --embedding-url"},
		{"EMBEDDING_KEY=hunter2", "EMBEDDING_KEY needs --embedding-url"},
		{"EMBEDDING_URL=http://localhost:1/v1", "EMBEDDING_URL needs --embedding-model"},
		{"EMBEDDING_URL=localhost:1/v1 EMBEDDING_MODEL=m", "EMBEDDING_URL must be an http or https URL"},
		{"EMBEDDING_URL=http://u:hunter2@localhost/v1 EMBEDDING_MODEL=m", "EMBEDDING_URL must be an http or https URL without user and password"},
		{"EMBEDDING_URL=http://localhost:1/v1 EMBEDDING_MODEL=m EMBEDDING_DIMENSIONS=-1", "EMBEDDING_DIMENSIONS must not be negative"},
	} {
		var stderr strings.Builder
		a := newApp(Program{Args: []string{"holdfast", "config", "--check"}, Environ: strings.Fields(tt.settings), Stdout: &stderr, Stderr: &stderr})
		if code := a.main(t.Context()); code != 2 || !strings.Contains(stderr.String(), tt.want) || strings.Contains(stderr.String(), "hunter2") {
			t.Errorf("config --check with %s = %d, %s, want %q without the password", tt.settings, code, &stderr, tt.want)
		}
	}
}

func TestProbeLogsWhetherTheEmbedderResponds(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hunter2" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": []any{map[string]any{"embedding": []float32{1, 2}}}})
	}))
	defer server.Close()
	for key, want := range map[string]string{"hunter2": "embedder responds", "other": "status 401"} {
		a := newApp(Program{
			Args:    []string{"holdfast", "serve", "--storage", "memory"},
			Environ: []string{"EMBEDDING_URL=" + server.URL, "EMBEDDING_MODEL=m", "EMBEDDING_KEY=" + key}, Stdout: io.Discard, Stderr: io.Discard,
		})
		_, r, err := parseServe(t, a)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		r.storage.probeEmbedder(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
		if !strings.Contains(log.String(), want) || strings.Contains(log.String(), key) {
			t.Errorf("with key %s the log is %s, want %q", key, &log, want)
		}
	}
}
