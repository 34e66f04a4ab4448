package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/holdfast-dev/holdfast/a2a"
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
