package cli

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// envPrefix is the prefix of Holdfast's environment variables.
const envPrefix = "HOLDFAST_"

// environment is the environment of the process.
type environment struct {
	values map[string]string
}

func newEnvironment(environ []string) environment {
	e := environment{values: map[string]string{}}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			e.values[name] = value
		}
	}
	return e
}

// get returns a variable, "" if it is not set.
func (e environment) get(name string) string { return e.values[name] }

// envName returns the environment variable of a flag, "" if it has none.
func envName(v *kong.Value) string {
	if v.Tag == nil || !v.Tag.Has("envvar") {
		return ""
	}
	if name := v.Tag.Get("envvar"); name != "" {
		return name
	}
	return envPrefix + strings.ToUpper(strings.ReplaceAll(v.Name, "-", "_"))
}

// envNames returns all environment variables of a flag in order of precedence: its own variable,
// then aliases that other software uses.
func envNames(v *kong.Value) []string {
	name := envName(v)
	if name == "" {
		return nil
	}
	names := []string{name}
	if v.Tag.Has("also") {
		names = append(names, strings.Split(v.Tag.Get("also"), ",")...)
	}
	return names
}

// secretVariables returns the environment variables that contain secrets of a server.
func (s *settings) secretVariables() []string {
	names := []string{"PGPASSWORD"} // completes the database URL
	for _, flag := range s.serveFlags {
		if flag.Tag.Has("secret") {
			names = append(names, envNames(flag.Value)...)
		}
	}
	return names
}

// unknown returns the set variables that have the prefix of Holdfast and are not known.
func (e environment) unknown(model *kong.Application) []string {
	known := map[string]bool{}
	for _, row := range environmentTable(model) {
		known[row.name] = true
	}
	var names []string
	for name, value := range e.values {
		if value != "" && strings.HasPrefix(name, envPrefix) && !known[name] && !slices.Contains(execVariables, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// execVariables are set by the exec agent for its programs, which may run holdfast themselves.
var execVariables = []string{"HOLDFAST_TASK_ID", "HOLDFAST_CONTEXT_ID", "HOLDFAST_TURN", "HOLDFAST_ATTEMPT"}

// envRow is a variable and the flag that it sets.
type envRow struct {
	name, flag string
	hidden     bool
	commands   []string // "" is all commands
}

// flags describes the variable: the flag and its commands.
func (r envRow) flags() string {
	switch {
	case r.commands[0] == "":
		return r.flag
	case slices.Contains(r.commands, "export"):
		return r.flag + " of commands that open a store"
	case len(r.commands) > 4:
		return r.flag + " of commands that use a server"
	}
	names := r.commands[0]
	if last := len(r.commands) - 1; last > 0 {
		names = strings.Join(r.commands[:last], ", ") + " and " + r.commands[last]
	}
	return r.flag + " of " + names
}

// environmentTable lists the variables of all flags, each once. It skips config, which has the flags
// of serve.
func environmentTable(model *kong.Application) []envRow {
	var rows []envRow
	var walk func(node *kong.Node)
	walk = func(node *kong.Node) {
		for _, flag := range node.Flags {
			for _, name := range envNames(flag.Value) {
				i := slices.IndexFunc(rows, func(r envRow) bool { return r.name == name })
				if i < 0 {
					i = len(rows)
					rows = append(rows, envRow{name: name, flag: "--" + flag.Name, hidden: flag.Hidden})
				}
				rows[i].commands = append(rows[i].commands, strings.TrimSpace(strings.TrimPrefix(node.FullPath(), "holdfast")))
			}
		}
		for _, child := range node.Children {
			if child.Name != "config" {
				walk(child)
			}
		}
	}
	walk(model.Node)
	return rows
}
