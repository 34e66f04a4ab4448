package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

// The load generator checks every response, so a run without errors shows that the servers do the
// work that the comparison assumes.
func TestServersAnswerTheGenerator(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind      string
		scenarios []loadgen.Scenario
	}{
		{"echo", []loadgen.Scenario{loadgen.Echo}},
		{"floor", []loadgen.Scenario{loadgen.Send}},
		{"floor -storage sqlite -data " + t.TempDir(), []loadgen.Scenario{loadgen.Send}},
		{"official", []loadgen.Scenario{loadgen.Send, loadgen.SendGet, loadgen.Stream, loadgen.Get}},
		{"official-1.0", []loadgen.Scenario{loadgen.Send, loadgen.SendGet, loadgen.Stream, loadgen.Get}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			url := start(t, c.kind)
			bindings := map[loadgen.Binding]string{loadgen.JSONRPC03: ""}
			if c.kind == "official-1.0" {
				bindings = map[loadgen.Binding]string{loadgen.JSONRPC10: "", loadgen.REST10: "rest"}
			}
			for binding, path := range bindings {
				for _, s := range c.scenarios {
					r, err := loadgen.Run(t.Context(), loadgen.Config{URL: url + path, Binding: binding, Scenario: s, Concurrency: 4, Requests: 100, Tasks: 10})
					if err != nil || r.Requests != 100 || r.Errors != 0 {
						t.Errorf("%s, %s = %+v, %v, want 100 requests, no errors", binding, s, r, err)
					}
				}
			}
		})
	}
}

func TestOfficialServerAnswersOverGRPC(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, "official-1.0 -grpc-addr "+addr)
	for _, s := range []loadgen.Scenario{loadgen.Send, loadgen.SendGet, loadgen.Get} {
		r, err := loadgen.Run(t.Context(), loadgen.Config{URL: "http://" + addr + "/", Binding: loadgen.GRPC10, Scenario: s, Concurrency: 20, Requests: 100, Tasks: 10})
		if err != nil || r.Requests != 100 || r.Errors != 0 {
			t.Errorf("%s = %+v, %v, want 100 requests, no errors", s, r, err)
		}
	}
}

// The stream has each chunk once, with its time.
func TestOfficialServerStreamsChunks(t *testing.T) {
	t.Parallel()
	const body = `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"5 100 2ms 10ms"}]}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, start(t, "official-1.0-chunks"), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("A2A-Version", "1.0")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	if n := len(regexp.MustCompile(`"@[0-9]{19}@x{79}"`).FindAll(text, -1)); n != 5 || !bytes.Contains(text, []byte("TASK_STATE_COMPLETED")) {
		t.Errorf("the stream has %d chunks, want 5 and a completed task:\n%s", n, text)
	}
}

func start(t *testing.T, kind string) (url string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stdout, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, append([]string{"-kind"}, strings.Fields(kind)...), w, io.Discard)
		_ = w.CloseWithError(err)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run = %v, want nil after the end of its context", err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func TestRunRefusesUnknownKinds(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), []string{"-kind", "x"}, io.Discard, io.Discard); err == nil {
		t.Error("run -kind x = nil, want an error")
	}
}
