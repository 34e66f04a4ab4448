package interop_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	"github.com/a2aproject/a2a-go/a2aclient/agentcard"
)

// The client finds the scheme in the card and sends each principal's token by it.
func TestBearerTokens(t *testing.T) {
	t.Parallel()
	s := startAgent(t, "--token", "alices-secret=alice", "--token", "bobs-secret=bob")
	card, err := agentcard.DefaultResolver.Resolve(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	credentials := a2aclient.NewInMemoryCredentialsStore()
	for session, secret := range map[a2aclient.SessionID]string{"alice": "alices-secret", "bob": "bobs-secret", "eve": "wrong"} {
		for scheme := range card.SecuritySchemes {
			credentials.Set(session, scheme, a2aclient.AuthCredential(secret))
		}
	}
	client, err := a2aclient.NewFromCard(t.Context(), card, a2aclient.WithInterceptors(&a2aclient.AuthInterceptor{Service: credentials}))
	if err != nil {
		t.Fatal(err)
	}
	c := &go03{client: client}
	as := func(session a2aclient.SessionID) context.Context {
		return a2aclient.WithSessionID(t.Context(), session)
	}
	task, err := c.send(as("alice"), sending{message: say("complete")})
	if err != nil || task.state != "completed" {
		t.Fatalf("send = %+v, %v, want a completed task", task, err)
	}
	if got, err := c.task(as("alice"), task.taskID); err != nil || got.taskID != task.taskID {
		t.Errorf("get of one's own task = %+v, %v", got, err)
	}
	_, err = c.task(as("bob"), task.taskID)
	wantCode(t, "get of another's task", err, codeTaskNotFound)
	for _, ctx := range []context.Context{as("eve"), t.Context()} {
		if _, err := c.task(ctx, task.taskID); err == nil || errors.Is(err, a2a.ErrTaskNotFound) || !strings.Contains(err.Error(), "401") {
			t.Errorf("get without a valid token = %v, want status 401", err)
		}
	}
}
