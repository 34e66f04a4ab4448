package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/await"
)

func TestAgentServesItsProfileUntilItIsStopped(t *testing.T) {
	t.Parallel()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- run(ctx, []string{"-profile", "v10", "-addr", addr}, new(bytes.Buffer)) }()
	await.Success(t, func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
	stop()
	if err := <-served; err != nil {
		t.Errorf("run() = %v, want nil", err)
	}
}

func TestUnknownProfileIsAnError(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), []string{"-profile", "v99"}, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "v03, v03-noPush") {
		t.Errorf("run(unknown profile) = %v, want the known profiles", err)
	}
	help := new(bytes.Buffer)
	if err := run(t.Context(), []string{"-help"}, help); err == nil || !strings.Contains(help.String(), "v10-off") {
		t.Errorf("run(-help) printed %s, want the profiles", help)
	}
}
