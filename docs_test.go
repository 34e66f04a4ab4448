package holdfast_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
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
