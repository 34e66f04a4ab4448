package interop_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testport"
)

// binary and fullBinary are the commands under test, program the agent that they run.
var binary, fullBinary, program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "holdfast-interop-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "agent")
	if err := build(".", program, "./agent"); err != nil {
		return 1
	}
	for _, command := range []struct {
		path               *string
		variable, dir, pkg string
	}{
		{&binary, "HOLDFAST_BIN", "..", "./cmd/holdfast"},
		{&fullBinary, "HOLDFAST_FULL_BIN", "../server/grpc", "./cmd/holdfast-full"},
	} {
		if *command.path = os.Getenv(command.variable); *command.path != "" {
			continue
		}
		*command.path = filepath.Join(dir, filepath.Base(command.pkg))
		if err := build(command.dir, *command.path, command.pkg); err != nil {
			return 1
		}
	}
	for _, c := range clients() {
		clientResults.rows = append(clientResults.rows, c.peerInfo)
	}
	for _, f := range foreignServers {
		serverResults.rows = append(serverResults.rows, f.peerInfo)
	}
	for _, o := range servers() {
		serverResults.rows = append(serverResults.rows, o.peerInfo)
	}
	code := m.Run()
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return code // the tables need the results of all tests
		}
	}
	for _, r := range []generated{clientResults.section(), serverResults.section(), {"validated", validated.String(), sameRows}} {
		if err := r.compare(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

func build(dir, out, pkg string) error {
	cmd := exec.Command("go", "build", "-o", out, pkg)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	err := cmd.Run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "build", pkg, err)
	}
	return err
}

// server is a holdfast process. Its place on disk and on the network stay when it
// is started again.
type server struct {
	t      *testing.T
	binary string
	args   []string
	url    string // of the recorder
	health string // the URL of the process itself
	cmd    *exec.Cmd
	log    *os.File
}

// startAgent runs the agent of the interop tests until the test ends, with further flags.
func startAgent(t *testing.T, args ...string) *server {
	t.Helper()
	return start(t, binary, append(agentFlags(), args...)...)
}

func agentFlags() []string {
	return []string{"--name", "interop", "--exec", program, "--webhook-allow-nets", "127.0.0.0/8", "--webhook-format", "task"}
}

// startGRPC is startAgent with gRPC.
func startGRPC(t *testing.T) *server {
	t.Helper()
	return start(t, fullBinary, append(agentFlags(), "--grpc-listen", testport.Addr(t))...)
}

// start runs a command until the test ends.
func start(t *testing.T, binary string, args ...string) *server {
	t.Helper()
	addr := testport.Addr(t)
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	r := record(addr)
	s := &server{
		t: t, binary: binary, url: r.URL + "/", health: "http://" + addr + "/healthz", log: log,
		args: append([]string{"serve", "--addr", addr, "--data", filepath.Join(dir, "data")}, args...),
	}
	s.start()
	t.Cleanup(func() {
		s.kill()
		r.stop(t)
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("log of the server:\n%s", text)
		}
		_ = log.Close()
	})
	return s
}

// of returns the same process for a part of its test.
func (s *server) of(t *testing.T) *server {
	part := *s
	part.t = t
	return &part
}

// another starts a server of the same kind.
func (s *server) another(t *testing.T) *server {
	t.Helper()
	if s.binary == fullBinary {
		return startGRPC(t)
	}
	return startAgent(t)
}

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.binary, s.args...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get(s.health)
		if err == nil {
			_ = resp.Body.Close()
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("the server does not answer: %v", err)
		}
	}
}

// kill is kill -9.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}
