package server_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server"
)

// headerAuth authenticates by the header User, with the scopes of the header Scopes.
type headerAuth struct{}

func (headerAuth) Authenticate(r *http.Request) (a2a.Principal, error) {
	p := a2a.Principal{ID: r.Header.Get("User")}
	if list, ok := r.Header["Scopes"]; ok {
		p.Scopes = []a2a.Scope{}
		for _, scope := range list {
			p.Scopes = append(p.Scopes, a2a.Scope(scope))
		}
	}
	switch p.ID {
	case "nobody":
		return p, a2a.Errorf(a2a.CodeUnauthenticated, "who are you?")
	case "banned":
		return p, a2a.Errorf(a2a.CodeDenied, "not welcome")
	case "broken":
		return p, errors.New("key server: password hunter2")
	}
	return p, nil
}

func (headerAuth) Challenge(*http.Request) string { return "User" }

func (headerAuth) Security() (map[string]a2a.SecurityScheme, []map[string][]string) {
	return map[string]a2a.SecurityScheme{"user": a2a.APIKeySecurityScheme{In: "header", Name: "User"}}, []map[string][]string{{"user": {}}}
}

func TestAuthenticatorDeterminesPrincipalAndStatus(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) { c.Security.Authenticator = headerAuth{} })
	task := e.call(a2a.MethodSend, params(message("a"), blocking), "User", "alice").task(t)
	get := `{"id":"` + task.ID + `"}`
	if got := e.call(a2a.MethodGet, get, "User", "alice"); got.task(t).ID != task.ID {
		t.Errorf("tasks/get = %s, want the task", got.Body)
	}
	if got := e.call(a2a.MethodGet, get, "User", "bob"); got.code() != -32001 {
		t.Errorf("tasks/get of another principal = %s, want -32001", got.Body)
	}
	for user, want := range map[string]int{"nobody": 401, "banned": 403, "broken": 500, "": 403} {
		got := e.call(a2a.MethodGet, get, "User", user)
		challenge := got.Header.Get("WWW-Authenticate")
		if got.Status != want || (challenge == "User") != (want == 401) || strings.Contains(string(got.Body), "hunter2") {
			t.Errorf("user %q: HTTP %d %s with challenge %q, want %d", user, got.Status, got.Body, challenge, want)
		}
	}
	if card := string(e.do("GET", "/.well-known/agent-card.json", "", nil).Body); !strings.Contains(card, `"security":[{"user":[]}]`) {
		t.Errorf("card = %s, want the authenticator's security", card)
	}
}

// unescaped authenticates by the header User in percent encoding.
type unescaped struct{ headerAuth }

func (unescaped) Authenticate(r *http.Request) (a2a.Principal, error) {
	id, err := url.PathUnescape(r.Header.Get("User"))
	return a2a.Principal{ID: id}, err
}

// The server's own records have an owner that no caller can be.
func TestPrincipalsWithInvalidIDsAreRejected(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) { c.Security.Authenticator = unescaped{} })
	long := strings.Repeat("é", a2a.MaxPrincipalID/2)
	for id, want := range map[string]int{
		"\x1fholdfast": 403, "a\nb": 403, "\x00": 403, "a\x7f": 403, "a\u0085": 403, "a\xff": 403, long + "x": 403, "": 403,
		long: 200, "did:example:1": 200, "a b": 200, "\u202e": 200,
	} {
		user := url.PathEscape(id)
		for name, got := range map[string]reply{
			"JSON-RPC":  e.call(a2a.MethodList, "{}", "User", user),
			"HTTP+JSON": e.do("GET", "/tasks", "", headers{"User", user}),
			"a link":    e.do("GET", "/files/x", "", headers{"User", user}),
		} {
			if name != "a link" && got.Status != want || got.Status == 200 && want != 200 {
				t.Errorf("%s as %q: HTTP %d %s, want %d", name, id, got.Status, got.Body, want)
			}
		}
	}
}

func TestUnauthenticatedResponsesHaveTheIDOfTheRequest(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) { c.Security.Authenticator = headerAuth{} })
	request := func(id string, size int) string {
		return `{"jsonrpc":"2.0","method":"tasks/get","params":{"id":"` + strings.Repeat("x", size) + `"},"id":` + id + `}`
	}
	for _, tt := range []struct{ name, body, want string }{
		{"a number", request("7", 1), `"id":7`},
		{"a string", request(`"a"`, 60<<10), `"id":"a"`},
		{"no id", `{"jsonrpc":"2.0","method":"tasks/get"}`, `"id":null`},
		{"a large body", request("7", 64<<10), `"id":null`},
		{"no JSON", `{"id":7`, `"id":null`},
		{"a batch", "[" + request("7", 1) + "]", `"id":null`},
	} {
		got := e.post(tt.body, "User", "nobody")
		if got.Status != http.StatusUnauthorized || !strings.Contains(string(got.Body), tt.want+",") {
			t.Errorf("%s: HTTP %d %s, want 401 with %s", tt.name, got.Status, got.Body, tt.want)
		}
	}
}

