package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/internal/await"
)

func charged() int {
	ledger, _ := os.ReadFile("ledger.txt") // it may not exist
	return strings.Count(string(ledger), "\n")
}

func TestOrders(t *testing.T) {
	t.Chdir(t.TempDir())
	slow = 20 * time.Millisecond
	r := holdfasttest.New(t, holdfast.HandlerFunc(order))
	task := r.Send("blue mug")
	if task.State != a2a.StateInputRequired || task.Message != "Where should the blue mug go?" {
		t.Fatalf("first order = %s %q, want a question", task.State, task.Message)
	}
	// The process ends when the order is charged, and before it is packed.
	answer := holdfasttest.Message(a2a.TextPart{Text: "1 Main Street"})
	answer.TaskID = task.ID
	r.Submit(answer)
	await.True(t, "the order is charged", func() bool { return charged() == 1 })
	r.Restart()
	if task = r.Wait(task.ID); !strings.HasPrefix(task.Message, "The blue mug goes to 1 Main Street (receipt ") {
		t.Errorf("first order = %q, want the mug on its way", task.Message)
	}
	// The conversation knows the address.
	again := holdfasttest.Message(a2a.TextPart{Text: "red mug"})
	again.ContextID = task.ContextID
	if task = r.SendMessage(again); !strings.HasPrefix(task.Message, "The red mug goes to 1 Main Street (receipt ") {
		t.Errorf("second order = %q, want the mug on its way", task.Message)
	}
	if n := charged(); n != 2 {
		t.Errorf("%d orders were charged, want 2", n)
	}
}
