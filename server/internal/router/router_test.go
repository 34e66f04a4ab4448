package router_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/server/internal/router"
)

// routes returns a router with the paths of A2A 0.3, as in the method table, the paths of A2A
// 1.0 with and without tenant, and fixed paths. The value of a route is its method and pattern.
func routes() *router.Router[string] {
	r := new(router.Router[string])
	add := func(method, pattern string) { r.Handle(method, pattern, method+" "+pattern) }
	add("GET", "/")
	add("POST", "/")
	add("GET", "/agent/info")
	for _, m := range a2a.Methods() {
		add(m.HTTPMethod, m.Path)
	}
	for _, prefix := range []string{"", "/{tenant}"} {
		add("POST", prefix+"/message:send")
		add("POST", prefix+"/message:stream")
		add("GET", prefix+"/tasks")
		add("GET", prefix+"/tasks/{id}")
		add("POST", prefix+"/tasks/{id}:cancel")
		add("GET", prefix+"/tasks/{id}:subscribe")
		add("POST", prefix+"/tasks/{taskId}/pushNotificationConfigs")
		add("GET", prefix+"/tasks/{taskId}/pushNotificationConfigs/{id}")
		add("DELETE", prefix+"/tasks/{taskId}/pushNotificationConfigs/{id}")
		add("GET", prefix+"/extendedAgentCard")
	}
	r.Reserve("/v2")
	return r
}

