package cli

import (
	_ "embed"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holdfast-dev/holdfast/cli/command"
)

// helpCmd prints the help of a topic.
type helpCmd struct {
	Topic []string `arg:"" optional:"" help:"Command, exit-codes or environment."`
}

//go:embed help/tour.txt
var tourText string

//go:embed help/commands.txt
var commandsText string

//go:embed help/exit-codes.txt
var exitCodesText string

//go:embed help/environment.txt
var environmentText string

// Run shows the help of a topic.
func (c helpCmd) Run(a *app) error {
	switch strings.Join(c.Topic, " ") {
	case "":
		return a.printTour()
	case "exit-codes":
		a.Out.Line("%s", strings.ReplaceAll(strings.TrimRight(exitCodesText, "\n"), "{table}", strings.TrimRight(exitTableText(), "\n")))
		return nil
	case "environment":
		return a.printEnvironment()
	}
	var g grammar
	parser, err := a.parser(&g)
	if err != nil {
		return err
	}
	parser.Exit = func(int) {}
	parsed, err := kong.Trace(parser, c.Topic)
	if err != nil {
		return err
	}
	topic := strings.Join(c.Topic, " ")
	selected := parsed.Selected()
	isDefault := selected != nil && selected.Parent.DefaultCmd == selected && topic == commandPath(selected.Parent)
	if topic != commandPath(selected) && !isDefault {
		return command.WithHint(command.Usagef("unknown help topic %q", topic), "topics: "+strings.Join(topics(parser), ", "))
	}
	return parsed.PrintUsage(false)
}

// addHelpTexts sets the texts of help/commands.txt and of contracts, which have a heading for each command.
func (a *app) addHelpTexts(node *kong.Node) {
	all := "\n" + commandsText
	for _, c := range a.commands {
		all += "\n" + c.Details
	}
	addTexts(node, all)
}

func addTexts(node *kong.Node, all string) {
	for _, child := range node.Children {
		if _, text, ok := strings.Cut(all, "\n# "+child.FullPath()+"\n"); ok {
			text, _, _ = strings.Cut(text, "\n# holdfast ")
			child.Detail = strings.TrimSpace(text)
		}
		addTexts(child, all)
	}
}

// commandPath returns the words of a command without the program's name.
func commandPath(node *kong.Node) string {
	if node == nil {
		return ""
	}
	return strings.TrimPrefix(node.FullPath(), "holdfast ")
}

func topics(parser *kong.Kong) []string {
	var all []string
	for _, node := range parser.Model.Children {
		if !node.Hidden {
			all = append(all, node.Name)
		}
	}
	return append(all, "exit-codes", "environment")
}

// printHelp prints the text of --help: the tour, or the help of a command.
func (a *app) printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if ctx.Selected() == nil {
		return a.printTour()
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

func (a *app) printTour() error {
	a.Out.Line("%s", strings.TrimRight(tourText, "\n"))
	return nil
}

func (a *app) printEnvironment() error {
	var g grammar
	parser, err := a.parser(&g)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, row := range environmentTable(parser.Model) {
		if !row.hidden {
			b.WriteString("  " + row.name + strings.Repeat(" ", max(38-len(row.name), 1)) + row.flags() + "\n")
		}
	}
	a.Out.Line("%s", strings.ReplaceAll(strings.TrimRight(environmentText, "\n"), "{table}", strings.TrimRight(b.String(), "\n")))
	return nil
}
