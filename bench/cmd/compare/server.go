package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
)

const (
	startTimeout = 20 * time.Second
	stopTimeout  = 5 * time.Second
)

// server is a running process.
type server struct {
	url     string // without the path of its contender
	binding loadgen.Binding
	path    string
	grpc    string // address of its gRPC server; "" for none
	cmd     *exec.Cmd
	log     string
	done    chan struct{} // closed when the process has ended
	db      *database     // the database that it uses; nil for none
}

// startServer starts binary on a free port and waits until it responds to HTTP requests. The
// process outlives ctx; only stop ends it.
func startServer(ctx context.Context, binary, log string, args func(addr string) []string) (*server, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	output, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }() // the process has its own file descriptor
	cmd := exec.Command(binary, args(addr)...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = sysProcAttr()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{url: "http://" + addr + "/", cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // exited returns the exit status
		close(s.done)
	}()
	if err := s.ready(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func freeAddr(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (s *server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("%s does not answer within %v", s.cmd, startTimeout))
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+".well-known/agent-card.json", nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			return resp.Body.Close() // with any status
		}
		select {
		case <-retry.C:
		case <-s.done:
			return s.exited()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// target returns the URL to which requests are made.
func (s *server) target() string {
	if s.grpc != "" {
		return "http://" + s.grpc + "/"
	}
	return s.url + s.path
}

// readyGRPC waits until the gRPC server accepts connections.
func (s *server) readyGRPC(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("%s does not accept gRPC within %v", s.cmd, startTimeout))
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		var d net.Dialer
		if conn, err := d.DialContext(ctx, "tcp", s.grpc); err == nil {
			return conn.Close()
		}
		select {
		case <-retry.C:
		case <-s.done:
			return s.exited()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// exited returns nil while the process runs, and then an error with its exit status and its last
// line of output.
func (s *server) exited() error {
	select {
	case <-s.done:
	default:
		return nil
	}
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return fmt.Errorf("%s has ended (%v): %s", s.cmd, s.cmd.ProcessState, lines[len(lines)-1])
}

// stop ends the process, if necessary by SIGKILL, and waits for it.
func (s *server) stop() {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		return
	}
	select {
	case <-s.done:
	case <-time.After(stopTimeout):
		_ = s.cmd.Process.Kill()
		<-s.done
	}
}
