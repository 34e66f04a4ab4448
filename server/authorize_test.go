package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server"
)

// judge is an Authorizer.
type judge func(c *rpc.Call) error

func (j judge) Authorize(_ context.Context, c *rpc.Call) error { return j(c) }

func TestEveryMethodNamesItsScopeLevelAndPermission(t *testing.T) {
	t.Parallel()
	for _, m := range a2a.Methods() {
		if m.Scope == "" || m.Level.Rank() < 0 || m.Permission == "" {
			t.Errorf("method %s has scope %q, level %q, permission %q, want all three", m.Name, m.Scope, m.Level, m.Permission)
		}
	}
}

// No method and no route that needs credentials can be reached without the Authorizer, over any binding.
func TestTheAuthorizerDecidesAboutEveryOperation(t *testing.T) {
	t.Parallel()
	var asked atomic.Pointer[a2a.Method]
	st := newStore()
	on := withWebhook(t, st)
	e := startOn(t, st, echo, func(c *server.Config) {
		on(c)
		c.Security.Authenticator = headerAuth{}
		c.Security.ExtendedCard = func(_ context.Context, _ a2a.Principal, card a2a.AgentCard) (*a2a.AgentCard, error) {
			return &card, nil
		}
		c.Security.Authorizer = judge(func(c *rpc.Call) error {
			asked.Store(c.Method)
			return &server.Refusal{Err: a2a.Errorf(a2a.CodeDenied, "not you"), Header: http.Header{"Retry-After": {"7"}}}
		})
	})
	denied := func(name, want string, got reply) {
		t.Helper()
		m := asked.Swap(nil)
		if m == nil || m.Name != want || m.Scope == "" || m.Level.Rank() < 0 || m.Permission == "" {
			t.Errorf("%s: the Authorizer was asked about %+v, want %s with scope, level and permission", name, m, want)
		}
		if got.Status != http.StatusForbidden || !strings.Contains(string(got.Body), "not you") || got.Header.Get("Retry-After") != "7" {
			t.Errorf("%s = HTTP %d %s %s, want 403", name, got.Status, got.Header, got.Body)
		}
	}
	checked := 0
	minimal := func(m *a2a.Method, form string) string { // params, also for the members of the body of HTTP+JSON
		sent := map[string]string{
			"0.3": `"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"a"}]}`, "1.0": `"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"}]}`,
			"REST": `"request":{"messageId":"m","role":"ROLE_USER","content":[{"text":"a"}]}`,
		}
		ids := map[string]string{"0.3": `"id":"x"`, "1.0": `"id":"x"`}
		switch m.Name {
		case a2a.MethodSend, a2a.MethodStream:
			return "{" + sent[form] + "}"
		case a2a.MethodList, a2a.MethodContextsList, a2a.MethodFeedbackList, a2a.MethodDeadLetters, a2a.MethodExtendedCard, a2a.MethodContextsCreate:
			return "{}"
		case a2a.MethodContextsGet, a2a.MethodContextsUpdate, a2a.MethodContextsClear:
			return `{"contextId":"x"}`
		case a2a.MethodFeedback:
			return `{"taskId":"x","feedback":"f"}`
		case a2a.MethodPushReplay, a2a.MethodPushAttempts:
			return `{"taskId":"x","fromSequence":1}`
		case a2a.MethodPushSet:
			return map[string]string{"0.3": `{"taskId":"x","pushNotificationConfig":{"url":"https://example.com/"}}`, "1.0": `{"taskId":"x","url":"https://example.com/"}`, "REST": `{"config":{"pushNotificationConfig":{"url":"https://example.com/"}}}`}[form]
		case a2a.MethodPushGet, a2a.MethodPushList, a2a.MethodPushDelete:
			return map[string]string{"0.3": `{"id":"x","pushNotificationConfigId":"y"}`, "1.0": `{"taskId":"x","id":"y"}`}[form]
		}
		return "{" + ids[form] + "}"
	}
	for _, m := range a2a.Methods() {
		denied(m.Name, m.Name, e.call(m.Name, minimal(&m, "0.3"), "User", "alice"))
		denied(m.NameV10, m.Name, e.call(m.NameV10, minimal(&m, "1.0"), "User", "alice", "A2A-Version", "1.0"))
		for form, path := range map[string]string{"REST": v03.ProtoCodec{}.Path(&m), "1.0": v10.Codec{}.Path(&m)} {
			if path == "" {
				continue
			}
			checked++
			body, version := "", "1.0"
			if form == "REST" {
				version = "0.3"
			}
			if m.HTTPMethod == http.MethodPost || m.HTTPMethod == http.MethodPatch {
				body = strings.NewReplacer(`"taskId":"x",`, "", `"id":"x"`, "", `"contextId":"x"`, "").Replace(minimal(&m, form))
			}
			path = pathVariable.ReplaceAllString(path, "x")
			denied(form+" "+m.HTTPMethod+" "+path, m.Name, e.do(m.HTTPMethod, path, body, headers{"User", "alice", "A2A-Version", version, "Content-Type", "application/json"}))
		}
	}
	if checked < 20 {
		t.Errorf("checked %d REST routes, want at least 20", checked)
	}
	for path, want := range map[string]string{"/health": "health", "/agent/info": "agent/info", "/blobs/x": "files/get"} {
		denied(path, want, e.do("GET", path, "", headers{"User", "alice"}))
	}
	batch := e.post(`[{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{}},{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"id":"x"}}]`, "User", "alice")
	if n := strings.Count(string(batch.Body), "-32013"); batch.Status != 200 || n != 2 {
		t.Errorf("batch = HTTP %d %s, want two denied items", batch.Status, batch.Body)
	}
}

