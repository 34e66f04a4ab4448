package cli

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// grammar is the command line. It has many fields because each is a command of the first level.
type grammar struct {
	JSON bool `name:"json" envvar:"HOLDFAST_JSON" help:"Print the result as JSON on stdout and errors as JSON on stderr."`

	ShowVersion versionFlag `name:"version" hidden:"" help:"Show the version."`

	Serve     serveCmd     `cmd:"" help:"Start an agent server."`
	Chat      chatCmd      `cmd:"" help:"Chat with an agent, line by line."`
	Send      sendCmd      `cmd:"" help:"Send a message to an agent and print the answer."`
	Tasks     tasksCmd     `cmd:"" help:"List, show, follow, cancel, delete and rate tasks."`
	Contexts  contextsCmd  `cmd:"" help:"List, show, describe, archive and delete contexts (conversations)."`
	Webhooks  webhooksCmd  `cmd:"" help:"Set, list, delete and test webhooks; list and resend undelivered events."`
	Blobs     blobsCmd     `cmd:"" help:"List, read, store and delete blobs of an owner, in the store."`
	History   historyCmd   `cmd:"" help:"List, show, search, export and delete transcripts of an owner, in the store."`
	Memory    memoryCmd    `cmd:"" help:"List, show, search and delete facts of an owner, in the store."`
	Documents documentsCmd `cmd:"" help:"List, search, add, export and delete documents of an owner, in the store."`
	Graph     graphCmd     `cmd:"" help:"List, show, query, export and delete graphs of an owner, in the store."`
	Boards    boardsCmd    `cmd:"" help:"List and show boards of an owner, in the store."`
	Config    configCmd    `cmd:"" help:"Show the effective settings and their sources."`
	Migrate   migrateCmd   `cmd:"" help:"Apply, list or print schema migrations of a store."`
	Storage   storageCmd   `cmd:"" help:"Test a store with the conformance suites."`
	Export    exportCmd    `cmd:"" help:"Write contexts, or all data of an owner, to a file."`
	Forget    forgetCmd    `cmd:"" help:"Delete all data of a principal."`
	Import    importCmd    `cmd:"" help:"Read contexts and other data from a file."`
	Call      callCmd      `cmd:"" help:"Call any method of the protocol with JSON."`
	Card      cardCmd      `cmd:"" help:"Show the agent card, or verify its signature."`
	Version   versionCmd   `cmd:"" help:"Show the version."`
	Help      helpCmd      `cmd:"" help:"Explain a command, the exit codes or the environment."`
}

func (a *app) parser(g *grammar) (*kong.Kong, error) {
	if a.grpc != nil {
		g.withGRPC()
	}
	parser, err := kong.New(g,
		kong.Name("holdfast"),
		kong.Bind(a),
		kong.Writers(a.out.w, a.err.w),
		kong.Resolvers(kong.ResolverFunc(a.resolve)),
		kong.WithBeforeResolve(a.loadConfig),
		kong.Vars{"agents": strings.Join(agentNames(), ",")},
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100, NoExpandSubcommands: true}),
		kong.ValueFormatter(describeValue),
		kong.Help(a.printHelp),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeDuration)),
	)
	if err != nil {
		return nil, err
	}
	describeFlags(parser.Model.Node)
	addHelpTexts(parser.Model.Node)
	a.set.serveFlags = flagsOfServe(parser.Model)
	hideTuning(parser.Model.Node)
	a.set.collectErrors(parser.Model.Node)
	return parser, nil
}

// hideTuning hides the PostgreSQL tuning flags from the help of commands other than serve and
// config, and the URLs of contracts from commands that do not use them. These commands still accept
// the flags.
func hideTuning(node *kong.Node) {
	for _, flag := range node.Flags {
		tuning := strings.HasPrefix(flag.Name, "postgres-") && node.Name != "serve" && node.Name != "config"
		unused := strings.HasPrefix(flag.Name, "store-") && node.Parent != nil && slices.Contains([]string{"migrate", "webhooks"}, node.Parent.Name)
		if tuning || unused {
			flag.Hidden = true
		}
	}
	for _, child := range node.Children {
		hideTuning(child)
	}
}

// describeValue returns the help of a flag or argument, with its default and its environment variables.
func describeValue(v *kong.Value) string {
	help := v.Help
	if v.Flag != nil && v.Name == "help" {
		help = "Show this help."
	}
	if v.HasDefault && !strings.Contains(help, "(default") {
		help = strings.TrimSuffix(help, ".") + " (default " + v.Default + ")."
	}
	if names := envNames(v); len(names) > 0 {
		help += " [$" + strings.Join(names, ", $") + "]"
	}
	return help
}
