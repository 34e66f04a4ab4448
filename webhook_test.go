package holdfast_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/webhook"
)

// A task that ends while the agent stops still notifies its webhook.
func TestServeDeliversLastEventsBeforeItReturns(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var states, agents []string
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var event struct {
			Sequence int
			Status   struct{ State string }
		}
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		agents = append(agents, r.UserAgent())
		states = append(states, fmt.Sprint(event.Sequence, " ", event.Status.State))
	}))
	t.Cleanup(receiver.Close)
	started, release := make(chan struct{}), make(chan struct{})
	agent, err := holdfast.New(holdfast.Config{
		Name: "a", Store: inmem.New(), Webhooks: webhook.Settings{AllowNets: []string{"127.0.0.0/8"}},
	}, holdfast.HandlerFunc(func(_ context.Context, t *holdfast.Turn) error {
		close(started)
		<-release
		return t.Reply("done")
	}))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- agent.Serve(ctx, ln) }()
	c, err := client.New(client.Config{URL: "http://" + ln.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	configuration := &a2a.MessageSendConfiguration{PushNotificationConfig: &a2a.PushNotificationConfig{URL: receiver.URL}}
	if _, err := c.Send(t.Context(), client.SendParams{Message: client.Text("hello"), Configuration: configuration}); err != nil {
		t.Fatal(err)
	}
	<-started
	stop()
	close(release)
	select {
	case err = <-served:
	case <-time.After(15 * time.Second):
		t.Fatal("Serve() did not return")
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"1 working", "2 completed"}; err != nil || !slices.Equal(states, want) {
		t.Errorf("Serve() = %v, the webhook received %q, want %q", err, states, want)
	}
	for _, agent := range agents {
		if name, version, _ := strings.Cut(agent, "/"); name != "holdfast" || version == "" {
			t.Errorf("the user agent is %q, want holdfast/ and a version", agent)
		}
	}
}

func TestWebhookConfigErrorsNameTheField(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]webhook.Settings{
		"10.0.0.0/99": {AllowNets: []string{"10.0.0.0/99"}},
		"nowhere":     {AllowHosts: []string{"nowhere"}},
		"EgressProxy": {EgressProxy: "http://user:hunter2@\x7f/"},
		"Keys[0]":     {Keys: [][]byte{[]byte("hunter2")}},
		"Secret":      {Global: webhook.Global{URL: "https://example.com/", Secret: "hunter2"}},
		"URL":         {Global: webhook.Global{URL: "ftp://hunter2/"}},
		"Token":       {Global: webhook.Global{URL: "https://example.com/", Token: "hunter2\n"}},
		"Timeout":     {Timeout: -1},
		"UserAgent":   {UserAgent: "a/1\r\n"},
	} {
		a, err := holdfast.New(holdfast.Config{Name: "a", Store: inmem.New(), Webhooks: w}, holdfast.HandlerFunc(shout))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("New(%+v) = %v, want an error that names %s without secrets", w, err, want)
		}
		if a != nil {
			_ = a.Stop(t.Context())
		}
	}
}

func TestWebhooksCanBeOff(t *testing.T) {
	t.Parallel()
	for _, off := range []bool{false, true} {
		agent, err := holdfast.New(holdfast.Config{Name: "a", Store: inmem.New(), Webhooks: webhook.Settings{Off: off}}, holdfast.HandlerFunc(shout))
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		agent.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/.well-known/agent-card.json", nil))
		if want := fmt.Sprintf(`"pushNotifications":%t`, !off); !strings.Contains(w.Body.String(), want) {
			t.Errorf("card with webhooks off %t = %s, want %s", off, w.Body, want)
		}
		if err := agent.Stop(t.Context()); err != nil {
			t.Errorf("Stop() = %v", err)
		}
	}
}

func TestWebhookLeaseMustExceedTimeout(t *testing.T) {
	t.Parallel()
	handler := holdfast.HandlerFunc(func(context.Context, *holdfast.Turn) error { return nil })
	for _, tt := range []struct {
		webhooks webhook.Settings
		want     string
	}{
		{webhook.Settings{Timeout: time.Minute}, ""},
		{webhook.Settings{Timeout: 2 * time.Second, Lease: 2 * time.Second}, ""},
		{webhook.Settings{Timeout: 15 * time.Second, Lease: 24 * time.Second}, "Lease is 24s, want 25s or more"},
	} {
		agent, err := holdfast.New(holdfast.Config{Name: "a", Store: inmem.New(), Webhooks: tt.webhooks}, handler)
		if agent != nil {
			_ = agent.Stop(t.Context())
		}
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("New(%+v) = %v, want %q", tt.webhooks, err, tt.want)
		}
	}
}

func TestPrivateWebhookAddressesAreLoggedOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		webhooks webhook.Settings
		want     string // text of the single warning, "" for none
	}{
		{webhook.Settings{}, ""},
		{webhook.Settings{AllowNets: []string{"10.1.0.0/16"}}, `nets=[10.1.0.0/16] hosts=[]`},
		{webhook.Settings{AllowHosts: []string{"localhost:8888"}}, `nets=[] hosts=[localhost:8888]`},
		{webhook.Settings{AllowHosts: []string{"localhost:8888"}, Off: true}, ""},
	} {
		var logged strings.Builder
		agent, err := holdfast.New(holdfast.Config{
			Name: "a", Store: inmem.New(), Webhooks: tt.webhooks, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
		}, holdfast.HandlerFunc(shout))
		if err != nil {
			t.Fatal(err)
		}
		if err := agent.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		warnings := strings.Count(logged.String(), "not public")
		if tt.want == "" && warnings != 0 || tt.want != "" && (warnings != 1 || !strings.Contains(logged.String(), tt.want)) {
			t.Errorf("New(%+v) logs %q, want one warning with %q if any", tt.webhooks, logged.String(), tt.want)
		}
	}
}