func TestDeniedCallsSayTheScope(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) { c.Security.Authenticator = headerAuth{} })
	got := e.call(a2a.MethodSend, params(message("a")), "User", "alice", "Scopes", "agent:read")
	if got.Status != 403 || got.code() != -32013 || got.Error.Data["reason"] != "scope" || got.Error.Data["operation"] != "message/send" || got.Error.Data["required"] != "agent:write" || fmt.Sprint(got.Error.Data["actual"]) != "[agent:read]" {
		t.Errorf("message/send = HTTP %d %s, want 403 with the scopes", got.Status, got.Body)
	}
	if got := e.call(a2a.MethodList, "{}", "User", "alice", "Holdfast-Owner", "bob"); got.Status != 403 || got.code() != -32013 {
		t.Errorf("tasks/list for another owner = HTTP %d %s, want 403", got.Status, got.Body)
	}
	if got := e.do("GET", "/health", "", headers{"User", "alice", "Holdfast-Owner", "bob"}); got.Status != 403 {
		t.Errorf("/health for another owner = HTTP %d %s, want 403", got.Status, got.Body)
	}
}

// An Authorizer can let a caller act for another owner, once per call.
func TestAnAuthorizerReplacesThePrincipal(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	e := start(t, echo, func(c *server.Config) {
		c.Security.Authenticator = headerAuth{}
		c.Security.Authorizer = judge(func(c *rpc.Call) error {
			calls.Add(1)
			if c.Owner != "" {
				c.Principal.ID, c.Principal.Actor = c.Owner, c.Principal.ID
			}
			return nil
		})
		c.Requests.Interceptors = []rpc.Interceptor{func(m *a2a.Method, next rpc.Handler) rpc.Handler {
			return func(ctx context.Context, c *rpc.Call) (any, error) {
				if m.Idempotent { // runs again, as when its result exceeds the free memory
					if _, err := next(ctx, c); err != nil {
						return nil, err
					}
				}
				return next(ctx, c)
			}
		}}
	})
	task := e.call(a2a.MethodSend, params(message("a"), blocking), "User", "alice").task(t)
	get := `{"id":"` + task.ID + `"}`
	for name, got := range map[string]reply{
		"JSON-RPC": e.call(a2a.MethodGet, get, "User", "operator", "Holdfast-Owner", "alice"),
		"REST":     e.do("GET", "/tasks/"+task.ID, "", headers{"User", "operator", "Holdfast-Owner", "alice", "A2A-Version", "1.0"}),
	} {
		if got.Status != 200 || !strings.Contains(string(got.Body), task.ID) || got.Error != nil {
			t.Errorf("%s for the owner = HTTP %d %s, want the task", name, got.Status, got.Body)
		}
	}
	if got := e.call(a2a.MethodGet, get, "User", "operator"); got.code() != -32001 {
		t.Errorf("tasks/get without the header = %s, want task_not_found", got.Body)
	}
	if calls.Load() != 4 {
		t.Errorf("the Authorizer was asked %d times, want once per call", calls.Load())
	}
}

// digestAuth identifies callers by the hash of the body, in its second step.
type digestAuth struct{ headerAuth }

func (digestAuth) Authenticate(*http.Request) (a2a.Principal, error) {
	return a2a.Principal{ID: a2a.Anonymous}, nil
}

func (digestAuth) AuthenticateBody(r *http.Request, p a2a.Principal, body []byte) (a2a.Principal, error) {
	sum := sha256.Sum256(body)
	if r.Header.Get("Digest") != hex.EncodeToString(sum[:]) || p.ID != a2a.Anonymous {
		return p, &server.Refusal{Err: a2a.Errorf(a2a.CodeInvalidSignature, "the digest differs"), Status: http.StatusForbidden}
	}
	return a2a.Principal{ID: r.Header.Get("User"), Proof: a2a.ProofDID}, nil
}

