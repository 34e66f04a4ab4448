package summarizer_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents/summarizer"
	"github.com/holdfast-dev/holdfast/holdfasttest"
)

// remote is a host with one file. The content of the file may change.
type remote struct {
	url, host string
	content   atomic.Pointer[string]
	asked     atomic.Int64
}

func newRemote(t *testing.T, content string) *remote {
	t.Helper()
	r := &remote{}
	r.content.Store(&content)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.asked.Add(1)
		if strings.HasPrefix(q.URL.Path, "/none") {
			http.NotFound(w, q)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream") // the format follows from the name
		_, _ = w.Write([]byte(*r.content.Load()))
	}))
	t.Cleanup(s.Close)
	r.url, r.host = s.URL, s.Listener.Addr().String()
	return r
}

func (r *remote) runner(t *testing.T, cfg summarizer.Config) *holdfasttest.Runner {
	t.Helper()
	hc := holdfast.Config{Fetch: holdfast.Fetch{AllowHosts: []string{r.host}}}
	cfg.Describe(&hc)
	return holdfasttest.New(t, summarizer.New(cfg), hc)
}

func uriPart(name, uri string) a2a.Part {
	return a2a.FilePart{File: a2a.FileWithURI{Name: name, URI: uri}}
}

func TestFileByURIGivesTheSameSummary(t *testing.T) {
	t.Parallel()
	want, _ := summaryOf(t, newRunner(t).SendMessage(holdfasttest.Message(file("long.md", "text/markdown", document(8)))))
	far := newRemote(t, document(8))
	r := far.runner(t, summarizer.Config{})
	task := r.SendMessage(holdfasttest.Message(text("Please summarize this."), uriPart("long.md", far.url+"/x")))
	if got, _ := summaryOf(t, task); !slices.Equal(got, want) {
		t.Errorf("summary = %q, want %q", got, want)
	}
	if got := statuses(r, task.ID); !slices.Equal(got[:2], []string{"fetching long.md", "opening long.md"}) {
		t.Errorf("statuses = %q, want the file fetched and opened", got)
	}
}

func TestUnavailableFilesAreRejectedByName(t *testing.T) {
	t.Parallel()
	far := newRemote(t, strings.Repeat(" ", 9_800_000))
	many := func(n int) (parts []a2a.Part) {
		for range n {
			parts = append(parts, uriPart("x.txt", far.url))
		}
		return parts
	}
	for _, tt := range []struct {
		parts []a2a.Part
		want  string
		asked int64
	}{
		{[]a2a.Part{uriPart("far.pdf", far.url+"/none")}, "far.pdf cannot be read: URI returned status 404", 1},
		{[]a2a.Part{uriPart("", "https://10.0.0.1/far.pdf")}, `file 1 cannot be read: URI rejected: host "10.0.0.1" is not allowed`, 0},
		{many(21), "the message names 21 files by URI, want at most 20", 0},
		{many(5), "x.txt cannot be read: the files named by URI exceed 33554432 bytes in total", 4},
	} {
		before := far.asked.Load()
		task := far.runner(t, summarizer.Config{}).SendMessage(holdfasttest.Message(tt.parts...))
		if task.State != a2a.StateRejected || task.Message != tt.want {
			t.Errorf("%d files = %s %q, want rejected %q", len(tt.parts), task.State, task.Message, tt.want)
		}
		if n := far.asked.Load() - before; n != tt.asked {
			t.Errorf("%q: %d requests, want %d", tt.want, n, tt.asked)
		}
	}
}

// If a file changes while it is read, the summary must not mix both versions.
func TestChangedFileIsReadFromTheStart(t *testing.T) {
	t.Parallel()
	before, after := document(12), strings.ReplaceAll(document(12), "e", "o")
	want, _ := summaryOf(t, newRunner(t).SendMessage(holdfasttest.Message(file("a.txt", "text/plain", after))))
	far := newRemote(t, before)
	r := far.runner(t, summarizer.Config{PageDelay: 300 * time.Millisecond})
	task := r.Submit(holdfasttest.Message(uriPart("a.txt", far.url)))
	waitFor(t, r, task.ID, "reading page 5 of 12")
	far.content.Store(&after)
	r.Restart()
	if got, _ := summaryOf(t, r.Wait(task.ID)); !slices.Equal(got, want) {
		t.Errorf("summary = %q, want the summary of the current file, %q", got, want)
	}
	// The summary of an unchanged file resumes.
	far.content.Store(&before)
	task = r.Submit(holdfasttest.Message(uriPart("a.txt", far.url)))
	waitFor(t, r, task.ID, "reading page 5 of 12")
	r.Restart()
	r.Wait(task.ID)
	if got := statuses(r, task.ID); !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "resuming at page ") }) {
		t.Errorf("statuses = %q, want a report that it resumes", got)
	}
}
