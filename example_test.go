package holdfast_test

import (
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/webhook"
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
	fmt.Fprint(t.Artifact("shout"), loud) // streamed to clients that follow the task
	return t.Reply("done")
}

// This agent serves until it receives SIGINT or SIGTERM.
func Example() {
	agent, err := holdfast.New(holdfast.Config{Name: "shouter", Logger: slog.Default()}, holdfast.HandlerFunc(shout))
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := agent.ListenAndServe(ctx, "127.0.0.1:3773"); err != nil {
		log.Fatal(err)
	}
}

// This agent uses an in-memory store and a free port. A client sends it a message.
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
	result, err := c.Send(ctx, client.SendParams{
		Message:       client.Text("hello"),
		Configuration: &a2a.MessageSendConfiguration{Blocking: true},
	})
	if err != nil {
		log.Fatal(err)
	}
	task := result.(*a2a.Task)
	fmt.Println(task.Status.State, task.Artifacts[0].Text())

	stop()
	fmt.Println(<-served)
	// Output:
	// completed HELLO
	// <nil>
}

// This interceptor counts the calls of each method and their errors, for the metrics of a process.
func ExampleConfig_interceptors() {
	calls, failures := expvar.NewMap("a2a_calls"), expvar.NewMap("a2a_failures")
	count := func(m *a2a.Method, next rpc.Handler) rpc.Handler {
		return func(ctx context.Context, c *rpc.Call) (any, error) {
			result, err := next(ctx, c)
			calls.Add(m.Name, 1)
			if err != nil {
				failures.Add(m.Name, 1)
			}
			return result, err
		}
	}
	agent, err := holdfast.New(holdfast.Config{
		Name: "shouter", Store: inmem.New(), Requests: server.Requests{Interceptors: []rpc.Interceptor{count}},
	}, holdfast.HandlerFunc(shout))
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
	_, _ = c.Task(ctx, a2a.TaskQueryParams{ID: "018f3a1c-0000-7000-8000-000000000000"})
	fmt.Println("calls:", calls, "failures:", failures)

	stop()
	if err := <-served; err != nil {
		log.Fatal(err)
	}
	// Output: calls: {"tasks/get": 1} failures: {"tasks/get": 1}
}

// This handler reads the earlier messages of the conversation.
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
	contextID := ""
	for _, text := range []string{"hi", "cracker"} {
		message := client.Text(text)
		message.ContextID = contextID // every message starts a task in the same conversation
		result, err := c.Send(ctx, client.SendParams{Message: message, Configuration: &a2a.MessageSendConfiguration{Blocking: true}})
		if err != nil {
			log.Fatal(err)
		}
		task := result.(*a2a.Task)
		contextID = task.ContextID
		fmt.Println(task.Status.Message.Text())
	}

	stop()
	<-served
	// Output:
	// hello, I am a parrot
	// after "hi" you say "cracker"
}

// This handler needs memory besides its message, so it reserves it first. Without free memory the
// turn runs again later.
func ExampleTurn_Reserve() {
	converse(func(ctx context.Context, t *holdfast.Turn) error {
		text := t.Text()
		// A string header of 16 bytes for each word of at least two bytes, and a copy of the text.
		release, err := t.Reserve(ctx, 9*int64(len(text)))
		if err != nil {
			return err
		}
		defer release()
		words := strings.Fields(text)
		slices.Sort(words)
		return t.Reply(strings.Join(words, " "))
	}, "pear apple plum")
	// Output:
	// apple pear plum
}

// This handler greets with a message in place of a task, and does other work as tasks.
func ExampleTurn_Say() {
	agent, err := holdfast.New(holdfast.Config{Name: "clerk", Store: inmem.New()}, holdfast.HandlerFunc(func(_ context.Context, t *holdfast.Turn) error {
		if t.Text() == "hi" {
			return t.Say("Hello, what can I do?")
		}
		return t.Reply("Done.")
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
	for _, text := range []string{"hi", "file this"} {
		result, err := c.Send(ctx, client.SendParams{Message: client.Text(text), Configuration: &a2a.MessageSendConfiguration{Blocking: true}})
		if err != nil {
			log.Fatal(err)
		}
		switch answer := result.(type) {
		case *a2a.Message:
			fmt.Println("message:", answer.Text())
		case *a2a.Task:
			fmt.Println("task:", answer.Status.Message.Text())
		}
	}

	stop()
	<-served
	// Output:
	// message: Hello, what can I do?
	// task: Done.
}

// A client registers a webhook for the events of its task. Receivers on this machine must be
// allowed; receivers with public addresses need no configuration.
func ExampleWebhooks() {
	var updates []string
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		// A production receiver verifies the token or the signature first.
		var event struct {
			Sequence int
			Kind     string
		}
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			log.Fatal(err)
		}
		updates = append(updates, fmt.Sprint(event.Sequence, " ", event.Kind))
	}))
	agent, err := holdfast.New(holdfast.Config{
		Name: "shouter", Store: inmem.New(),
		Webhooks: webhook.Settings{AllowHosts: []string{receiver.Listener.Addr().String()}},
	}, holdfast.HandlerFunc(shout))
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
	_, err = c.Send(ctx, client.SendParams{
		Message: client.Text("hello"),
		Configuration: &a2a.MessageSendConfiguration{
			Blocking:               true,
			PushNotificationConfig: &a2a.PushNotificationConfig{URL: receiver.URL, Token: "secret"},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	stop()
	fmt.Println(<-served) // Serve returns after the last events are delivered
	receiver.Close()

	fmt.Println(strings.Join(updates, "\n"))
	// Output:
	// <nil>
	// 1 status-update
	// 2 artifact-update
	// 3 status-update
}
