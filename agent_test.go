package holdfast_test

import (
	"bufio"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/webhook"
)

func TestServeOfStartedAgentLeavesItRunning(t *testing.T) {
	t.Parallel()
	agent, err := holdfast.New(holdfast.Config{Name: "a", DataDir: t.TempDir()}, holdfast.HandlerFunc(shout))
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ln, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Serve(t.Context(), ln); err == nil {
		t.Error("Serve() of a started agent = nil, want an error")
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	if status := status(agent, request); status != http.StatusOK {
		t.Errorf("health after Serve() = %d, want 200", status)
	}
	stopNow, cancel := context.WithCancel(t.Context())
	cancel()
	if err := agent.Stop(stopNow); err != nil {
		t.Errorf("Stop() = %v", err)
	}
}

// Each problem names the field as the literal of the Config writes it.
func TestConfigErrorsNameFieldsAsWritten(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	err = holdfast.Config{
		Name: "a", Card: a2a.AgentCard{Name: "b", URL: "example.com"}, Memory: 1,
		Tokens: []server.Token{{Token: "t"}}, Security: server.Security{CORSOrigins: []string{"example.com"}, TrustedProxies: []string{"proxy"}, CardKeys: []crypto.Signer{key}},
		Protocol: holdfast.Protocol{Dialect: "latin", HTTPErrors: "2", Tenant: "/"},
		Requests: server.Requests{MaxLists: 1, MessageWait: -1},
		Turns:    engine.Turns{MaxAttempts: -1, Concurrency: 4, Reserved: 4, RetryDelayMax: 1},
		Limits:   engine.Limits{Queued: 10, QueuedPerOwner: 11}, Files: engine.Files{LinkTTL: 1},
		Webhooks: webhook.Settings{
			Global: webhook.Global{URL: "http://10.0.0.1/"}, AllowNets: []string{"net"}, AllowHosts: []string{"host"}, NAT64: []string{"::1"},
			EgressProxy: "ftp://proxy", Keys: [][]byte{{1}}, Format: "xml", Limits: webhook.Limits{PerTask: -1}, Lease: 1, UserAgent: "a\n",
		},
		Fetch: holdfast.Fetch{AllowNets: []string{"net"}, AllowHosts: []string{"host"}, Concurrency: 1, Timeout: -1},
	}.Check()
	var problems *holdfast.ConfigError
	if !errors.As(err, &problems) {
		t.Fatalf("Check() = %v, want a ConfigError", err)
	}
	var got []string
	for _, p := range problems.Problems {
		got = append(got, p.Field)
	}
	want := []string{
		"Requests.MaxLists", "Requests.MessageWait", "Turns.MaxAttempts", "Memory", "Webhooks.Limits.PerTask", "Files.LinkTTL", "Fetch.Timeout",
		"Protocol.Dialect", "Protocol.HTTPErrors", "Protocol.Tenant", "Tokens", "Fetch.Concurrency", "Card.Name",
		"Turns.Reserved", "Turns.RetryDelayMax", "Limits.QueuedPerOwner",
		"Security.CardKeys", "Card.URL", "Security.CORSOrigins", "Security.TrustedProxies",
		"Webhooks.Lease", "Webhooks.UserAgent", "Webhooks.Format", "Webhooks.AllowNets", "Webhooks.AllowHosts", "Webhooks.NAT64",
		"Webhooks.Global.URL", "Webhooks.EgressProxy", "Webhooks.Keys", "Fetch.AllowNets", "Fetch.AllowHosts",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields of the problems (-want +got):\n%s\n%v", diff, err)
	}
}

func TestNewReportsAllConfigErrors(t *testing.T) {
	t.Parallel()
	_, err := holdfast.New(holdfast.Config{StopGrace: -1}, nil)
	for _, want := range []string{"Name", "handler", "StopGrace"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New() = %v, want it to name %s", err, want)
		}
	}
	for _, cfg := range []holdfast.Config{
		{Name: "a", Turns: engine.Turns{Concurrency: -1}, DataDir: t.TempDir()},
		{Name: "a", Memory: 1 << 20, DataDir: t.TempDir()},
		{Name: "a", Turns: engine.Turns{MaxAttempts: -1}, DataDir: t.TempDir()},
		{Name: "a", Tokens: []server.Token{{}}, DataDir: t.TempDir()},
		{Name: "a", Protocol: holdfast.Protocol{Dialect: "latin"}, DataDir: t.TempDir()},
		{Name: "a", Protocol: holdfast.Protocol{HTTPErrors: "1.1"}, DataDir: t.TempDir()},
	} {
		if a, err := holdfast.New(cfg, holdfast.HandlerFunc(shout)); err == nil {
			t.Errorf("New(%+v) = nil, want an error", cfg)
			_ = a.Stop(t.Context())
		}
	}
}

