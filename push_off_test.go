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
)

// told is what webhooks have been sent, by their paths: "sequence state" of each event.
type told struct {
	mu      sync.Mutex
	refuses bool // what goes to /late
	events  map[string][]string
	changed chan struct{}
}

func (r *told) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var event struct {
		Sequence int
		Status   struct{ State string }
	}
	err := json.NewDecoder(req.Body).Decode(&event)
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprint(event.Sequence, " ", event.Status.State)
	if r.refuses && req.URL.Path == "/late" {
		w.WriteHeader(http.StatusServiceUnavailable)
		text += " refused"
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

func (r *told) refuse(refuses bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = refuses
}

// forget returns what was told, and counts from here.
func (r *told) forget() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.events
	r.events = make(map[string][]string)
	return was
}

// until waits for an event that a path is told.
func (r *told) until(t *testing.T, path, event string) {
	t.Helper()
	for late := time.After(30 * time.Second); ; {
		r.mu.Lock()
		there := slices.Contains(r.events[path], event)
		all := fmt.Sprint(r.events)
		r.mu.Unlock()
		if there {
			return
		}
		select {
		case <-r.changed:
		case <-late:
			t.Fatalf("webhooks were told %s, want %q at %s", all, event, path)
		}
	}
}

// serveFrom runs an agent over the store of a directory until stop is called. A task asks
// once, then ends.
func serveFrom(t *testing.T, dir string, off bool) (c *client.Client, stop func()) {
	t.Helper()
	agent, err := holdfast.New(holdfast.Config{
		Name: "a", DataDir: dir, Webhooks: holdfast.Webhooks{Off: off, AllowNets: []string{"127.0.0.0/8"}},
	}, holdfast.HandlerFunc(func(_ context.Context, t *holdfast.Turn) error {
		if t.Text() == "begin" {
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

func TestWebhooksThatAreTurnedOffGoOnWhereTheyWere(t *testing.T) {
	t.Parallel()
	receiver := &told{refuses: true, events: make(map[string][]string), changed: make(chan struct{}, 1)}
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	dir := t.TempDir()

	c, stop := serveFrom(t, dir, false)
	begin := func(path string) (id string) {
		t.Helper()
		configuration := &a2a.MessageSendConfiguration{Blocking: true, PushNotificationConfig: &a2a.PushNotificationConfig{URL: server.URL + path}}
		got, err := c.Send(t.Context(), client.SendParams{Message: client.Text("begin"), Configuration: configuration})
		if err != nil {
			t.Fatal(err)
		}
		return got.(*a2a.Task).ID
	}
	tasks := []string{begin("/heard"), begin("/late")}
	receiver.until(t, "/heard", "2 input-required")
	receiver.until(t, "/late", "1 working refused")
	stop()

	receiver.forget()
	c, stop = serveFrom(t, dir, true)
	for _, id := range tasks {
		if _, err := c.ListWebhooks(t.Context(), id); a2a.CodeOf(err) != a2a.CodePushNotSupported {
			t.Errorf("webhooks while they are off = %v, want push_notification_not_supported", err)
		}
		m := client.Text("go on")
		m.TaskID = id
		got, err := c.Send(t.Context(), client.SendParams{Message: m, Configuration: &a2a.MessageSendConfiguration{Blocking: true}})
		if err != nil || got.(*a2a.Task).Status.State != a2a.StateCompleted {
			t.Fatalf("a message while webhooks are off = %+v, %v, want the task completed", got, err)
		}
	}
	stop() // nothing is sent any more
	if got := receiver.forget(); len(got) > 0 {
		t.Errorf("while webhooks are off they were told %v, want nothing", got)
	}

	receiver.refuse(false)
	c, stop = serveFrom(t, dir, false)
	receiver.until(t, "/heard", "4 completed")
	receiver.until(t, "/late", "4 completed")
	for _, id := range tasks {
		all, err := c.ListWebhooks(t.Context(), id)
		if err != nil || len(all) != 1 {
			t.Errorf("webhooks of task %s = %v, %v, want the one that was registered", id, all, err)
		}
	}
	stop()
	got := receiver.forget()
	for path, want := range map[string][]string{
		"/heard": {"3 working", "4 completed"},
		"/late":  {"1 working", "2 input-required", "3 working", "4 completed"},
	} {
		if !slices.Equal(got[path], want) {
			t.Errorf("%s was told %q once webhooks were on again, want %q", path, got[path], want)
		}
	}
}