func TestMatch(t *testing.T) {
	t.Parallel()
	r := routes()
	for _, test := range []struct {
		method, path string
		want         string // the route's value, or the methods after 405
		vars         string
	}{
		{"GET", "/", "GET /", ""},
		{"HEAD", "/agent/info", "GET /agent/info", ""},
		{"PUT", "/", "405 GET, HEAD, POST", ""},
		{"POST", "/v1/message:send", "POST /v1/message:send", ""},
		{"GET", "/v1/message:send", "405 POST", ""},
		{"POST", "/v1/message:sent", "", ""},
		{"POST", "/v1/message", "", ""},
		{"GET", "/v1/tasks", "GET /v1/tasks", ""},
		{"GET", "/v1/tasks/t1", "GET /v1/tasks/{id}", "id=t1"},
		{"DELETE", "/v1/tasks/t1", "DELETE /v1/tasks/{id}", "id=t1"},
		{"POST", "/v1/tasks/t1:cancel", "POST /v1/tasks/{id}:cancel", "id=t1"},
		{"GET", "/v1/tasks/t1:cancel", "405 POST", ""},
		{"POST", "/v1/tasks/t1:subscribe", "POST /v1/tasks/{id}:subscribe", "id=t1"},
		{"GET", "/v1/tasks/t1/pushNotificationConfigs/c1", "GET /v1/tasks/{id}/pushNotificationConfigs/{configId}", "id=t1 configId=c1"},
		{"POST", "/v1/tasks/t1/webhooks:replay", "POST /v1/tasks/{id}/webhooks:replay", "id=t1"},
		{"GET", "/v1/tasks/t1/webhooks/attempts", "GET /v1/tasks/{id}/webhooks/attempts", "id=t1"},
		{"GET", "/tasks/t1:subscribe", "GET /tasks/{id}:subscribe", "id=t1"},
		{"GET", "/tasks/t1/pushNotificationConfigs/c1", "GET /tasks/{taskId}/pushNotificationConfigs/{id}", "taskId=t1 id=c1"},
		{"GET", "/acme/tasks", "GET /{tenant}/tasks", "tenant=acme"},
		{"POST", "/acme/message:send", "POST /{tenant}/message:send", "tenant=acme"},
		{"POST", "/acme/tasks/t1:cancel", "POST /{tenant}/tasks/{id}:cancel", "tenant=acme id=t1"},
		{"GET", "/acme/extendedAgentCard", "GET /{tenant}/extendedAgentCard", "tenant=acme"},
		// Names of other routes and reserved names are not tenants.
		{"GET", "/tasks/tasks", "GET /tasks/{id}", "id=tasks"},
		{"GET", "/v1/extendedAgentCard", "", ""},
		{"GET", "/v2/tasks", "", ""},
		{"GET", "/agent/tasks", "", ""},
		{"GET", "/acme", "", ""},
		// A colon is part of an id unless a verb follows.
		{"GET", "/tasks/urn:uuid:1", "GET /tasks/{id}", "id=urn:uuid:1"},
		{"POST", "/tasks/urn:uuid:1:cancel", "POST /tasks/{id}:cancel", "id=urn:uuid:1"},
		{"GET", "/tasks/t1%3Acancel", "GET /tasks/{id}", "id=t1:cancel"},
		{"POST", "/tasks/t1%3Acancel:cancel", "POST /tasks/{id}:cancel", "id=t1:cancel"},
		{"GET", "/a:b/tasks", "GET /{tenant}/tasks", "tenant=a:b"},
		{"GET", "/tasks/:cancel", "GET /tasks/{id}", "id=:cancel"},
		{"GET", "/tasks/t1:", "GET /tasks/{id}", "id=t1:"},
		// Segments are decoded once, after splitting.
		{"GET", "/tasks/a%2Fb", "GET /tasks/{id}", "id=a/b"},
		{"GET", "/tasks/a%252Fb", "GET /tasks/{id}", "id=a%2Fb"},
		{"POST", "/tasks/a%2F..%2Fb:cancel", "POST /tasks/{id}:cancel", "id=a/../b"},
		{"GET", "/tasks/a%20b%00%C3%A9", "GET /tasks/{id}", "id=a b\x00é"},
		{"GET", "/%74asks/x", "GET /tasks/{id}", "id=x"},
		{"GET", "/agent%2Finfo", "", ""},
		{"GET", "/tasks%2Fx", "", ""},
		{"GET", "/tasks/%", "GET /tasks/{id}", "id=%"}, // net/http rejects it before
		// Paths are not cleaned.
		{"GET", "", "", ""},
		{"OPTIONS", "*", "", ""},
		{"GET", "tasks/x", "", ""},
		{"GET", "//", "", ""},
		{"GET", "//tasks", "", ""},
		{"GET", "/tasks/", "", ""},
		{"GET", "/acme//tasks", "", ""},
		{"GET", "/tasks//pushNotificationConfigs", "", ""},
		{"GET", "/x/../agent/info", "", ""},
		{"GET", "/tasks/..", "GET /tasks/{id}", "id=.."},
		{"GET", "/tasks/{id}", "GET /tasks/{id}", "id={id}"},
		{"GET", strings.Repeat("/x", 10_000), "", ""},
		{"GET", "/tasks/" + strings.Repeat(":", 10_000), "GET /tasks/{id}", "id=" + strings.Repeat(":", 10_000)},
	} {
		u, err := url.ParseRequestURI(test.path)
		if err != nil {
			u = &url.URL{Path: test.path, RawPath: test.path}
		}
		m := r.Match(test.method, u)
		got := m.Value
		if got == "" && m.Allow != "" {
			got = "405 " + m.Allow
		}
		var vars []string
		for _, name := range []string{"tenant", "taskId", "id", "configId", "contextId"} {
			if v := m.Var(name); v != "" {
				vars = append(vars, name+"="+v)
			}
		}
		if got != test.want || strings.Join(vars, " ") != test.vars {
			t.Errorf("Match(%s %.60s) = %q with %.60q, want %q with %.60q", test.method, test.path, got, vars, test.want, test.vars)
		}
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	r := routes()
	for _, path := range []string{"/", "/agent/info", "/v1/tasks/t1:cancel", "/acme/tasks/t1/pushNotificationConfigs/c1", "/none"} {
		u := &url.URL{Path: path}
		if n := testing.AllocsPerRun(100, func() { r.Match(http.MethodGet, u) }); n != 0 {
			t.Errorf("Match(%s) allocates %v times, want 0", path, n)
		}
	}
}

func TestHandleRejectsInvalidRoutes(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"", "tasks", "/taken", "/tasks/{id}:cancel/x", "/{a}/{b}/{c}/{d}/{e}"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Handle(%q) did not panic", pattern)
				}
			}()
			r := new(router.Router[string])
			r.Handle("GET", "/taken", "")
			r.Handle("GET", pattern, "")
		}()
	}
}

func FuzzMatch(f *testing.F) {
	for _, path := range []string{"/", "/v1/tasks/a%2Fb:cancel", "/acme/tasks/%3A:cancel", "/%zz", "//x:y"} {
		f.Add(path)
	}
	r := routes()
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		m := r.Match(http.MethodGet, u)
		for _, name := range []string{"tenant", "id"} {
			if v := m.Var(name); strings.Contains(v, "/") && !strings.Contains(strings.ToUpper(u.EscapedPath()), "%2F") {
				t.Errorf("Match(%s): %s = %q, want no slash that was not encoded", path, name, v)
			}
		}
	})
}
