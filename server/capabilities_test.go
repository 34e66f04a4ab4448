package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/server"
)

// A capability that is off has the same error in all versions and bindings.
func TestMethodsOfCapabilitiesThatAreOff(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) { c.Requests.StreamingOff = true })
	for _, test := range []struct {
		code    int
		reason  string
		methods []string
		routes  []string
	}{
		{
			-32004, "UNSUPPORTED_OPERATION",
			[]string{"message/stream", "tasks/resubscribe", "SendStreamingMessage", "SubscribeToTask"},
			[]string{"POST /message:stream", "POST /tasks/t:subscribe", "GET /tasks/t:subscribe"},
		},
		{
			-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED",
			[]string{
				"tasks/pushNotificationConfig/set", "tasks/pushNotificationConfig/get", "tasks/pushNotificationConfig/list", "tasks/pushNotificationConfig/delete",
				"CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig",
			},
			[]string{
				"POST /tasks/t/pushNotificationConfigs", "GET /tasks/t/pushNotificationConfigs",
				"GET /tasks/t/pushNotificationConfigs/c", "DELETE /tasks/t/pushNotificationConfigs/c",
			},
		},
		{-32007, "", []string{"agent/getAuthenticatedExtendedCard"}, nil},
		{-32004, "UNSUPPORTED_OPERATION", []string{"GetExtendedAgentCard"}, []string{"GET /extendedAgentCard"}},
	} {
		for _, method := range test.methods {
			body := e.body(method, `{}`)
			var got struct{ Error struct{ Code int } }
			if err := json.Unmarshal([]byte(body), &got); err != nil || got.Error.Code != test.code {
				t.Errorf("%s = %s, %v, want %d", method, body, err, test.code)
			}
		}
		for _, route := range test.routes {
			verb, path, _ := strings.Cut(route, " ")
			status, h, body := e.fetch(verb, path, `{}`, "Accept", "text/event-stream")
			if status != http.StatusBadRequest || h.Get("Content-Type") != "application/json" || !strings.Contains(body, `"reason":"`+test.reason+`"`) {
				t.Errorf("%s = %d %s, want 400 %s", route, status, body, test.reason)
			}
		}
	}
	for _, path := range []string{cardPath, strictPath} {
		card := viewCard(t, e.do("GET", path, "", nil).Body)
		if c := card.Capabilities; c.Streaming || c.PushNotifications || c.ExtendedAgentCard || card.SupportsAuthenticatedExtendedCard {
			t.Errorf("GET %s: capabilities %+v, want them off", path, c)
		}
		for _, extension := range card.Capabilities.Extensions {
			if extension.URI == server.ExtensionResume || extension.URI == server.ExtensionWebhooks {
				t.Errorf("GET %s declares %s, want no extension of a capability that is off", path, extension.URI)
			}
		}
	}
	if task := e.send("a"); task.Status.State != "completed" {
		t.Errorf("message/send without streaming = %+v, want a completed task", task)
	}
}

// withExtendedCard adds a skill for alice, and has no extended card for bob.
func withExtendedCard(c *server.Config) {
	c.Security.Authenticator = headerAuth{}
	c.Card.Skills = []a2a.AgentSkill{{ID: "public", Name: "n", Description: "d", Tags: []string{"t"}}}
	c.Security.ExtendedCard = func(_ context.Context, p a2a.Principal, card a2a.AgentCard) (*a2a.AgentCard, error) {
		if p.ID != "alice" {
			return nil, nil
		}
		card.Skills = append(card.Skills, a2a.AgentSkill{ID: "of " + p.ID, Name: "n", Description: "d", Tags: []string{"t"}})
		return &card, nil
	}
}

