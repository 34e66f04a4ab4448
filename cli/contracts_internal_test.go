package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/memory/states"
)

// toyHistory is a store of transcripts that counts appends. It stands for a backend of an operator.
type toyHistory struct {
	history.Provider
	appends int
}

func (h *toyHistory) Append(ctx context.Context, k history.Key, p history.AppendParams) (history.AppendResult, error) {
	h.appends++
	return h.Provider.Append(ctx, k, p)
}

// toyBackend is the row that adds a backend for one contract.
func toyBackend(h *toyHistory, closed *bool) backend {
	return backend{
		kind: "toy", contracts: []string{"transcripts"}, schemes: []string{"toy"}, example: "toy://",
		check: func(text string) error {
			if u, err := url.Parse(text); err != nil || u.Host == "" {
				return errors.New("has no host")
			}
			return nil
		},
		connect: func(_ context.Context, p OpenParams) (OpenedContracts, error) {
			if strings.Contains(p.URL, "down") {
				return OpenedContracts{}, a2a.Errorf(a2a.CodeUnavailable, "toy: no response")
			}
			return OpenedContracts{Stores: []contract.Store{transcripts.Of(h)}, Ping: func(context.Context) error { return nil }, Close: func() error { *closed = true; return nil }}, nil
		},
	}
}

// parseServe returns the settings of a command line of serve.
func parseServe(t *testing.T, a *app) (*serveCmd, serveSettings, error) {
	t.Helper()
	var g grammar
	parser, err := a.parser(&g)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse(a.args)
	if err != nil {
		t.Fatal(err)
	}
	a.set.markCommandLineFlags(parsed)
	r, err := g.Serve.prepare(a, slog.New(slog.DiscardHandler))
	return &g.Serve, r, err
}

// One row adds a backend for a contract: its URL selects it, handlers use it, and it is closed.
func TestBackendOfContractIsOneRow(t *testing.T) {
	t.Parallel()
	toy, closed := &toyHistory{Provider: historysql.Of(inmem.New())}, false
	a := newApp(Program{Args: []string{"holdfast", "serve", "--storage", "memory"}, Environ: []string{"STORE_HISTORY=toy://u:hunter2@host"}, Stdout: io.Discard, Stderr: io.Discard})
	a.backends = append(a.backends, toyBackend(toy, &closed))
	_, r, err := parseServe(t, a)
	if err != nil {
		t.Fatal(err)
	}
	main, err := r.storage.open(t.Context(), a, nil)
	if err != nil {
		t.Fatal(err)
	}
	others, err := r.storage.openContracts(t.Context(), a, openContractsParams{main: main})
	if err != nil {
		t.Fatal(err)
	}
	handler := holdfast.HandlerFunc(func(ctx context.Context, t *holdfast.Turn) error {
		_, err := transcripts.In(others.Stores).Append(ctx, history.Key{Owner: t.Owner(), Agent: "toy", Session: t.ContextID()}, history.AppendParams{
			Messages: []history.Message{{Body: json.RawMessage(`"hello"`)}},
		})
		return errors.Join(err, t.Reply("done"))
	})
	if task := holdfasttest.New(t, handler, holdfast.Config{Contracts: others.Contracts}).Send("x"); task.State != a2a.StateCompleted {
		t.Fatalf("task is %s: %s", task.State, task.Message)
	}
	if toy.appends != 1 {
		t.Errorf("the toy has %d appends, want 1", toy.appends)
	}
	if err := others.Close(); err != nil || !closed {
		t.Errorf("Close() = %v, closed = %t, want the toy closed", err, closed)
	}
}

func TestContractURLsAreChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	toy := toyBackend(&toyHistory{}, new(bool))
	for _, tt := range []struct{ setting, want string }{
		{"STORE_HISTORY=toy:///nowhere", "STORE_HISTORY has no host"},
		{"STORE_HISTORY=other://u:hunter2@host", "STORE_HISTORY is no URL of a known store: want sqlite:DIRECTORY, postgres://, memory, redis:// or toy://"},
		{"STORE_MEMORY=toy://u:hunter2@host", "STORE_MEMORY starts with toy:, which has no store of facts: want sqlite:DIRECTORY, postgres:// or memory"},
		{"STORE_STATE=postgres://u:hunter2@h/d?sslmode=requre", "STORE_STATE has sslmode=requre"},
		{"STORE_MEMORY=redis://:hunter2@h", "STORE_MEMORY starts with redis:, which has no store of facts"},
		{"STORE_STATE=redis://:hunter2@h", "STORE_STATE needs a build with stores of the kind redis: use the command holdfast-full"},
		{"STORE_BLOB=s3://k:hunter2@b", "STORE_BLOB needs a build with stores of the kind s3: use the command holdfast-full"},
		{"STORE_STATE=sqlite:", "STORE_STATE names no directory"},
		{"STORE_HISTORY=redis//:hunter2@127.0.0.1:1/0", "STORE_HISTORY is no URL of a known store"},
		{"STORE_HISTORY=:hunter2@127.0.0.1", "STORE_HISTORY is no URL of a known store"},
		{"STORE_HISTORY=toy://u:hunter2@down", "STORE_HISTORY is toy://u:***@down: toy: no response"},
		{"STORE_HISTORY=" + filepath.Join(dir, "file"), "STORE_HISTORY is " + filepath.Join(dir, "file")},
	} {
		writeFile(t, filepath.Join(dir, "file"), "")
		var stderr strings.Builder
		a := newApp(Program{Args: []string{"holdfast", "serve", "--storage", "memory", "--addr", "127.0.0.1:0"}, Environ: []string{tt.setting}, Stdout: io.Discard, Stderr: &stderr})
		a.backends = append(a.backends, toy)
		if code := a.main(t.Context()); code == 0 || !strings.Contains(stderr.String(), tt.want) || strings.Contains(stderr.String(), "hunter2") {
			t.Errorf("serve with %s = %d, %s, want %q without the password", tt.setting, code, &stderr, tt.want)
		}
	}
}

// Each kind opens stores of exactly the contracts that it declares.
func TestKindsHaveTheirDeclaredContracts(t *testing.T) {
	t.Parallel()
	for _, b := range backends() {
		if b.kind != "sqlite" && b.kind != "memory" {
			continue // other kinds need servers
		}
		a := newApp(Program{Stdout: io.Discard, Stderr: io.Discard})
		for _, kind := range a.kinds {
			if kind.Setting == "" {
				continue
			}
			one, err := a.contractStore(kind, map[string]string{"sqlite": "sqlite:" + t.TempDir(), "memory": "memory"}[b.kind])
			if err != nil {
				t.Fatal(err)
			}
			opened, err := one.connect(t.Context(), a, &openContractsParams{})
			if err != nil {
				t.Fatal(err)
			}
			if contract.Find(opened.Stores, kind) == nil {
				t.Errorf("%s has no store of %s", b.kind, kind.Name)
			}
			if err := opened.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Contracts with the location of the main store, or of each other, share its connection.
func TestContractsShareStores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := newApp(Program{
		Args:    []string{"holdfast", "serve", "--data", dir},
		Environ: []string{"STORE_HISTORY=" + dir, "STORE_MEMORY=sqlite:" + dir + "/facts", "STORE_STATE=" + dir + "/facts/"},
		Stdout:  io.Discard, Stderr: io.Discard,
	})
	_, r, err := parseServe(t, a)
	if err != nil {
		t.Fatal(err)
	}
	main, err := r.storage.open(t.Context(), a, nil)
	if err != nil {
		t.Fatal(err)
	}
	others, err := r.storage.openContracts(t.Context(), a, openContractsParams{main: main})
	if err != nil {
		t.Fatal(err)
	}
	if transcripts.In(others.Stores) != nil || facts.In(others.Stores) == nil || states.In(others.Stores) == nil || len(others.opened) != 1 {
		t.Errorf("opened contracts = %+v, want facts and states of one store", others)
	}
	if err := errors.Join(others.Close(), main.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "facts", "holdfast.db")); err != nil {
		t.Error(err)
	}
}

func TestLocationsOfContractsAreShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"./data": "./data", "/var/lib/facts": "/var/lib/facts", "sqlite:/var/lib/facts": "sqlite:/var/lib/facts", "memory": "memory",
		"s3://k:hunter2@b/p?endpoint=h:1&region=r&insecure=true": "s3://k:***@b/p?endpoint=h:1&region=r&insecure=true",
		"redis://:hunter2@h:1/0":                                 "redis://:***@h:1/0", "sqlite:u:p@hunter2": "***", "/x?password=hunter2": "***",
	} {
		if got := maskURL(text); got != want {
			t.Errorf("maskURL(%q) = %q, want %q", text, got, want)
		}
	}
}
