package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/await"
)

// binary is the program, built once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "holdfast-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "holdfast")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, text)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	// Under nohup SIGHUP is ignored, and processes inherit that. A signal that this process handles has its default
	// effect in the processes that it starts.
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	code := m.Run()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*await.Limit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	return cmd
}

// waitForLog waits until the server has logged a text n times.
func (s *server) waitForLog(t *testing.T, text string, n int) {
	t.Helper()
	await.Success(t, func() error {
		if log := s.stderr.String(); strings.Count(log, text) < n {
			return fmt.Errorf("the log lacks %q (%d times):\n%s", text, n, log)
		}
		return nil
	})
}

// server is a running holdfast serve.
type server struct {
	cmd    *exec.Cmd
	banner string
	url    string
	stderr await.Buffer
	done   chan struct{}
}

func serve(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{cmd: command(t, append([]string{"serve"}, args...)...), done: make(chan struct{})}
	s.cmd.Stderr = &s.stderr
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		s.banner += lines.Text() + "\n"
		if strings.HasPrefix(lines.Text(), "Or:") {
			break
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdout)
		_ = s.cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
	})
	found := regexp.MustCompile(`listening +(http\S+)`).FindStringSubmatch(s.banner)
	if found == nil {
		_ = s.cmd.Process.Kill()
		<-s.done
		t.Fatalf("serve %v printed\n%s\nand on stderr\n%s", args, s.banner, &s.stderr)
	}
	s.url = found[1]
	return s
}

func (s *server) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// wait waits until the process ends and returns its exit code.
func (s *server) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-s.done:
	case <-time.After(await.Limit):
		t.Fatal("the server did not end")
	}
	return s.cmd.ProcessState.ExitCode()
}

func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := command(t, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

const anyPort = "127.0.0.1:0"

func TestPrintedCurlCommandWorks(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatalf("needs the program curl; scripts/prerequisites installs it: %v", err)
	}
	for _, tokens := range [][]string{nil, {"--token", "sesame=alice"}} {
		s := serve(t, append([]string{"--addr", anyPort, "--data", t.TempDir()}, tokens...)...)
		line := regexp.MustCompile(`(?m)^ +(curl .*)$`).FindStringSubmatch(s.banner)
		if line == nil {
			t.Fatalf("no curl line in\n%s", s.banner)
		}
		sh := exec.Command("sh", "-c", line[1])
		sh.Env = append(os.Environ(), "HOLDFAST_TOKEN=sesame")
		text, err := sh.Output()
		var answer struct {
			Result struct {
				Status    struct{ State string }
				Artifacts []json.RawMessage
			}
		}
		if jerr := json.Unmarshal(text, &answer); err != nil || jerr != nil || answer.Result.Status.State != "completed" || len(answer.Result.Artifacts) == 0 {
			t.Errorf("%s\nanswers %s (%v, %v), want a completed task with an artifact", line[1], text, err, jerr)
		}
		if strings.Contains(s.banner, "sesame") {
			t.Errorf("the banner contains the token:\n%s", s.banner)
		}
	}
}

func TestDataSurvivesKillAndIsLockedByOneProcess(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := serve(t, "--addr", anyPort, "--data", data, "--agent", "echo")
	if !strings.Contains(s.banner, data) {
		t.Errorf("the banner does not contain %s:\n%s", data, s.banner)
	}
	if code, out, errs := run(t, "send", "--server", s.url, "remember me"); code != 0 || !strings.Contains(out, "remember me") {
		t.Fatalf("send = %d, %q, %q", code, out, errs)
	}
	code, _, stderr := run(t, "serve", "--addr", anyPort, "--data", data)
	if code != 7 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "is locked by process") {
		t.Errorf("a second server on the same data = %d, %q, want 7 and one line that names the first", code, stderr)
	}
	s.signal(t, syscall.SIGKILL)
	s.wait(t)

	s = serve(t, "--addr", anyPort, "--data", data, "--agent", "echo")
	if code, out, errs := run(t, "tasks", "list", "--server", s.url); code != 0 || !strings.Contains(out, "remember me") {
		t.Errorf("tasks list after kill -9 = %d, %q, %q, want the task", code, out, errs)
	}
}

