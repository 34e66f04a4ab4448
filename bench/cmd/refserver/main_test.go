package main

import (
	"bufio"
	"context"
	"io"
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
