package grpc_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	holdgrpc "github.com/holdfast-dev/holdfast/server/grpc"
)

// env is an agent that serves HTTP and gRPC on loopback.
type env struct {
	t      testing.TB
	agent  *holdfast.Agent
	server *holdgrpc.Server
	http   string // the URL of the HTTP server
	addr   string // of the gRPC server
	conn   *grpc.ClientConn
	served chan error
}

// start starts an agent. change may be nil.
func start(t testing.TB, change func(*holdfast.Config)) *env {
	t.Helper()
	cfg := holdfast.Config{Name: "tester", Card: a2a.AgentCard{Version: "1.2.3", DefaultInputModes: []string{"*/*"}}, Store: inmem.New(), Turns: engine.Turns{FlushInterval: time.Millisecond}}
	cfg.Webhooks.AllowNets = []string{"127.0.0.0/8"}
	if change != nil {
		change(&cfg)
	}
	agent, err := holdfast.New(cfg, holdfast.HandlerFunc(handle))
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	s, err := holdgrpc.New(agent.Server(), holdgrpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &env{t: t, agent: agent, server: s, addr: ln.Addr().String(), served: make(chan error, 1)}
	go func() { e.served <- s.Serve(ln) }()
	ts := httptest.NewServer(agent.Handler())
	e.http = ts.URL + "/"
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = agent.Stop(ctx)
		ts.CloseClientConnections()
		ts.Close()
		if err := <-e.served; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
	e.conn = e.dial()
	return e
}

// dial returns a connection of its own.
func (e *env) dial(options ...grpc.DialOption) *grpc.ClientConn {
	e.t.Helper()
	conn, err := grpc.NewClient(e.addr, append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)...)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// post sends a JSON-RPC request.
func (e *env) post(body string) *http.Response {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), http.MethodPost, e.http, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		e.t.Fatal(err)
	}
	return resp
}

// handle is the agent of the tests. The first word of the message determines what it does.
func handle(ctx context.Context, t *holdfast.Turn) error {
	text := t.Messages()[0].Text()
	word, _, _ := strings.Cut(text, " ")
	switch word {
	case "ask":
		return t.RequireInput("which?")
	case "wait":
		if err := t.Status("waiting"); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	case "panic":
		panic("on request")
	case "parts":
		return t.AddArtifact(a2a.Artifact{Name: "parts", Parts: t.Messages()[0].Parts})
	case "chunks":
		artifact := t.Artifact("chunks")
		for _, chunk := range []string{"one ", "two ", "three"} {
			if _, err := artifact.WriteString(chunk); err != nil {
				return err
			}
			if err := t.Flush(); err != nil {
				return err
			}
		}
		return artifact.Close()
	}
	return t.AddArtifact(a2a.Artifact{Name: "echo", Parts: []a2a.Part{a2a.TextPart{Text: text}}})
}
