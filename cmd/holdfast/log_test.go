package main_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/await"
)

// wantJSONLines checks that every line is a log record and that text contains every wanted message.
func wantJSONLines(t *testing.T, text string, want ...string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var record struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time == "" || record.Level == "" || record.Msg == "" {
			t.Errorf("line %q of stderr is no JSON log record: %v", line, err)
		}
	}
	for _, msg := range want {
		if !strings.Contains(text, msg) {
			t.Errorf("stderr lacks %q:\n%s", msg, text)
		}
	}
}

func TestJSONLogHasEveryLine(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signals")
	}
	cmd := command(t, "serve", "--log-format", "json", "--log-level", "debug", "--addr", "0.0.0.0:0", "--data", filepath.Join(t.TempDir(), "data"), "--exec", "sh -c 'echo oops >&2; echo done'", "--exec-plain")
	cmd.Env = append(cmd.Env, "HOLDFAST_LEESE=1", "DATABASE_URL=mysql://example", "WEBHOOK_TOKEN=x")
	s := &server{cmd: cmd, done: make(chan struct{})}
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &s.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-s.done
	})
	s.waitForLog(t, `"msg":"listening"`, 1)
	_, rest, _ := strings.Cut(s.stderr.String(), `"url":"`)
	url, _, _ := strings.Cut(rest, `"`)
	if code, _, stderr := run(t, "send", "--server", url, "x"); code != 0 {
		t.Errorf("send = %d, %q", code, stderr)
	}
	// A request about which net/http itself logs an error.
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write([]byte("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"))
	_ = conn.SetReadDeadline(time.Now().Add(await.Limit))
	_, _ = io.ReadAll(conn)
	conn.Close()
	s.signal(t, syscall.SIGHUP)
	s.waitForLog(t, "nothing to reload", 1)
	s.signal(t, syscall.SIGTERM)
	if code := s.wait(t); code != 0 {
		t.Errorf("code after SIGTERM = %d, want 0", code)
	}
	wantJSONLines(t, s.stderr.String(), "listening", "no token is required", "HOLDFAST_LEESE", "WEBHOOK_TOKEN has no effect", "oops", "nothing to reload", "stopping: ", `"msg":"stopped"`)
	if stdout.Len() > 0 {
		t.Errorf("stdout = %q, want all output in the log", &stdout)
	}
}

// An error at startup is a log record too.
func TestJSONLogHasTheErrorOfTheStart(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"several problems": {"--lease", "5", "--concurrency", "0"},
		"no such flag":     {"--no-such-flag"},
		"bad address":      {"--addr", "192.0.2.1:0"},
	} {
		code, _, stderr := run(t, append([]string{"serve", "--log-format=json", "--storage", "memory"}, args...)...)
		if code != 2 || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: %d, %q, want 2 and one line", name, code, stderr)
		}
		wantJSONLines(t, stderr, `"level":"ERROR"`)
	}
}

func TestVersionFlag(t *testing.T) {
	t.Parallel()
	_, want, _ := run(t, "version")
	if code, got, stderr := run(t, "--version"); code != 0 || got != want || stderr != "" || !strings.HasPrefix(got, "holdfast ") {
		t.Errorf("--version = %d, %q, %q, want 0, %q", code, got, stderr, want)
	}
}