func TestExtendedCardIsForAuthenticatedCallers(t *testing.T) {
	t.Parallel()
	e := start(t, echo, withExtendedCard)
	for _, path := range []string{cardPath, strictPath} {
		card := viewCard(t, e.do("GET", path, "", nil).Body)
		if len(card.Skills) != 1 || card.Skills[0].ID != "public" {
			t.Errorf("GET %s: skills %+v, want the public one", path, card.Skills)
		}
		if !card.Capabilities.ExtendedAgentCard || card.SupportsAuthenticatedExtendedCard != (path == cardPath) {
			t.Errorf("GET %s = %+v, want it to declare the extended card", path, card)
		}
	}
	check := func(label string, raw []byte, union bool) {
		t.Helper()
		card := viewCard(t, raw)
		if len(card.Skills) != 2 || card.Skills[1].ID != "of alice" || card.SupportedInterfaces[0].URL != e.url+"/" {
			t.Errorf("%s = %s, want two skills and the interfaces of the server", label, raw)
		}
		if (card.URL == e.url+"/") != union {
			t.Errorf("%s = %s, want the union card: %t", label, raw, union)
		}
	}
	old, current := e.call("agent/getAuthenticatedExtendedCard", `null`, "User", "alice"), e.call("GetExtendedAgentCard", `{}`, "User", "alice")
	check("agent/getAuthenticatedExtendedCard", old.Result, true)
	check("GetExtendedAgentCard", current.Result, false)
	extended := e.call("GetExtendedAgentCard", `{}`, "User", "alice", "A2A-Extensions", server.ExtensionList)
	check("GetExtendedAgentCard with an extension", extended.Result, false)
	if status, _, body := e.fetch("GET", "/v1/card", "", "User", "alice"); status != 200 {
		t.Errorf("GET /v1/card = %d, want 200", status)
	} else {
		check("GET /v1/card", []byte(body), true)
	}
	status, _, body := e.fetch("GET", "/extendedAgentCard", "", "User", "alice")
	for _, path := range []string{"/extendedAgentCard", "/v1/card"} {
		_, h, _ := e.fetch("GET", path, "", "User", "alice")
		tag := h.Get("ETag")
		if status, _, body := e.fetch("GET", path, "", "User", "alice", "If-None-Match", tag); status != 304 || body != "" || tag == "" || h.Get("Cache-Control") != "private, max-age=300" {
			t.Errorf("GET %s with its ETag %s = %d %s, want 304 and headers for private caches: %v", path, tag, status, body, h)
		}
	}
	if check("GET /extendedAgentCard", []byte(body), false); status != 200 {
		t.Errorf("GET /extendedAgentCard = %d, want 200", status)
	}

	for _, method := range []string{"agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard"} {
		if got := e.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`, "User", "nobody"); got.Status != 401 || got.Header.Get("WWW-Authenticate") != "User" {
			t.Errorf("%s without credentials = %d %v, want 401 and a challenge", method, got.Status, got.Header)
		}
	}
	if status, h, _ := e.fetch("GET", "/extendedAgentCard", "", "User", "nobody"); status != 401 || h.Get("WWW-Authenticate") != "User" {
		t.Errorf("GET /extendedAgentCard without credentials = %d %v, want 401 and a challenge", status, h)
	}
	if got := e.call("agent/getAuthenticatedExtendedCard", `{}`, "User", "bob"); got.code() != -32007 {
		t.Errorf("agent/getAuthenticatedExtendedCard of a caller without one = %s, want -32007", got.Body)
	}
	if status, _, body := e.fetch("GET", "/extendedAgentCard", "", "User", "bob"); status != 400 || !strings.Contains(body, "EXTENDED_AGENT_CARD_NOT_CONFIGURED") {
		t.Errorf("GET /extendedAgentCard of a caller without one = %d %s, want 400", status, body)
	}
}

// Only the caller's own cache may keep the extended card, and each media type has its own entry.
func TestCachesKeepExtendedCardsApart(t *testing.T) {
	t.Parallel()
	e := start(t, echo, withExtendedCard)
	tags := make(map[string]string)
	for _, path := range []string{"/extendedAgentCard", "/v1/card"} {
		for _, kind := range []string{"application/json", "application/a2a+json"} {
			_, h, _ := e.fetch("GET", path, "", "User", "alice", "Accept", kind)
			vary := strings.Join(h.Values("Vary"), ", ")
			if !strings.Contains(vary, "Authorization") || !strings.Contains(vary, "Accept") || h.Get("Content-Type") != kind {
				t.Errorf("GET %s as %s has the type %s and Vary %q, want Authorization and Accept", path, kind, h.Get("Content-Type"), vary)
			}
			if other := tags[h.Get("ETag")]; other != "" {
				t.Errorf("GET %s as %s has the ETag of %s", path, kind, other)
			}
			tags[h.Get("ETag")] = path + " as " + kind
		}
	}
	for _, method := range []string{"agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard"} {
		if got := e.call(method, `{}`, "User", "alice"); got.Status != 200 || got.Header.Get("ETag") != "" || got.Header.Get("Cache-Control") != "" {
			t.Errorf("%s = %d %v, want no headers for caches", method, got.Status, got.Header)
		}
	}
}

// A function that returns the extended card may change its copy of the public one.
func TestExtendedCardDoesNotChangeThePublicOne(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) {
		withExtendedCard(c)
		c.Card.Provider = &a2a.AgentProvider{Organization: "o", URL: "https://example.com/"}
		c.Card.ExtraData = map[string]any{"list": []any{map[string]any{"k": "v"}}}
		c.Card.Capabilities.Extensions = []a2a.AgentExtension{{URI: "urn:example:public", Params: map[string]any{"k": "v"}}}
		c.Security.ExtendedCard = func(_ context.Context, _ a2a.Principal, card a2a.AgentCard) (*a2a.AgentCard, error) {
			card.Name, card.Provider.Organization, card.DefaultInputModes[0] = "secret 1", "secret 2", "secret 3"
			card.Skills[0].ID, card.Skills[0].Tags[0] = "secret 4", "secret 5"
			card.SecuritySchemes["secret 6"] = a2a.HTTPAuthSecurityScheme{Scheme: "bearer"}
			card.Capabilities.Extensions[0].URI, card.Capabilities.Extensions[0].Params["k"] = "urn:example:secret 7", "secret 8"
			card.ExtraData["list"].([]any)[0].(map[string]any)["k"] = "secret 9"
			return &card, nil
		}
	})
	got := e.call("agent/getAuthenticatedExtendedCard", `{}`, "User", "alice")
	for i := 1; i <= 9; i++ {
		if !strings.Contains(string(got.Body), fmt.Sprint("secret ", i)) {
			t.Errorf("agent/getAuthenticatedExtendedCard = %s, want secret %d", got.Body, i)
		}
	}
	for _, path := range []string{cardPath, strictPath} {
		r := e.request("GET", path, "", nil)
		r.Host = "another.example.com" // its card is not in the cache
		w := httptest.NewRecorder()
		e.server.ServeHTTP(w, r)
		if w.Code != 200 || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("GET %s = %d %s, want the public card", path, w.Code, w.Body)
		}
	}
}

// An authenticator may accept requests without credentials. They get no extended card.
func TestAnonymousCallersHaveNoExtendedCard(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) {
		withExtendedCard(c)
		c.Security.ExtendedCard = func(_ context.Context, _ a2a.Principal, card a2a.AgentCard) (*a2a.AgentCard, error) {
			return &card, nil
		}
	})
	for _, method := range []string{"agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard"} {
		if got := e.call(method, `{}`, "User", a2a.Anonymous); got.code() != -32007 {
			t.Errorf("%s = %s, want -32007", method, got.Body)
		}
	}
	for _, path := range []string{"/v1/card", "/extendedAgentCard"} {
		if status, h, body := e.fetch("GET", path, "", "User", a2a.Anonymous); status != 401 || h.Get("WWW-Authenticate") != "User" {
			t.Errorf("GET %s = %d %v %s, want 401 and a challenge", path, status, h, body)
		}
		if status, _, body := e.fetch("GET", path, "", "User", "alice"); status != 200 {
			t.Errorf("GET %s with credentials = %d %s, want 200", path, status, body)
		}
	}
}

func TestExtendedCardRequiresAnAuthenticator(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	cfg := server.Config{Engine: e.engine, Card: a2a.AgentCard{Name: "a"}}
	withExtendedCard(&cfg)
	cfg.Security.Authenticator = nil
	var problems *config.Error
	if _, err := server.New(cfg); !errors.As(err, &problems) || len(problems.Problems) != 1 || problems.Problems[0].Field != "Security.ExtendedCard" {
		t.Errorf("New() = %v, want a problem of Security.ExtendedCard", err)
	}
}
