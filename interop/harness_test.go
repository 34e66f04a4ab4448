package interop_test

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	"github.com/a2aproject/a2a-go/a2aclient/agentcard"
)

// binary is the command under test.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if binary = os.Getenv("HOLDFAST_BIN"); binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "holdfast-interop-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "holdfast")
	build := exec.Command("go", "build", "-o", binary, "./cmd/holdfast")
	build.Dir, build.Stdout, build.Stderr = "..", os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build holdfast:", err)
		return 1
	}
	return m.Run()
}

// server is a holdfast process. Its place on disk and on the network stay when it
// is started again.
type server struct {
	t    *testing.T
	args []string
	url  string
	cmd  *exec.Cmd
	log  *os.File
}

// start runs holdfast serve until the test ends.
func start(t *testing.T, args ...string) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	s := &server{
		t: t, url: "http://" + addr + "/", log: log,
		args: append([]string{"serve", "--addr", addr, "--data", filepath.Join(dir, "data")}, args...),
	}
	s.start()
	t.Cleanup(func() {
		s.kill()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("log of the server:\n%s", text)
		}
		_ = log.Close()
	})
	return s
}

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command(binary, s.args...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.Env = append(os.Environ(), "TCK_STREAMING_TIMEOUT=1")
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get(s.url + "healthz")
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

func (s *server) card() *a2a.AgentCard {
	s.t.Helper()
	card, err := agentcard.DefaultResolver.Resolve(s.t.Context(), s.url)
	if err != nil {
		s.t.Fatalf("resolve card: %v", err)
	}
	return card
}

// client is made from the agent's card, as a stranger would.
func (s *server) client(opts ...a2aclient.FactoryOption) *a2aclient.Client {
	s.t.Helper()
	c, err := a2aclient.NewFromCard(s.t.Context(), s.card(), opts...)
	if err != nil {
		s.t.Fatalf("client from card: %v", err)
	}
	s.t.Cleanup(func() { _ = c.Destroy() })
	return c
}

// message returns a user's message whose id has the given prefix, by which the conformance
// agent chooses what to do.
func message(id string, parts ...a2a.Part) *a2a.Message {
	if len(parts) == 0 {
		parts = []a2a.Part{a2a.TextPart{Text: "hello"}}
	}
	m := a2a.NewMessage(a2a.MessageRoleUser, parts...)
	m.ID = id + "-" + m.ID
	return m
}

func params(m *a2a.Message, blocking bool) *a2a.MessageSendParams {
	return &a2a.MessageSendParams{Message: m, Config: &a2a.MessageSendConfig{Blocking: &blocking}}
}

// sendTask sends a message and returns the task that answers it.
func sendTask(ctx context.Context, t *testing.T, c *a2aclient.Client, p *a2a.MessageSendParams) *a2a.Task {
	t.Helper()
	result, err := c.SendMessage(ctx, p)
	if err != nil {
		t.Fatalf("SendMessage() = %v", err)
	}
	task, ok := result.(*a2a.Task)
	if !ok {
		t.Fatalf("SendMessage() = %T, want a task", result)
	}
	return task
}

func getTask(t *testing.T, c *a2aclient.Client, id a2a.TaskID) *a2a.Task {
	t.Helper()
	task, err := c.GetTask(t.Context(), &a2a.TaskQueryParams{ID: id})
	if err != nil {
		t.Fatalf("GetTask() = %v", err)
	}
	return task
}

// streamed is what a stream returned.
type streamed struct {
	task   *a2a.Task // its first event
	states []a2a.TaskState
	chunks []string // texts of artifact chunks
	said   []string
	final  int // events that say they are the last
}

// read takes a stream in, to its end or until stop says so.
func read(t *testing.T, events iter.Seq2[a2a.Event, error], stop func(*streamed) bool) *streamed {
	t.Helper()
	got := new(streamed)
	for event, err := range events {
		if err != nil {
			t.Fatalf("stream: %v", err)
		}
		switch e := event.(type) {
		case *a2a.Task:
			if got.task != nil || len(got.states) > 0 {
				t.Error("a task comes in the middle of a stream")
			}
			got.task = e
		case *a2a.TaskStatusUpdateEvent:
			got.states = append(got.states, e.Status.State)
			if e.Status.Message != nil {
				got.said = append(got.said, text(e.Status.Message.Parts))
			}
			if e.Final {
				got.final++
			}
		case *a2a.TaskArtifactUpdateEvent:
			if chunk := text(e.Artifact.Parts); chunk != "" {
				got.chunks = append(got.chunks, chunk)
			}
		default:
			t.Errorf("stream: unexpected %T", event)
		}
		if stop != nil && stop(got) {
			return got
		}
	}
	if got.task == nil {
		t.Error("the stream does not start with the task")
	}
	return got
}

// last is the state in which a stream ended.
func (s *streamed) last() a2a.TaskState {
	if len(s.states) > 0 {
		return s.states[len(s.states)-1]
	}
	return s.task.Status.State
}

func text(parts a2a.ContentParts) string {
	var texts []string
	for _, p := range parts {
		if t, ok := p.(a2a.TextPart); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "")
}

func wantState(t *testing.T, task *a2a.Task, want a2a.TaskState) {
	t.Helper()
	if task.Status.State == want {
		return
	}
	said := ""
	if task.Status.Message != nil {
		said = text(task.Status.Message.Parts)
	}
	t.Fatalf("task is %s (%s), want %s", task.Status.State, said, want)
}
