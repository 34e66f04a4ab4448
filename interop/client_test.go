package interop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/await"
)

// eachForeign runs a test of our client with each server of another project. columns are the
// columns of the table that it covers.
func eachForeign(t *testing.T, test func(t *testing.T, url string, cfg client.Config, g *gates), columns ...scenario) {
	t.Helper()
	for _, f := range foreignServers {
		t.Run(fmt.Sprintf("%s %s %s", f.name, f.version, f.binding), func(t *testing.T) {
			t.Parallel()
			serverResults.record(t, f.peerInfo, columns...)
			g := new(gates)
			url := f.start(t, g)
			test(t, url, client.Config{URL: url, Version: f.version, Transport: f.transport}, g)
		})
	}
}

func connect(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.Discover(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Discover() = %v", err)
	}
	return c
}

func sendAndWait(t *testing.T, c *client.Client, m a2a.Message) *a2a.Task {
	t.Helper()
	event, err := c.Send(t.Context(), client.SendParams{Message: m, Configuration: &a2a.MessageSendConfiguration{Blocking: true}})
	task, ok := event.(*a2a.Task)
	if err != nil || !ok {
		t.Fatalf("Send(%s) = %+v, %v, want a task", m.Text(), event, err)
	}
	return task
}

func TestOurClientDiscoversForeignInterfaces(t *testing.T) {
	t.Parallel()
	eachForeign(t, func(t *testing.T, _ string, cfg client.Config, _ *gates) {
		if got := connect(t, cfg).Interface(); got.ProtocolVersion != cfg.Version || got.Transport != cfg.Transport {
			t.Errorf("Interface() = %+v, want %s %s", got, cfg.Transport, cfg.Version)
		}
	}, cardScenario)
}

func TestOurClientSends(t *testing.T) {
	t.Parallel()
	eachForeign(t, func(t *testing.T, _ string, cfg client.Config, _ *gates) {
		c, ctx := connect(t, cfg), t.Context()
		asked := sendAndWait(t, c, client.Text("ask"))
		if asked.Status.State != a2a.StateInputRequired || asked.Status.Message == nil || asked.Status.Message.Text() != "which one?" {
			t.Fatalf("Send(ask) = %+v, want a question", asked)
		}
		m := client.Text("this")
		m.TaskID, m.ContextID = asked.ID, asked.ContextID
		if task := sendAndWait(t, c, m); task.ID != asked.ID || task.Status.State != a2a.StateCompleted || task.Status.Message.Text() != "again: this" {
			t.Errorf("Send(answer) = %+v, want the same task, completed", task)
		}
		if got, err := c.Task(ctx, a2a.TaskQueryParams{ID: asked.ID}); err != nil || got.Status.State != a2a.StateCompleted {
			t.Errorf("Task() = %+v, %v, want it completed", got, err)
		}
		event, err := c.Send(ctx, client.SendParams{Message: client.Text("say"), Configuration: &a2a.MessageSendConfiguration{Blocking: true}})
		if m, ok := event.(*a2a.Message); err != nil || !ok || m.Text() != "hi" {
			t.Errorf("Send(say) = %+v, %v, want a message", event, err)
		}
	}, sendScenario, messageScenario, turnsScenario)
}

