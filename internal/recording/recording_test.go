package recording_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/recording"
)

func TestExchangesAreRecordedAndLoaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, err := recording.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	server := httptest.NewServer(recording.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "got "+string(body))
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, ".")
	}), func(x recording.Exchange) {
		if err := file.Append(x); err != nil {
			t.Error(err)
		}
		close(done)
	}))
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/path?query", strings.NewReader("text"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("A2A-Version", "1.0")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	<-done
	got, err := recording.Load(dir)
	want := []recording.Exchange{{
		Method: http.MethodPost, Path: "/path", Version: "1.0", Request: []byte("text"),
		Status: http.StatusAccepted, ContentType: "text/plain", Response: []byte("got text."),
	}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Load() = %+v, %v, want %+v", got, err, want)
	}
}
