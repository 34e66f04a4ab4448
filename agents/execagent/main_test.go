//go:build unix

package execagent_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents/execagent"
	"github.com/holdfast-dev/holdfast/holdfasttest"
)

// serverMode is the environment variable with a program. If it is set, the test binary is a
// server that runs the program, so that a test can kill the server.
const serverMode = "EXECAGENT_TEST_SERVER"

func TestMain(m *testing.M) {
	if program := os.Getenv(serverMode); program != "" {
		runServer(program)
		return
	}
	code := m.Run()
	if left := leaked(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "leaked goroutines:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks of the package's goroutines that remain a minute after the tests.
func leaked() string {
	deadline := time.Now().Add(time.Minute)
	for {
		buf := make([]byte, 4<<20)
		var left []string
		for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack, "/execagent.") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 {
			return ""
		}
		if time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		runtime.Gosched()
	}
}

// serverT is a [holdfasttest.T] outside of a test.
type serverT struct{ ctx context.Context }

func (serverT) Helper()                    {}
func (serverT) Fatalf(f string, a ...any)  { panic(fmt.Sprintf(f, a...)) }
func (serverT) Errorf(f string, a ...any)  { panic(fmt.Sprintf(f, a...)) }
func (serverT) Cleanup(func())             {}
func (t serverT) Context() context.Context { return t.ctx }

func runServer(program string) {
	h, err := execagent.New(execagent.Config{Command: []string{"sh", "-c", program}})
	if err != nil {
		panic(err)
	}
	r := holdfasttest.New(serverT{context.Background()}, h, holdfast.Config{})
	r.Submit(holdfasttest.Message(a2a.TextPart{Text: "go"}))
	select {}
}