func TestOurClientSendsAndReceivesFiles(t *testing.T) {
	t.Parallel()
	eachForeign(t, func(t *testing.T, _ string, cfg client.Config, _ *gates) {
		content := []byte{0, 255, 7}
		if cfg.Version == client.Version03 && cfg.Transport == client.TransportREST {
			content = []byte("AP8H") // this server drops content that is not base64 itself
		}
		task := sendAndWait(t, connect(t, cfg), client.UserMessage(
			a2a.FilePart{File: a2a.FileWithBytes{Name: "a.bin", MimeType: "application/octet-stream", Bytes: content}},
			a2a.FilePart{File: a2a.FileWithURI{Name: "b.txt", MimeType: "text/plain", URI: "https://example.com/b.txt"}},
			a2a.DataPart{Data: map[string]any{"n": "x"}},
		))
		if len(task.Artifacts) != 1 || len(task.Artifacts[0].Parts) != 3 {
			t.Fatalf("artifacts = %+v, want one with the three parts", task.Artifacts)
		}
		parts := task.Artifacts[0].Parts
		file, _ := parts[0].(a2a.FilePart)
		if f, ok := file.File.(a2a.FileWithBytes); !ok || !bytes.Equal(f.Bytes, content) || f.Name != "a.bin" || f.MimeType != "application/octet-stream" {
			t.Errorf("file with bytes = %+v", parts[0])
		}
		file, _ = parts[1].(a2a.FilePart)
		if f, ok := file.File.(a2a.FileWithURI); !ok || f.URI != "https://example.com/b.txt" || f.Name != "b.txt" {
			t.Errorf("file with a URI = %+v", parts[1])
		}
		data, _ := parts[2].(a2a.DataPart)
		if object, _ := data.Data.(map[string]any); object["n"] != "x" {
			t.Errorf("data = %+v", parts[2])
		}
	}, filesScenario)
}

// followed is what a stream yielded.
type followed struct {
	id     string
	state  a2a.TaskState
	chunks string
}

// add adds an update.
func (f *followed) add(e a2a.Event) {
	switch e := e.(type) {
	case *a2a.Task:
		f.id, f.state, f.chunks = e.ID, e.Status.State, ""
		for _, artifact := range e.Artifacts {
			f.chunks += strings.ReplaceAll(artifact.Text(), "\n", "") // of several parts
		}
	case *a2a.TaskStatusUpdateEvent:
		f.id, f.state = e.TaskID, e.Status.State
	case *a2a.TaskArtifactUpdateEvent:
		f.chunks += e.Artifact.Text()
	}
}

func TestOurClientStreams(t *testing.T) {
	t.Parallel()
	eachForeign(t, func(t *testing.T, _ string, cfg client.Config, _ *gates) {
		c := connect(t, cfg)
		for text, want := range map[string]followed{
			"chunks": {state: a2a.StateCompleted, chunks: "one two"}, "ask": {state: a2a.StateInputRequired},
		} {
			var got followed
			for u, err := range c.Stream(t.Context(), client.SendParams{Message: client.Text(text)}) {
				if err != nil {
					t.Fatalf("Stream(%s) = %v", text, err)
				}
				got.add(u.Event)
			}
			if got.id == "" || got.state != want.state || got.chunks != want.chunks {
				t.Errorf("Stream(%s) = %+v, want %+v", text, got, want)
			}
		}
	}, streamScenario)
}

// cutter ends the first stream with an error after two events. It calls resumed, if not nil, when a
// server has the request for the second stream.
type cutter struct {
	streams atomic.Int32
	resumed func()
}

func (c *cutter) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.streams.Load() == 1 && c.resumed != nil {
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { c.resumed() }}))
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return resp, err
	}
	if c.streams.Add(1) == 1 {
		resp.Body = &cutBody{ReadCloser: resp.Body, events: 2}
	}
	return resp, nil
}

type cutBody struct {
	io.ReadCloser
	events int
	last   byte
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.events == 0 {
		return 0, errors.New("connection reset")
	}
	n, err := b.ReadCloser.Read(p[:1])
	if n == 1 {
		if p[0] == '\n' && b.last == '\n' {
			b.events--
		}
		b.last = p[0]
	}
	return n, err
}

func TestOurClientResumesALostStream(t *testing.T) {
	t.Parallel()
	eachForeign(t, func(t *testing.T, _ string, cfg client.Config, g *gates) {
		reconnects := 0
		cfg.HTTPClient = &http.Client{Transport: &cutter{resumed: func() { close(g.of("a")) }}}
		cfg.OnReconnect = func(client.Reconnect) { reconnects++ }
		c := connect(t, cfg)
		var got followed
		for u, err := range c.Stream(t.Context(), client.SendParams{Message: client.Text("slow a")}) {
			if err != nil {
				t.Fatalf("Stream() = %v", err)
			}
			got.add(u.Event)
		}
		if reconnects != 1 || got.state != a2a.StateCompleted || got.chunks != "one two" {
			t.Errorf("Stream() = %+v after %d reconnects, want all chunks after one", got, reconnects)
		}
	}, lostScenario)
}