func TestTheSecondStepOfAuthenticationSeesTheBody(t *testing.T) {
	t.Parallel()
	var stored atomic.Int64
	e := start(t, echo, func(c *server.Config) {
		c.Security.Authenticator = digestAuth{}
		c.Requests.Interceptors = []rpc.Interceptor{func(_ *a2a.Method, next rpc.Handler) rpc.Handler {
			return func(ctx context.Context, c *rpc.Call) (any, error) {
				if stored.Add(1); c.Principal.ID != "alice" || c.Principal.Proof != a2a.ProofDID {
					t.Errorf("%s has the principal %+v, want alice with a proof", c.Method.Name, c.Principal)
				}
				return next(ctx, c)
			}
		}}
	})
	send := `{"jsonrpc":"2.0","id":"seven","method":"message/send","params":` + params(message("a"), blocking) + `}`
	for _, tt := range []struct {
		name, verb, path, body string
		h                      headers
		want                   string
	}{
		{"JSON-RPC 0.3", "POST", "/", send, nil, "completed"},
		{"a batch", "POST", "/", "[" + send + "," + send + "]", nil, "completed"},
		{"JSON-RPC 1.0", "POST", "/", `{"jsonrpc":"2.0","id":"seven","method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"}]}}}`, headers{"A2A-Version", "1.0"}, "TASK_STATE_"},
		{"a stream", "POST", "/", strings.Replace(send, "message/send", "message/stream", 1), nil, "data: "},
		{"REST 1.0 with a body", "POST", "/message:send", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"}]}}`, headers{"A2A-Version", "1.0"}, "TASK_STATE_"},
		{"REST without a body", "GET", "/tasks", "", headers{"A2A-Version", "1.0"}, `"tasks":`},
		{"REST 0.3", "DELETE", "/v1/tasks/x", "", nil, "not found"},
		{"a route", "GET", "/agent/info", "", nil, "methods"},
	} {
		sum := sha256.Sum256([]byte(tt.body))
		h := append(headers{"User", "alice", "Digest", hex.EncodeToString(sum[:])}, tt.h...)
		if got := string(e.do(tt.verb, tt.path, tt.body, h).Body); !strings.Contains(got, tt.want) {
			t.Errorf("%s = %s, want %s", tt.name, got, tt.want)
		}
		before := stored.Load()
		h[3] = "00"
		got := e.do(tt.verb, tt.path, tt.body, h)
		if got.Status != http.StatusForbidden || !strings.Contains(string(got.Body), "digest differs") || stored.Load() != before {
			t.Errorf("%s with another digest = HTTP %d %s, want 403 and no call", tt.name, got.Status, got.Body)
		}
		if tt.path == "/" && tt.body[0] == '{' && string(got.ID) != `"seven"` {
			t.Errorf("%s with another digest = %s, want the id of the request", tt.name, got.Body)
		}
	}
}

// expiringAuth gives access that ends.
type expiringAuth struct {
	headerAuth
	expires  time.Time
	away     time.Time // until then, nobody knows who is disabled
	disabled *atomic.Bool
}

func (a expiringAuth) Authenticate(r *http.Request) (a2a.Principal, error) {
	p, err := a.headerAuth.Authenticate(r)
	p.Expires = a.expires
	return p, err
}

func (a expiringAuth) Recheck(_ context.Context, p a2a.Principal) error {
	if time.Now().Before(a.away) {
		return a2a.Errorf(a2a.CodeUnavailable, "the store does not respond")
	}
	if a.disabled.Load() {
		return a2a.Errorf(a2a.CodeUnauthenticated, "%s is disabled", p.ID)
	}
	return nil
}

func TestStreamsEndWithTheAccessOfTheirPrincipal(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"expired": "credentials have expired", "disabled": "alice is disabled"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				auth := expiringAuth{away: time.Now().Add(30 * time.Second), disabled: new(atomic.Bool)}
				if name == "expired" {
					auth.expires = time.Now().Add(time.Minute)
				}
				next := make(chan int)
				e := startEngine(t, newStore(), stepHandler(next), func(c *server.Config) { c.Security.Authenticator = auth })
				_, stop := e.servePipe(t)
				s := e.open("message/stream", params(message("hi")), "User", "alice")
				_, _ = s.next()
				_, _ = s.next()
				started := time.Now()
				time.AfterFunc(time.Minute, func() { auth.disabled.Store(true) })
				left := s.rest()
				took := time.Since(started)
				if len(left) != 1 || left[0].Data.Error == nil || !strings.Contains(left[0].Data.Error.Message, want) || took < time.Minute || took > 90*time.Second {
					t.Errorf("the stream ended after %s with %v, want an error event (%s) within 30 s after the access", took, left, want)
				}
				close(next)
				stop()
			})
		})
	}
}
