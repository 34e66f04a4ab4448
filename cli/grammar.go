package cli

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-dev/holdfast/cli/command"
)

// grammar is the command line. Each field is a command of the first level; see commands.
type grammar struct {
	JSON bool `name:"json" envvar:"HOLDFAST_JSON" help:"Print the result as JSON on stdout and errors as JSON on stderr."`

	ShowVersion versionFlag `name:"version" hidden:"" help:"Show the version."`

	Serve    serveCmd    `kong:"-"`
	Chat     chatCmd     `kong:"-"`
	Send     sendCmd     `kong:"-"`
	Tasks    tasksCmd    `kong:"-"`
	Contexts contextsCmd `kong:"-"`
	Webhooks webhooksCmd `kong:"-"`
	Audit    auditCmd    `kong:"-"`
	Config   configCmd   `kong:"-"`
	Migrate  migrateCmd  `kong:"-"`
	Storage  storageCmd  `kong:"-"`
	Export   exportCmd   `kong:"-"`
	Forget   forgetCmd   `kong:"-"`
	Import   importCmd   `kong:"-"`
	Call     callCmd     `kong:"-"`
	Card     cardCmd     `kong:"-"`
	Version  versionCmd  `kong:"-"`
	Help     helpCmd     `kong:"-"`
}

// topCommand is a command of the first level.
type topCommand struct {
	name, help string
	fields     any // a pointer to its flags, arguments and commands
}

// commands returns all commands, in the order of the help.
func (g *grammar) commands(a *app) []topCommand {
	all := []topCommand{
		{"serve", "Start an agent server.", &g.Serve},
		{"chat", "Chat with an agent, line by line.", &g.Chat},
		{"send", "Send a message to an agent and print the answer.", &g.Send},
		{"tasks", "List, show, follow, cancel, delete and rate tasks.", &g.Tasks},
		{"contexts", "List, show, describe, archive and delete contexts (conversations).", &g.Contexts},
		{"webhooks", "Set, list, delete and test webhooks; list and resend undelivered events.", &g.Webhooks},
		{"audit", "List who acted for other owners.", &g.Audit},
		{"config", "Show the effective settings and their sources.", &g.Config},
		{"migrate", "Apply, list or print schema migrations of a store.", &g.Migrate},
		{"storage", "Test a store with the conformance suites.", &g.Storage},
		{"export", "Write contexts, or all data of an owner, to a file.", &g.Export},
		{"forget", "Delete all data of a principal.", &g.Forget},
		{"import", "Read contexts and other data from a file.", &g.Import},
		{"call", "Call any method of the protocol with JSON.", &g.Call},
		{"card", "Show the agent card, or verify its signature.", &g.Card},
		{"version", "Show the version.", &g.Version},
		{"help", "Explain a command, the exit codes or the environment.", &g.Help},
	}
	var contracts []topCommand
	for _, c := range a.commands {
		contracts = append(contracts, topCommand{c.Name, c.Help, c.New()})
	}
	i := slices.IndexFunc(all, func(c topCommand) bool { return c.name == "config" })
	return slices.Insert(all, i, contracts...)
}

// setStores sets the flags of contracts, and the Stores of a contract's command, in the structs of a command.
func setStores(v reflect.Value, a *app) {
	for _, f := range v.Fields() {
		switch {
		case f.Type() == reflect.TypeFor[contractFlags]():
			f.Field(0).Set(reflect.ValueOf(a.contractFlags()))
		case f.Type() == reflect.TypeFor[command.Stores]():
			s := &keptStorage{app: a}
			setStores(reflect.ValueOf(s).Elem(), a)
			f.Set(reflect.ValueOf(s))
		case f.Kind() == reflect.Struct:
			setStores(f, a)
		}
	}
}

// parts returns the options of the parser that add the commands. A command that the arguments do not name gets no
// flags, because the parser needs most of the time of a short command for flags. serve always gets its flags: they
// are the keys of the config file. If the arguments name no command, or help, which may print all, each command gets
// its flags.
func (g *grammar) parts(a *app) []kong.Option {
	args, all := a.args, g.commands(a)
	named := func(c topCommand) bool { return slices.Contains(args, c.name) }
	whole := !slices.ContainsFunc(all, named) || slices.Contains(args, "help")
	options := make([]kong.Option, len(all))
	for i, c := range all {
		if !whole && !named(c) && c.name != "serve" {
			c.fields = &struct{}{}
		}
		setStores(reflect.ValueOf(c.fields).Elem(), a)
		options[i] = kong.DynamicCommand(c.name, c.help, "", c.fields)
	}
	return options
}

func (a *app) parser(g *grammar) (*kong.Kong, error) {
	if a.parts.GRPC != nil {
		g.withGRPC()
	}
	parser, err := kong.New(g, append(g.parts(a),
		kong.Name("holdfast"),
		kong.Bind(a, &a.Console),
		kong.Writers(a.Out.W, a.Err.W),
		kong.Resolvers(kong.ResolverFunc(a.resolve)),
		kong.WithBeforeResolve(a.loadConfig),
		kong.Vars{"agents": strings.Join(agentNames(), ",")},
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100, NoExpandSubcommands: true}),
		kong.ValueFormatter(describeValue),
		kong.Help(a.printHelp),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeDuration)),
	)...)
	if err != nil {
		return nil, err
	}
	describeFlags(parser.Model.Node)
	a.addHelpTexts(parser.Model.Node)
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