func TestClientReadsTheFinalStateAfterReconnect(t *testing.T) {
	t.Parallel()
	eachForeign(t, func(t *testing.T, _ string, cfg client.Config, g *gates) {
		other := connect(t, cfg)
		cfg.HTTPClient = &http.Client{Transport: new(cutter)}
		cfg.OnReconnect = func(r client.Reconnect) {
			close(g.of("b"))
			await.True(t, "the task is finished", func() bool {
				task, err := other.Task(t.Context(), a2a.TaskQueryParams{ID: r.TaskID})
				return err == nil && task.Status.State.Terminal()
			})
		}
		var got followed
		for u, err := range connect(t, cfg).Stream(t.Context(), client.SendParams{Message: client.Text("slow b")}) {
			if err != nil {
				t.Fatalf("Stream() = %v", err)
			}
			got.add(u.Event)
		}
		if got.state != a2a.StateCompleted || got.chunks != "one two" {
			t.Errorf("Stream() = %+v, want the finished task", got)
		}
	}, lostScenario)
}

func TestOurClientCancels(t *testing.T) {
	t.Parallel()
	eachForeign(t, func(t *testing.T, _ string, cfg client.Config, _ *gates) {
		c, ctx := connect(t, cfg), t.Context()
		event, err := c.Send(ctx, client.SendParams{Message: client.Text("wait")})
		task, ok := event.(*a2a.Task)
		if err != nil || !ok {
			t.Fatalf("Send(wait) = %+v, %v, want a task", event, err)
		}
		if got, err := c.Cancel(ctx, task.ID); err != nil || got.Status.State != a2a.StateCanceled {
			t.Errorf("Cancel() = %+v, %v, want it canceled", got, err)
		}
		if _, err := c.Cancel(ctx, sendAndWait(t, c, client.Text("chunks")).ID); a2a.CodeOf(err) != a2a.CodeTaskNotCancelable {
			t.Errorf("Cancel(finished) = %v (%s), want %s", err, a2a.CodeOf(err), a2a.CodeTaskNotCancelable)
		}
	}, cancelScenario)
}

func TestOurClientDecodesForeignErrors(t *testing.T) {
	t.Parallel()
	eachForeign(t, func(t *testing.T, _ string, cfg client.Config, _ *gates) {
		c, ctx := connect(t, cfg), t.Context()
		if _, err := c.Task(ctx, a2a.TaskQueryParams{ID: "none"}); !errors.Is(err, a2a.ErrTaskNotFound) {
			t.Errorf("Task(none) = %v (%s), want %s", err, a2a.CodeOf(err), a2a.CodeTaskNotFound)
		}
		if _, err := c.ListContexts(ctx, a2a.ListContextsParams{}); a2a.CodeOf(err) != a2a.CodeMethodNotFound || !strings.Contains(err.Error(), "does not support contexts/list") {
			t.Errorf("ListContexts() = %v (%s), want %s", err, a2a.CodeOf(err), a2a.CodeMethodNotFound)
		}
		for _, err := range c.Resubscribe(ctx, "none", "") {
			if !errors.Is(err, a2a.ErrTaskNotFound) {
				t.Errorf("Resubscribe(none) = %v (%s), want %s", err, a2a.CodeOf(err), a2a.CodeTaskNotFound)
			}
		}
	}, errorsScenario)
}

