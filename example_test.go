package holdfast_test

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"strings"
	"syscall"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/client"
)

func shout(ctx context.Context, t *holdfast.Turn) error {
	if t.Text() == "" {
		return t.RequireInput("What should I shout?")
	}
	// A durable step: after a crash its result is read back, not computed again.
	loud, err := holdfast.Step(ctx, t, "shout", func(context.Context) (string, error) {
		return strings.ToUpper(t.Text()), nil
	})
	if err != nil {
		return err
	}
	fmt.Fprint(t.Artifact("shout"), loud) // streamed to whoever follows
	return t.Reply("done")
}

// An agent that serves until it is told to stop.
func Example() {
	agent, err := holdfast.New(holdfast.Config{Name: "shouter"}, holdfast.HandlerFunc(shout))
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := agent.ListenAndServe(ctx, "127.0.0.1:3773"); err != nil {
		log.Fatal(err)
	}
}

// An agent on a store in memory, on a port of the system's choice, and a client
// that talks to it.
func ExampleAgent_Serve() {
	agent, err := holdfast.New(holdfast.Config{Name: "shouter", Store: inmem.New()}, holdfast.HandlerFunc(shout))
	if err != nil {
		log.Fatal(err)
	}
	ln, err := listen()
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- agent.Serve(ctx, ln) }()

	c, err := client.New(client.Config{URL: "http://" + ln.Addr().String()})
	if err != nil {
		log.Fatal(err)
	}
	answer, err := c.Send(ctx, client.SendParams{
		Message:       client.Text("hello"),
		Configuration: &a2a.MessageSendConfiguration{Blocking: true},
	})
	if err != nil {
		log.Fatal(err)
	}
	task := answer.(*a2a.Task)
	fmt.Println(task.Status.State, task.Artifacts[0].Text())

	stop()
	fmt.Println(<-served)
	// Output:
	// completed HELLO
	// <nil>
}

// A handler that reads what was said in the conversation before.
func ExampleTurn_History() {
	agent, err := holdfast.New(holdfast.Config{Name: "parrot", Store: inmem.New()}, holdfast.HandlerFunc(func(ctx context.Context, t *holdfast.Turn) error {
		earlier, err := t.History(ctx, 20)
		if err != nil {
			return err
		}
		if len(earlier) == 0 {
			return t.Reply("hello, I am a parrot")
		}
		return t.Reply(fmt.Sprintf("after %q you say %q", earlier[0].Text(), t.Text()))
	}))
	if err != nil {
		log.Fatal(err)
	}
	ln, err := listen()
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- agent.Serve(ctx, ln) }()

	c, err := client.New(client.Config{URL: "http://" + ln.Addr().String()})
	if err != nil {
		log.Fatal(err)
	}
	conversation := ""
	for _, text := range []string{"hi", "cracker"} {
		message := client.Text(text)
		message.ContextID = conversation // a task of its own in the same conversation
		answer, err := c.Send(ctx, client.SendParams{Message: message, Configuration: &a2a.MessageSendConfiguration{Blocking: true}})
		if err != nil {
			log.Fatal(err)
		}
		task := answer.(*a2a.Task)
		conversation = task.ContextID
		fmt.Println(task.Status.Message.Text())
	}

	stop()
	<-served
	// Output:
	// hello, I am a parrot
	// after "hi" you say "cracker"
}
