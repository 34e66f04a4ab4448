package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/cli"
)

// lightRun runs the command without optional parts.
func lightRun(t *testing.T, environ []string, args ...string) (code int, output string) {
	t.Helper()
	var out strings.Builder
	code = cli.Main(t.Context(), cli.Program{Args: append([]string{"holdfast"}, args...), Environ: environ, Stdout: &out, Stderr: &out})
	return code, out.String()
}

// A build without a part says which build has it.
func TestBuildsNameTheBuildThatHasAPart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createStore(t, dir)
	pdf := filepath.Join(dir, "a.pdf")
	if err := os.WriteFile(pdf, []byte("%PDF-1.7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		setting string
		args    []string
		code    int
		want    string
	}{
		{"STORE_STATE=redis://:hunter2@127.0.0.1:1", []string{"config", "--check"}, 2, "STORE_STATE needs a build with stores of the kind redis: use the command holdfast-full"},
		{"STORE_BLOB=s3://k:hunter2@b", []string{"serve"}, 2, "STORE_BLOB needs a build with stores of the kind s3: use the command holdfast-full"},
		{"", []string{"storage", "check", "memory"}, 5, "this build of the command has no conformance suites\n  use the command holdfast-check"},
		{"HOLDFAST_DATA=" + dir, []string{"documents", "add", pdf, "--owner", "alice", "--collection", "c"}, 1, "supported are text/plain, text/markdown, text/html\n  the command holdfast-full (docs/operations.md#builds) reads PDF too"},
	} {
		var environ []string
		if tt.setting != "" {
			environ = []string{tt.setting}
		}
		code, out := lightRun(t, environ, tt.args...)
		if code != tt.code || !strings.Contains(out, tt.want) || strings.Contains(out, "hunter2") {
			t.Errorf("%s %v = %d, %s, want %d and %s", tt.setting, tt.args, code, out, tt.code, tt.want)
		}
	}
}

// A build without PDF does not offer it on the card, and rejects it.
func TestBuildsWithoutPDFOfferNone(t *testing.T) {
	t.Parallel()
	url := serveWith(t, cli.Parts{}, "--storage", "memory")
	if code, card := lightRun(t, nil, "card", "--server", url, "--json"); code != 0 || !strings.Contains(card, "text/html") || strings.Contains(strings.ToLower(card), "pdf") {
		t.Errorf("card = %d, %s, want one without PDF", code, card)
	}
	_, out := lightRun(t, nil, "call", "--server", url, "message/send", `{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"file","file":{"name":"a.pdf","mimeType":"application/pdf","bytes":"JVBERi0xLjcK"}}]},"configuration":{"blocking":true}}`)
	if want := `the part is "application/pdf", this agent accepts text/plain, text/markdown, text/html, application/json`; !strings.Contains(out, want) {
		t.Errorf("reply = %s, want %s", out, want)
	}
}
