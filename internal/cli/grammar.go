package cli

import (
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// grammar is the command line.
type grammar struct {
	JSON bool `name:"json" envvar:"HOLDFAST_JSON" help:"For scripts: the result as JSON on stdout, errors as JSON on stderr."`

	ShowVersion versionFlag `name:"version" hidden:"" help:"Show the version."`

	Serve    serveCmd    `cmd:"" help:"Start an agent and keep its tasks."`
	Chat     chatCmd     `cmd:"" help:"Talk with an agent, line by line."`
	Send     sendCmd     `cmd:"" help:"Send a message to an agent and show what it answers."`
	Tasks    tasksCmd    `cmd:"" help:"List, read, follow, cancel and rate tasks."`
	Contexts contextsCmd `cmd:"" help:"List, read, describe, archive and clear conversations."`
	Webhooks webhooksCmd `cmd:"" help:"Set, list and delete webhooks; see and send again what they did not get."`
	Config   configCmd   `cmd:"" help:"Show the settings in force and where each comes from."`
	Migrate  migrateCmd  `cmd:"" help:"Bring the schema of a store up to date, or look at it."`
	Export   exportCmd   `cmd:"" help:"Write conversations to a file."`
	Import   importCmd   `cmd:"" help:"Read conversations from a file."`
	Call     callCmd     `cmd:"" help:"Call any method of the protocol with JSON."`
	Card     cardCmd     `cmd:"" help:"Show who an agent says it is."`
	Bench    benchCmd    `cmd:"" help:"Measure a server, or fill a store to measure with."`
	Version  versionCmd  `cmd:"" help:"Show the version, as --version does."`
	Help     helpCmd     `cmd:"" help:"Explain a command, the exit codes or the environment."`
}

func (a *app) parser(g *grammar) (*kong.Kong, error) {
	parser, err := kong.New(g,
		kong.Name("holdfast"),
		kong.Bind(a),
		kong.Writers(a.out.w, a.err.w),
		kong.Resolvers(kong.ResolverFunc(a.resolve)),
		kong.WithBeforeResolve(a.loadConfig),
		kong.Vars{"agents": strings.Join(agentNames(), ","), "scenarios": strings.Join(scenarioNames(), ",")},
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100, NoExpandSubcommands: true}),
		kong.ValueFormatter(describeValue),
		kong.Help(a.printHelp),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeDuration)),
	)
	if err != nil {
		return nil, err
	}
	a.set.known = knownSettings(parser.Model)
	hideTuning(parser.Model.Node)
	a.set.tolerate(parser.Model.Node)
	return parser, nil
}

// hideTuning leaves what only servers need out of the help of the commands that
// otherwise open stores; they take it all the same.
func hideTuning(node *kong.Node) {
	for _, flag := range node.Flags {
		if strings.HasPrefix(flag.Name, "postgres-") && node.Name != "serve" && node.Name != "config" {
			flag.Hidden = true
		}
	}
	for _, child := range node.Children {
		hideTuning(child)
	}
}

// describeValue is the help of a flag or argument, with its environment variable.
func describeValue(v *kong.Value) string {
	help := v.Help
	if v.Flag != nil && v.Name == "help" {
		help = "Show this help."
	}
	if names := envNames(v); len(names) > 0 {
		help += " [$" + strings.Join(names, ", $") + "]"
	}
	return help
}
