// Receiver receives webhook requests from Holdfast, or from another A2A server, and prints the events
// of tasks. docs/webhooks.md describes the requests.
//
//	WEBHOOK_TOKEN=s3cret WEBHOOK_SECRET=whsec_... go run ./examples/receivers/go
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
)

func main() {
	cfg := client.ReceiverConfig{
		Keys:   strings.Fields(os.Getenv("WEBHOOK_SECRET")),
		Handle: handle,
		OnDuplicate: func(e client.WebhookEvent) {
			fmt.Fprintf(os.Stderr, "duplicate: %s %d\n", e.TaskID, e.Sequence)
		},
		OnReject: func(_ *http.Request, err error) { fmt.Fprintln(os.Stderr, "refused:", err) },
		// A durable receiver also sets Positions, which stores what it has processed.
	}
	if token := os.Getenv("WEBHOOK_TOKEN"); token != "" {
		cfg.Tokens = []string{token}
	}
	receiver, err := client.NewReceiver(cfg)
	if err != nil {
		log.Fatal("WEBHOOK_TOKEN, WEBHOOK_SECRET: ", err)
	}
	port := os.Getenv("PORT")
	if port == "" {
		port = "8000"
	}
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "listening on http://%s/\n", ln.Addr())
	server := &http.Server{Handler: receiver, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second}
	log.Fatal(server.Serve(ln))
}

// handle prints an event. If it returned an error, the event would arrive again.
func handle(_ context.Context, e client.WebhookEvent) error {
	note := ""
	switch {
	case e.Late:
		note = " (late)" // replayed: later events were received before
	case e.Missing > 0:
		note = " (some before it are missing)" // dead letters: replay them, or get the task
	}
	fmt.Printf("%s %d %s%s\n", e.TaskID, e.Sequence, describe(e.Event), note)
	return nil
}

func describe(event a2a.Event) string {
	switch e := event.(type) {
	case *a2a.TaskArtifactUpdateEvent:
		name := e.Artifact.Name
		if name == "" {
			name = e.Artifact.ID
		}
		switch {
		case !e.Append && len(e.Artifact.Parts) == 0:
			name += " (withdrawn)"
		case e.LastChunk:
			name += " (complete)"
		}
		return "artifact " + name
	case *a2a.TaskStatusUpdateEvent:
		text := describeStatus(e.Status)
		if e.Final {
			text += " (final)"
		}
		return text
	case *a2a.Task:
		return describeStatus(e.Status)
	case *a2a.Message:
		return e.Text()
	}
	return ""
}

func describeStatus(s a2a.TaskStatus) string {
	if s.Message == nil {
		return string(s.State)
	}
	return string(s.State) + ": " + s.Message.Text()
}