// The server waits for the body of an unauthenticated request for a short time only.
func TestUnauthenticatedRequestsDoNotWaitForTheirBody(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) { c.Security.Authenticator = headerAuth{} })
	addr, _ := e.listen()
	for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second)) // less than the ReadTimeout of 1 min
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nUser: nobody\r\n"+expect+"Content-Length: 100\r\n\r\n{")
		status, err := bufio.NewReader(conn).ReadString('\n')
		if !strings.HasPrefix(status, "HTTP/1.1 401 ") {
			t.Errorf("the response to half a request with %q is %q, %v, want 401", expect, status, err)
		}
	}
}

func TestMethodsRequireTheirScope(t *testing.T) {
	t.Parallel()
	st := newStore()
	webhooks := withWebhook(t, st)
	e := startOn(t, st, echo, func(c *server.Config) {
		withExtendedCard(c)
		webhooks(c)
	})
	for _, m := range a2a.Methods() {
		if m.Scope != a2a.ScopeRead && m.Scope != a2a.ScopeWrite {
			t.Errorf("method %s has the scope %q", m.Name, m.Scope)
		}
		sample := cmp.Or(sampleParams[m.Name], `{"id":"x","taskId":"x","fromSequence":1,"pushNotificationConfigId":"w","pushNotificationConfig":{"url":"https://example.com/"}}`)
		other := map[a2a.Scope]string{a2a.ScopeRead: "write", a2a.ScopeWrite: "read"}[m.Scope]
		for _, denied := range []string{other, ""} {
			if got := e.call(m.Name, sample, "User", "alice", "Scopes", denied); got.code() != -32013 || !strings.Contains(string(got.Body), `"code":"permission_denied"`) {
				t.Errorf("%s with the scope %q = %s, want -32013", m.Name, denied, got.Body)
			}
		}
		if m.Streaming {
			continue
		}
		if got := e.call(m.Name, sample, "User", "alice", "Scopes", string(m.Scope)); got.code() == -32013 {
			t.Errorf("%s with its scope = %s, want it to be allowed", m.Name, got.Body)
		}
	}
	if got := e.call(a2a.MethodList, `{}`, "User", "bob"); string(got.Body) == "" || strings.Contains(string(got.Body), `"id":"`) {
		t.Errorf("tasks/list = %s, want no task", got.Body)
	}
}

func TestInterceptorsSeeEveryCall(t *testing.T) {
	t.Parallel()
	calls := make(chan string, 10)
	e := start(t, echo, func(c *server.Config) {
		c.Requests.Interceptors = []rpc.Interceptor{func(m *a2a.Method, next rpc.Handler) rpc.Handler {
			return func(ctx context.Context, c *rpc.Call) (any, error) {
				result, err := next(ctx, c)
				calls <- c.Principal.ID + " " + m.Name + " " + c.TaskID
				return result, err
			}
		}}
	})
	task := e.call(a2a.MethodSend, params(message("a"), blocking)).task(t)
	e.call(a2a.MethodGet, `{"id":"`+task.ID+`"}`)
	e.open(a2a.MethodResubscribe, `{"id":"`+task.ID+`"}`).rest()
	for _, method := range []string{a2a.MethodSend, a2a.MethodGet, a2a.MethodResubscribe} {
		if got, want := <-calls, a2a.Anonymous+" "+method+" "+task.ID; got != want {
			t.Errorf("interceptor saw %q, want %q", got, want)
		}
	}
}

// Interceptors count the calls that the server rejects too.
func TestInterceptorsSeeCallsThatTheServerRejects(t *testing.T) {
	t.Parallel()
	var seen []string
	e := start(t, echo, func(c *server.Config) {
		c.Security.Authenticator = headerAuth{}
		c.Card.Capabilities.Extensions = []a2a.AgentExtension{{URI: "urn:example:audit", Required: true}}
		c.Requests.Interceptors = []rpc.Interceptor{func(m *a2a.Method, next rpc.Handler) rpc.Handler {
			return func(ctx context.Context, c *rpc.Call) (any, error) {
				result, err := next(ctx, c)
				seen = append(seen, m.Name+" "+string(a2a.CodeOf(err)))
				return result, err
			}
		}}
	})
	e.call(a2a.MethodGet, `{"id":"x"}`, "User", "alice", "Scopes", "agent:write")
	e.call(a2a.MethodCancel, `{"id":"x"}`, "User", "alice")
	want := a2a.MethodGet + " permission_denied, " + a2a.MethodCancel + " extension_support_required"
	if got := strings.Join(seen, ", "); got != want {
		t.Errorf("interceptors saw %s, want %s", got, want)
	}
}