func TestMemoryBudgetIsHalfOfMemory(t *testing.T) {
	t.Parallel()
	agent, err := holdfast.New(holdfast.Config{Name: "a", Store: inmem.New(), Memory: 96 << 20}, holdfast.HandlerFunc(shout))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	agent.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/health", nil))
	if want := fmt.Sprintf(`"memory":{"total":%d,"held":0,`, 48<<20); !strings.Contains(w.Body.String(), want) {
		t.Errorf("health = %s, want %s", w.Body, want)
	}
	if err := agent.Stop(t.Context()); err != nil {
		t.Errorf("Stop() = %v", err)
	}
}

func TestListenAndServeLogsItsAddress(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	agent, err := holdfast.New(holdfast.Config{Name: "a", Store: inmem.New(), Logger: slog.New(slog.NewTextHandler(w, nil))}, holdfast.HandlerFunc(shout))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- agent.ListenAndServe(ctx, "127.0.0.1:0") }()
	lines := bufio.NewScanner(r)
	for lines.Scan() && !strings.Contains(lines.Text(), "msg=listening url=http://127.0.0.1:") {
	}
	if lines.Err() != nil || lines.Text() == "" {
		t.Errorf("the last log line is %q, %v, want one with the address", lines.Text(), lines.Err())
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	_, rest, _ := strings.Cut(lines.Text(), "url=")
	url, _, _ := strings.Cut(rest, " ")
	if resp, err := http.Get(url + "/healthz"); err != nil {
		t.Error(err)
	} else {
		resp.Body.Close()
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// The warning comes with the first secret that is stored, not before.
func TestUnencryptedWebhookSecretsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	const warning = "stored unencrypted\" settings=[Webhooks.Keys]"
	const body = `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m%d","role":"user","parts":[{"kind":"text","text":"x"}]},
		"configuration":{"pushNotificationConfig":{"url":%q}}}}`
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	for name, tt := range map[string]struct {
		cfg  holdfast.Config
		want int
	}{
		"no keys":      {holdfast.Config{DataDir: t.TempDir()}, 1},
		"keys":         {holdfast.Config{DataDir: t.TempDir(), Webhooks: webhook.Settings{Keys: [][]byte{make([]byte, 32)}}}, 0},
		"webhooks off": {holdfast.Config{DataDir: t.TempDir(), Webhooks: webhook.Settings{Off: true}}, 0},
		"in memory":    {holdfast.Config{Store: inmem.New()}, 0},
	} {
		var log await.Buffer
		tt.cfg.Name, tt.cfg.Logger = "a", slog.New(slog.NewTextHandler(&log, nil))
		tt.cfg.Webhooks.AllowHosts = []string{receiver.Listener.Addr().String()}
		agent, err := holdfast.New(tt.cfg, holdfast.HandlerFunc(shout))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String(), warning) {
			t.Errorf("%s: the log has %q before a secret is stored", name, warning)
		}
		if err := agent.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(fmt.Sprintf(body, i, receiver.URL)))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			if agent.Handler().ServeHTTP(w, r); strings.Contains(w.Body.String(), `"error"`) != tt.cfg.Webhooks.Off {
				t.Errorf("%s: message/send = %s", name, w.Body)
			}
		}
		if err := agent.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if got := strings.Count(log.String(), warning); got != tt.want {
			t.Errorf("%s: the log has %q %d times, want %d:\n%s", name, warning, got, tt.want, log.String())
		}
	}
}

func TestSetTokensCannotTurnAuthenticationOnOrOff(t *testing.T) {
	t.Parallel()
	token := server.Token{Token: "sesame", Principal: a2a.Principal{ID: "alice"}}
	for name, tt := range map[string]struct {
		before, after []server.Token
		want          string
	}{
		"none to some": {nil, []server.Token{token}, "cannot be turned on or off"},
		"some to none": {[]server.Token{token}, nil, "cannot be turned on or off"},
		"invalid":      {[]server.Token{token}, []server.Token{{Token: "with space"}}, "Tokens[0]"},
		"valid":        {[]server.Token{token}, []server.Token{{Token: "new", Principal: token.Principal}}, ""},
	} {
		agent, err := holdfast.New(holdfast.Config{Name: "x", DataDir: t.TempDir(), Tokens: tt.before}, holdfast.HandlerFunc(func(context.Context, *holdfast.Turn) error { return nil }))
		if err != nil {
			t.Fatal(err)
		}
		err = agent.SetTokens(tt.after)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: SetTokens() = %v, want %q", name, err, tt.want)
		}
		if err := agent.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
