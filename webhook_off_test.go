package holdfast_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/webhook"
)

// recorder receives webhook requests and records "sequence state" of each event, by path.
type recorder struct {
	mu      sync.Mutex
	fails   bool // whether requests to /late fail
	events  map[string][]string
	changed chan struct{}
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var event struct {
		Sequence int
		Status   struct{ State string }
	}
	err := json.NewDecoder(req.Body).Decode(&event)
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprint(event.Sequence, " ", event.Status.State)
	if r.fails && req.URL.Path == "/late" {
		w.WriteHeader(http.StatusServiceUnavailable)
		text += " failed"
	}
	if err != nil {
		text = err.Error()
	}
	r.events[req.URL.Path] = append(r.events[req.URL.Path], text)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *recorder) setFails(fails bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails = fails
}

// reset returns the recorded events and clears them.
func (r *recorder) reset() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = make(map[string][]string)
	return events
}

// wait waits until a path has received an event.
func (r *recorder) wait(t *testing.T, path, event string) {
	t.Helper()
	for timeout := time.After(30 * time.Second); ; {
		r.mu.Lock()
		received := slices.Contains(r.events[path], event)
		all := fmt.Sprint(r.events)
		r.mu.Unlock()
		if received {
			return
		}
		select {
		case <-r.changed:
		case <-timeout:
			t.Fatalf("webhooks received %s, want %q at %s", all, event, path)
		}
	}
}

// serveFrom runs an agent with the store of a directory until stop is called. Its tasks ask
// for input once and then complete.
func serveFrom(t *testing.T, dir string, off bool) (c *client.Client, stop func()) {
	t.Helper()
	agent, err := holdfast.New(holdfast.Config{
		Name: "a", DataDir: dir, Webhooks: webhook.Settings{Off: off, AllowNets: []string{"127.0.0.0/8"}},
	}, holdfast.HandlerFunc(func(_ context.Context, t *holdfast.Turn) error {
		if t.Text() == "start" {
			return t.RequireInput("And now?")
		}
		return t.Reply("done")
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(agent.Handler())
	if c, err = client.New(client.Config{URL: server.URL}); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		server.Close()
		if err := agent.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Stop() = %v, want nil", err)
		}
	})
	t.Cleanup(stop)
	return c, stop
}

func TestDisabledWebhooksResumeAtTheirCursor(t *testing.T) {
	t.Parallel()
	receiver := &recorder{fails: true, events: make(map[string][]string), changed: make(chan struct{}, 1)}
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	dir := t.TempDir()

	c, stop := serveFrom(t, dir, false)
	start := func(path string) (id string) {
		t.Helper()
		configuration := &a2a.MessageSendConfiguration{Blocking: true, PushNotificationConfig: &a2a.PushNotificationConfig{URL: server.URL + path}}
		got, err := c.Send(t.Context(), client.SendParams{Message: client.Text("start"), Configuration: configuration})
		if err != nil {
			t.Fatal(err)
		}
		return got.(*a2a.Task).ID
	}
	tasks := []string{start("/received"), start("/late")}
	receiver.wait(t, "/received", "2 input-required")
	receiver.wait(t, "/late", "1 working failed")
	stop()

	receiver.reset()
	c, stop = serveFrom(t, dir, true)
	for _, id := range tasks {
		if _, err := c.ListWebhooks(t.Context(), id); a2a.CodeOf(err) != a2a.CodePushNotSupported {
			t.Errorf("webhooks while they are off = %v, want push_notification_not_supported", err)
		}
		m := client.Text("continue")
		m.TaskID = id
		got, err := c.Send(t.Context(), client.SendParams{Message: m, Configuration: &a2a.MessageSendConfiguration{Blocking: true}})
		if err != nil || got.(*a2a.Task).Status.State != a2a.StateCompleted {
			t.Fatalf("a message while webhooks are off = %+v, %v, want the task completed", got, err)
		}
	}
	stop()
	if got := receiver.reset(); len(got) > 0 {
		t.Errorf("webhooks received %v while they were off, want nothing", got)
	}

	receiver.setFails(false)
	c, stop = serveFrom(t, dir, false)
	receiver.wait(t, "/received", "4 completed")
	receiver.wait(t, "/late", "4 completed")
	for _, id := range tasks {
		all, err := c.ListWebhooks(t.Context(), id)
		if err != nil || len(all) != 1 {
			t.Errorf("webhooks of task %s = %v, %v, want the registered one", id, all, err)
		}
	}
	stop()
	got := receiver.reset()
	for path, want := range map[string][]string{
		"/received": {"3 working", "4 completed"},
		"/late":     {"1 working", "2 input-required", "3 working", "4 completed"},
	} {
		if !slices.Equal(got[path], want) {
			t.Errorf("%s received %q after webhooks were turned on, want %q", path, got[path], want)
		}
	}
}
