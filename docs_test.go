package holdfast_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheProtocolPageListsEveryMethodAndError(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/protocol.md")
	for _, m := range a2a.Methods() {
		if !strings.Contains(page, "`"+m.Name+"`") {
			t.Errorf("docs/protocol.md does not name %s", m.Name)
		}
	}
	rows := 0
	for _, line := range strings.Split(page, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 7 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "-32") {
			continue
		}
		rows++
		code := a2a.Code(strings.Trim(strings.TrimSpace(cells[2]), "`"))
		if got := strings.TrimSpace(cells[1]); got != strconv.Itoa(code.JSONRPC()) || strings.TrimSpace(cells[3]) != strconv.Itoa(code.HTTPStatus()) ||
			strings.TrimSpace(cells[4]) != strconv.Itoa(code.ExitCode()) || (strings.TrimSpace(cells[5]) == "yes") != code.Retryable() {
			t.Errorf("docs/protocol.md tells %s otherwise than the table: %s", code, line)
		}
	}
	if rows != len(a2a.Codes()) {
		t.Errorf("docs/protocol.md has %d errors, want %d", rows, len(a2a.Codes()))
	}
}

func TestTheDependenciesPageListsEveryDirectModule(t *testing.T) {
	t.Parallel()
	page, mod := read(t, "docs/dependencies.md"), read(t, "go.mod")
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(mod, -1) {
		if !strings.Contains(page, "| "+m[1]+" |") {
			t.Errorf("docs/dependencies.md has no row for %s", m[1])
		}
	}
}

func TestLinksBetweenDocumentsLead(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "README.md", "CHANGELOG.md", "bench/README.md") {
		for _, link := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), link[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", page, link[1])
			}
		}
	}
}

// The table at the head of docs/backends.md says of each backend what the
// backend says of itself.
func TestTheBackendsPageTellsWhatTheBackendsDeclare(t *testing.T) {
	t.Parallel()
	disk, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	yes := map[bool]string{true: "yes", false: "no"}
	processes := map[bool]string{true: "one", false: "many"}
	server := pgtest.URL(t)
	database, err := postgres.Open(t.Context(), postgres.Config{URL: server, Schema: pgtest.Schema(t, server), Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := database.Close(); err != nil {
			t.Error(err)
		}
	})
	memory, embedded, shared := inmem.New().Info(), disk.Info(), database.Info()
	page := read(t, "docs/backends.md")
	for _, row := range [][]string{
		{"survives the process", yes[memory.Durable], yes[embedded.Durable], yes[shared.Durable]},
		{"processes at a time", processes[memory.Exclusive], processes[embedded.Exclusive], processes[shared.Exclusive]},
	} {
		if line := "| " + strings.Join(row, " | ") + " |"; !strings.Contains(page, line) {
			t.Errorf("docs/backends.md has no row %s", line)
		}
	}
	entries, err := os.ReadDir("backend")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 3 {
		t.Errorf("there are %d backends, the table and this test know three", len(entries))
	}
}
