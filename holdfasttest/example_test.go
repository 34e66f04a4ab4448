package holdfasttest_test

import (
	"context"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/holdfasttest"
)

// A test sends a message to a handler and checks the resulting task.
func ExampleNew() {
	greet := holdfast.HandlerFunc(func(_ context.Context, t *holdfast.Turn) error {
		return t.Reply("Hello, " + t.Text())
	})
	test := func(t *testing.T) {
		task := holdfasttest.New(t, greet).Send("Ada")
		if task.State != a2a.StateCompleted || task.Message != "Hello, Ada" {
			t.Errorf("task = %s %q", task.State, task.Message)
		}
	}
	_ = test // in a test file: func TestGreet(t *testing.T) { ... }
	// Output:
}
