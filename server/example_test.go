package server_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/server"
)

// A server is an http.Handler over an engine.
func Example() {
	e, err := engine.New(engine.Config{
		Store: inmem.New(), NewID: uuid.NewString,
		Handler: func(context.Context, *engine.Turn) error { return nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	tokens, err := server.NewTokens([]server.Token{{Token: "sesame", Principal: a2a.Principal{ID: "alice"}}})
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.New(server.Config{
		Engine:   e,
		Card:     a2a.AgentCard{Name: "example", Description: "an example", Version: "1.0.0"},
		Security: server.Security{Authenticator: tokens},
	})
	if err != nil {
		log.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`))
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, request)
	fmt.Println(answer.Code, answer.Header().Get("WWW-Authenticate"))
	// Output: 401 Bearer realm="holdfast"
}
