package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// configFlag is for commands that take settings from a file.
type configFlag struct {
	Config string `placeholder:"FILE" envvar:"HOLDFAST_CONFIG" help:"A YAML file of settings: what serve has as flags, without the dashes (docs/configuration.md). Flags and variables win over it."`
}

// configFile is what a config file says.
type configFile struct {
	name   string
	values map[string]fileValue // by the flag's name
}

type fileValue struct {
	text string // as for a flag; of a list, its items with commas
	line int
}

// maxConfig is the largest config file that is read.
const maxConfig = 1 << 20

// notSettings are flags of serve that mean nothing in a file.
var notSettings = []string{"help", "config", "json"}

// loadConfig reads the config file of a command that has one, before the flags are
// resolved.
func (a *app) loadConfig(parsed *kong.Context) error {
	node := parsed.Selected()
	if node == nil || a.set.file.name != "" {
		return nil
	}
	i := slices.IndexFunc(node.Flags, func(f *kong.Flag) bool { return f.Name == "config" })
	if i < 0 {
		return nil
	}
	name := a.env.get(envName(node.Flags[i].Value))
	for _, p := range parsed.Path {
		if p.Flag == node.Flags[i] {
			name, _ = parsed.FlagValue(p.Flag).(string)
		}
	}
	if name == "" {
		return nil
	}
	a.set.file.name = name
	values, err := readConfig(name, a.set.known)
	if a.set.file.values = values; err != nil {
		a.set.problems = append(a.set.problems, err)
	}
	return nil
}

// knownSettings are the flags that a config file may have: those of serve.
func knownSettings(model *kong.Application) []*kong.Flag {
	var known []*kong.Flag
	for _, node := range model.Children {
		if node.Name != "serve" {
			continue
		}
		for _, flag := range node.Flags {
			if !slices.Contains(notSettings, flag.Name) {
				known = append(known, flag)
			}
		}
	}
	return known
}

// readConfig reads a config file. Its errors tell all that is wrong, and no values.
func readConfig(name string, known []*kong.Flag) (map[string]fileValue, error) {
	f, err := os.Open(filepath.Clean(name))
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, fmt.Errorf("--config: %s: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	root, err := parseYAML(io.LimitReader(f, maxConfig))
	if err != nil {
		return nil, fmt.Errorf("--config: %s: %w", name, err)
	}
	if root == nil {
		return nil, nil
	}
	values := map[string]fileValue{}
	var errs []error
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		at := fmt.Sprintf("%s, line %d: ", name, key.Line)
		if !slices.ContainsFunc(known, func(f *kong.Flag) bool { return f.Name == key.Value }) {
			errs = append(errs, errors.New(at+unknownSetting(key.Value, known)))
			continue
		}
		if before, ok := values[key.Value]; ok {
			errs = append(errs, fmt.Errorf("%s%s is set twice, first in line %d", at, key.Value, before.line))
			continue
		}
		text, err := flatten(value)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s%s: %w", at, key.Value, err))
			continue
		}
		if text != "" {
			values[key.Value] = fileValue{text: text, line: key.Line}
		}
	}
	return values, errors.Join(errs...)
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

// parseYAML returns the mapping of a document, nil for an empty one. What the parser
// says may repeat the text, so only the line is told.
func parseYAML(r io.Reader) (*yaml.Node, error) {
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(r)
	err := decoder.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	if err != nil {
		where := ""
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			where = " near line " + m[1]
		}
		return nil, fmt.Errorf("not YAML%s: want lines such as \"storage: postgres\", with quotes around values that have special characters", where)
	}
	if !errors.Is(decoder.Decode(&more), io.EOF) {
		return nil, errors.New("want one document and nothing after it")
	}
	if root := doc.Content[0]; root.Kind == yaml.MappingNode {
		return root, nil
	}
	return nil, errors.New("want lines such as \"storage: postgres\"")
}

// flatten returns a value as it would be given to a flag.
func flatten(n *yaml.Node) (string, error) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return "", nil
	case n.Kind == yaml.ScalarNode:
		return n.Value, nil
	case n.Kind == yaml.SequenceNode:
		items := make([]string, len(n.Content))
		for i, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return "", errors.New("want a list of plain values")
			}
			items[i] = item.Value
		}
		return kong.JoinEscaped(items, ','), nil
	}
	return "", errors.New("want a plain value or a list of them")
}

// unknownSetting says that there is no such setting, and which may be meant.
func unknownSetting(name string, known []*kong.Flag) string {
	text := fmt.Sprintf("there is no setting %q", name)
	plain := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	best, distance := "", len(plain)/3+1
	for _, flag := range known {
		for _, variable := range envNames(flag.Value) {
			if strings.EqualFold(variable, name) {
				return fmt.Sprintf("%s: in the file it is %s", text, flag.Name)
			}
		}
		if d := editDistance(plain, flag.Name); d < distance && !flag.Hidden {
			best, distance = flag.Name, d
		}
	}
	if best != "" {
		text += ", did you mean " + best + "?"
	}
	return text
}

// editDistance is how many characters to insert, delete or replace in a to get b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