func TestOurClientManagesForeignWebhooks(t *testing.T) {
	t.Parallel()
	eachForeign(t, func(t *testing.T, _ string, cfg client.Config, _ *gates) {
		c, ctx := connect(t, cfg), t.Context()
		task := sendAndWait(t, c, client.Text("ask"))
		hook := a2a.TaskPushNotificationConfig{TaskID: task.ID, Config: a2a.PushNotificationConfig{
			ID: "mine", URL: "https://203.0.114.1/hook", Token: "t",
			Authentication: a2a.PushNotificationAuthenticationInfo{Schemes: []string{"Bearer"}, Credentials: "c"},
		}}
		if got, err := c.SetWebhook(ctx, hook); err != nil || got.Config.ID != "mine" || got.Config.URL != hook.Config.URL {
			t.Fatalf("SetWebhook() = %+v, %v", got, err)
		}
		if got, err := c.GetWebhook(ctx, a2a.GetTaskPushNotificationConfigParams{TaskID: task.ID, ConfigID: "mine"}); err != nil || got.Config.URL != hook.Config.URL {
			t.Errorf("GetWebhook() = %+v, %v", got, err)
		}
		if list, err := c.ListWebhooks(ctx, task.ID); err != nil || len(list) != 1 || list[0].Config.ID != "mine" {
			t.Errorf("ListWebhooks() = %+v, %v, want one", list, err)
		}
		if err := c.DeleteWebhook(ctx, task.ID, "mine"); err != nil {
			t.Errorf("DeleteWebhook() = %v", err)
		}
		if list, err := c.ListWebhooks(ctx, task.ID); err != nil || len(list) != 0 {
			t.Errorf("ListWebhooks() = %+v, %v, want none", list, err)
		}
	}, pushScenario)
}

func TestOurCommandsUseForeignServers(t *testing.T) {
	t.Parallel()
	eachForeign(t, func(t *testing.T, url string, cfg client.Config, _ *gates) {
		transport := map[string]string{client.TransportJSONRPC: "jsonrpc", client.TransportREST: "rest"}[cfg.Transport]
		run := func(want string, args ...string) string {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), binary, append(args, "--protocol", cfg.Version, "--transport", transport)...)
			cmd.Env = append(os.Environ(), "HOLDFAST_SERVER=")
			out, err := cmd.CombinedOutput()
			if !strings.Contains(string(out), want) {
				t.Errorf("holdfast %s = %s, %v, want %q", strings.Join(args, " "), out, err, want)
			}
			return string(out)
		}
		run("one two", "send", "--stream", url, "chunks")
		run("completed", "send", url, "chunks")
		run("which one?", "send", url, "ask")
		run("hi", "send", url, "say")
		run("thanks", "chat", url, "hello")
		run("interface", "card", url)
		run("does not support contexts/list", "contexts", "list", "--server", url)
		task := sendAndWait(t, connect(t, cfg), client.Text("chunks"))
		run("two", "tasks", "get", task.ID, "--server", url+"/.well-known/agent-card.json")
		run(`"state":"completed"`, "tasks", "get", "--json", task.ID, "--server", url)
		run("not found", "tasks", "get", "none", "--server", url)
	})
}

func TestOurReceiverAcceptsForeignRequests(t *testing.T) {
	t.Parallel()
	for _, f := range foreignServers {
		t.Run(f.name+" "+f.version+" "+f.binding, func(t *testing.T) {
			t.Parallel()
			states := make(chan a2a.TaskState, 100)
			receiver, err := client.NewReceiver(client.ReceiverConfig{
				Tokens:   []string{"sesame"},
				OnReject: func(_ *http.Request, err error) { t.Errorf("rejected: %v", err) },
				Handle: func(_ context.Context, e client.WebhookEvent) error {
					switch event := e.Event.(type) {
					case *a2a.Task:
						states <- event.Status.State
					case *a2a.TaskStatusUpdateEvent:
						states <- event.Status.State
					}
					return nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			s := httptest.NewServer(receiver)
			t.Cleanup(s.Close)
			c := connect(t, client.Config{URL: f.start(t, new(gates)), Version: f.version, Transport: f.transport})
			hook := &a2a.PushNotificationConfig{ID: "mine", URL: s.URL, Token: "sesame"}
			_, err = c.Send(t.Context(), client.SendParams{
				Message: client.Text("chunks"), Configuration: &a2a.MessageSendConfiguration{Blocking: true, PushNotificationConfig: hook},
			})
			if err != nil {
				t.Fatalf("Send() = %v", err)
			}
			for {
				select {
				case state := <-states:
					if state == a2a.StateCompleted {
						return
					}
				case <-time.After(20 * time.Second):
					t.Fatal("the receiver gets no completed task")
				}
			}
		})
	}
}
