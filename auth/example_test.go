package auth_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/server"
)

// An agent that knows its callers by tokens, and lets writers send messages.
func Example() {
	tokens, err := server.NewTokens([]server.Token{{Token: "open-sesame", Principal: a2a.Principal{ID: "alice", Roles: []string{"writer"}}}})
	if err != nil {
		panic(err)
	}
	roles, err := auth.ParseRoles([]byte(`{"roles": [{"roleId": "6f1c2a34-0b77-4a55-9a39-1f6f0f6b2c10", "roleName": "writer",
		"realmName": "agents", "trustLevel": "analyst", "permissions": []}]}`), nil)
	if err != nil {
		panic(err)
	}
	store := inmem.New()
	callers, err := auth.New(auth.Config{Schemes: []auth.Scheme{auth.Tokens{Accepted: tokens}}, Roles: roles, Records: store})
	if err != nil {
		panic(err)
	}
	cfg := holdfast.Config{Name: "greeter", Store: store}
	cfg.Security.Authenticator, cfg.Security.Authorizer, cfg.Security.Routes = callers, callers, callers.Routes(cfg.Name)
	cfg.Turns.Admit = callers.Admit(cfg.Card.Skills)
	agent, err := holdfast.New(cfg, holdfast.HandlerFunc(func(_ context.Context, t *holdfast.Turn) error {
		p := t.Principal()
		return t.Reply(fmt.Sprintf("Hello %s, you are an %s.", p.ID, p.Level))
	}))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	if err := agent.Start(ctx); err != nil {
		panic(err)
	}
	defer func() { _ = agent.Stop(ctx) }()
	r := httptest.NewRequest("POST", "/", strings.NewReader(`{"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": {"kind": "message",
		"messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}, "configuration": {"blocking": true}}}`))
	r.Header.Set("Authorization", "Bearer open-sesame")
	w := httptest.NewRecorder()
	agent.Handler().ServeHTTP(w, r)
	fmt.Println(w.Code, strings.Contains(w.Body.String(), "Hello alice, you are an analyst."))
	// Output: 200 true
}
