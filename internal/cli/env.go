package cli

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// envPrefix begins the names of our environment variables.
const envPrefix = "HOLDFAST_"

// environment is the process's environment.
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

// get returns a variable; empty is the same as absent.
func (e environment) get(name string) string { return e.values[name] }

// envName is the environment variable of a flag, "" when it has none.
func envName(v *kong.Value) string {
	if v.Tag == nil || !v.Tag.Has("envvar") {
		return ""
	}
	return v.Tag.Get("envvar")
}

// envNames are all variables of a flag, the one that wins first: its own and those
// that others have made known.
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

// secretVariables are those that hold secrets of a server.
func (s *settings) secretVariables() []string {
	names := []string{"PGPASSWORD"} // what a database URL leaves out
	for _, flag := range s.known {
		if flag.Tag.Has("secret") {
			names = append(names, envNames(flag.Value)...)
		}
	}
	return names
}

// unknown lists variables that look like ours and are not.
func (e environment) unknown(model *kong.Application) []string {
	known := map[string]bool{}
	for _, row := range environmentTable(model) {
		known[row.name] = true
	}
	var names []string
	for name, value := range e.values {
		if value != "" && strings.HasPrefix(name, envPrefix) && !known[name] && !slices.Contains(setForPrograms, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// setForPrograms are set by the exec agent for its programs, which may well run
// holdfast themselves.
var setForPrograms = []string{"HOLDFAST_TASK_ID", "HOLDFAST_CONTEXT_ID", "HOLDFAST_TURN", "HOLDFAST_ATTEMPT"}

// envRow is a variable and what it stands for.
type envRow struct {
	name, flag string
	hidden     bool
	commands   []string // "" is all of them
}

// flags says which flag of which commands the variable is.
func (r envRow) flags() string {
	switch {
	case r.commands[0] == "":
		return r.flag
	case slices.Contains(r.commands, "export"):
		return r.flag + " of commands that open a store"
	case len(r.commands) > 4:
		return r.flag + " of commands that talk to a server"
	}
	names := r.commands[0]
	if last := len(r.commands) - 1; last > 0 {
		names = strings.Join(r.commands[:last], ", ") + " and " + r.commands[last]
	}
	return r.flag + " of " + names
}

// environmentTable lists the variables of all flags, each once. The flags of config
// are those of serve.
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