func TestAddressInUse(t *testing.T) {
	t.Parallel()
	s := serve(t, "--addr", anyPort, "--storage", "memory")
	addr := strings.TrimPrefix(s.url, "http://")
	code, _, stderr := run(t, "serve", "--addr", addr, "--storage", "memory")
	if code != 7 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, addr+" is in use") {
		t.Errorf("serve at an address in use = %d, %q, want 7 and one line", code, stderr)
	}
}

func TestUnwritableData(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a directory in which not even root can create files")
	}
	dir := "/sys/holdfast"
	if err := os.Mkdir(dir, 0o700); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("mkdir %s = %v, want %v: the test needs a directory that cannot be created", dir, err, fs.ErrPermission)
	}
	code, _, stderr := run(t, "serve", "--addr", anyPort, "--data", dir)
	if code != 7 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, dir+" cannot be written") {
		t.Errorf("serve with data in %s = %d, %q, want 7 and one line with the path", dir, code, stderr)
	}
}

func TestWarningWithoutTokensBeyondLoopback(t *testing.T) {
	t.Parallel()
	s := serve(t, "--addr", "0.0.0.0:0", "--storage", "memory")
	s.signal(t, syscall.SIGTERM)
	if s.wait(t); !strings.Contains(s.stderr.String(), "no token is required") {
		t.Errorf("stderr of serve on 0.0.0.0 = %q, want a warning", &s.stderr)
	}
}

// longText is a document of many pages.
func longText(t *testing.T, pages int) string {
	t.Helper()
	var b strings.Builder
	for i := range pages {
		for j := range 3 {
			fmt.Fprintf(&b, "The keeper of page %d wrote entry %d about the lamp, the wind and the ships that passed. ", i, j)
		}
		b.WriteString("\f")
	}
	name := filepath.Join(t.TempDir(), "long.txt")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// After SIGTERM the health endpoints return 503 at once, and the server rejects new messages with
// a retryable error, so that a load balancer uses another replica.
func TestSIGTERMFailsReadiness(t *testing.T) {
	t.Parallel()
	done := filepath.Join(t.TempDir(), "done")
	program := `sh -c 'read -r x; until [ -e "` + done + `" ]; do sleep 0.05; done; echo well done'`
	s := serve(t, "--addr", anyPort, "--data", t.TempDir(), "--exec", program, "--exec-plain", "--stop-grace", "30s")
	code, id, stderr := run(t, "send", "--no-wait", "--server", s.url, "x")
	if code != 0 {
		t.Fatalf("send = %d, %q", code, stderr)
	}
	id = strings.TrimSpace(id)
	waitUntilWorking(t, s.url)
	request := func(verb, path, body string) (resp *http.Response, text string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), verb, s.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if resp, err = http.DefaultClient.Do(req); err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return resp, string(raw)
	}
	s.signal(t, syscall.SIGTERM)
	start := time.Now()
	for resp, _ := request(http.MethodGet, "/readyz", ""); resp.StatusCode != http.StatusServiceUnavailable; resp, _ = request(http.MethodGet, "/readyz", "") {
		if time.Since(start) > await.Limit {
			t.Fatal("/readyz stays 200 after SIGTERM")
		}
	}
	if resp, text := request(http.MethodGet, "/health", ""); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "stopping") {
		t.Errorf("/health = %d %s, want 503 and the cause", resp.StatusCode, text)
	}
	const body = `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"y"}]}}}`
	resp, text := request(http.MethodPost, "/", body)
	if resp.StatusCode != http.StatusServiceUnavailable || !resp.Close || resp.Header.Get("Retry-After") != "1" || !strings.Contains(text, "-32053") {
		t.Errorf("message/send = %d %v %s, want 503, Retry-After, the connection closed and -32053", resp.StatusCode, resp.Header, text)
	}
	if code, _, stderr := run(t, "send", "--server", s.url, "y"); code != 7 || !strings.Contains(stderr, "the server is stopping; retry later") || strings.Contains(stderr, "running there") {
		t.Errorf("send = %d, %q, want 7 and the message that the server is stopping", code, stderr)
	}
	if code, out, stderr := run(t, "tasks", "get", "--server", s.url, id); code != 0 || !strings.Contains(out, "working") {
		t.Errorf("tasks get = %d, %q, %q, want the running task", code, out, stderr)
	}
	follow := command(t, "tasks", "follow", "--json", "--server", s.url, id)
	out, err := follow.StdoutPipe()
	if err = errors.Join(err, follow.Start()); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if first, err := lines.ReadString('\n'); err != nil { // the current task
		t.Fatalf("first line of tasks follow = %q, %v", first, err)
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err = errors.Join(err, follow.Wait()); err != nil || !strings.Contains(string(rest), "well done") {
		t.Errorf("tasks follow = %v, %q, want it to continue to the end of the task", err, rest)
	}
	if code := s.wait(t); code != 0 {
		t.Errorf("code after SIGTERM = %d, want 0; stderr:\n%s", code, &s.stderr)
	}
}

