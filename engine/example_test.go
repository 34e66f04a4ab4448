package engine_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
)

// An engine without a transport: send a message and wait for the finished task.
func Example() {
	ctx := context.Background()
	e, err := engine.New(engine.Config{
		Store: inmem.New(),
		NewID: newID,
		Handler: func(_ context.Context, t *engine.Turn) error {
			return t.Reply(a2a.TextPart{Text: "you said " + t.Messages()[0].Text()})
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := e.Start(ctx); err != nil {
		log.Fatal(err)
	}
	sent, err := e.Send(ctx, a2a.Principal{ID: "alice"}, a2a.MessageSendParams{Message: a2a.Message{
		ID: "m1", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: "hello"}},
	}}, engine.SendOptions{Wait: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sent.Task.Status.State, sent.Task.Status.Message.Text())
	fmt.Println(e.Stop(ctx))
	// Output:
	// completed you said hello
	// <nil>
}
