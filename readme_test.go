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

// The Go program in the README is the code of the examples.
func TestTheReadmeShowsTheExamples(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(readme, -1)
	if len(blocks) == 0 {
		t.Fatal("the README has no Go code")
	}
	for _, block := range blocks {
		code := string(block[1])
		for _, f := range regexp.MustCompile(`(?ms)^func \w+\(.*?^}$`).FindAllString(code, -1) {
			f = strings.Replace(f, "func main()", "func Example()", 1)
			if !strings.Contains(string(examples), f) {
				t.Errorf("the README shows code that no example has:\n%s", f)
			}
		}
	}
}

// status is what an agent answers a request with.
func status(agent *holdfast.Agent, request *http.Request) int {
	answer := httptest.NewRecorder()
	agent.Handler().ServeHTTP(answer, request)
	return answer.Code
}