func TestSIGTERMWaitsForRunningTasks(t *testing.T) {
	t.Parallel()
	args := []string{"--addr", anyPort, "--data", t.TempDir(), "--stop-grace", "4m", "--exec", "sh -c 'read -r x; sleep 1; echo well done'", "--exec-plain"}
	s := serve(t, args...)
	code, id, stderr := run(t, "send", "--no-wait", "--server", s.url, "x")
	if code != 0 {
		t.Fatalf("send = %d, %q", code, stderr)
	}
	waitUntilWorking(t, s.url)
	start := time.Now()
	s.signal(t, syscall.SIGTERM)
	if code := s.wait(t); code != 0 || time.Since(start) > 3*time.Minute {
		t.Errorf("code after SIGTERM = %d after %v, want 0 after the end of the task; stderr:\n%s", code, time.Since(start), &s.stderr)
	}
	if !strings.Contains(s.stderr.String(), "stopping: ") || !strings.Contains(s.stderr.String(), "msg=stopped") {
		t.Errorf("stderr = %q, want log lines \"stopping: \" and \"stopped\"", &s.stderr)
	}
	s = serve(t, args...)
	_, out, _ := run(t, "tasks", "get", "--server", s.url, strings.TrimSpace(id))
	if !strings.Contains(out, "well done") {
		t.Errorf("the task after the restart:\n%s\nwant the result from before the stop", out)
	}
}

// waitUntilWorking waits until a task runs.
func waitUntilWorking(t *testing.T, url string) {
	t.Helper()
	await.True(t, "a task is working", func() bool {
		resp, err := http.Post(url, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{"states":["working"]}}`))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		return err == nil && strings.Contains(string(text), `"kind":"task"`)
	})
}

// A waiting client continues after the server is killed in the middle of a document and restarted.
func TestSendSurvivesKillAndRestart(t *testing.T) {
	t.Parallel()
	data, doc := t.TempDir(), longText(t, 20)
	args := []string{"--data", data, "--agent", "summarize"}
	s := serve(t, append(args, "--addr", anyPort)...)
	addr := strings.TrimPrefix(s.url, "http://")
	s.signal(t, syscall.SIGTERM)
	s.wait(t)

	args = append(args, "--addr", addr)
	s = serve(t, append(args, "--page-delay", "100ms")...)
	send := command(t, "send", "--stream", "--server", s.url, "-f", doc)
	var out bytes.Buffer
	send.Stdout = &out
	stderr, err := send.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := send.Start(); err != nil {
		t.Fatal(err)
	}
	log := ""
	killed := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		log += lines.Text() + "\n"
		if !killed && strings.Contains(lines.Text(), "page 4") {
			killed = true
			s.signal(t, syscall.SIGKILL)
			s.wait(t)
			serve(t, append(args, "--page-delay", "1ms")...)
		}
	}
	_ = send.Wait()
	if send.ProcessState.ExitCode() != 0 || !strings.Contains(out.String(), "keeper") || !strings.Contains(log, "connection lost") || !strings.Contains(log, "completed:") {
		t.Errorf("send across kill -9 = %d, %q,\n%s\nwant 0, the summary, and a line about the lost connection", send.ProcessState.ExitCode(), &out, log)
	}
}
