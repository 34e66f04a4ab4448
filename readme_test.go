package holdfast_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
)

func listen() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// TestReadmeShowsTheExamples checks that each function in the README is one of the examples, which are compiled and run.
func TestReadmeShowsTheExamples(t *testing.T) {
	t.Parallel()
	readme := wantExamples(t, "README.md", "example_test.go")
	if words := len(strings.Fields(readme)); words > 1000 {
		t.Errorf("README.md has %d words, want at most 1000", words)
	}
}

func TestTutorialShowsTheExample(t *testing.T) {
	t.Parallel()
	wantExamples(t, "docs/tutorial.md", "examples/orders/main.go")
}

func TestMemoryPageShowsTheExamples(t *testing.T) {
	t.Parallel()
	wantExamples(t, "docs/memory.md", "example_state_test.go", "examples/librarian/main.go")
}

// wantExamples checks that each function in a page is in one of some files of examples. It returns the page.
func wantExamples(t *testing.T, name string, sources ...string) string {
	t.Helper()
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var examples []byte
	for _, source := range sources {
		content, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		examples = append(examples, content...)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Fatalf("%s has no Go code", name)
	}
	for _, block := range blocks {
		code := string(block[1])
		for _, f := range regexp.MustCompile(`(?ms)^func \w+\(.*?^}$`).FindAllString(code, -1) {
			f = strings.Replace(f, "func main()", "func Example()", 1)
			if !strings.Contains(string(examples), f) {
				t.Errorf("%s: code differs from every example:\n%s", name, f)
			}
		}
	}
	return string(page)
}

// status returns the HTTP status of an agent's response to a request.
func status(agent *holdfast.Agent, request *http.Request) int {
	answer := httptest.NewRecorder()
	agent.Handler().ServeHTTP(answer, request)
	return answer.Code
}
