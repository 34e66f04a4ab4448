package cli

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-dev/holdfast/internal/memory"
)

// configCmd shows the settings of serve.
type configCmd struct {
	serveCmd

	Check bool `help:"Show what is wrong only, and end with 0 if nothing is."`
}

// Help says how to read it.
func (configCmd) Help() string {
	return `Give it what you give serve: the flags, the environment, the config file. It shows each setting, its value and where that comes from: a flag, a variable, a line of the file, or the default. A flag wins over a variable, that over the file. Passwords and tokens are masked. Nothing is started or opened; what is wrong with the settings is told and ends it with 2, as it would serve.

Examples:

    holdfast config
    holdfast config --config /etc/holdfast.yaml --check
    holdfast config --json | jq -r '.settings[] | select(.source != "default") | .name'`
}

// setting is one as it is in force.
type setting struct {
	Name   string `json:"name"`
	Value  any    `json:"value"`
	Source string `json:"source"`         // default, file, environment, flag, or derived from another setting
	From   string `json:"from,omitempty"` // the file, the variable, the flag or the other setting
	Line   int    `json:"line,omitempty"`
	group  string
	text   string
	how    string
}

// Run shows the settings.
func (c *configCmd) Run(a *app) error {
	r, err := c.prepare(a, slog.New(slog.DiscardHandler))
	unknown := a.unknownOwn()
	switch {
	case c.Check && err == nil:
		if a.json {
			return a.writeResult(map[string]any{"ok": true, "notes": notNil(append(r.notes, unknown...))})
		}
		a.note(r.notes)
		a.warnUnknownVariables()
		a.out.line("configuration is valid")
		return nil
	case c.Check:
		return err
	}
	all := c.settings(a, &r.storage)
	if a.json {
		if werr := a.writeResult(map[string]any{"settings": all, "notes": notNil(append(r.notes, unknown...))}); werr != nil {
			return werr
		}
		return err
	}
	a.printSettings(all)
	a.note(r.notes)
	a.warnUnknownVariables()
	return err
}

func notNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// settings are all of them, in the order of the help.
func (c *configCmd) settings(a *app, s *storage) []setting {
	var all []setting
	for _, flag := range a.set.flags {
		if flag.Hidden || slices.Contains(notSettings, flag.Name) && flag.Name != "config" || flag.Name == "check" {
			continue
		}
		o := a.set.origins[flag.Name]
		one := setting{Name: flag.Name, Value: settingValue(flag), Source: o.rank.String(), From: o.name, Line: o.line}
		if flag.Group != nil {
			one.group = flag.Group.Title
		}
		one.how = o.String()
		switch o.rank {
		case byDefault:
			one.how = "default"
		case byEnvironment:
			one.how = "$" + o.name
		case byFile, byFlag:
		}
		c.derive(a, s, &one)
		one.text = settingText(one.Value)
		all = append(all, one)
	}
	return all
}

// derive puts in what follows from other settings where one was not given.
func (c *configCmd) derive(a *app, s *storage, one *setting) {
	given := one.Source != byDefault.String()
	switch {
	case one.Name == "addr" && !given:
		one.Value = c.address(a)
		for _, name := range []string{"HOST", "PORT"} {
			if a.env.get(name) != "" {
				one.Source, one.From = byEnvironment.String(), strings.TrimPrefix(one.From+", "+name, ", ")
				one.how = "$" + strings.ReplaceAll(one.From, ", ", ", $")
			}
		}
	case one.Name == "agent" && !given && c.Exec == "":
		one.Value = agentNames()[0]
	case one.Name == "memory" && !given:
		one.Value = memory.Default()
	case one.Name == "storage" && !given:
		if one.Value = s.kind; s.chosen != "" {
			one.follow(s.chosen)
		}
	case s.kind != kindPostgres:
	case one.Name == "database-url":
		which, _ := a.set.stronger("database-url", "database-url-file")
		if one.Value = s.url; which == "database-url-file" {
			one.follow(which)
		}
	case one.Name == "schema":
		which, _ := a.set.stronger("schema", "did")
		if one.Value = s.cfg.Schema; which == "did" {
			one.follow(which)
		}
	}
}

func (s *setting) follow(other string) {
	s.Source, s.From, s.how = "derived", other, "from "+other
}

// settingValue is the value of a flag without its secrets.
func settingValue(flag *kong.Flag) any {
	if flag.Tag.Has("secret") {
		return withoutSecrets(flag)
	}
	switch v := flag.Target.Interface().(type) {
	case time.Duration:
		return v.String()
	case size:
		return int64(v)
	case []string:
		return notNil(v)
	default:
		return v
	}
}

func withoutSecrets(flag *kong.Flag) any {
	v := flag.Target.Interface()
	text, plain := v.(string)
	tokens, _ := v.([]string)
	shown := make([]string, len(tokens))
	switch all := flag.Tag.Get("secret") == "all"; {
	case plain && all && text != "":
		return masked
	case plain:
		return maskURL(text)
	case all:
		for i := range shown {
			shown[i] = masked
		}
		return shown
	}
	for i, token := range tokens {
		shown[i] = masked
		if equals := strings.LastIndexByte(token, '='); equals > 0 && strings.TrimSpace(token[equals+1:]) != "" {
			shown[i] += token[equals:]
		}
	}
	return shown
}

func settingText(v any) string {
	switch v := v.(type) {
	case string:
		if v == "" {
			return "-"
		}
		return oneLine(v, 0)
	case []string:
		if len(v) == 0 {
			return "-"
		}
		return oneLine(strings.Join(v, ", "), 0)
	}
	return fmt.Sprint(reflect.ValueOf(v))
}

// printSettings shows them in the groups of the help.
func (a *app) printSettings(all []setting) {
	var groups []string
	name, value := 0, 0
	for _, s := range all {
		if !slices.Contains(groups, s.group) {
			groups = append(groups, s.group)
		}
		name = max(name, len(s.Name))
		if len(s.text) <= 48 {
			value = max(value, len(s.text))
		}
	}
	for i, group := range groups {
		if i > 0 {
			a.out.line("")
		}
		if group != "" {
			a.out.line("%s", a.out.bold(strings.TrimSuffix(group, ":")))
		}
		for _, s := range all {
			if s.group == group {
				how := s.how
				if how == "default" {
					how = a.out.dim(how)
				}
				a.out.line("  %-*s  %-*s  %s", name, s.Name, value, s.text, how)
			}
		}
	}
}
