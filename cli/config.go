package cli

import (
	"cmp"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/internal/memory"
)

// configCmd shows the settings of serve.
type configCmd struct {
	serveCmd

	Check bool `help:"Only report invalid settings; exit with 0 if all are valid."`
}

// setting is an effective setting.
type setting struct {
	Name   string `json:"name"`
	Value  any    `json:"value"`
	Source string `json:"source"`         // default, file, environment, flag, or derived (from another setting)
	From   string `json:"from,omitempty"` // the file, the variable, the flag or the other setting
	Line   int    `json:"line,omitempty"`
	group  string // in the help
	text   string // the value as text
	label  string // the source as text
}

// Run shows the settings.
func (c *configCmd) Run(a *app) error {
	r, err := c.prepare(a, slog.New(slog.DiscardHandler))
	unknown := a.unknownVariableWarnings()
	switch {
	case c.Check && err == nil:
		if a.JSON {
			return a.WriteResult(map[string]any{"ok": true, "notes": nonNil(append(r.notes, unknown...))})
		}
		a.printNotes(r.notes)
		a.warnUnknownVariables()
		a.Out.Line("configuration is valid")
		return nil
	case c.Check:
		return err
	}
	all := c.settings(a, &r.storage)
	if a.JSON {
		if werr := a.WriteResult(map[string]any{"settings": all, "notes": nonNil(append(r.notes, unknown...))}); werr != nil {
			return werr
		}
		return err
	}
	a.printSettings(all)
	a.printNotes(r.notes)
	a.warnUnknownVariables()
	return err
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// settings returns all settings in the order of the help.
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
		one.label = o.String()
		switch o.rank {
		case byDefault:
			one.label = "default"
		case byEnvironment:
			one.label = "$" + o.name
		case byFile, byFlag:
		}
		c.derive(a, s, &one)
		one.text = settingText(one.Value)
		all = append(all, one)
	}
	return all
}

// derive sets the value of a setting that follows from other settings.
func (c *configCmd) derive(a *app, s *storage, one *setting) {
	isSet := one.Source != byDefault.String()
	switch {
	case one.Name == "addr" && !isSet:
		one.Value = c.address(a)
		for _, name := range []string{"HOST", "PORT"} {
			if a.env.get(name) != "" {
				one.Source, one.From = byEnvironment.String(), strings.TrimPrefix(one.From+", "+name, ", ")
				one.label = "$" + strings.ReplaceAll(one.From, ", ", ", $")
			}
		}
	case one.Name == "agent" && !isSet && c.Exec == "":
		one.Value = agentNames()[0]
	case one.Name == "memory" && !isSet:
		one.Value = memory.Default()
	case one.Name == "read-cache" && !isSet:
		one.Value = memory.ReadCache(memory.OfProcess(cmp.Or(int64(c.Memory), memory.Default())))
	case one.Name == "storage" && !isSet:
		if one.Value = s.kind; s.chosenBy != "" {
			one.setDerived(s.chosenBy)
		}
	case s.urls == nil:
	case one.Name == "database-url":
		which, _ := a.set.selectFlag("database-url", "database-url-file")
		if one.Value = s.url; which == "database-url-file" {
			one.setDerived(which)
		}
	case one.Name == "schema":
		which, _ := a.set.selectFlag("schema", "did")
		if one.Value = s.cfg.Schema; which == "did" {
			one.setDerived(which)
		}
	}
}

func (s *setting) setDerived(other string) {
	s.Source, s.From, s.label = "derived", other, "from "+other
}

// settingValue returns the value of a flag, with secrets masked.
func settingValue(flag *kong.Flag) any {
	if flag.Tag.Has("secret") {
		return redactFlag(flag)
	}
	switch v := flag.Target.Interface().(type) {
	case time.Duration:
		return v.String()
	case size:
		return int64(v)
	case []string:
		return nonNil(v)
	default:
		return v
	}
}

func redactFlag(flag *kong.Flag) any {
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
		return command.OneLine(v, 0)
	case []string:
		if len(v) == 0 {
			return "-"
		}
		return command.OneLine(strings.Join(v, ", "), 0)
	}
	return fmt.Sprint(reflect.ValueOf(v))
}

// printSettings prints settings by group.
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
			a.Out.Line("")
		}
		if group != "" {
			a.Out.Line("%s", a.Out.Bold(strings.TrimSuffix(group, ":")))
		}
		for _, s := range all {
			if s.group == group {
				label := s.label
				if label == "default" {
					label = a.Out.Dim(label)
				}
				a.Out.Line("  %-*s  %-*s  %s", name, s.Name, value, s.text, label)
			}
		}
	}
}
