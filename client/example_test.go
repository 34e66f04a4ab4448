package client_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/client"
)

func Example() {
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, event("1", taskIn("submitted")), event("2", status("working", false)), event("3", status("completed", true)))
	}))
	defer agent.Close()

	c, err := client.New(client.Config{URL: agent.URL})
	if err != nil {
		log.Fatal(err)
	}
	for update, err := range c.Stream(context.Background(), client.SendParams{Message: client.Text("Summarize this.")}) {
		if err != nil {
			log.Fatal(err)
		}
		switch e := update.Event.(type) {
		case *a2a.Task:
			fmt.Println("task", e.Status.State)
		case *a2a.TaskStatusUpdateEvent:
			fmt.Println("now", e.Status.State)
		}
	}
	// Output:
	// task submitted
	// now working
	// now completed
}

func ExampleDiscover() {
	url := startEcho()
	c, err := client.Discover(context.Background(), client.Config{URL: url, Transport: client.TransportREST})
	if err != nil {
		log.Fatal(err)
	}
	answer, err := c.Send(context.Background(), client.SendParams{
		Message: client.Text("hello"), Configuration: &a2a.MessageSendConfiguration{Blocking: true},
	})
	if err != nil {
		log.Fatal(err)
	}
	if task, ok := answer.(*a2a.Task); ok {
		fmt.Println(c.Interface().Transport, task.Status.State, task.Status.Message.Text())
	}
	// Output:
	// HTTP+JSON completed hello
}

func ExampleNewReceiver() {
	receiver, err := client.NewReceiver(client.ReceiverConfig{
		Tokens: []string{"s3cret"},
		Handle: func(_ context.Context, e client.WebhookEvent) error {
			if status, ok := e.Event.(*a2a.TaskStatusUpdateEvent); ok {
				fmt.Println(e.TaskID, e.Sequence, status.Status.State)
			}
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 { // the second one is a duplicate
		body := `{"event_id":"e1","sequence":1,"kind":"status-update","task_id":"t1","context_id":"c1","status":{"state":"working"},"final":false}`
		r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer s3cret")
		w := httptest.NewRecorder()
		receiver.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// t1 1 working
	// 204
	// 204
}

// startEcho starts an agent that repeats messages, and returns its URL.
func startEcho() string {
	agent, err := holdfast.New(holdfast.Config{Name: "echo", Store: inmem.New()}, holdfast.HandlerFunc(func(_ context.Context, t *holdfast.Turn) error {
		return t.Reply(t.Text())
	}))
	if err != nil {
		log.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = agent.Serve(context.Background(), ln) }()
	return "http://" + ln.Addr().String()
}
