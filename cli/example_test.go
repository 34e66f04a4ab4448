package cli_test

import (
	"context"
	"os"

	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/cli/command"
)

// hello has the commands below "holdfast hello".
type hello struct {
	World helloWorld `cmd:"" help:"Greet the world."`
}

type helloWorld struct{}

// Run prints the greeting.
func (helloWorld) Run(_ context.Context, c *command.Console) error {
	return c.Done(map[string]any{"hello": "world"}, "hello, world")
}

// A program adds a command of its own. A real program is os.Exit(cli.Process(parts)).
func Example() {
	parts := cli.Parts{Commands: []command.Command{{Name: "hello", Help: "Greet.", New: func() any { return new(hello) }}}}
	cli.Main(context.Background(), cli.Program{Args: []string{"holdfast", "hello", "world"}, Stdout: os.Stdout, Stderr: os.Stderr, Parts: parts})
	// Output: hello, world
}
