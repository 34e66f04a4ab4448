package cli

import (
	"slices"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/holdfast-dev/holdfast/cli/command"
)

func TestMaskedFlagsAreHiddenFromProcessList(t *testing.T) {
	t.Parallel()
	parser, err := (&app{Console: command.Console{Out: &command.Output{}, Err: &command.Output{}}, set: settings{origins: map[string]origin{}}}).parser(new(grammar))
	if err != nil {
		t.Fatal(err)
	}
	var masked []string
	var walk func(*kong.Node)
	walk = func(node *kong.Node) {
		for _, flag := range node.Flags {
			if flag.Tag.Has("secret") {
				masked = append(masked, "--"+flag.Name)
			}
		}
		for _, child := range node.Children {
			walk(child)
		}
	}
	walk(parser.Model.Node)
	if len(masked) < 7 {
		t.Errorf("flags with secrets = %v, want at least 7", masked)
	}
	for _, flag := range masked {
		if !slices.Contains(secretFlags, flag) {
			t.Errorf("%s is masked in the output but not in the process list", flag)
		}
	}
}
